//! How frames become free before they run out.

use super::{Cache, CacheError, Chore, State};
use crate::baseline::scalestore::message::{DROPS_MAX, Message};

/// Frames that the hand passes at most before others may use the cache.
const LOOKS_MAX: u32 = 256;

impl Cache {
    /// The owner has fetched the page of a frame, or does not want it.
    ///
    /// # Errors
    /// If that was not asked for.
    pub fn written_back(&mut self, at: u32, written: bool) -> Result<(), CacheError> {
        match (self.frames[at as usize].state, written) {
            (State::Evicting, true) | (State::Superseded, false) => {}
            _ => return Err(CacheError::Unasked),
        }
        self.evicting -= 1;
        self.counters.write_backs += u64::from(written);
        self.release(at);
        Ok(())
    }

    /// Makes free frames, if there are few, and says at how many frames it had to look.
    pub fn evict(&mut self) -> u32 {
        let mut looks = 0;
        let mut dropped = Vec::new();
        let count = self.frames.len() as u32;
        while self.free.len() + self.evicting < self.free_low
            && dropped.len() < DROPS_MAX
            && looks < LOOKS_MAX
        {
            looks += 1;
            let at = self.hand.next(count);
            let frame = &mut self.frames[at as usize];
            let is_here = matches!(frame.state, State::Shared | State::Exclusive);
            if !is_here || frame.fault.is_some() || frame.pushes > 0 {
                continue;
            }
            if core::mem::take(&mut frame.referenced) {
                continue;
            }
            let (page, id) = (frame.page, frame.id);
            if frame.dirty {
                frame.state = State::Evicting;
                self.evicting += 1;
                let message = Message::WriteBack {
                    page,
                    id,
                    frame: at,
                };
                self.add(Chore::Tell {
                    frame: Some(at),
                    message,
                });
            } else {
                dropped.push((page, id));
                self.counters.drops += 1;
                self.release(at);
            }
        }
        if !dropped.is_empty() {
            self.add(Chore::Tell {
                frame: None,
                message: Message::Drop(dropped),
            });
        }
        looks
    }
}
