//! Executes a statement and measures it.

use crate::error::CommandError;
use crate::processes::cpu_seconds;
use crate::table::Table;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::TaskContext;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionContext;
use datafusion_distributed::{
    DistributedMetricsFormat, display_plan_ascii, rewrite_distributed_plan_with_metrics,
};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long the workers' metrics may take to arrive after the rows.
const METRICS_LIMIT: Duration = Duration::from_secs(5);

/// The metric in which transports count the bytes that the receiver of batches got.
const BYTES_METRIC: &str = "bytes_transferred";

/// The metric of the most bytes that had arrived and waited to be taken: at a node over Rackweave,
/// in a connection over Flight.
const WAITING_METRIC: &str = "max_mem_used";

/// The metric in which scans of storage nodes count the bytes of the columns that they fetched.
const FETCHED_METRIC: &str = "bytes_fetched";

/// What an execution took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Measurement {
    /// From the text of the query to its last row.
    pub seconds: f64,
    /// CPU time of this process and of the local processes: workers, and a switch.
    pub cpu_seconds: f64,
    /// Bytes that went from process to process, encoded as the transport has them. `None` if the
    /// query was not divided, or the workers did not report.
    pub exchange_bytes: Option<usize>,
    /// The most bytes that had arrived at a node and waited to be taken.
    pub waiting_bytes_max: Option<usize>,
    /// Bytes of columns that came from storage nodes. `None` if the query read none.
    pub fetched_bytes: Option<usize>,
    /// Rows of the result.
    pub rows: usize,
}

/// A finished execution.
#[derive(Debug)]
pub struct Execution {
    /// What it took.
    pub measurement: Measurement,
    /// The result.
    pub batches: Vec<RecordBatch>,
    schema: SchemaRef,
    logical_plan: LogicalPlan,
}

impl Execution {
    /// The result, for comparison.
    ///
    /// # Errors
    /// A column has a type that cannot be printed.
    pub fn table(&self) -> Result<Table, CommandError> {
        Table::read(&self.schema, &self.batches, &self.logical_plan)
    }
}

/// Executes a statement. `processes` are those whose CPU time counts beside this process's own.
///
/// # Errors
/// The statement is wrong, or its execution fails.
pub async fn execute(
    context: &SessionContext,
    sql: &str,
    processes: &[u32],
) -> Result<Execution, CommandError> {
    let clock = Clock::start(processes);
    let frame = context.sql(sql).await?;
    let (state, logical_plan) = frame.into_parts();
    let plan = state.create_physical_plan(&logical_plan).await?;
    let schema = plan.schema();
    let (measurement, batches) = clock.execute(plan, state.task_ctx()).await?;
    Ok(Execution {
        measurement,
        batches,
        schema,
        logical_plan,
    })
}

/// Executes a plan and measures it, as [`execute`] does.
///
/// # Errors
/// The execution fails.
pub async fn execute_plan(
    plan: Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    processes: &[u32],
) -> Result<(Measurement, Vec<RecordBatch>), CommandError> {
    Clock::start(processes).execute(plan, context).await
}

/// Measures since it was started.
struct Clock<'a> {
    processes: &'a [u32],
    cpu: f64,
    start: Instant,
}

impl<'a> Clock<'a> {
    fn start(processes: &'a [u32]) -> Self {
        Self {
            processes,
            cpu: cpu_seconds(processes),
            start: Instant::now(),
        }
    }

    async fn execute(
        self,
        plan: Arc<dyn ExecutionPlan>,
        context: Arc<TaskContext>,
    ) -> Result<(Measurement, Vec<RecordBatch>), CommandError> {
        let batches = collect(Arc::clone(&plan), context).await?;
        let seconds = self.start.elapsed().as_secs_f64();
        let cpu_seconds = cpu_seconds(self.processes) - self.cpu;
        let transfers = Transfers::of(plan).await;
        let measurement = Measurement {
            seconds,
            cpu_seconds,
            exchange_bytes: transfers.exchanged,
            waiting_bytes_max: transfers.waiting_max,
            fetched_bytes: transfers.fetched,
            rows: batches.iter().map(RecordBatch::num_rows).sum(),
        };
        Ok((measurement, batches))
    }
}

/// The physical plan of a statement, with its stages, as text.
///
/// # Errors
/// The statement is wrong.
pub async fn explain(context: &SessionContext, sql: &str) -> Result<String, CommandError> {
    let plan = context.sql(sql).await?.create_physical_plan().await?;
    Ok(display_plan_ascii(plan.as_ref(), false))
}

/// Bytes that went from process to process, as the metrics of a plan count them.
#[derive(Debug, Clone, Copy, Default)]
struct Transfers {
    exchanged: Option<usize>,
    /// The most that waited at a node.
    waiting_max: Option<usize>,
    fetched: Option<usize>,
}

impl Transfers {
    async fn of(plan: Arc<dyn ExecutionPlan>) -> Self {
        let rewritten =
            rewrite_distributed_plan_with_metrics(plan, DistributedMetricsFormat::PerTask);
        let rewritten = tokio::time::timeout(METRICS_LIMIT, rewritten).await;
        let mut transfers = Self::default();
        if let Ok(Ok(plan)) = rewritten {
            let applied = plan.apply(|node| {
                transfers.add(node.metrics().as_ref());
                Ok(TreeNodeRecursion::Continue)
            });
            applied.expect("nothing in it fails");
        }
        transfers
    }

    fn add(&mut self, metrics: Option<&MetricsSet>) {
        let sum = |total: Option<usize>, bytes| Some(total.unwrap_or(0) + bytes);
        for metric in metrics.into_iter().flat_map(MetricsSet::iter) {
            let (value, bytes) = (metric.value(), metric.value().as_usize());
            match value.name() {
                BYTES_METRIC => {
                    self.exchanged = sum(self.exchanged, bytes);
                    self.waiting_max = self.waiting_max.or(Some(0));
                }
                WAITING_METRIC => {
                    self.exchanged = self.exchanged.or(Some(0));
                    self.waiting_max = self.waiting_max.max(Some(bytes));
                }
                FETCHED_METRIC => self.fetched = sum(self.fetched, bytes),
                _ => {}
            }
        }
    }
}
