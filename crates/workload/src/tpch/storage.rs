//! The storage node's worker: generates its share of both tables and pushes it into flows.

use super::generate;
use super::rows::{LineitemRow, OrderRow, get, lineitem, order};
use super::scale::{Part, PartError, RowCounts, ScaleFactor};
use super::worker::{LINEITEM, ORDERS, WorkerError, WorkerStep};
use core::iter::Map;
use rackweave_endpoint::flow::{Partitioner, PushError};
use tpchgen::generators::{LineItem, LineItemGeneratorIterator, Order, OrderGeneratorIterator};

/// One storage node's share of both tables: first all its orders, then its line items.
///
/// Rows are generated as they are pushed. To measure the flows alone, generate beforehand with
/// [`prepare_step`](Self::prepare_step); then [`step`](Self::step) only copies.
#[derive(Debug)]
pub struct StorageWorker {
    orders: TableSource<Orders, { OrderRow::BYTES }>,
    lineitem: TableSource<Lines, { LineitemRow::BYTES }>,
    phase: Phase,
    expected: RowCounts,
    pushed: RowCounts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Orders,
    /// All orders are pushed; their flow has to be finished.
    OrdersEnd,
    Lineitem,
    LineitemEnd,
    Done,
    Failed(WorkerError),
}

type Orders = Map<OrderGeneratorIterator<'static>, fn(Order<'static>) -> [u8; OrderRow::BYTES]>;
type Lines =
    Map<LineItemGeneratorIterator<'static>, fn(LineItem<'static>) -> [u8; LineitemRow::BYTES]>;

/// The encoded rows of a table and their partitioner.
#[derive(Debug)]
struct TableSource<I, const ROW: usize> {
    table: &'static str,
    /// Offset of the partitioning key in a row.
    key_at: usize,
    target: Partitioner,
    /// Rows not yet generated.
    generated: I,
    /// A generated row for which its ring had no free slot.
    held: Option<[u8; ROW]>,
    /// Rows generated beforehand, and how many of their bytes have been pushed.
    prepared: Vec<u8>,
    prepared_pushed: usize,
}

/// Why pushing stopped.
enum Stop {
    /// The requested number of rows was pushed.
    Enough,
    /// No row is left.
    Empty,
    /// A ring is full.
    Full,
}

impl StorageWorker {
    /// The worker of share `part`, counted from zero, of `parts`. The partitioners must be made for
    /// rows of [`OrderRow::BYTES`] and [`LineitemRow::BYTES`].
    ///
    /// # Errors
    /// If there is no such share.
    pub fn new(
        scale: ScaleFactor,
        part: u32,
        parts: u32,
        orders: Partitioner,
        lineitem: Partitioner,
    ) -> Result<Self, PartError> {
        let part = Part::new(part, parts)?;
        let encode_order: fn(Order<'static>) -> _ = |order| OrderRow::from(&order).encode();
        let encode_line: fn(LineItem<'static>) -> _ = |line| LineitemRow::from(&line).encode();
        Ok(Self {
            orders: TableSource::new(
                ORDERS,
                order::KEY,
                orders,
                generate::orders(scale, part).map(encode_order),
            ),
            lineitem: TableSource::new(
                LINEITEM,
                lineitem::ORDER_KEY,
                lineitem,
                generate::lineitem(scale, part).map(encode_line),
            ),
            phase: Phase::Orders,
            expected: part.expected_rows(scale),
            pushed: RowCounts::default(),
        })
    }

    /// Generates up to `rows_max` rows, at least one, and keeps them in memory. Returns the number
    /// of rows, or `None` if none are left to generate.
    pub fn prepare_step(&mut self, rows_max: usize) -> Option<u64> {
        let rows_max = rows_max.max(1);
        let orders = self.orders.prepare(rows_max, self.expected.orders);
        let lines = self
            .lineitem
            .prepare(rows_max - orders, self.expected.lineitem);
        (orders + lines > 0).then_some((orders + lines) as u64)
    }

    /// Generates all rows and keeps them in memory, which takes about
    /// [`expected_rows`](Self::expected_rows)`().bytes()`.
    pub fn prepare(&mut self) {
        while self.prepare_step(1 << 20).is_some() {}
    }

    /// Pushes up to `rows_max` rows, at least one.
    pub fn step(&mut self, rows_max: usize) -> WorkerStep {
        let rows_max = rows_max.max(1) as u64;
        let before = self.pushed;
        while self.pushed.total() - before.total() < rows_max {
            let rows_left = rows_max - (self.pushed.total() - before.total());
            match self.advance(rows_left) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => self.phase = Phase::Failed(error),
            }
        }
        let pushed = RowCounts {
            orders: self.pushed.orders - before.orders,
            lineitem: self.pushed.lineitem - before.lineitem,
        };
        match self.phase {
            Phase::Failed(_) => WorkerStep::Aborted,
            _ if pushed.total() > 0 => WorkerStep::Worked {
                rows: pushed.total(),
                bytes: pushed.bytes(),
            },
            Phase::Done => WorkerStep::Done,
            _ => WorkerStep::Blocked,
        }
    }

    /// Does the work of the current phase; returns whether there may be more to do now.
    fn advance(&mut self, rows_max: u64) -> Result<bool, WorkerError> {
        match self.phase {
            Phase::Orders => {
                let stop = self.orders.push(rows_max, &mut self.pushed.orders)?;
                Ok(self.pass(stop, Phase::OrdersEnd))
            }
            Phase::OrdersEnd => {
                let stop = self.orders.finish()?;
                Ok(self.pass(stop, Phase::Lineitem))
            }
            Phase::Lineitem => {
                let stop = self.lineitem.push(rows_max, &mut self.pushed.lineitem)?;
                Ok(self.pass(stop, Phase::LineitemEnd))
            }
            Phase::LineitemEnd => {
                let stop = self.lineitem.finish()?;
                Ok(self.pass(stop, Phase::Done))
            }
            Phase::Done | Phase::Failed(_) => Ok(false),
        }
    }

    fn pass(&mut self, stop: Stop, next: Phase) -> bool {
        if matches!(stop, Stop::Empty) {
            self.phase = next;
        }
        !matches!(stop, Stop::Full)
    }

    /// Rows of this share: of `orders` exactly, of `lineitem` within a few per cent.
    pub fn expected_rows(&self) -> RowCounts {
        self.expected
    }

    /// Rows pushed so far.
    pub fn pushed(&self) -> RowCounts {
        self.pushed
    }

    /// The encoded rows of `orders` and of `lineitem` that were generated beforehand, in the order
    /// of their keys, for other uses once they are all pushed; `None` before that.
    pub fn take_prepared(&mut self) -> Option<[Vec<u8>; 2]> {
        (self.phase == Phase::Done).then(|| {
            [
                core::mem::take(&mut self.orders.prepared),
                core::mem::take(&mut self.lineitem.prepared),
            ]
        })
    }

    /// Bytes of rows that are kept in memory.
    pub fn prepared_bytes(&self) -> usize {
        self.orders.prepared.len() + self.lineitem.prepared.len()
    }

    /// Whether everything was pushed and delivered to the consumers.
    pub fn is_delivered(&mut self) -> bool {
        self.phase == Phase::Done
            && self.orders.target.is_delivered()
            && self.lineitem.target.is_delivered()
    }

    /// Why the worker has given up, if it has.
    pub fn error(&self) -> Option<WorkerError> {
        match self.phase {
            Phase::Failed(error) => Some(error),
            _ => None,
        }
    }
}

impl<I: Iterator<Item = [u8; ROW]>, const ROW: usize> TableSource<I, ROW> {
    fn new(table: &'static str, key_at: usize, target: Partitioner, generated: I) -> Self {
        Self {
            table,
            key_at,
            target,
            generated,
            held: None,
            prepared: Vec::new(),
            prepared_pushed: 0,
        }
    }

