//! The programs of the simulated nodes: storage cores that feed rings, units that take from them.
//!
//! An actor's step accesses memory at its beginning and its time passes afterwards. Both ends here
//! therefore work in two steps: first the bytes, then, when their time is over, the word of the
//! ring that notifies the switch.

use super::ROW;
use crate::harness::drive::{Failure, Program};
use core::cell::RefCell;
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::flow::{Consumer, ITEM_HEADER, Producer, PushError, Taken};
use rackweave_sim::world::{Context, Step};
use rackweave_sim::{Category, UnitModel, stream_time};
use rackweave_workload::tpch::Q1Partial;
use std::ops::Range;
use std::rc::Rc;

/// The magic at the start of an item of rows, as `Partitioner::rows` reads it.
const ITEM_MAGIC: [u8; 4] = *b"RWit";

/// A ring and the rows that are to go into it.
struct Share {
    producer: Producer,
    rows: Range<usize>,
    finished: bool,
}

/// A core of a storage node: copies rows from its memory into the rings of one producer.
///
/// Rings are served in turn, and a full one is skipped. With one ring per consumer and as many rows
/// for each this is static partitioning; with a single ring the consumers' demand decides.
pub struct ScanFeeder {
    rows: Rc<[u8]>,
    shares: Vec<Share>,
    next: usize,
    /// The ring with an item that is written and not announced.
    written: Option<usize>,
}

impl ScanFeeder {
    /// Feeds `range` of `rows` into `producers`, with equal numbers of rows.
    pub fn new(rows: &Rc<[u8]>, range: Range<usize>, producers: Vec<Producer>) -> Self {
        let count = producers.len();
        let share = |(at, producer)| Share {
            producer,
            rows: part(&range, at, count),
            finished: false,
        };
        Self {
            rows: rows.clone(),
            shares: producers.into_iter().enumerate().map(share).collect(),
            next: 0,
            written: None,
        }
    }

