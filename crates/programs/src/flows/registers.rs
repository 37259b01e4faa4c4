//! The flows' register arrays, by stage. They use the register units that the transfer engine
//! leaves free, so that both fit one pipeline.

use super::SLOTS;
use rackweave_switch::{Ledger, Register};

/// State per thread (c), per producer ring (p), per slot of a thread (s) and per lane (l).
#[derive(Debug)]
pub(super) struct Registers {
    /// c: 0 asleep, 1 running, 2 running and woken meanwhile.
    pub lock: Register<u32>,
    /// c: which producer to look at next.
    pub cursor: Register<u32>,
    /// c: transfers committed, modulo 2^32.
    pub committed: Register<u32>,
    /// c: mirror of the consumer's tail.
    pub tail: Register<u32>,
    /// c: transfers issued, modulo 2^32.
    pub issued: Register<u32>,
    /// c: the ring counter of the first slot of the consumer's ring that no transfer has taken.
    pub reserved: Register<u32>,
    /// s: whether the slot's transfer is done.
    pub done: Register<u32>,
    /// c: one more than the slot that is being committed, or zero.
    pub committing: Register<u32>,
    /// s: the producer of the slot's transfer.
    pub slot_producer: Register<u32>,
    /// s: the items of the slot's transfer.
    pub slot_items: Register<u32>,
    /// p: mirror of the producer's head.
    pub head: Register<u32>,
    /// p: whether the producer has finished.
    pub finished: Register<u32>,
    /// p: the ring counter of the first item that no transfer has taken.
    pub taken: Register<u32>,
    /// p: which of the ring's data lanes carry a transfer, a bit each.
    pub sources_busy: Register<u32>,
    /// c: the head as the consumer knows it.
    pub head_published: Register<u32>,
    /// p: the tail as the producer knows it, or is being told.
    pub tail_published: Register<u32>,
    /// c: which of the ring's data lanes carry a transfer, a bit each.
    pub targets_busy: Register<u32>,
    /// p: whether all items of a finished producer are taken.
    pub drained: Register<u32>,
    /// c: how many producers are drained.
    pub drained_count: Register<u32>,
    /// c: whether the thread has ended or failed.
    pub ended: Register<u32>,
    /// l: how often in a row a poll found nothing new.
    pub quiet: Register<u32>,
}

impl Registers {
    pub fn new(threads: usize, producers: usize, lanes: usize) -> Self {
        let slots = threads * SLOTS;
        Self {
            lock: Register::new("flows.lock", 0, threads),
            cursor: Register::new("flows.cursor", 1, threads),
            committed: Register::new("flows.committed", 2, threads),
            issued: Register::new("flows.issued", 3, threads),
            reserved: Register::new("flows.reserved", 3, threads),
            done: Register::new("flows.done", 3, slots),
            committing: Register::new("flows.committing", 5, threads),
            slot_producer: Register::new("flows.slot_producer", 6, slots),
            slot_items: Register::new("flows.slot_items", 6, slots),
            head: Register::new("flows.head", 7, producers),
            finished: Register::new("flows.finished", 7, producers),
            taken: Register::new("flows.taken", 8, producers),
            sources_busy: Register::new("flows.sources_busy", 8, producers),
            head_published: Register::new("flows.head_published", 8, threads),
            tail_published: Register::new("flows.tail_published", 8, producers),
            targets_busy: Register::new("flows.targets_busy", 9, threads),
            drained: Register::new("flows.drained", 9, producers),
            tail: Register::new("flows.tail", 10, threads),
            drained_count: Register::new("flows.drained_count", 10, threads),
            ended: Register::new("flows.ended", 10, threads),
            quiet: Register::new("flows.quiet", 11, lanes),
        }
    }

    pub fn declare(&self, ledger: &mut Ledger) {
        for register in [
            &self.lock,
            &self.cursor,
            &self.committed,
            &self.tail,
            &self.issued,
            &self.reserved,
            &self.done,
            &self.committing,
            &self.slot_producer,
            &self.slot_items,
            &self.head,
            &self.finished,
            &self.taken,
            &self.sources_busy,
            &self.head_published,
            &self.tail_published,
            &self.targets_busy,
            &self.drained,
            &self.drained_count,
            &self.ended,
            &self.quiet,
        ] {
            ledger.register(register);
        }
    }

    pub fn reset_thread(&mut self, at: usize, tail: u32, head: u32) {
        for register in [
            &mut self.lock,
            &mut self.cursor,
            &mut self.committed,
            &mut self.issued,
            &mut self.committing,
            &mut self.targets_busy,
            &mut self.drained_count,
            &mut self.ended,
        ] {
            *register.control(at) = 0;
        }
        for slot in at * SLOTS..(at + 1) * SLOTS {
            *self.done.control(slot) = 0;
        }
        *self.tail.control(at) = tail;
        *self.reserved.control(at) = head;
        *self.head_published.control(at) = head;
    }

    pub fn reset_producer(&mut self, at: usize, head: u32, tail: u32) {
        for register in [
            &mut self.finished,
            &mut self.sources_busy,
            &mut self.drained,
        ] {
            *register.control(at) = 0;
        }
        *self.head.control(at) = head;
        *self.taken.control(at) = tail;
        *self.tail_published.control(at) = tail;
    }
}
