//! The send queue and the receive queue: rings of fixed size, indexed by running numbers.

use rackweave_base::Psn;
use rackweave_verbs::{CompletionOpcode, Operation, ReceiveRequest, WorkRequest};

/// A ring of at most `capacity` entries. Slots are allocated when first used.
struct Slots<T> {
    slots: Vec<T>,
    mask: u32,
}

impl<T: Copy> Slots<T> {
    fn new(capacity: u32) -> Self {
        let len = capacity.next_power_of_two();
        Self {
            slots: Vec::with_capacity(len as usize),
            mask: len - 1,
        }
    }

    fn put(&mut self, number: u32, entry: T) {
        let at = (number & self.mask) as usize;
        if at < self.slots.len() {
            self.slots[at] = entry;
        } else {
            assert_eq!(at, self.slots.len(), "entries are put in order");
            self.slots.push(entry);
        }
    }

    #[inline]
    fn get(&self, number: u32) -> &T {
        &self.slots[(number & self.mask) as usize]
    }

    #[inline]
    fn get_mut(&mut self, number: u32) -> &mut T {
        &mut self.slots[(number & self.mask) as usize]
    }
}

/// How a work request uses PSNs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A SEND or WRITE: one request packet per PSN, acknowledged by number.
    Data,
    /// A READ: one PSN per response packet.
    Read,
    /// An atomic: one PSN.
    Atomic,
}

/// A posted work request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SendEntry {
    pub(crate) request: WorkRequest,
    pub(crate) kind: Kind,
    /// Bytes of all segments.
    pub(crate) length: u32,
    /// Number of PSNs that it uses; set when sending starts.
    pub(crate) packets: u32,
    /// The first of these PSNs.
    pub(crate) first_psn: Psn,
}

impl SendEntry {
    pub(crate) fn new(request: WorkRequest, length: u32) -> Self {
        let kind = match request.operation {
            Operation::Send { .. } | Operation::Write { .. } => Kind::Data,
            Operation::Read { .. } => Kind::Read,
            Operation::FetchAdd { .. } | Operation::CompareSwap { .. } => Kind::Atomic,
        };
        Self {
            request,
            kind,
            length,
            packets: 0,
            first_psn: Psn::new(0),
        }
    }

    /// The PSN after its last one.
    #[inline]
    pub(crate) fn end_psn(&self) -> Psn {
        self.first_psn.add(self.packets)
    }

    pub(crate) fn opcode(&self) -> CompletionOpcode {
        match self.request.operation {
            Operation::Send { .. } => CompletionOpcode::Send,
            Operation::Write { .. } => CompletionOpcode::Write,
            Operation::Read { .. } => CompletionOpcode::Read,
            Operation::FetchAdd { .. } => CompletionOpcode::FetchAdd,
            Operation::CompareSwap { .. } => CompletionOpcode::CompareSwap,
        }
    }
}

/// Posted work requests, oldest first: `head..started` have their PSNs, `started..tail` do not yet.
pub(crate) struct SendQueue {
    slots: Slots<SendEntry>,
    capacity: u32,
    /// The oldest entry that is not complete.
    pub(crate) head: u32,
    /// The entry to send from next; before `started` after a loss.
    pub(crate) cursor: u32,
    /// The first entry that has no PSNs yet.
    pub(crate) started: u32,
    /// One past the newest entry.
    pub(crate) tail: u32,
}

impl SendQueue {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            slots: Slots::new(capacity),
            capacity,
            head: 0,
            cursor: 0,
            started: 0,
            tail: 0,
        }
    }

    /// Appends an entry. Returns false if the queue is full.
    pub(crate) fn push(&mut self, entry: SendEntry) -> bool {
        if self.tail.wrapping_sub(self.head) == self.capacity {
            return false;
        }
        self.slots.put(self.tail, entry);
        self.tail = self.tail.wrapping_add(1);
        true
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> &SendEntry {
        self.slots.get(number)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut SendEntry {
        self.slots.get_mut(number)
    }

    /// The oldest entry, if it has its PSNs.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<&SendEntry> {
        (self.head != self.started).then(|| self.get(self.head))
    }

    /// Passes over the oldest entry, which was executed without any PSN of its own.
    #[inline]
    pub(crate) fn skip(&mut self) {
        self.started = self.head.wrapping_add(1);
        self.cursor = self.started;
    }

    /// Whether every posted request is complete.
    pub(crate) fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Removes all entries.
    pub(crate) fn clear(&mut self) {
        self.head = self.tail;
        self.cursor = self.tail;
        self.started = self.tail;
    }
}

/// Posted receive requests, oldest first.
pub(crate) struct ReceiveQueue {
    slots: Slots<ReceiveRequest>,
    capacity: u32,
    head: u32,
    tail: u32,
}

impl ReceiveQueue {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            slots: Slots::new(capacity),
            capacity,
            head: 0,
            tail: 0,
        }
    }

    /// Appends a request. Returns false if the queue is full.
    pub(crate) fn push(&mut self, request: ReceiveRequest) -> bool {
        if self.tail.wrapping_sub(self.head) == self.capacity {
            return false;
        }
        self.slots.put(self.tail, request);
        self.tail = self.tail.wrapping_add(1);
        true
    }

    /// The oldest request.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<&ReceiveRequest> {
        (self.head != self.tail).then(|| self.slots.get(self.head))
    }

    /// Removes and returns the oldest request.
    pub(crate) fn pop(&mut self) -> Option<ReceiveRequest> {
        let request = *self.oldest()?;
        self.head = self.head.wrapping_add(1);
        Some(request)
    }
}
