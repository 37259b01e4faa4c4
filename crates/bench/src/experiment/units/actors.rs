//! The programs of the simulated nodes: storage cores that feed rings, units that take from them.
//!
//! An actor's step accesses memory at its beginning and its time passes afterwards. Both ends here
//! therefore work in two steps: first the bytes, then, when their time is over, the word of the
//! ring that notifies the switch.

use super::ROW;
use crate::harness::prelude::*;
use rackweave_workload::tpch::Q1Partial;

/// The magic at the start of an item of rows, as `Partitioner::rows` reads it.
const ITEM_MAGIC: [u8; 4] = *b"RWit";

/// A ring and the rows that are to go into it.
struct Share {
    producer: Producer,
    rows: Range<usize>,
    finished: bool,
}

/// A core of a storage node: copies `range` of `rows` from its memory into the rings of one
/// producer, with equal numbers of rows.
///
/// Rings are served in turn, and a full one is skipped. With one ring per consumer and as many rows
/// for each this is static partitioning; with a single ring the consumers' demand decides.
pub fn scan_feeder(
    rows: Rc<[u8]>,
    range: &Range<usize>,
    producers: Vec<Producer>,
) -> impl Program + use<> {
    let count = producers.len();
    let share = |(at, producer)| Share {
        producer,
        rows: part(range, at, count),
        finished: false,
    };
    let mut shares: Vec<Share> = producers.into_iter().enumerate().map(share).collect();
    let mut next = 0;
    // The ring with an item that is written and not announced.
    let mut written: Option<usize> = None;
    move |context: &mut Context<'_>| -> Turn {
        if let Some(at) = written.take() {
            shares[at].producer.commit(1);
        }
        for _ in 0..count {
            let at = next;
            next = (at + 1) % count;
            let bytes = shares[at].write(&rows);
            let bytes = bytes.map_err(|error| format!("a storage node cannot go on: {error}"))?;
            if let Some(bytes) = bytes {
                written = Some(at);
                // Each byte is read from memory once and written to memory once.
                return Ok(Step::Compute(stream_time(context.cpu(), 2 * bytes as u64)));
            }
        }
        Ok(match shares.iter().all(|share| share.finished) {
            true => Step::Done,
            false => Step::WaitForPacket,
        })
    }
}

impl Share {
    /// Writes an item if rows are left and a slot is free. Returns its bytes, if any.
    fn write(&mut self, all: &[u8]) -> Result<Option<usize>, PushError> {
        if self.rows.is_empty() {
            if !core::mem::replace(&mut self.finished, true) {
                self.producer.finish();
            }
            return Ok(None);
        }
        let mut slot = match self.producer.reserve(1) {
            Ok(slot) => slot,
            Err(PushError::Full) => return Ok(None),
            Err(error) => return Err(error),
        };
        let rows = (slot.len() - ITEM_HEADER) / ROW;
        let end = self.rows.end.min(self.rows.start + rows);
        let bytes = &all[self.rows.start * ROW..end * ROW];
        let count = (end - self.rows.start) as u32;
        slot.slice(..ITEM_HEADER).fill(0);
        slot.write(0, &ITEM_MAGIC);
        slot.write(4, &count.to_le_bytes());
        slot.write(ITEM_HEADER, bytes);
        self.rows.start = end;
        Ok(Some(ITEM_HEADER + bytes.len()))
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
    pub fn finished(&self) -> Instant {
        self.batches.last().map_or(Instant::ZERO, |batch| batch.0)
    }

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

/// A processing unit: takes up to `items_max` items at a time from its ring, so that slots are free
/// before the ring is empty, at its model's rate, and aggregates them.
pub fn query_taker(
    mut consumer: Consumer,
    unit: UnitModel,
    items_max: u32,
    report: Rc<RefCell<UnitReport>>,
) -> impl Program {
    let item_size = consumer.item_size() as usize;
    // Items and bytes of rows whose time is passing.
    let mut taken = (0, 0);
    let mut waited = false;
    move |context: &mut Context<'_>| -> Turn {
        let mut report = report.borrow_mut();
        if taken.0 > 0 {
            let (items, bytes) = core::mem::take(&mut taken);
            consumer.release(items);
            report.batches.push((context.now(), bytes));
        }
        let bytes = match consumer.peek(items_max) {
            Taken::Items(bytes) => bytes,
            Taken::Empty => {
                waited = true;
                return Ok(Step::WaitForPacket);
            }
            Taken::Ended => {
                report.ended = Some(context.now());
                return Ok(Step::Done);
            }
            Taken::Aborted => return Err(format!("{}: the flow was broken off", unit.name)),
        };
        let mut rows = 0;
        for item in bytes.chunks_exact(item_size) {
            let added = report.partial.add_item(&item.to_vec());
            rows += added.map_err(|error| format!("{}: {error}", unit.name))?;
        }
        taken = ((bytes.len() / item_size) as u32, rows * ROW as u64);
        if core::mem::take(&mut waited) {
            // The simulator lets a node's core see a word as soon as a CPU would.
            let seen = context.cpu().spin_latency.as_nanos();
            let late = unit.spin_latency.as_nanos().saturating_sub(seen);
            context.charge(Category::Communication, Duration::from_nanos(late));
        }
        Ok(Step::Compute(unit.batch_time(bytes.len() as u64)))
    }
}
