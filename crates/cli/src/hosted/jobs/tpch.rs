//! The workers of the demo.

use super::meeting::Meetings;
use super::{STOPPED, run};
use crate::patience::Wish;
use crate::tpch::{self as work, Worker};
use rackweave_endpoint::flow::{ITEM_HEADER, Partitioner, Producer};
use rackweave_rack::hosted::{Job, RingName};
use rackweave_workload::tpch::{
    ComputeResult, ComputeWorker, LineitemRow, OrderRow, RowCounts, ScaleFactor, StorageWorker,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Instant;

/// Generates a share of the rows, reports their number at its meeting, and pushes them when
/// requested. Its progress is the rows generated, then the rows pushed.
pub const STORAGE: &str = "tpch-storage";

/// Takes rows, answers both queries over them, and returns its [`ComputeResult`]. Its progress is
/// rows.
pub const COMPUTE: &str = "tpch-compute";

/// The arguments of [`STORAGE`].
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct StorageArguments {
    /// As text, exactly.
    pub scale_factor: String,
    /// The number of the share, counted from zero.
    pub part: u32,
    /// The total number of shares.
    pub parts: u32,
    /// The rings of `orders`, one per compute worker.
    pub orders: Vec<RingName>,
    /// Those of `lineitem`.
    pub lineitem: Vec<RingName>,
    /// The number of its meeting.
    pub meeting: u64,
}

/// What [`STORAGE`] returns.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct StorageFound {
    /// Rows pushed.
    pub pushed: RowCounts,
    /// How long it took to generate them.
    pub generate_seconds: f64,
    /// How long it took to push them, until the switch had taken the last.
    pub push_seconds: f64,
}

/// The arguments of [`COMPUTE`].
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct ComputeArguments {
    /// The ring of `orders`.
    pub orders: RingName,
    /// That of `lineitem`.
    pub lineitem: RingName,
}

/// The job [`STORAGE`].
///
/// # Errors
/// If arguments are invalid, the flow is aborted, or it is stopped.
pub fn store(
    arguments: StorageArguments,
    meetings: &Meetings,
    job: &Job,
) -> Result<StorageFound, String> {
    let scale: ScaleFactor = arguments.scale_factor.parse().map_err(text)?;
    let orders = partitioner(&arguments.orders, OrderRow::BYTES, job)?;
    let lineitem = partitioner(&arguments.lineitem, LineitemRow::BYTES, job)?;
    let (part, parts) = (arguments.part, arguments.parts);
    let mut worker = StorageWorker::new(scale, part, parts, orders, lineitem).map_err(text)?;
    let inbox = meetings.open(arguments.meeting)?;
    let started = Instant::now();
    let mut generated = 0;
    work::generate(
        &mut worker,
        || job.is_stopped(),
        |rows| {
            generated += rows;
            job.report(generated);
        },
    );
    let generate_seconds = started.elapsed().as_secs_f64();
    inbox.say(Value::from(generated));
    inbox.wait(job)?;
    let started = Instant::now();
    let (step, is_delivered) = (StorageWorker::step, StorageWorker::is_delivered);
    let worker = Worker::source(worker, step, is_delivered);
    let (Worker { work: worker, .. }, ended) = run(worker, job, false, Wish::Stop);
    match worker.error() {
        None if ended == Ok(true) => Ok(StorageFound {
            pushed: worker.pushed(),
            generate_seconds,
            push_seconds: started.elapsed().as_secs_f64(),
        }),
        None => Err(STOPPED.into()),
        Some(error) => Err(text(error)),
    }
}

/// The job [`COMPUTE`].
///
/// # Errors
/// As for [`store`], or an item is malformed.
pub fn compute(arguments: &ComputeArguments, job: &Job) -> Result<ComputeResult, String> {
    let orders = job.consumer(&arguments.orders)?;
    let lineitem = job.consumer(&arguments.lineitem)?;
    let worker = ComputeWorker::new(orders, lineitem);
    let worker = Worker::sink(worker, ComputeWorker::step);
    let (Worker { work: worker, .. }, ended) = run(worker, job, false, Wish::Stop);
    match worker.error() {
        None if ended != Ok(true) => Err(STOPPED.into()),
        _ => worker.into_result().map_err(text),
    }
}

fn partitioner(rings: &[RingName], row: usize, job: &Job) -> Result<Partitioner, String> {
    if rings.is_empty() {
        return Err("a storage worker needs a ring at least".into());
    }
    let made: Result<Vec<Producer>, String> = rings.iter().map(|ring| job.producer(ring)).collect();
    let made = made?;
    let size = rings[0].item_size;
    if rings.iter().any(|ring| ring.item_size != size) || (size as usize) < ITEM_HEADER + row {
        return Err(format!(
            "the rings of a storage worker need items of one size, with room for a row of {row} \
             bytes"
        ));
    }
    Ok(Partitioner::new(made, row))
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
