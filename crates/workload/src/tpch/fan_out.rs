//! Workers of flows whose producers do not choose a consumer: load-balanced and replicated ones.
//!
//! A [`TableWorker`] pushes rows into one ring. In a balanced flow each [`Q1Worker`] gets some of
//! the line items and sums them up; their parts together are the answer of Q1. In a replicated flow
//! each [`ReplicaWorker`] gets all rows and returns a digest of them.

use super::aggregate::Aggregate;
use super::compute::{Batch, Input};
use super::result::ComputeResult;
use super::rows::{LineitemRow, OrderRow};
use super::scale::RowCounts;
use super::worker::{LINEITEM, ORDERS, WorkerError, WorkerStep};
use rackweave_endpoint::flow::{Consumer, Partitioner, Producer, PushError, hash_key};

/// Pushes encoded rows of one table, one after the other, into one ring.
#[derive(Debug)]
pub struct TableWorker {
    table: &'static str,
    row_bytes: usize,
    rows: Vec<u8>,
    /// Bytes of `rows` that have been pushed.
    pushed: usize,
    target: Partitioner,
    is_finished: bool,
    error: Option<WorkerError>,
}

impl TableWorker {
    /// A worker that pushes rows of `lineitem`.
    ///
    /// # Panics
    /// If an item of the ring is smaller than a row.
    pub fn lineitem(rows: Vec<u8>, ring: Producer) -> Self {
        Self::new(LINEITEM, LineitemRow::BYTES, rows, ring)
    }

    /// A worker that pushes rows of `orders`.
    ///
    /// # Panics
    /// If an item of the ring is smaller than a row.
    pub fn orders(rows: Vec<u8>, ring: Producer) -> Self {
        Self::new(ORDERS, OrderRow::BYTES, rows, ring)
    }

    fn new(table: &'static str, row_bytes: usize, rows: Vec<u8>, ring: Producer) -> Self {
        Self {
            table,
            row_bytes,
            rows,
            pushed: 0,
            target: Partitioner::new(vec![ring], row_bytes),
            is_finished: false,
            error: None,
        }
    }

    /// Pushes up to `rows_max` rows, at least one.
    pub fn step(&mut self, rows_max: usize) -> WorkerStep {
        let before = self.pushed;
        let stop = self.advance(rows_max.max(1));
        let bytes = (self.pushed - before) as u64;
        match stop {
            Err(PushError::Full) if bytes == 0 => WorkerStep::Blocked,
            Err(PushError::Full) | Ok(()) if bytes > 0 => WorkerStep::Worked {
                rows: bytes / self.row_bytes as u64,
                bytes,
            },
            Ok(()) => WorkerStep::Done,
            Err(_) => {
                self.error = Some(WorkerError::Aborted { table: self.table });
                WorkerStep::Aborted
            }
        }
    }

    fn advance(&mut self, rows_max: usize) -> Result<(), PushError> {
        let end = self.pushed + rows_max * self.row_bytes;
        let end = end.min(self.rows.len());
        for row in self.rows[self.pushed..end].chunks_exact(self.row_bytes) {
            self.target.push(0, |slot| slot.copy_from_slice(row))?;
            self.pushed += self.row_bytes;
        }
        if self.pushed == self.rows.len() && !self.is_finished {
            self.target.finish()?;
            self.is_finished = true;
        }
        // A push into a ring with free slots does not check whether its flow was aborted.
        if self.target.is_aborted() {
            return Err(PushError::Aborted);
        }
        Ok(())
    }

    /// A digest of the pushed rows: their number, and sums over them.
    pub fn digest(&self) -> RowsDigest {
        let mut digest = RowsDigest::default();
        for row in self.rows.chunks_exact(self.row_bytes) {
            digest.add(row);
        }
        digest
    }

    /// Whether everything was pushed and delivered to the consumers.
    pub fn is_delivered(&mut self) -> bool {
        self.is_finished && self.target.is_delivered()
    }

    /// Why the worker has given up, if it has.
    pub fn error(&self) -> Option<WorkerError> {
        self.error
    }
}

/// A digest of rows.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RowsDigest {
    /// Number of rows.
    pub rows: u64,
    /// Equal for the same rows in any order.
    pub sum: u64,
    /// Equal only for the same rows in the same order.
    pub order: u64,
}

impl RowsDigest {
    fn add(&mut self, row: &[u8]) {
        let mut hash = 0;
        for word in row.chunks_exact(8) {
            let word = u64::from_le_bytes(*word.first_chunk().expect("a word has eight bytes"));
            hash = hash_key(hash ^ word);
        }
        self.rows += 1;
        self.sum = self.sum.wrapping_add(hash);
        self.order = hash_key(self.order ^ hash);
    }

    /// The combination of both, as if one worker had pushed both in an unknown order.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            sum: self.sum.wrapping_add(other.sum),
            order: 0,
        }
    }
}

/// One unit's part of Q1, over the line items that it received.
#[derive(Debug)]
pub struct Q1Partial {
    aggregate: Aggregate,
    rows: u64,
}

impl Default for Q1Partial {
    fn default() -> Self {
        Self {
            aggregate: Aggregate::new(),
            rows: 0,
        }
    }
}

