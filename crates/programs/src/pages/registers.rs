//! The page directory's register arrays, by stage. They use the register units left free by the
//! transfer engine.

use super::PagesConfig;
use rackweave_switch::{Cursor, Ledger, Register};
use rackweave_wire::fabric::page::{Operation, PageId};

/// A register array that is too large for one stage's memory: two arrays in two neighbouring
/// stages. A pass may touch one cell of the two.
#[derive(Debug)]
pub(super) struct Split<T> {
    low: Register<T>,
    high: Register<T>,
    boundary: usize,
}

impl<T: Copy + Default> Split<T> {
    /// `count` cells, the first `boundary` of them in `stage`, the others in the next.
    fn new(names: [&'static str; 2], stage: u8, boundary: usize, count: usize) -> Self {
        Self {
            low: Register::new(names[0], stage, boundary),
            high: Register::new(names[1], stage + 1, count - boundary),
            boundary,
        }
    }

    fn half(&mut self, index: usize) -> (&mut Register<T>, usize) {
        if index < self.boundary {
            (&mut self.low, index)
        } else {
            (&mut self.high, index - self.boundary)
        }
    }

    /// The single access of this pass.
    pub fn update<R>(
        &mut self,
        cursor: &mut Cursor,
        index: usize,
        update: impl FnOnce(&mut T) -> R,
    ) -> R {
        let (half, index) = self.half(index);
        half.update(cursor, index, update)
    }

    /// A cell for the control plane.
    pub fn control(&mut self, index: usize) -> &mut T {
        let (half, index) = self.half(index);
        half.control(index)
    }

    /// A cell's value for the control plane.
    pub fn peek(&self, index: usize) -> T {
        match index.checked_sub(self.boundary) {
            None => self.low.peek(index),
            Some(index) => self.high.peek(index),
        }
    }

    fn declare(&self, ledger: &mut Ledger) {
        ledger.register(&self.low);
        ledger.register(&self.high);
    }
}

/// State per channel (c), slot (s), entry (e), node (n), and per I/O queue (q).
#[derive(Debug)]
pub(super) struct Registers {
    /// c: the PSN of the next request; [`NAK_SENT`] if its absence has been NAKed.
    pub expected: Register<u32>,
    /// s: whether a request that may move data is in flight ([`BUSY`]), whether the completion's
    /// lane is busy ([`WORD_BUSY`]), and whether another completion waits for it ([`WAITING`]).
    pub phase: Register<u32>,
    /// s: the page of the last request.
    pub page: Register<u64>,
    /// s: its buffer frame, and in the upper byte its operation ([`KEEP`] for an argument of 1).
    pub frame: Register<u32>,
    /// s: the PSN of the last request.
    pub command: Register<u32>,
    /// s: the PSN of the next request passed on to the slot's node; in the upper byte the store.
    pub relay: Register<u32>,
    /// q: the PSN of the target's first request of the command in flight, or of the next.
    pub base: Register<u32>,
    /// q: the difference to the PSN for the slot's node.
    pub offset: Register<u32>,
    /// q: how many of the target's WRITEs the node has; [`ACTIVE`] while a command is in flight.
    pub acked: Register<u32>,
    /// q: a response capsule that arrived before the last acknowledgement of the data: its PSN,
    /// status (bits 24 to 39) and [`PENDING`].
    pub pending: Register<u64>,
    /// e: the node that has the latch, plus one; [`DOUBTED`] if it has to determine whether it has
    /// the newest version.
    pub holder: Register<u16>,
    /// e: the latch word.
    pub latch: Split<u64>,
    /// q: the PSN of the next command; its number of retransmissions from [`TRIES_AT`] on;
    /// [`UNHEARD`] until the last one is acknowledged.
    pub send: Register<u32>,
    /// e: the second place: see [`super::second`].
    pub second: Register<u32>,
    /// s: the latch word at the request; for an Aim, the target place.
    pub since: Register<u64>,
    /// A count-min sketch of requests for pages that are not indexed, four rows.
    pub sketch: [Register<u32>; 4],
    /// e: the place.
    pub place: Split<u64>,
    /// s: how the last movement ended.
    pub outcome: Register<u32>,
    /// s: the status of the last response, whether the latch was granted, and from [`MOVES_AT`] on
    /// the number of moves of the place.
    pub result: Register<u32>,
    /// s: its latch word.
    pub result_latch: Register<u64>,
    /// n: which source lanes carry a transfer: see [`super::sources`].
    pub sources: Register<u64>,
    /// e: which nodes may have leases, and whether the page was requested: see [`super::leases`].
    pub leases: Register<u32>,
}

/// The operation in a cell of [`Registers::frame`].
pub(super) fn operation(kind: u32) -> Option<Operation> {
    Operation::from_number(((kind & !KEEP) >> 24) as u8)
}

pub(super) const MOVES_AT: u32 = 12;
pub(super) const NAK_SENT: u32 = 1 << 31;
pub(super) const DOUBTED: u16 = 1 << 15;
pub(super) const BUSY: u32 = 4;
pub(super) const WORD_BUSY: u32 = 1;
pub(super) const WAITING: u32 = 2;
pub(super) const KEEP: u32 = 0x80 << 24;
pub(super) const ACTIVE: u32 = 1 << 31;
pub(super) const UNHEARD: u32 = 1 << 31;
pub(super) const TRIES_AT: u32 = 24;
/// The largest number of retransmissions of a command that is counted.
pub(super) const TRIES_MAX: u32 = 63;
pub(super) const PENDING: u64 = 1 << 63;
/// The bits of a PSN in a cell that holds other fields, too.
pub(super) const PSN: u32 = 0x00ff_ffff;

/// Counters in a row of the sketch, a power of two.
pub(super) const SKETCH_WIDTH: usize = 4096;

impl Registers {
    pub fn new(config: &PagesConfig) -> Self {
        let (channels, slots) = (usize::from(config.channels), usize::from(config.slots));
        let queues = slots * usize::from(config.stores);
        let entries = config.entries as usize;
        let sketch = if entries == 0 { 0 } else { SKETCH_WIDTH };
        let half = entries / 2;
        Self {
            expected: Register::new("pages.expected", 0, channels),
            phase: Register::new("pages.phase", 0, slots),
            page: Register::new("pages.page", 0, slots),
            frame: Register::new("pages.frame", 0, slots),
            command: Register::new("pages.command", 1, slots),
            relay: Register::new("pages.relay", 2, slots),
            base: Register::new("pages.base", 3, queues),
            offset: Register::new("pages.offset", 4, queues),
            acked: Register::new("pages.acked", 6, queues),
            pending: Register::new("pages.pending", 7, queues),
            holder: Register::new("pages.holder", 5, entries),
            latch: Split::new(["pages.latch.0", "pages.latch.1"], 6, half, entries),
            send: Register::new("pages.send", 8, queues),
            second: Register::new("pages.second", 8, entries),
            since: Register::new("pages.since", 8, slots),
            sketch: [
                Register::new("pages.sketch.0", 8, sketch),
                Register::new("pages.sketch.1", 9, sketch),
                Register::new("pages.sketch.2", 9, sketch),
                Register::new("pages.sketch.3", 10, sketch),
            ],
            place: Split::new(["pages.place.0", "pages.place.1"], 9, half, entries),
            outcome: Register::new("pages.outcome", 10, slots),
            result: Register::new("pages.result", 11, slots),
            result_latch: Register::new("pages.result_latch", 11, slots),
            sources: Register::new("pages.sources", 11, usize::from(config.nodes)),
            leases: Register::new("pages.leases", 11, entries),
        }
    }

    /// The page of a slot's last request.
    pub fn page_of(&mut self, cursor: &mut Cursor, slot: usize) -> PageId {
        PageId::from_number(self.page.read(cursor, slot)).unwrap_or_default()
    }

    pub fn declare(&self, ledger: &mut Ledger) {
        for register in [
            &self.expected,
            &self.phase,
            &self.frame,
            &self.command,
            &self.relay,
            &self.base,
            &self.offset,
            &self.acked,
            &self.send,
            &self.second,
            &self.outcome,
            &self.result,
        ] {
            ledger.register(register);
        }
        for register in [
            &self.page,
            &self.pending,
            &self.since,
            &self.result_latch,
            &self.sources,
        ] {
            ledger.register(register);
        }
        self.sketch.iter().for_each(|row| ledger.register(row));
        ledger.register(&self.holder);
        ledger.register(&self.leases);
        self.latch.declare(ledger);
        self.place.declare(ledger);
    }
}
