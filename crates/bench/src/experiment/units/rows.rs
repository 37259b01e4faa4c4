//! The rows that storage nodes send, and the aggregate that processing units make of them.
//!
//! Rows come from the workload's own storage worker, so that they are the very bytes of the demo.
//! It gives them only into flows; so they are brought here through a rack in this process, before
//! virtual time begins.

use crate::experiment::ExperimentError;
use rackweave_base::NodeId;
use rackweave_endpoint::flow::{Consumer, Partitioner, Taken};
use rackweave_rack::config::{NodeConfig, Role};
use rackweave_rack::{EmbeddedRack, Flow, RackConfig};
use rackweave_verbs::Progress;
use rackweave_workload::tpch::{
    ComputeResult, LineStatus, LineitemRow, OrderRow, Q1_SHIP_DATE_MAX, Q1Row, ReturnFlag,
    RowCounts, ScaleFactor, StorageWorker, WorkerStep,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of an encoded row of `lineitem`.
pub const ROW: usize = LineitemRow::BYTES;

/// Items and rings of the flow through which rows are brought here.
const ITEM_SIZE: u32 = 64 << 10;
const RING_BYTES: u32 = 1 << 20;

/// Rows that the worker pushes at a time.
const ROWS_PER_STEP: usize = 1 << 14;

/// Rounds without a row moved after which something must be wrong. A round drives the whole rack.
const IDLE_ROUNDS_MAX: u32 = 10_000_000;

/// All rows of `lineitem`, in the order of their keys.
#[derive(Clone)]
pub struct Rows(Arc<[u8]>);

impl Rows {
    /// The rows of a scale factor.
    ///
    /// # Errors
    /// If the rack that brings them could not be built or gave up.
    pub fn generate(scale: ScaleFactor) -> Result<Self, ExperimentError> {
        let node = |name, role| NodeConfig::new(name, role);
        let config = RackConfig {
            node: vec![
                node("storage", Role::Storage),
                node("compute", Role::Compute),
            ],
            driver_threads: 0,
            ..RackConfig::default()
        };
        let rack = EmbeddedRack::new(&config)?;
        let flow = || -> Result<Flow, ExperimentError> {
            let spec = rack.flow_spec(&[NodeId(0)], &[NodeId(1)], ITEM_SIZE, RING_BYTES);
            Ok(rack.create_flow(spec)?)
        };
        let flows = [flow()?, flow()?];
        let ring = |flow: &Flow| flow.producers(0).map_err(broken);
        let mut worker = StorageWorker::new(
            scale,
            0,
            1,
            Partitioner::new(ring(&flows[0])?, OrderRow::BYTES),
            Partitioner::new(ring(&flows[1])?, ROW),
        )
        .map_err(broken)?;
        let mut consumers = [
            flows[0].consumer(0).map_err(broken)?,
            flows[1].consumer(0).map_err(broken)?,
        ];
        let mut rows = Vec::new();
        bring(&mut worker, &mut consumers, &*rack.progress(), &mut rows)?;
        Ok(Self(rows.into()))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len() / ROW
    }

    /// The bytes of some neighbouring rows.
    ///
    /// # Panics
    /// If there are not that many rows.
    pub fn bytes(&self, rows: Range<usize>) -> &[u8] {
        &self.0[rows.start * ROW..rows.end * ROW]
    }
}

fn broken(error: impl core::fmt::Display) -> ExperimentError {
    ExperimentError::Run(format!("rows cannot be generated: {error}"))
}

/// Has the worker push all it has and collects the line items.
fn bring(
    worker: &mut StorageWorker,
    consumers: &mut [Consumer; 2],
    rack: &dyn Progress,
    rows: &mut Vec<u8>,
) -> Result<(), ExperimentError> {
    let mut idle = 0;
    while idle < IDLE_ROUNDS_MAX {
        idle += 1;
        match worker.step(ROWS_PER_STEP) {
            WorkerStep::Worked { .. } => idle = 0,
            WorkerStep::Blocked | WorkerStep::Done => {}
            WorkerStep::Aborted => {
                let why = worker.error().map(|error| error.to_string());
                return Err(broken(why.unwrap_or_default()));
            }
        }
        rack.drive();
        let [orders, lineitem] = consumers;
        take(orders, &mut |_| {})?;
        if take(lineitem, &mut |row| rows.extend_from_slice(row))? {
            return Ok(());
        }
    }
    Err(broken("no row has moved for a long time"))
}

/// Takes what is there; true at the end.
fn take(consumer: &mut Consumer, add: &mut dyn FnMut(&[u8])) -> Result<bool, ExperimentError> {
    loop {
        match consumer.peek(1) {
            Taken::Items(item) => {
                // Orders are not looked at, so that their rows need not be told apart.
                if let Some(rows) = Partitioner::rows(item, ROW) {
                    rows.for_each(&mut *add);
                }
                consumer.release(1);
            }
            Taken::Empty => return Ok(false),
            Taken::Ended => return Ok(true),
            Taken::Aborted => return Err(broken("their flow was broken off")),
        }
    }
}

/// One unit's part of query 1 (TPC-H specification 2.4.1), over the rows that it was given.
#[derive(Default)]
pub struct Partial {
    rows: u64,
    groups: BTreeMap<(ReturnFlag, LineStatus), Q1Row>,
}

impl Partial {
    /// Adds all rows of an item and gives their number.
    ///
    /// # Errors
    /// A description if the item or a row is malformed.
    pub fn add_item(&mut self, item: &[u8]) -> Result<u64, String> {
        let rows = Partitioner::rows(item, ROW).ok_or("an item is malformed")?;
        let before = self.rows;
        for row in rows {
            let row = row.first_chunk().ok_or("a row is cut off")?;
            let row = LineitemRow::decode(row).map_err(|error| error.to_string())?;
            self.rows += 1;
            if row.ship_date <= Q1_SHIP_DATE_MAX {
                self.add(&row);
            }
        }
        Ok(self.rows - before)
    }

    fn add(&mut self, row: &LineitemRow) {
        let group = (row.return_flag, row.line_status);
        let sums = self.groups.entry(group).or_insert(Q1Row {
            return_flag: row.return_flag,
            line_status: row.line_status,
            sum_qty: 0,
            sum_base_price: 0,
            sum_disc_price: 0,
            sum_charge: 0,
            sum_discount: 0,
            count: 0,
        });
        let wide = i128::from;
        let disc_price = wide(row.extended_price) * (100 - wide(row.discount));
        sums.sum_qty += wide(row.quantity);
        sums.sum_base_price += wide(row.extended_price);
        sums.sum_disc_price += disc_price;
        sums.sum_charge += disc_price * (100 + wide(row.tax));
        sums.sum_discount += wide(row.discount);
        sums.count += 1;
    }

    /// Rows seen, also those that no group counts.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The part as the workload adds parts up.
    pub fn result(&self) -> ComputeResult {
        ComputeResult {
            rows: RowCounts {
                orders: 0,
                lineitem: self.rows,
            },
            q1: self.groups.values().copied().collect(),
            join: Vec::new(),
        }
    }
}