impl Q1Partial {
    /// Adds an encoded row.
    ///
    /// # Errors
    /// If a column that Q1 needs is malformed.
    #[inline]
    pub fn add(&mut self, row: &[u8; LineitemRow::BYTES]) -> Result<(), super::RowError> {
        self.add_rows(core::slice::from_ref(row))
            .map_err(|(_, error)| error)
    }

    /// Adds encoded rows. An error has the index of the row that is malformed.
    fn add_rows(
        &mut self,
        rows: &[[u8; LineitemRow::BYTES]],
    ) -> Result<(), (usize, super::RowError)> {
        self.aggregate.lines(rows)?;
        self.rows += rows.len() as u64;
        Ok(())
    }

    /// Adds all rows of an item and returns their number.
    ///
    /// # Errors
    /// If the item or a row is malformed.
    pub fn add_item(&mut self, item: &[u8]) -> Result<u64, WorkerError> {
        super::compute::item_rows(LINEITEM, 0, item, &mut |rows| self.add_rows(rows))
    }

    /// Rows seen, including those that count in no group.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The part in the form that [`super::QueryResult::merge`] adds up; its join is empty.
    pub fn into_result(self) -> ComputeResult {
        ComputeResult {
            rows: RowCounts {
                orders: 0,
                lineitem: self.rows,
            },
            q1: self.aggregate.into_rows().0,
            join: Vec::new(),
        }
    }
}

/// Takes the line items of one consumer of a balanced flow, and answers its part of Q1.
#[derive(Debug)]
pub struct Q1Worker {
    input: Option<Input>,
    partial: Q1Partial,
    end: Option<Result<(), WorkerError>>,
}

impl Q1Worker {
    /// A worker over a consuming end.
    pub fn new(consumer: Consumer) -> Self {
        Self {
            input: Some(Input::new(LINEITEM, consumer)),
            partial: Q1Partial::default(),
            end: None,
        }
    }

    /// Consumes whole items of about `rows_max` rows in total, at least one item.
    pub fn step(&mut self, rows_max: usize) -> WorkerStep {
        let partial = &mut self.partial;
        step(
            &mut self.input,
            &mut self.end,
            LineitemRow::BYTES,
            |input| Input::take(input, rows_max, |rows| partial.add_rows(rows)),
        )
    }

    /// Rows taken so far.
    pub fn rows(&self) -> u64 {
        self.partial.rows()
    }

    /// Its part of the answer.
    ///
    /// # Errors
    /// If the worker has given up or is not done.
    pub fn into_result(self) -> Result<ComputeResult, WorkerError> {
        self.end
            .unwrap_or(Err(WorkerError::NotDone { table: LINEITEM }))
            .map(|()| self.partial.into_result())
    }
}

/// Takes all orders at one consumer of a replicated flow, and computes a digest of them.
#[derive(Debug)]
pub struct ReplicaWorker {
    input: Option<Input>,
    digest: RowsDigest,
    end: Option<Result<(), WorkerError>>,
}

impl ReplicaWorker {
    /// A worker over a consuming end.
    pub fn new(consumer: Consumer) -> Self {
        Self {
            input: Some(Input::new(ORDERS, consumer)),
            digest: RowsDigest::default(),
            end: None,
        }
    }

    /// Consumes whole items of about `rows_max` rows in total, at least one item.
    pub fn step(&mut self, rows_max: usize) -> WorkerStep {
        let digest = &mut self.digest;
        step(&mut self.input, &mut self.end, OrderRow::BYTES, |input| {
            Input::take(input, rows_max, |rows: &[[u8; OrderRow::BYTES]]| {
                rows.iter().for_each(|row| digest.add(row));
                Ok(())
            })
        })
    }

    /// Rows taken so far.
    pub fn rows(&self) -> u64 {
        self.digest.rows
    }

    /// The digest of the rows.
    ///
    /// # Errors
    /// If the worker has given up or is not done.
    pub fn into_result(self) -> Result<RowsDigest, WorkerError> {
        self.end
            .unwrap_or(Err(WorkerError::NotDone { table: ORDERS }))
            .map(|()| self.digest)
    }
}

/// One step of a worker that takes from a single flow. On a malformed item it leaves the flow, so
/// that producers are notified.
fn step(
    input: &mut Option<Input>,
    end: &mut Option<Result<(), WorkerError>>,
    row_bytes: usize,
    take: impl FnOnce(&mut Option<Input>) -> Result<Batch, WorkerError>,
) -> WorkerStep {
    match end {
        Some(Ok(())) => return WorkerStep::Done,
        Some(Err(_)) => return WorkerStep::Aborted,
        None => {}
    }
    match take(input) {
        Ok(Batch::Rows(rows)) => WorkerStep::Worked {
            rows,
            bytes: rows * row_bytes as u64,
        },
        Ok(Batch::Empty) => WorkerStep::Blocked,
        Ok(Batch::Ended) => {
            *end = Some(Ok(()));
            WorkerStep::Done
        }
        Err(error) => {
            *end = Some(Err(error));
            if let Some(input) = input.take() {
                input.leave();
            }
            WorkerStep::Aborted
        }
    }
}
