//! Traffic without a query: batches that cost nothing to make, from all workers to all others.
//!
//! The plan has two stages of the engine's own operators, with a leaf and a sink of this module:
//!
//! ```text
//! CoalescePartitionsExec
//!   NetworkCoalesceExec                a row of each consumer
//!     [stage 2: a task for each worker]
//!     CountExec                        counts what arrives
//!       NetworkCoalesceExec            reads a task at each of the other workers
//!         [stage 1: at each worker, a task for each other one]
//!         SourceExec                   the same few batches again and again
//! ```
//!
//! So each transport executes it as it executes queries: the coordinator sends the tasks, and the
//! operator at the end of a stage pulls the partitions of the tasks below. A shuffle would have
//! one task for all consumers at each producer; but the engine hashes every row for it and copies
//! all columns once more, which would be measured too. The consumers' requests are the same, one to
//! each producer, for a range of partitions.
//!
//! Tasks are [routed](routes) so that no consumer reads from its own process: the engine moves
//! such batches without the transport.

mod codec;
mod count;
mod sample;
mod source;

pub use codec::TrafficCodec;
pub use sample::Totals;

use count::CountExec;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion_distributed::{
    DistributedExec, NetworkBoundary, NetworkCoalesceExec, RouteTasksEvent,
    RouteTasksEventResponse, RouteTasksHandler, Stage,
};
use sample::Sample;
use source::SourceExec;
use std::sync::Arc;
use url::Url;
use uuid::Uuid;

/// What is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Workers, at least 2. Each sends to each other one.
    pub workers: usize,
    /// Partitions that a consumer reads from a producer.
    pub partitions: usize,
    /// Batches of each partition.
    pub batches: usize,
    /// Rows of each batch.
    pub batch_rows: usize,
}

impl Traffic {
    /// Moves at least `bytes` in all.
    pub fn new(workers: usize, partitions: usize, batch_rows: usize, bytes: u64) -> Self {
        let one = Self {
            workers,
            partitions,
            batches: 1,
            batch_rows,
        };
        let batches = bytes.div_ceil(one.total().bytes).max(1);
        Self {
            batches: usize::try_from(batches).unwrap_or(usize::MAX),
            ..one
        }
    }

    /// What each consumer gets.
    pub fn per_consumer(&self) -> Totals {
        let sample = Sample::of(self.batch_rows);
        let partitions = 0..self.partitions;
        let partition = partitions.map(|partition| sample.totals(partition, self.batches));
        partition.sum::<Totals>().times(self.workers - 1)
    }

    /// What all consumers get.
    pub fn total(&self) -> Totals {
        self.per_consumer().times(self.workers)
    }

    /// The plan; its result is for [`Self::check`]. `query` distinguishes executions.
    ///
    /// # Errors
    /// There are no two workers.
    pub fn plan(&self, query: Uuid) -> Result<Arc<dyn ExecutionPlan>> {
        let producers = self.workers * (self.workers - 1);
        let source = Arc::new(SourceExec::new(
            self.partitions,
            self.batches,
            self.batch_rows,
        ));
        let read = NetworkCoalesceExec::try_new(source, producers, self.workers)?;
        let count = Arc::new(CountExec::new(stage(&read, query, 1)?, self.partitions));
        let gather = NetworkCoalesceExec::try_new(count, self.workers, 1)?;
        let plan = CoalescePartitionsExec::new(stage(&gather, query, 2)?);
        let plan = DistributedExec::new(Arc::new(plan)).with_metrics_collection(true);
        Ok(Arc::new(plan))
    }

    /// Checks the result of the plan: a row of each consumer with what it got.
    ///
    /// # Errors
    /// A consumer did not get what it must, or is missing.
    pub fn check(&self, result: &[RecordBatch]) -> Result<(), String> {
        let expected = self.per_consumer();
        let got: Vec<Totals> = result.iter().flat_map(count::read).collect();
        if got.len() != self.workers {
            let (got, workers) = (got.len(), self.workers);
            return Err(format!("{got} of {workers} consumers have counted"));
        }
        match got.into_iter().find(|got| *got != expected) {
            Some(got) => Err(format!("a consumer got {got}, not {expected}")),
            None => Ok(()),
        }
    }
}

/// Gives the stage below a boundary its number. The planner does that for plans of queries.
fn stage(
    boundary: &NetworkCoalesceExec,
    query_id: Uuid,
    num: usize,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut stage = boundary.input_stage().clone();
    if let Stage::Local(local) = &mut stage {
        local.query_id = query_id;
        local.num = num;
    }
    Ok(boundary.with_input_stage(stage)?)
}

/// Places the tasks of [`Traffic`]: consumer `i` at worker `i`, and its producers at the others.
pub fn routes(workers: Vec<Url>) -> impl RouteTasksHandler {
    move |event: RouteTasksEvent<'_>| {
        let place = |worker: usize| workers[worker % workers.len()].clone();
        let others = workers.len() - 1;
        let urls: Vec<Url> = if event.plan.is::<CountExec>() {
            (0..event.task_count).map(place).collect()
        } else if event.plan.is::<SourceExec>() {
            // The engine has a consumer read tasks that follow each other.
            let of_task = |task: usize| place(task / others + 1 + task % others);
            (0..event.task_count).map(of_task).collect()
        } else {
            return None;
        };
        Some(Ok(RouteTasksEventResponse::new(urls)))
    }
}

#[cfg(test)]
mod tests;
