//! The compute node's worker: takes rows out of flows and answers the queries over them.

use super::aggregate::Aggregate;
use super::result::ComputeResult;
use super::rows::{LineitemRow, OrderRow, RowError};
use super::scale::RowCounts;
use super::worker::{LINEITEM, ORDERS, WorkerError, WorkerStep};
use rackweave_endpoint::flow::{Consumer, ITEM_HEADER, Partitioner, Taken};

/// One compute node's part of both queries.
///
/// It takes all orders before the first line item. Meanwhile the line items' ring may fill; that
/// blocks only their storage nodes, which have no orders left to push. On a malformed item it gives
/// up and leaves both flows, so that producers are notified.
#[derive(Debug)]
pub struct ComputeWorker {
    orders: Option<Input>,
    lineitem: Option<Input>,
    phase: Phase,
    aggregate: Aggregate,
    consumed: RowCounts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Orders,
    Lineitem,
    Done,
    Failed(WorkerError),
}

/// A consuming end and the rows that it receives.
#[derive(Debug)]
pub(super) struct Input {
    table: &'static str,
    consumer: Consumer,
    /// Items taken.
    items: u64,
}

/// The result of taking a batch.
pub(super) enum Batch {
    Rows(u64),
    Empty,
    Ended,
}

impl ComputeWorker {
    /// A worker over the consuming ends of both flows.
    pub fn new(orders: Consumer, lineitem: Consumer) -> Self {
        Self {
            orders: Some(Input::new(ORDERS, orders)),
            lineitem: Some(Input::new(LINEITEM, lineitem)),
            phase: Phase::Orders,
            aggregate: Aggregate::new(),
            consumed: RowCounts::default(),
        }
    }

    /// Consumes whole items of about `rows_max` rows in total, at least one item.
    pub fn step(&mut self, rows_max: usize) -> WorkerStep {
        let before = self.consumed;
        let mut left = rows_max.max(1);
        while left > 0 {
            match self.advance(left) {
                Ok(Some(rows)) => left = left.saturating_sub(rows as usize),
                Ok(None) => break,
                Err(error) => self.fail(error),
            }
        }
        let consumed = RowCounts {
            orders: self.consumed.orders - before.orders,
            lineitem: self.consumed.lineitem - before.lineitem,
        };
        match self.phase {
            Phase::Failed(_) => WorkerStep::Aborted,
            _ if consumed.total() > 0 => WorkerStep::Worked {
                rows: consumed.total(),
                bytes: consumed.bytes(),
            },
            Phase::Done => WorkerStep::Done,
            _ => WorkerStep::Blocked,
        }
    }

    /// Consumes a batch; returns the number of its rows, or `None` if there is nothing to do now.
    fn advance(&mut self, rows_max: usize) -> Result<Option<u64>, WorkerError> {
        let (batch, consumed, next) = match self.phase {
            Phase::Orders => {
                let aggregate = &mut self.aggregate;
                let batch = Input::take(&mut self.orders, rows_max, |rows| {
                    one_by_one(rows, |row| aggregate.order(row))
                })?;
                (batch, &mut self.consumed.orders, Phase::Lineitem)
            }
            Phase::Lineitem => {
                let aggregate = &mut self.aggregate;
                let batch =
                    Input::take(&mut self.lineitem, rows_max, |rows| aggregate.lines(rows))?;
                (batch, &mut self.consumed.lineitem, Phase::Done)
            }
            Phase::Done | Phase::Failed(_) => return Ok(None),
        };
        match batch {
            Batch::Rows(rows) => {
                *consumed += rows;
                Ok(Some(rows))
            }
            Batch::Empty => Ok(None),
            Batch::Ended => {
                self.phase = next;
                Ok(Some(0))
            }
        }
    }

    fn fail(&mut self, error: WorkerError) {
        self.phase = Phase::Failed(error);
        for input in [self.orders.take(), self.lineitem.take()]
            .into_iter()
            .flatten()
        {
            input.leave();
        }
    }

    /// Rows consumed so far.
    pub fn consumed(&self) -> RowCounts {
        self.consumed
    }

