//! The flows' register arrays, by stage. They use the register units left free by the transfer
//! engine, so that both fit in one pipeline.

use super::SLOTS;
use rackweave_switch::{Ledger, Register};

/// State per thread (t), per consumer ring (c), per producer ring (p), per slot of a thread (s) and
/// per lane (l).
#[derive(Debug)]
pub(super) struct Registers {
    /// t: transfers issued, modulo 2^32.
    pub issued: Register<u32>,
    /// t: transfers committed, modulo 2^32.
    pub committed: Register<u32>,
    /// t: which producer to look at next.
    pub cursor: Register<u32>,
    /// p: whether a thread is about to take from a producer that it shares with others.
    pub taking: Register<u32>,
    /// s: whether the slot's transfer is done.
    pub done: Register<u32>,
    /// s: the producer of the slot's transfer.
    pub slot_producer: Register<u32>,
    /// s: the producer's ring counter at the slot's first item.
    pub slot_first: Register<u32>,
    /// s: the items of the slot's transfer.
    pub slot_items: Register<u32>,
    /// p: the tail sent to the producer: everything before it has been published.
    pub tail_published: Register<u32>,
    /// p: mirror of the producer's head.
    pub head: Register<u32>,
    /// p: whether the producer has finished.
    pub finished: Register<u32>,
    /// p: the ring counter of the first item that no transfer has taken.
    pub taken: Register<u32>,
    /// p: which of the ring's data lanes carry a transfer, a bit each.
    pub sources_busy: Register<u32>,
    /// t: the next tail for the producer of the slots being committed.
    pub tail_next: Register<u32>,
    /// t: how many slots are being committed, or [`super::commit::CLAIMED`].
    pub committing: Register<u32>,
    /// t: the ring counter of the first slot of the consumers' rings that no transfer has taken.
    pub reserved: Register<u32>,
    /// t: which of the target lanes carry a transfer, a bit each.
    pub targets_busy: Register<u32>,
    /// p: whether all items of a finished producer are taken.
    pub drained: Register<u32>,
    /// t: the head last sent to the consumers.
    pub head_published: Register<u32>,
    /// c: mirror of the consumer's tail.
    pub tail: Register<u32>,
    /// t: which consumers have received the head, a bit each; bits without a consumer are set.
    pub head_sent: Register<u32>,
    /// t: how many producers are drained.
    pub drained_count: Register<u32>,
    /// t: 0 working, 1 ended, 2 failed.
    pub ended: Register<u32>,
    /// t, as account: the service that the flow has received, in bytes by weight.
    pub served: Register<u64>,
    /// t, as domain: the service of the flow that is furthest behind.
    pub floor: Register<u64>,
    /// t, as account: which threads of the flow have items to move and must wait, a bit each.
    pub waiting: Register<u32>,
    /// l: how often in a row a poll found no change.
    pub quiet: Register<u32>,
    /// t: 0 asleep, 1 running, 2 running and woken meanwhile.
    pub lock: Register<u32>,
    /// p: the thread that changes of a shared producer wake first.
    pub turn: Register<u32>,
}

impl Registers {
    pub fn new(threads: usize, producers: usize, lanes: usize) -> Self {
        let slots = threads * SLOTS;
        Self {
            issued: Register::new("flows.issued", 0, threads),
            committed: Register::new("flows.committed", 0, threads),
            cursor: Register::new("flows.cursor", 0, threads),
            taking: Register::new("flows.taking", 0, producers),
            done: Register::new("flows.done", 1, slots),
            slot_producer: Register::new("flows.slot_producer", 2, slots),
            slot_first: Register::new("flows.slot_first", 3, slots),
            slot_items: Register::new("flows.slot_items", 3, slots),
            tail_next: Register::new("flows.tail_next", 4, threads),
            tail_published: Register::new("flows.tail_published", 5, producers),
            head: Register::new("flows.head", 6, producers),
            finished: Register::new("flows.finished", 6, producers),
            taken: Register::new("flows.taken", 7, producers),
            sources_busy: Register::new("flows.sources_busy", 7, producers),
            committing: Register::new("flows.committing", 8, threads),
            reserved: Register::new("flows.reserved", 8, threads),
            targets_busy: Register::new("flows.targets_busy", 8, threads),
            drained: Register::new("flows.drained", 8, producers),
            head_published: Register::new("flows.head_published", 9, threads),
            tail: Register::new("flows.tail", 9, threads),
            head_sent: Register::new("flows.head_sent", 10, threads),
            drained_count: Register::new("flows.drained_count", 10, threads),
            ended: Register::new("flows.ended", 10, threads),
            served: Register::new("flows.served", 10, threads),
            floor: Register::new("flows.floor", 9, threads),
            waiting: Register::new("flows.waiting", 11, threads),
            quiet: Register::new("flows.quiet", 11, lanes),
            lock: Register::new("flows.lock", 11, threads),
            turn: Register::new("flows.turn", 11, producers),
        }
    }

    pub fn declare(&self, ledger: &mut Ledger) {
        for register in [
            &self.issued,
            &self.committed,
            &self.cursor,
            &self.taking,
            &self.done,
            &self.slot_producer,
            &self.slot_first,
            &self.slot_items,
            &self.tail_next,
            &self.tail_published,
            &self.head,
            &self.finished,
            &self.taken,
            &self.sources_busy,
            &self.committing,
            &self.reserved,
            &self.targets_busy,
            &self.drained,
            &self.head_published,
            &self.tail,
            &self.head_sent,
            &self.drained_count,
            &self.ended,
            &self.waiting,
            &self.quiet,
            &self.lock,
            &self.turn,
        ] {
            ledger.register(register);
        }
        ledger.register(&self.served);
        ledger.register(&self.floor);
    }

    pub fn reset_thread(&mut self, at: usize, head: u32) {
        for register in [
            &mut self.lock,
            &mut self.cursor,
            &mut self.committed,
            &mut self.issued,
            &mut self.committing,
            &mut self.targets_busy,
            &mut self.head_sent,
            &mut self.drained_count,
            &mut self.ended,
            &mut self.waiting,
        ] {
            *register.control(at) = 0;
        }
        for slot in at * SLOTS..(at + 1) * SLOTS {
            *self.done.control(slot) = 0;
        }
        *self.reserved.control(at) = head;
        *self.head_published.control(at) = head;
        *self.served.control(at) = 0;
        *self.floor.control(at) = 0;
    }

    pub fn reset_producer(&mut self, at: usize, head: u32, tail: u32) {
        for register in [
            &mut self.finished,
            &mut self.sources_busy,
            &mut self.drained,
            &mut self.taking,
            &mut self.turn,
        ] {
            *register.control(at) = 0;
        }
        *self.head.control(at) = head;
        *self.taken.control(at) = tail;
        *self.tail_published.control(at) = tail;
    }
}
