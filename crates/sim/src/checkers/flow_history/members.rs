//! Who comes, goes, dies or is in doubt, as the harness tells.

use super::{Consumer, FlowHistory, Member, Shape};

impl FlowHistory {
    /// The flow hands items of consumers that are gone to others: nothing may be missing, and an
    /// item may come a second time if it had come to a consumer that was abandoned by then.
    pub fn redelivers(&mut self) {
        self.redelivers = true;
    }

    /// One more consumer joins; returns its number.
    pub fn join(&mut self) -> u16 {
        self.consumers.push(Consumer::default());
        self.orders.join();
        self.consumers.len() as u16 - 1
    }

    /// A consumer that joined was told that it has: of a replicated flow it is to see every item
    /// that is pushed from now on.
    pub fn joined(&mut self, consumer: u16) {
        let rings = self.rings.iter().map(|(&key, ring)| (key, ring.len()));
        let rings = rings.collect();
        if let Some(consumer) = self.consumers.get_mut(usize::from(consumer)) {
            consumer.joined_at = Some(rings);
        }
    }

    /// A consumer has left by its own will: it pops no more.
    pub fn leave(&mut self, consumer: u16) {
        if let Some(consumer) = self.consumers.get_mut(usize::from(consumer)) {
            consumer.left = true;
            self.loosen();
        }
    }

    /// The flow may give a consumer up from now on, though it is alive: it cannot be reached. If
    /// it does, the harness learns of it later and abandons the consumer then.
    pub fn suspect_consumer(&mut self, consumer: u16) {
        self.suspects.insert(Member::Consumer(consumer));
    }

    /// The same for a producer.
    pub fn suspect_producer(&mut self, producer: u16) {
        self.suspects.insert(Member::Producer(producer));
    }

    /// The flow reports that `count` items went with a consumer that died.
    pub fn lost(&mut self, consumer: u16, count: u64) {
        if let Some(consumer) = self.consumers.get_mut(usize::from(consumer)) {
            consumer.lost += count;
        }
    }

    /// Up to `count` items may have gone with a consumer that died, unreported: the flow had
    /// promised to keep them for nobody else, whatever its policy.
    pub fn excuse(&mut self, consumer: u16, count: u64) {
        if let Some(consumer) = self.consumers.get_mut(usize::from(consumer)) {
            consumer.excused += count;
        }
    }

    /// A consumer is gone: what was pushed so far may come to others, behind later items.
    fn loosen(&mut self) {
        if self.redelivers && self.shape == Shape::Balanced {
            self.rings
                .values_mut()
                .for_each(|ring| ring.loose_below = ring.len());
        }
    }

    /// A producer joined when all others had closed. Then the stream of some consumers of a
    /// balanced flow may have ended before; the newcomer's items go to the rest.
    pub fn joined_late(&mut self, producer: u16) {
        self.late.insert(producer);
    }

    /// A consumer died: what did not come to it need not. The harness says so before anybody else
    /// can see an item again that the dead one had popped.
    pub fn abandon_consumer(&mut self, consumer: u16) {
        if let Some(consumer) = self.consumers.get_mut(usize::from(consumer)) {
            consumer.abandoned = true;
            self.loosen();
        }
    }

    /// A producer died: what it had pushed need not come out.
    pub fn abandon_producer(&mut self, producer: u16) {
        self.abandoned_producers.insert(producer);
    }
}
