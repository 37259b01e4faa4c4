//! The sink: a task that counts what it reads.

use super::sample::Totals;
use datafusion::arrow::array::{ArrayRef, AsArray as _, Int64Array, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, UInt64Type};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties as _, PlanProperties,
};
use futures::stream::{self, SelectAll};
use futures::{StreamExt as _, TryStreamExt as _};
use std::fmt;
use std::sync::Arc;

/// Reads its input to the end, and gives one row: the [`Totals`].
#[derive(Debug)]
pub struct CountExec {
    input: Arc<dyn ExecutionPlan>,
    /// Tasks that read at the same time, as the operators above a shuffle do.
    pub readers: usize,
    properties: Arc<PlanProperties>,
}

impl CountExec {
    /// Of all partitions of `input`. Reader `i` reads partition `i` of each producer.
    pub fn new(input: Arc<dyn ExecutionPlan>, readers: usize) -> Self {
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        ));
        Self {
            input,
            readers,
            properties,
        }
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("rows", DataType::UInt64, false),
        Field::new("bytes", DataType::UInt64, false),
        Field::new("sum", DataType::Int64, false),
    ]))
}

/// The rows of a result.
pub fn read(batch: &RecordBatch) -> Vec<Totals> {
    let rows = batch.column(0).as_primitive::<UInt64Type>().values();
    let bytes = batch.column(1).as_primitive::<UInt64Type>().values();
    let sums = batch.column(2).as_primitive::<Int64Type>().values();
    let columns = rows.iter().zip(bytes).zip(sums);
    columns
        .map(|((&rows, &bytes), &sum)| Totals { rows, bytes, sum })
        .collect()
}

/// A row of a result.
pub fn write(totals: &Totals) -> Result<RecordBatch> {
    let Totals { rows, bytes, sum } = *totals;
    let count = |count: u64| -> ArrayRef { Arc::new(UInt64Array::from(vec![count])) };
    let sum: ArrayRef = Arc::new(Int64Array::from(vec![sum]));
    let columns = vec![count(rows), count(bytes), sum];
    Ok(RecordBatch::try_new(schema(), columns)?)
}

async fn count(mut batches: SelectAll<SendableRecordBatchStream>) -> Result<Totals> {
    let mut totals = Totals::default();
    while let Some(batch) = batches.try_next().await? {
        totals = totals.plus(Totals::of(&batch));
    }
    Ok(totals)
}

impl DisplayAs for CountExec {
    fn fmt_as(&self, _: DisplayFormatType, formatter: &mut fmt::Formatter) -> fmt::Result {
        write!(formatter, "CountExec: readers={}", self.readers)
    }
}

impl ExecutionPlan for CountExec {
    fn name(&self) -> &'static str {
        "CountExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.pop() else {
            return internal_err!("CountExec has an input");
        };
        Ok(Arc::new(Self::new(input, self.readers)))
    }

    fn execute(
        &self,
        _partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let partitions = self.input.output_partitioning().partition_count();
        let mut readers = Vec::with_capacity(self.readers);
        for reader in 0..self.readers {
            let partitions = (reader..partitions).step_by(self.readers);
            let streams = partitions.map(|partition| {
                let context = Arc::clone(&context);
                self.input.execute(partition, context)
            });
            let streams = stream::select_all(streams.collect::<Result<Vec<_>>>()?);
            readers.push(SpawnedTask::spawn(count(streams)));
        }
        let counted = async move {
            let mut totals = Vec::with_capacity(readers.len());
            for reader in readers {
                let counted = reader.await;
                totals.push(counted.map_err(|error| DataFusionError::External(Box::new(error)))??);
            }
            write(&totals.into_iter().sum())
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(
            schema(),
            stream::once(counted).boxed(),
        )))
    }
}
