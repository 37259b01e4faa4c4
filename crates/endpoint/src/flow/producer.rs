//! The producing end.

use super::{RingError, RingLayout, WordCell};
use rackweave_base::Block;
use rackweave_base::memory::WriteSlots;
use rackweave_wire::fabric::ring::{
    ITEMS, SWITCH_WORD, SwitchState, SwitchWord, UNIT_WORD, UnitState, UnitWord,
};

/// Puts items into a ring from which the switch takes them.
#[derive(Debug)]
pub struct Producer {
    layout: RingLayout,
    unit: WordCell,
    switch: WordCell,
    slots: WriteSlots,
    head: u32,
    /// The tail as last seen: loaded again only when the ring looks full.
    tail: u32,
    finished: bool,
}

/// Why an item was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PushError {
    /// No free slot; try again when the switch has moved items.
    #[error("the ring is full")]
    Full,
    /// The flow was broken off.
    #[error("the flow was broken off")]
    Aborted,
    /// `finish` was called.
    #[error("the producer has finished")]
    Finished,
    /// The item is longer than a slot.
    #[error("an item of {len} bytes; a slot has {slot}")]
    TooLong {
        /// Bytes of the item.
        len: usize,
        /// Bytes of a slot.
        slot: u32,
    },
}

impl Producer {
    /// The producing end of the ring in `block`, which has been opened by the controller.
    ///
    /// # Errors
    /// If the block cannot hold such a ring.
    pub fn new(block: &Block, layout: RingLayout) -> Result<Self, RingError> {
        layout.check(block)?;
        let mut producer = Self {
            layout,
            unit: WordCell::new(block, UNIT_WORD, layout.order),
            switch: WordCell::new(block, SWITCH_WORD, layout.order),
            slots: WriteSlots::new(
                block.clone(),
                ITEMS as usize,
                layout.item_size as usize,
                layout.slots,
            ),
            head: 0,
            tail: 0,
            finished: false,
        };
        if let Ok(word) = UnitWord::try_from(producer.unit.load()) {
            producer.head = word.counter;
            producer.finished = word.state == UnitState::Finished;
        }
        producer.refresh();
        Ok(producer)
    }

    /// The size of an item in bytes.
    pub fn item_size(&self) -> u32 {
        self.layout.item_size
    }

    /// Neighbouring free slots, at least one and at most `items_max`, to be filled and then
    /// committed.
    ///
    /// # Errors
    /// If there is none, or never will be.
    pub fn reserve(&mut self, items_max: u32) -> Result<&mut [u8], PushError> {
        if self.finished {
            return Err(PushError::Finished);
        }
        if self.head.wrapping_sub(self.tail) == self.layout.slots {
            let state = self.refresh();
            if state == SwitchState::Aborted {
                return Err(PushError::Aborted);
            }
        }
        let free = self.layout.slots - self.head.wrapping_sub(self.tail);
        let before_end = self.layout.slots - (self.head & (self.layout.slots - 1));
        let items = free.min(before_end).min(items_max);
        if items == 0 {
            return Err(PushError::Full);
        }
        Ok(self.slots.bytes_mut(self.head, items))
    }

    /// Gives the first `items` reserved slots to the switch.
    ///
    /// # Panics
    /// If the ring has not that many free slots.
    pub fn commit(&mut self, items: u32) {
        let used = self.head.wrapping_sub(self.tail) + items;
        assert!(
            used <= self.layout.slots,
            "more items are committed than there is room for"
        );
        self.head = self.head.wrapping_add(items);
        self.announce();
    }

    /// Copies one item into the ring. Bytes behind it in the slot are zero.
    ///
    /// # Errors
    /// If there is no room, or never will be, or the item is too long.
    pub fn push(&mut self, item: &[u8]) -> Result<(), PushError> {
        let slot = self.layout.item_size;
        if item.len() > slot as usize {
            return Err(PushError::TooLong {
                len: item.len(),
                slot,
            });
        }
        let bytes = self.reserve(1)?;
        bytes[..item.len()].copy_from_slice(item);
        bytes[item.len()..].fill(0);
        self.commit(1);
        Ok(())
    }

    /// No more items will come.
    pub fn finish(&mut self) {
        self.finished = true;
        self.announce();
    }

    /// Whether the switch has taken every item and the consumer has been shown it.
    pub fn is_delivered(&mut self) -> bool {
        self.refresh();
        self.head == self.tail
    }

    /// Whether the flow was broken off.
    pub fn is_aborted(&mut self) -> bool {
        self.refresh() == SwitchState::Aborted
    }

    /// Items pushed so far, modulo 2^32.
    pub fn head(&self) -> u32 {
        self.head
    }

    fn announce(&self) {
        let state = if self.finished {
            UnitState::Finished
        } else {
            UnitState::Open
        };
        self.unit.store(
            UnitWord {
                counter: self.head,
                state,
            }
            .into(),
        );
    }

    /// Looks at what the switch has written. A word that makes no sense counts as broken off.
    fn refresh(&mut self) -> SwitchState {
        let Ok(word) = SwitchWord::try_from(self.switch.load()) else {
            return SwitchState::Aborted;
        };
        if self.head.wrapping_sub(word.counter) > self.layout.slots {
            return SwitchState::Aborted;
        }
        self.tail = word.counter;
        word.state
    }
}
