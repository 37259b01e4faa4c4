//! The consuming end.

use super::{Claim, Notify, RingError, RingLayout, WordCell, wait_until};
use rackweave_base::Block;
use rackweave_base::memory::{ReadSlots, SharedBytes};
use rackweave_verbs::Progress;
use rackweave_wire::fabric::ring::{
    ITEMS, NODE_WORD, NodeState, NodeWord, SWITCH_WORD, SwitchState, SwitchWord,
};

/// Takes items out of a ring that the switch fills.
#[derive(Debug)]
pub struct Consumer {
    layout: RingLayout,
    word: WordCell,
    switch: WordCell,
    slots: ReadSlots,
    tail: u32,
    /// The head as last seen: loaded again only when the ring looks empty.
    head: u32,
    /// The copy of an item that [`Self::take_each`] passes to its caller.
    copy: Vec<u8>,
    claim: Option<Claim>,
    notify: Option<Box<dyn Notify>>,
}

/// The result of a look at the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken<T> {
    /// Items.
    Items(T),
    /// No items yet.
    Empty,
    /// No items any more: every producer has finished and every item has been taken.
    Ended,
    /// No items any more: the flow was aborted, and the delivered items have been taken.
    Aborted,
}

impl<T> Taken<T> {
    /// Returns the value itself, or `None` if it is `Empty`: for callers that wait for items.
    pub fn ready(self) -> Option<Self> {
        (!matches!(self, Taken::Empty)).then_some(self)
    }

    /// Maps the items with `change`.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Taken<U> {
        match self {
            Taken::Items(items) => Taken::Items(change(items)),
            Taken::Empty => Taken::Empty,
            Taken::Ended => Taken::Ended,
            Taken::Aborted => Taken::Aborted,
        }
    }
}

impl Consumer {
    /// The consuming end of the ring in `block`, which has been opened by the controller.
    ///
    /// # Errors
    /// If the block cannot hold such a ring.
    pub fn new(block: &Block, layout: RingLayout) -> Result<Self, RingError> {
        layout.check(block)?;
        let word = WordCell::new(block, NODE_WORD, layout.order);
        let tail = NodeWord::try_from(word.load()).map_or(0, |word| word.counter);
        Ok(Self {
            layout,
            word,
            switch: WordCell::new(block, SWITCH_WORD, layout.order),
            slots: ReadSlots::new(
                block.clone(),
                ITEMS as usize,
                layout.item_size as usize,
                layout.slots,
            ),
            tail,
            head: tail,
            copy: Vec::new(),
            claim: None,
            notify: None,
        })
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

    /// Adjacent items, at least one and at most `items_max`, oldest first. The switch does not
    /// write to them until they are released. A misbehaving peer can change them all the same, so
    /// data that must be read twice has to be copied first.
    ///
    /// A released item is no longer accessible:
    ///
    /// ```compile_fail,E0499
    /// # use rackweave_endpoint::flow::{Consumer, Taken};
    /// fn late(consumer: &mut Consumer) -> Vec<u8> {
    ///     let Taken::Items(items) = consumer.peek(1) else { return Vec::new() };
    ///     consumer.release(1);
    ///     items.to_vec()
    /// }
    /// ```
    pub fn peek(&mut self, items_max: u32) -> Taken<SharedBytes<'_>> {
        let ready = self.ready(1);
        ready.map(|ready| {
            let items = ready.min(self.before_end()).min(items_max.max(1));
            self.slots.bytes(self.tail, items)
        })
    }

