//! The producing end.

use super::{Claim, Notify, RingError, RingLayout, WordCell, wait_until};
use rackweave_base::Block;
use rackweave_base::memory::{SharedBytesMut, WriteSlots};
use rackweave_verbs::Progress;
use rackweave_wire::fabric::ring::{
    ITEMS, NODE_WORD, NodeState, NodeWord, SWITCH_WORD, SwitchState, SwitchWord,
};

/// Puts items into a ring that the switch empties.
#[derive(Debug)]
pub struct Producer {
    layout: RingLayout,
    word: WordCell,
    switch: WordCell,
    slots: WriteSlots,
    head: u32,
    /// The tail as last seen: loaded again only when the ring looks full.
    tail: u32,
    finished: bool,
    /// Whether slots since the last commit were written past the caches.
    streamed: bool,
    /// The buffer for an item that [`Self::push_each`] passes to its caller.
    copy: Vec<u8>,
    claim: Option<Claim>,
    notify: Option<Box<dyn Notify>>,
}

/// Why an item was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PushError {
    /// No free slot; try again when the switch has moved items.
    #[error("the ring is full")]
    Full,
    /// The flow was aborted.
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
            word: WordCell::new(block, NODE_WORD, layout.order),
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
            streamed: false,
            copy: Vec::new(),
            claim: None,
            notify: None,
        };
        if let Ok(word) = NodeWord::try_from(producer.word.load()) {
            producer.head = word.counter;
            producer.finished = word.state == NodeState::Finished;
        }
        producer.refresh();
        Ok(producer)
    }

    /// Keeps the claim for as long as this end exists.
    #[must_use]
    pub fn with_claim(mut self, claim: Claim) -> Self {
        self.claim = Some(claim);
        self
    }

    /// Calls `notify`, if there is one, after every change of this end's word.
    #[must_use]
    pub fn with_notify(mut self, notify: Option<Box<dyn Notify>>) -> Self {
        self.notify = notify;
        self
    }

    /// The size of an item in bytes.
    pub fn item_size(&self) -> u32 {
        self.layout.item_size
    }

    /// The bytes of all slots together.
    pub(super) fn ring_bytes(&self) -> u64 {
        u64::from(self.layout.item_size) * u64::from(self.layout.slots)
    }

    /// Adjacent free slots, at least one and at most `items_max`, to be filled and then committed.
    ///
    /// Committed slots belong to the switch and are no longer accessible:
    ///
    /// ```compile_fail,E0499
    /// # use rackweave_endpoint::flow::Producer;
    /// fn late(producer: &mut Producer) {
    ///     let Ok(mut items) = producer.reserve(1) else { return };
    ///     producer.commit(1);
    ///     items.fill(0);
    /// }
    /// ```
    ///
    /// # Errors
    /// If no slot is free, or never will be.
    pub fn reserve(&mut self, items_max: u32) -> Result<SharedBytesMut<'_>, PushError> {
        if self.finished {
            return Err(PushError::Finished);
        }
        let items = self.free_slots(1)?.min(self.before_end()).min(items_max);
        if items == 0 {
            return Err(PushError::Full);
        }
        Ok(self.slots.bytes_mut(self.head, items))
    }

    /// Passes the first `items` reserved slots to the switch.
    ///
    /// # Panics
    /// If the ring has fewer free slots.
    pub fn commit(&mut self, items: u32) {
        let used = self.head.wrapping_sub(self.tail) + items;
        assert!(
            used <= self.layout.slots,
            "more items are committed than there is room for"
        );
        self.head = self.head.wrapping_add(items);
        if core::mem::take(&mut self.streamed) {
            // The release store of the head orders ordinary stores only.
            self.slots.fence();
        }
        self.announce();
    }

    /// Copies one item into the ring. The bytes behind it in the slot are zero.
    ///
    /// # Errors
    /// If no slot is free, or never will be, or the item is too long.
    pub fn push(&mut self, item: &[u8]) -> Result<(), PushError> {
        let slot = self.layout.item_size;
        if item.len() > slot as usize {
            return Err(PushError::TooLong {
                len: item.len(),
                slot,
            });
        }
        let mut bytes = self.reserve(1)?;
        bytes.write(0, item);
        bytes.slice(item.len()..).fill(0);
        self.commit(1);
        Ok(())
    }

    /// Calls `fill` to make an item for each free slot, at least one and at most `items_max`, and
    /// passes them to the switch. `fill` gets a buffer as long as a slot: zeros at first, then the
    /// item that it made before. Returns the number of items.
    ///
    /// # Errors
    /// If no slot is free, or never will be.
    pub fn push_each(
        &mut self,
        items_max: u32,
        mut fill: impl FnMut(&mut [u8]),
    ) -> Result<u32, PushError> {
        let size = self.layout.item_size as usize;
        let mut copy = core::mem::take(&mut self.copy);
        copy.resize(size, 0);
        let pushed = self.reserve(items_max).map(|mut slots| {
            for mut slot in slots.chunks_exact(size) {
                fill(&mut copy);
                slot.copy_from(&copy);
            }
            (slots.len() / size) as u32
        });
        self.copy = copy;
        pushed.inspect(|&count| self.commit(count))
    }

    /// Copies whole items, one behind the other in `items`, into the ring, as many as there are
    /// free slots, and passes them all to the switch at once. Returns the number of items. Trailing
    /// bytes that are not a whole item are not taken.
    ///
    /// # Errors
    /// If no slot is free, or never will be.
    pub fn push_batch(&mut self, items: &[u8]) -> Result<u32, PushError> {
        if self.finished {
            return Err(PushError::Finished);
        }
        let size = self.layout.item_size as usize;
        let wanted = u32::try_from(items.len() / size).unwrap_or(u32::MAX);
        let count = self.free_slots(wanted)?.min(wanted);
        // Copies up to the ring's end, and the rest from its beginning.
        let first = count.min(self.before_end());
        let (items, rest) = items[..count as usize * size].split_at(first as usize * size);
        self.slots.bytes_mut(self.head, first).copy_from(items);
        let behind = self.head.wrapping_add(first);
        self.slots.bytes_mut(behind, count - first).copy_from(rest);
        self.commit(count);
        Ok(count)
    }

    /// [`Self::reserve`] that waits for a free slot and drives the rack meanwhile.
    ///
    /// # Errors
    /// If no slot will ever be free: the flow was aborted, or `finish` was called.
    pub fn reserve_wait(
        &mut self,
        progress: &dyn Progress,
        items_max: u32,
    ) -> Result<SharedBytesMut<'_>, PushError> {
        if !self.finished {
            wait_until(progress, || done(self.free_slots(1)))?;
        }
        self.reserve(items_max.max(1))
    }

    /// [`Self::push`] that waits for a free slot and drives the rack meanwhile.
    ///
    /// # Errors
    /// If the item is too long, or the flow was aborted, or `finish` was called.
    pub fn push_wait(&mut self, progress: &dyn Progress, item: &[u8]) -> Result<(), PushError> {
        wait_until(progress, || done(self.push(item)))
    }

    /// Pushes all of `items`, one behind the other, waiting for free slots and driving the rack
    /// meanwhile. A rest that is shorter than an item is padded with zeros.
    ///
    /// # Errors
    /// If the flow was aborted, or `finish` was called. [`Self::head`] tells how many items were
    /// pushed before.
    pub fn push_all(&mut self, progress: &dyn Progress, items: &[u8]) -> Result<(), PushError> {
        let size = self.layout.item_size as usize;
        let mut left = items;
        while left.len() >= size {
            let pushed = wait_until(progress, || done(self.push_batch(left)))?;
            left = &left[pushed as usize * size..];
        }
        if left.is_empty() {
            return Ok(());
        }
        self.push_wait(progress, left)
    }

    /// Declares that no more items will come.
    pub fn finish(&mut self) {
        self.finished = true;
        self.announce();
    }

    /// Whether the switch has taken every item and made it visible to the consumer.
    pub fn is_delivered(&mut self) -> bool {
        self.refresh();
        self.head == self.tail
    }

    /// Items that the switch has made visible to the consumers so far, modulo 2^32.
    pub fn delivered(&mut self) -> u32 {
        self.refresh();
        self.tail
    }

    /// Whether the flow was aborted.
    pub fn is_aborted(&mut self) -> bool {
        self.refresh() == SwitchState::Aborted
    }

    /// Items pushed so far, modulo 2^32.
    pub fn head(&self) -> u32 {
        self.head
    }

    /// The bytes of the word that gives this end's position to the switch, as they are in memory
    /// now. A doorbell carries them.
    pub fn node_word(&self) -> [u8; 8] {
        self.word.bytes()
    }

    /// The next free slot. [`Self::reserve`] must have succeeded before.
    pub(super) fn slot(&mut self) -> SharedBytesMut<'_> {
        self.slots.bytes_mut(self.head, 1)
    }

    /// Writes `bytes` into that slot, from byte `at` of it on, past the caches.
    pub(super) fn stream(&mut self, at: usize, bytes: &[u8]) {
        self.streamed = true;
        self.slots.stream(self.head, at, bytes);
    }

    /// The number of free slots as far as known, at least one. The switch's word is loaded only if
    /// fewer than `wanted` are known.
    fn free_slots(&mut self, wanted: u32) -> Result<u32, PushError> {
        let slots = self.layout.slots;
        let mut used = self.head.wrapping_sub(self.tail);
        if slots - used < wanted {
            if self.refresh() == SwitchState::Aborted {
                return Err(PushError::Aborted);
            }
            used = self.head.wrapping_sub(self.tail);
            if used == slots && wanted > 0 {
                return Err(PushError::Full);
            }
        }
        Ok(slots - used)
    }

    /// Slots from the head up to the ring's end.
    fn before_end(&self) -> u32 {
        self.layout.slots - (self.head & (self.layout.slots - 1))
    }

    fn announce(&mut self) {
        let state = if self.finished {
            NodeState::Finished
        } else {
            NodeState::Open
        };
        self.word.store(
            NodeWord {
                counter: self.head,
                state,
            }
            .into(),
        );
        if let Some(notify) = &mut self.notify {
            notify.changed();
        }
    }

    /// Loads the switch's word. An invalid word counts as aborted.
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

/// The condition that ends a wait: anything but a full ring.
pub(super) fn done<T>(result: Result<T, PushError>) -> Option<Result<T, PushError>> {
    (!matches!(result, Err(PushError::Full))).then_some(result)
}