    /// Generates up to `rows_max` rows into memory; `expected` is their approximate total.
    fn prepare(&mut self, rows_max: usize, expected: u64) -> usize {
        if rows_max == 0 {
            return 0;
        }
        if self.prepared.capacity() == 0 {
            // A little more than expected, so that a slightly low estimate does not double the
            // memory. If that much cannot be reserved at once, the vector grows as needed.
            let rows = expected + expected / 32 + 64;
            let _ = self.prepared.try_reserve_exact(rows as usize * ROW);
        }
        let mut rows = 0;
        for row in self
            .held
            .take()
            .into_iter()
            .chain(&mut self.generated)
            .take(rows_max)
        {
            self.prepared.extend_from_slice(&row);
            rows += 1;
        }
        rows
    }

    /// Pushes up to `rows_max` rows and counts them in `pushed`.
    fn push(&mut self, rows_max: u64, pushed: &mut u64) -> Result<Stop, WorkerError> {
        for _ in 0..rows_max {
            let prepared = self.prepared[self.prepared_pushed..].first_chunk();
            let row: &[u8; ROW] = match (prepared, &mut self.held) {
                (Some(row), _) => row,
                (None, Some(row)) => row,
                (None, held) => match self.generated.next() {
                    Some(row) => held.insert(row),
                    None => return Ok(Stop::Empty),
                },
            };
            let key = u64::from_le_bytes(get(row, self.key_at));
            let mut fits = true;
            let outcome = self
                .target
                .push(key, |slot| match <&mut [u8; ROW]>::try_from(slot) {
                    Ok(slot) => *slot = *row,
                    Err(_) => fits = false,
                });
            if !fits {
                return Err(WorkerError::RowSize {
                    table: self.table,
                    row_bytes: ROW,
                });
            }
            if let Some(stop) = self.stopped(outcome)? {
                return Ok(stop);
            }
            if prepared.is_some() {
                self.prepared_pushed += ROW;
            } else {
                self.held = None;
            }
            *pushed += 1;
        }
        Ok(Stop::Enough)
    }

    /// Sends the remaining rows and marks the end.
    fn finish(&mut self) -> Result<Stop, WorkerError> {
        let outcome = self.target.finish();
        if let Some(stop) = self.stopped(outcome)? {
            return Ok(stop);
        }
        // A push into a ring with free slots does not check whether its flow was aborted.
        if self.target.is_aborted() {
            return Err(WorkerError::Aborted { table: self.table });
        }
        Ok(Stop::Empty)
    }

    fn stopped(&self, outcome: Result<(), PushError>) -> Result<Option<Stop>, WorkerError> {
        match outcome {
            Ok(()) => Ok(None),
            Err(PushError::Full) => Ok(Some(Stop::Full)),
            // Only this worker finishes its flow, and items are as long as their slots, so the ring
            // is invalid after any of these errors.
            Err(PushError::Aborted | PushError::Finished | PushError::TooLong { .. }) => {
                Err(WorkerError::Aborted { table: self.table })
            }
        }
    }
}
