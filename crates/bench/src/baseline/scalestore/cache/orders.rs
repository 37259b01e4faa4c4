//! What the owner wants back, and how it gets that.

use super::{Cache, CacheError, Chore, NONE, Order, State};
use crate::baseline::scalestore::message::Message;

impl Cache {
    /// An order of the owner.
    ///
    /// # Errors
    /// If it is none.
    pub fn handle_order(&mut self, tag: u16, message: &Message) -> Result<(), CacheError> {
        let Message::Revoke {
            page,
            id,
            downgrade,
            push,
        } = *message
        else {
            return Err(CacheError::Unasked);
        };
        self.obey(Order {
            tag,
            page,
            id,
            downgrade,
            push,
        });
        Ok(())
    }

    /// A page that was to be written elsewhere has been.
    pub fn pushed(&mut self, at: u32, tag: u16) {
        let frame = &mut self.frames[at as usize];
        frame.pushes -= 1;
        let page = frame.page;
        let message = Message::Complied {
            page,
            had: true,
            dirty: frame.dirty,
        };
        self.add(Chore::Comply { tag, message });
        if self.frames[at as usize].state == State::Leaving {
            self.discard(at);
        }
    }

    pub(super) fn obey(&mut self, order: Order) {
        let at = self.table.get(order.page as usize).copied();
        let Some(at) = at.filter(|&at| at != NONE) else {
            return self.comply(order, false, false);
        };
        let frame = &mut self.frames[at as usize];
        if let Some(fault) = &mut frame.fault
            && fault.id == order.id
        {
            // The order has overtaken the answer.
            fault.deferred = Some(order);
            return;
        }
        let is_here = matches!(
            frame.state,
            State::Shared | State::Exclusive | State::Evicting
        );
        if !is_here || frame.id != order.id {
            return self.comply(order, false, false);
        }
        self.counters.revocations += 1;
        if order.downgrade && frame.state == State::Exclusive {
            frame.state = State::Shared;
        }
        if let Some(to) = order.push {
            frame.pushes += 1;
            if !order.downgrade && frame.state != State::Evicting {
                frame.state = State::Leaving;
            } else if !order.downgrade {
                frame.state = State::Superseded;
            }
            let (frame, tag) = (at, order.tag);
            self.add(Chore::Push { frame, to, tag });
            return;
        }
        let dirty = frame.dirty;
        self.comply(order, true, dirty);
        #[cfg(test)]
        if self.lies {
            return;
        }
        if !order.downgrade {
            self.discard(at);
        }
    }

    pub(super) fn comply(&mut self, order: Order, had: bool, dirty: bool) {
        let message = Message::Complied {
            page: order.page,
            had,
            dirty,
        };
        let tag = order.tag;
        self.add(Chore::Comply { tag, message });
    }

    /// A page is given up. Its frame is kept if something will be written into it or the owner is
    /// to answer about it.
    fn discard(&mut self, at: u32) {
        self.bytes.void(at);
        let frame = &mut self.frames[at as usize];
        if frame.state == State::Evicting {
            frame.state = State::Superseded;
        } else if frame.fault.is_some() {
            (frame.state, frame.dirty) = (State::Void, false);
        } else {
            self.release(at);
        }
    }
}