    /// Writes an item into the next ring with rows left and a free slot. Returns its bytes, if any.
    fn write(&mut self) -> Result<Option<usize>, PushError> {
        for _ in 0..self.shares.len() {
            let at = self.next;
            self.next = (at + 1) % self.shares.len();
            let share = &mut self.shares[at];
            if share.rows.is_empty() {
                if !share.finished {
                    share.producer.finish();
                    share.finished = true;
                }
                continue;
            }
            match share.producer.reserve(1) {
                Ok(mut slot) => {
                    let rows = (slot.len() - ITEM_HEADER) / ROW;
                    let end = share.rows.end.min(share.rows.start + rows);
                    let bytes = &self.rows[share.rows.start * ROW..end * ROW];
                    let count = (end - share.rows.start) as u32;
                    slot.slice(..ITEM_HEADER).fill(0);
                    slot.write(0, &ITEM_MAGIC);
                    slot.write(4, &count.to_le_bytes());
                    slot.write(ITEM_HEADER, bytes);
                    share.rows.start = end;
                    self.written = Some(at);
                    return Ok(Some(ITEM_HEADER + bytes.len()));
                }
                Err(PushError::Full) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl Program for ScanFeeder {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        if let Some(at) = self.written.take() {
            self.shares[at].producer.commit(1);
        }
        match self.write() {
            Ok(Some(bytes)) => {
                // Each byte is read from memory once and written to memory once.
                Ok(Step::Compute(stream_time(context.cpu(), 2 * bytes as u64)))
            }
            Ok(None) if self.shares.iter().all(|share| share.finished) => Ok(Step::Done),
            Ok(None) => Ok(Step::WaitForPacket),
            Err(error) => Err(format!("a storage node cannot go on: {error}")),
        }
    }
}

/// Part `at` of `count` nearly equal parts of a range.
pub fn part(range: &Range<usize>, at: usize, count: usize) -> Range<usize> {
    let cut = |at| range.start + range.len() * at / count.max(1);
    cut(at)..cut(at + 1)
}

/// The results of a processing unit so far.
#[derive(Default)]
pub struct UnitReport {
    /// The unit's name.
    pub name: String,
    /// When each batch was done, and the bytes of its rows.
    pub batches: Vec<(Instant, u64)>,
    /// Its part of the query's result.
    pub partial: Q1Partial,
    /// When it saw that no more items would come.
    pub ended: Option<Instant>,
}

impl UnitReport {
    /// When its last row was aggregated.
    pub fn finished(&self) -> Instant {
        self.batches.last().map_or(Instant::ZERO, |batch| batch.0)
    }

    /// Bytes of rows aggregated.
    pub fn bytes(&self) -> u64 {
        self.batches.iter().map(|batch| batch.1).sum()
    }

    /// Bytes per second in slices of `slice` from the start on: the middle of the slice in seconds,
    /// and the rate. For area plots.
    pub fn rates(&self, slice: Duration, until: Instant) -> Vec<(f64, f64)> {
        let slice_ns = slice.as_nanos().max(1);
        let count = until.as_nanos().div_ceil(slice_ns) as usize;
        let mut bytes = vec![0_u64; count];
        for (at, batch) in &self.batches {
            let index = (at.as_nanos().saturating_sub(1) / slice_ns) as usize;
            if let Some(sum) = bytes.get_mut(index) {
                *sum += batch;
            }
        }
        let seconds = slice_ns as f64 * 1e-9;
        let point = |(at, bytes)| ((at as f64 + 0.5) * seconds, bytes as f64 / seconds);
        bytes.into_iter().enumerate().map(point).collect()
    }
}

/// A processing unit: takes items from its ring at its model's rate and aggregates them.
pub struct QueryTaker {
    consumer: Consumer,
    unit: UnitModel,
    /// Maximum number of items taken at once, so that slots are free before the ring is empty.
    items_max: u32,
    /// Items and bytes of rows whose time is passing.
    taken: (u32, u64),
    waited: bool,
    report: Rc<RefCell<UnitReport>>,
}

impl QueryTaker {
    /// A unit that takes up to `items_max` items at a time from `consumer`.
    pub fn new(
        consumer: Consumer,
        unit: UnitModel,
        items_max: u32,
    ) -> (Self, Rc<RefCell<UnitReport>>) {
        let report = Rc::new(RefCell::new(UnitReport {
            name: unit.name.clone(),
            ..UnitReport::default()
        }));
        let taker = Self {
            consumer,
            unit,
            items_max: items_max.max(1),
            taken: (0, 0),
            waited: false,
            report: report.clone(),
        };
        (taker, report)
    }

    fn take(&mut self) -> Result<Taken<u64>, String> {
        let item_size = self.consumer.item_size() as usize;
        let bytes = match self.consumer.peek(self.items_max) {
            Taken::Items(bytes) => bytes,
            Taken::Empty => return Ok(Taken::Empty),
            Taken::Ended => return Ok(Taken::Ended),
            Taken::Aborted => return Ok(Taken::Aborted),
        };
        let mut rows = 0;
        let mut report = self.report.borrow_mut();
        for item in bytes.chunks_exact(item_size) {
            rows += report
                .partial
                .add_item(&item.to_vec())
                .map_err(|error| error.to_string())?;
        }
        self.taken = ((bytes.len() / item_size) as u32, rows * ROW as u64);
        Ok(Taken::Items(bytes.len() as u64))
    }
}

impl Program for QueryTaker {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        if self.taken.0 > 0 {
            let (items, bytes) = core::mem::take(&mut self.taken);
            self.consumer.release(items);
            self.report
                .borrow_mut()
                .batches
                .push((context.now(), bytes));
        }
        let taken = self.take();
        Ok(
            match taken.map_err(|text| format!("{}: {text}", self.unit.name))? {
                Taken::Items(bytes) => {
                    if core::mem::take(&mut self.waited) {
                        // The simulator lets a node's core see a word as soon as a CPU would.
                        let seen = context.cpu().spin_latency.as_nanos();
                        let late = self.unit.spin_latency.as_nanos().saturating_sub(seen);
                        context.charge(Category::Communication, Duration::from_nanos(late));
                    }
                    Step::Compute(self.unit.batch_time(bytes))
                }
                Taken::Empty => {
                    self.waited = true;
                    Step::WaitForPacket
                }
                Taken::Ended => {
                    self.report.borrow_mut().ended = Some(context.now());
                    Step::Done
                }
                Taken::Aborted => {
                    return Err(format!("{}: the flow was broken off", self.unit.name));
                }
            },
        )
    }
}
