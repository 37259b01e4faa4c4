//! Members that join, leave, die or are suspected, as reported by the harness.

use super::{Consumer, FlowHistory, Member, Shape};

impl FlowHistory {
    /// The flow redelivers items of consumers that are gone: nothing may be missing, and an item
    /// may come a second time if it had come to a consumer that was abandoned by then.
    pub fn redelivers(&mut self) {
        self.redelivers = true;
    }

    /// One more consumer joins; returns its number.
    pub fn join(&mut self) -> u16 {
        self.consumers.push(Consumer::default());
        self.orders.join();
        self.consumers.len() as u16 - 1
    }

    /// A consumer was notified that it has joined: in a replicated flow it has to see every item
    /// that is pushed from now on.
    pub fn joined(&mut self, consumer: u16) {
        let rings = self.rings.iter().map(|(&key, ring)| (key, ring.len()));
        let rings = rings.collect();
        if let Some(consumer) = self.consumers.get_mut(usize::from(consumer)) {
            consumer.joined_at = Some(rings);
        }
    }

    /// A consumer that has joined may have yet to be connected, and miss items that are moved again
    /// before that. One that has popped an item is connected.
    pub fn may_miss_items(&mut self, consumer: u16) {
        let consumer = self.consumers.get_mut(usize::from(consumer));
        if let Some(consumer) = consumer.filter(|consumer| consumer.popped == 0) {
            consumer.joined_at = None;
        }
    }

    /// A consumer has left voluntarily: it pops no more.
    pub fn leave(&mut self, consumer: u16) {
        if let Some(consumer) = self.consumers.get_mut(usize::from(consumer)) {
            consumer.left = true;
            self.loosen();
        }
    }

    /// The flow may give up a consumer from now on, although it is alive but unreachable. If it
    /// does, the harness learns of it later and abandons the consumer then.
    pub fn suspect_consumer(&mut self, consumer: u16) {
        self.suspects.insert(Member::Consumer(consumer));
    }

    /// The same for a producer.
    pub fn suspect_producer(&mut self, producer: u16) {
        self.suspects.insert(Member::Producer(producer));
    }

    /// The flow reports that `count` items were lost with a consumer that died.
    pub fn lost(&mut self, consumer: u16, count: u64) {
        if let Some(consumer) = self.consumers.get_mut(usize::from(consumer)) {
            consumer.lost += count;
        }
    }

    /// Up to `count` items may have been lost, unreported, with a consumer that died: whatever its
    /// policy, the flow was not obliged to keep them for another consumer.
    pub fn excuse(&mut self, consumer: u16, count: u64) {
        if let Some(consumer) = self.consumers.get_mut(usize::from(consumer)) {
            consumer.excused += count;
        }
    }

    /// A consumer is gone: items pushed so far may come to others, after later items.
    fn loosen(&mut self) {
        if self.redelivers && self.shape == Shape::Balanced {
            self.rings
                .values_mut()
                .for_each(|ring| ring.loose_below = ring.len());
        }
    }

    /// A producer joined when all others had closed. Then the stream of some consumers of a
    /// balanced flow may have ended already; the new producer's items go to the rest.
    pub fn joined_late(&mut self, producer: u16) {
        self.late.insert(producer);
    }

    /// A consumer died: items that did not come to it need not. The harness reports this before any
    /// other consumer can see an item that the dead one had popped.
    pub fn abandon_consumer(&mut self, consumer: u16) {
        if let Some(consumer) = self.consumers.get_mut(usize::from(consumer)) {
            consumer.abandoned = true;
            self.loosen();
        }
    }

    /// A producer died: items that it had pushed need not come out.
    pub fn abandon_producer(&mut self, producer: u16) {
        self.abandoned_producers.insert(producer);
    }
}