    /// Why the worker has given up, if it has.
    pub fn error(&self) -> Option<WorkerError> {
        match self.phase {
            Phase::Failed(error) => Some(error),
            _ => None,
        }
    }

    /// This node's part of the results.
    ///
    /// # Errors
    /// If the worker has given up or is not done.
    pub fn into_result(self) -> Result<ComputeResult, WorkerError> {
        match self.phase {
            Phase::Orders => Err(WorkerError::NotDone { table: ORDERS }),
            Phase::Lineitem => Err(WorkerError::NotDone { table: LINEITEM }),
            Phase::Failed(error) => Err(error),
            Phase::Done => {
                let (q1, join) = self.aggregate.into_rows();
                Ok(ComputeResult {
                    rows: self.consumed,
                    q1,
                    join,
                })
            }
        }
    }
}

/// Required so that every packet of an item begins at the header or at a row, whatever the MTU.
const _: () = assert!(
    ITEM_HEADER.is_multiple_of(OrderRow::BYTES) && ITEM_HEADER.is_multiple_of(LineitemRow::BYTES)
);

impl Input {
    pub(super) fn new(table: &'static str, consumer: Consumer) -> Self {
        Self {
            table,
            consumer,
            items: 0,
        }
    }

    /// Leaves the flow, which notifies the producers.
    pub(super) fn leave(self) {
        self.consumer.leave();
    }

    /// Takes contiguous items of about `rows_max` rows and passes the rows of each to `add`.
    pub(super) fn take<const ROW: usize>(
        input: &mut Option<Self>,
        rows_max: usize,
        mut add: impl FnMut(&[[u8; ROW]]) -> Result<(), (usize, RowError)>,
    ) -> Result<Batch, WorkerError> {
        let Self {
            table,
            consumer,
            items: taken,
        } = input.as_mut().expect("inputs are given up only on failure");
        let item_size = consumer.item_size() as usize;
        let rows_per_item = rows_max_of(item_size, ROW).max(1);
        let items_max = u32::try_from(rows_max / rows_per_item).unwrap_or(u32::MAX);
        let mut rows = Ok(0);
        let end = consumer.take_each(items_max, |item| {
            if let Ok(before) = rows {
                rows = item_rows(table, *taken, item, &mut add).map(|count| before + count);
                *taken += 1;
            }
        });
        match end {
            Taken::Items(_) => rows.map(Batch::Rows),
            Taken::Empty => Ok(Batch::Empty),
            Taken::Ended => Ok(Batch::Ended),
            Taken::Aborted => Err(WorkerError::Aborted { table }),
        }
    }
}

/// Passes each row to `add`. The index of a row that it refuses is part of the error.
pub(super) fn one_by_one<const ROW: usize>(
    rows: &[[u8; ROW]],
    mut add: impl FnMut(&[u8; ROW]) -> Result<(), RowError>,
) -> Result<(), (usize, RowError)> {
    let mut rows = rows.iter().enumerate();
    rows.try_for_each(|(at, row)| add(row).map_err(|error| (at, error)))
}

/// Passes the rows of an item to `add`; returns their number.
pub(super) fn item_rows<const ROW: usize>(
    table: &'static str,
    item: u64,
    bytes: &[u8],
    add: &mut impl FnMut(&[[u8; ROW]]) -> Result<(), (usize, RowError)>,
) -> Result<u64, WorkerError> {
    let rows = Partitioner::row_bytes(bytes, ROW).map(<[u8]>::as_chunks);
    match rows {
        // No producer sends an item without rows.
        Some((rows, _)) if !rows.is_empty() => {
            add(rows).map_err(|(row, error)| WorkerError::Row {
                table,
                item,
                row: row as u64,
                error,
            })?;
            Ok(rows.len() as u64)
        }
        _ => Err(WorkerError::Item {
            table,
            item,
            rows_max: rows_max_of(bytes.len(), ROW),
        }),
    }
}

/// Maximum rows of an item.
fn rows_max_of(item_bytes: usize, row_bytes: usize) -> usize {
    item_bytes.saturating_sub(ITEM_HEADER) / row_bytes
}
