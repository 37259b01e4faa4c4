//! The ends of flows of broadcasts, which the thread of the exchange has.

use super::super::link::Link;
use super::super::{Shared, held};
use super::{Consequence, Outgoing, Then};
use rackweave_endpoint::exchange::{Assembler, Misbehaviour};
use rackweave_endpoint::flow::{Consumer, Producer, PushError, Taken};
use std::collections::VecDeque;

/// Items that are taken, or made, with one look at the ring.
const ITEMS_PER_LOOK: u32 = 32;

/// Puts broadcasts into the ring.
#[derive(Default)]
pub(in super::super) struct Outlet {
    /// The producing end, and which flow's it is.
    producer: Option<(u64, Producer)>,
    /// What is being written.
    leaving: Option<Outgoing>,
    /// What is to be done when the switch has delivered the items before a head.
    awaited: VecDeque<(u32, Vec<Consequence>)>,
    /// Whether the ring was full at the last look.
    pub is_full: bool,
}

impl Outlet {
    /// Moves what can be moved. True if anything happened.
    pub fn advance(&mut self, shared: &Shared) -> bool {
        let mut state = held(&shared.broadcasts.0);
        if let Some(producer) = state.producer.take() {
            *self = Self {
                producer: Some((state.generation, producer)),
                ..Self::default()
            };
        }
        drop(state);
        let Some((generation, producer)) = &mut self.producer else {
            return false;
        };
        let generation = *generation;
        if !shared.broadcasts.runs(generation) {
            *self = Self::default();
            return true;
        }
        self.is_full = false;
        let mut happened = false;
        loop {
            if self.leaving.is_none() {
                self.leaving = held(&shared.broadcasts.0).outgoing.pop_front();
            }
            let Some(leaving) = &mut self.leaving else {
                break;
            };
            happened = true;
            match write(producer, leaving) {
                Ok(()) => {}
                Err(PushError::Full) => {
                    self.is_full = true;
                    break;
                }
                Err(_) => {
                    *self = Self::default();
                    shared.lose_broadcasts(generation);
                    return true;
                }
            }
            let then = self.leaving.take().map(|leaving| leaving.then);
            if let Some(then) = then.filter(|then| !then.is_empty()) {
                self.awaited.push_back((producer.head(), then));
            }
        }
        if self.awaited.is_empty() {
            return happened;
        }
        if producer.is_aborted() {
            *self = Self::default();
            shared.lose_broadcasts(generation);
            return true;
        }
        let (head, delivered) = (producer.head(), producer.delivered());
        let left = head.wrapping_sub(delivered);
        while let Some((until, _)) = self.awaited.front()
            && head.wrapping_sub(*until) >= left
        {
            let (_, then) = self.awaited.pop_front().expect("it was seen");
            for (then, link, stream) in then {
                let mut multiplexer = link.multiplexer();
                match then {
                    Then::Ended => multiplexer.handle_broadcast_end(stream),
                    Then::Resumed => multiplexer.resume(stream),
                }
            }
            happened = true;
        }
        happened
    }
}

/// Writes the rest of a broadcast.
fn write(producer: &mut Producer, leaving: &mut Outgoing) -> Result<(), PushError> {
    let size = producer.item_size() as usize;
    let Some(broadcast) = &mut leaving.broadcast else {
        return Ok(());
    };
    loop {
        let mut slots = producer.reserve(ITEMS_PER_LOOK)?;
        let (mut items, mut is_whole) = (0, false);
        for mut slot in slots.chunks_exact(size) {
            is_whole = broadcast.fill(&mut slot);
            items += 1;
            if is_whole {
                break;
            }
        }
        producer.commit(items);
        if is_whole {
            return Ok(());
        }
    }
}

/// Takes broadcasts of a peer.
pub(in super::super) struct Inlet {
    consumer: Consumer,
    assembler: Assembler,
}

impl Inlet {
    /// Of the consumer with this number.
    pub fn new(number: u32, consumer: Consumer) -> Self {
        let assembler = Assembler::new(number);
        Self {
            consumer,
            assembler,
        }
    }

    /// Takes all items that have been delivered. `Ok(None)`: there will be no more. Else whether
    /// there were any.
    pub fn take(&mut self, shared: &Shared, link: &Link) -> Result<Option<bool>, Misbehaviour> {
        let size = self.consumer.item_size() as usize;
        let mut happened = false;
        loop {
            let items = match self.consumer.peek(ITEMS_PER_LOOK) {
                Taken::Items(items) => items,
                Taken::Empty => break,
                Taken::Ended | Taken::Aborted => return Ok(None),
            };
            let mut multiplexer = link.multiplexer();
            let count = (items.len() / size) as u32;
            for item in items.chunks_exact(size) {
                if let Some(bytes) = self.assembler.handle_item(item, &mut multiplexer)? {
                    shared.counts.received(bytes);
                }
            }
            drop(multiplexer);
            self.consumer.release(count);
            happened = true;
        }
        if happened {
            link.wake_tasks();
        }
        Ok(Some(happened))
    }

    /// Takes no more: the flow goes on without it.
    pub fn leave(self) {
        self.consumer.leave();
    }
}
