//! The consuming end.

use super::{RingError, RingLayout, WordCell};
use rackweave_base::Block;
use rackweave_base::memory::ReadSlots;
use rackweave_wire::fabric::ring::{
    ITEMS, SWITCH_WORD, SwitchState, SwitchWord, UNIT_WORD, UnitState, UnitWord,
};

/// Takes items out of a ring into which the switch puts them.
#[derive(Debug)]
pub struct Consumer {
    layout: RingLayout,
    unit: WordCell,
    switch: WordCell,
    slots: ReadSlots,
    tail: u32,
    /// The head as last seen: loaded again only when the ring looks empty.
    head: u32,
}

/// What a consumer finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken<T> {
    /// Items.
    Items(T),
    /// None yet.
    Empty,
    /// None any more: every producer has finished and every item was taken.
    Ended,
    /// None any more: the flow was broken off, and what had been delivered was taken.
    Aborted,
}

impl Consumer {
    /// The consuming end of the ring in `block`, which has been opened by the controller.
    ///
    /// # Errors
    /// If the block cannot hold such a ring.
    pub fn new(block: &Block, layout: RingLayout) -> Result<Self, RingError> {
        layout.check(block)?;
        let unit = WordCell::new(block, UNIT_WORD, layout.order);
        let tail = UnitWord::try_from(unit.load()).map_or(0, |word| word.counter);
        Ok(Self {
            layout,
            unit,
            switch: WordCell::new(block, SWITCH_WORD, layout.order),
            slots: ReadSlots::new(
                block.clone(),
                ITEMS as usize,
                layout.item_size as usize,
                layout.slots,
            ),
            tail,
            head: tail,
        })
    }

    /// The size of an item in bytes.
    pub fn item_size(&self) -> u32 {
        self.layout.item_size
    }

    /// Neighbouring items, at least one and at most `items_max`, oldest first. They stay until
    /// released.
    pub fn peek(&mut self, items_max: u32) -> Taken<&[u8]> {
        if self.head == self.tail {
            let Ok(word) = SwitchWord::try_from(self.switch.load()) else {
                return Taken::Aborted;
            };
            let ready = word.counter.wrapping_sub(self.tail);
            match word.state {
                _ if ready > self.layout.slots => return Taken::Aborted,
                SwitchState::Ended if ready == 0 => return Taken::Ended,
                SwitchState::Aborted if ready == 0 => return Taken::Aborted,
                _ if ready == 0 => return Taken::Empty,
                _ => self.head = word.counter,
            }
        }
        let before_end = self.layout.slots - (self.tail & (self.layout.slots - 1));
        let items = self
            .head
            .wrapping_sub(self.tail)
            .min(before_end)
            .min(items_max.max(1));
        Taken::Items(self.slots.bytes(self.tail, items))
    }

    /// Frees the first `items` slots for the switch.
    ///
    /// # Panics
    /// If fewer have been peeked at.
    pub fn release(&mut self, items: u32) {
        assert!(
            items <= self.head.wrapping_sub(self.tail),
            "more is released than there is"
        );
        self.tail = self.tail.wrapping_add(items);
        self.announce(UnitState::Open);
    }

    /// Copies the next item into `item`, which must be as long as a slot.
    pub fn pop(&mut self, item: &mut [u8]) -> Taken<()> {
        match self.peek(1) {
            Taken::Items(bytes) => {
                item.copy_from_slice(bytes);
                self.release(1);
                Taken::Items(())
            }
            Taken::Empty => Taken::Empty,
            Taken::Ended => Taken::Ended,
            Taken::Aborted => Taken::Aborted,
        }
    }

    /// Takes no more items: the flow is broken off for this consumer.
    pub fn leave(self) {
        self.announce(UnitState::Finished);
    }

    /// Items taken so far, modulo 2^32.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    fn announce(&self, state: UnitState) {
        self.unit.store(
            UnitWord {
                counter: self.tail,
                state,
            }
            .into(),
        );
    }
}
