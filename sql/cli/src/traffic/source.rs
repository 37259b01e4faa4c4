//! The leaf: a task that makes batches.

use super::sample::{Sample, schema};
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::stream;
use std::fmt;
use std::sync::Arc;

/// Partitions of batches that were made before.
#[derive(Debug)]
pub struct SourceExec {
    pub partitions: usize,
    pub batches: usize,
    pub batch_rows: usize,
    /// Made with the plan, so that its execution does not wait for it.
    sample: Arc<Sample>,
    properties: Arc<PlanProperties>,
}

impl SourceExec {
    /// With so many batches in each partition.
    pub fn new(partitions: usize, batches: usize, batch_rows: usize) -> Self {
        Self {
            partitions,
            batches,
            batch_rows,
            sample: Sample::of(batch_rows),
            properties: Arc::new(PlanProperties::new(
                EquivalenceProperties::new(schema()),
                Partitioning::UnknownPartitioning(partitions),
                EmissionType::Incremental,
                Boundedness::Bounded,
            )),
        }
    }
}

impl DisplayAs for SourceExec {
    fn fmt_as(&self, _: DisplayFormatType, formatter: &mut fmt::Formatter) -> fmt::Result {
        let Self {
            batches,
            batch_rows,
            ..
        } = self;
        write!(
            formatter,
            "SourceExec: batches={batches}, batch_rows={batch_rows}"
        )
    }
}

impl ExecutionPlan for SourceExec {
    fn name(&self) -> &'static str {
        "SourceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let sample = Arc::clone(&self.sample);
        let batches = (0..self.batches).map(move |index| Ok(sample.batch(partition, index)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema(),
            stream::iter(batches),
        )))
    }
}