    /// [`Self::peek`] that waits for an item or the end and drives the rack meanwhile. The result
    /// is never `Empty`.
    pub fn peek_wait(&mut self, progress: &dyn Progress, items_max: u32) -> Taken<SharedBytes<'_>> {
        wait_until(progress, || done(self.ready(1)));
        self.peek(items_max)
    }

    /// Frees the first `items` slots for the switch.
    ///
    /// # Panics
    /// If fewer items have been peeked.
    pub fn release(&mut self, items: u32) {
        assert!(
            items <= self.head.wrapping_sub(self.tail),
            "more is released than there is"
        );
        self.tail = self.tail.wrapping_add(items);
        self.announce(NodeState::Open);
    }

    /// Passes a copy of each of the next items to `see`, oldest first, at least one and at most
    /// `items_max`, and frees their slots. Returns the number of items.
    pub fn take_each(&mut self, items_max: u32, mut see: impl FnMut(&[u8])) -> Taken<u32> {
        let size = self.layout.item_size as usize;
        let mut copy = core::mem::take(&mut self.copy);
        copy.resize(size, 0);
        let taken = self.peek(items_max).map(|bytes| {
            for item in bytes.chunks_exact(size) {
                item.copy_to(&mut copy);
                see(&copy);
            }
            (bytes.len() / size) as u32
        });
        self.copy = copy;
        if let Taken::Items(count) = taken {
            self.release(count);
        }
        taken
    }

    /// [`Self::take_each`] that waits for an item or the end and drives the rack meanwhile. The
    /// result is never `Empty`.
    pub fn take_each_wait(
        &mut self,
        progress: &dyn Progress,
        items_max: u32,
        see: impl FnMut(&[u8]),
    ) -> Taken<u32> {
        wait_until(progress, || done(self.ready(1)));
        self.take_each(items_max, see)
    }

    /// Copies the next item into `item`.
    ///
    /// # Panics
    /// If `item` is not as long as a slot.
    pub fn pop(&mut self, item: &mut [u8]) -> Taken<()> {
        let taken = self.peek(1).map(|bytes| bytes.copy_to(item));
        if taken == Taken::Items(()) {
            self.release(1);
        }
        taken
    }

    /// [`Self::pop`] that waits for an item or the end and drives the rack meanwhile. The result is
    /// never `Empty`.
    ///
    /// # Panics
    /// If `item` is not as long as a slot.
    pub fn pop_wait(&mut self, progress: &dyn Progress, item: &mut [u8]) -> Taken<()> {
        wait_until(progress, || done(self.pop(item)))
    }

    /// Copies as many of the next items as are present and fit into `items`, one behind the other,
    /// and frees all their slots at once. Returns the number of items.
    ///
    /// # Panics
    /// If `items` is shorter than an item.
    pub fn pop_batch(&mut self, items: &mut [u8]) -> Taken<u32> {
        let size = self.layout.item_size as usize;
        let wanted = u32::try_from(items.len() / size).unwrap_or(u32::MAX);
        assert!(wanted > 0, "no room for an item of {size} bytes");
        let taken = self.ready(wanted).map(|ready| ready.min(wanted));
        if let Taken::Items(count) = taken {
            // Copies up to the ring's end, and the rest from its beginning.
            let first = count.min(self.before_end());
            let (items, rest) = items[..count as usize * size].split_at_mut(first as usize * size);
            self.slots.bytes(self.tail, first).copy_to(items);
            let behind = self.tail.wrapping_add(first);
            self.slots.bytes(behind, count - first).copy_to(rest);
            self.release(count);
        }
        taken
    }

    /// [`Self::pop_batch`] that waits for an item or the end and drives the rack meanwhile. The
    /// result is never `Empty`.
    ///
    /// # Panics
    /// If `items` is shorter than an item.
    pub fn pop_batch_wait(&mut self, progress: &dyn Progress, items: &mut [u8]) -> Taken<u32> {
        wait_until(progress, || done(self.pop_batch(items)))
    }

    /// Takes no more items, without a removal from the flow. The flow treats the consumer as dead:
    /// it aborts or continues without the consumer, as configured.
    pub fn leave(mut self) {
        self.announce(NodeState::Finished);
    }

    /// Items taken so far, modulo 2^32.
    pub fn tail(&self) -> u32 {
        self.tail
    }

    /// The bytes of the word that gives this end's position to the switch, as they are in memory
    /// now. A doorbell carries them.
    pub fn node_word(&self) -> [u8; 8] {
        self.word.bytes()
    }

    /// The number of items present, at least one. The switch's word is loaded only if fewer than
    /// `wanted` items are known.
    fn ready(&mut self, wanted: u32) -> Taken<u32> {
        let known = self.head.wrapping_sub(self.tail);
        if known >= wanted {
            return Taken::Items(known);
        }
        let word = SwitchWord::try_from(self.switch.load());
        let word = word.map(|word| (word.counter.wrapping_sub(self.tail), word));
        match word {
            // Items that were present stay present, whatever the word says now.
            Ok((ready, word)) if ready > known && ready <= self.layout.slots => {
                self.head = word.counter;
                Taken::Items(ready)
            }
            _ if known > 0 => Taken::Items(known),
            Ok((0, word)) => match word.state {
                SwitchState::Ended => Taken::Ended,
                SwitchState::Aborted => Taken::Aborted,
                SwitchState::Vacant | SwitchState::Open => Taken::Empty,
            },
            Ok(_) | Err(_) => Taken::Aborted,
        }
    }

    /// Slots from the tail up to the ring's end.
    fn before_end(&self) -> u32 {
        self.layout.slots - (self.tail & (self.layout.slots - 1))
    }

    fn announce(&mut self, state: NodeState) {
        self.word.store(
            NodeWord {
                counter: self.tail,
                state,
            }
            .into(),
        );
        if let Some(notify) = &mut self.notify {
            notify.changed();
        }
    }
}

/// The condition that ends a wait: anything but an empty ring.
fn done<T>(taken: Taken<T>) -> Option<Taken<T>> {
    (!matches!(taken, Taken::Empty)).then_some(taken)
}
