//! The leaf of a plan that reads columns of storage nodes.

use std::fmt::{self, Formatter};
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, Statistics, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, StatisticsArgs,
};
use datafusion_distributed::{BytesCounterMetric, BytesMetricExt as _};
use futures::future::ready;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _};
use rackweave::columns::ColumnData;

use super::client::StorageClient;
use super::column_name;
use super::error::StorageError;
use super::values::{carried, to_array};

/// Chunks of a partition that are in flight or wait while another one is consumed.
const CHUNKS_AHEAD: usize = 1;

/// A chunk that a scan reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScanChunk {
    /// The storage node that has it.
    pub node: Arc<str>,
    /// Its number in the table.
    pub number: u32,
    /// Its rows.
    pub rows: u64,
    /// The bytes of the columns that are read.
    pub bytes: u64,
}

/// Reads some columns of some chunks of a table.
#[derive(Clone, Debug)]
pub struct ColumnScanExec {
    table: Arc<str>,
    schema: SchemaRef,
    partitions: Vec<Vec<ScanChunk>>,
    /// Rows after which a partition ends.
    limit: Option<usize>,
    client: StorageClient,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl ColumnScanExec {
    /// A scan of the columns in `schema`, in these partitions.
    #[must_use]
    pub fn new(
        table: Arc<str>,
        schema: SchemaRef,
        partitions: Vec<Vec<ScanChunk>>,
        limit: Option<usize>,
        client: StorageClient,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            table,
            schema,
            partitions,
            limit,
            client,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The same scan of other chunks.
    #[must_use]
    pub fn with_partitions(&self, partitions: Vec<Vec<ScanChunk>>) -> Self {
        let Self { table, schema, .. } = self;
        let (table, schema) = (Arc::clone(table), Arc::clone(schema));
        Self::new(table, schema, partitions, self.limit, self.client.clone())
    }

    /// The name of the table.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The chunks of each partition.
    #[must_use]
    pub fn partitions(&self) -> &[Vec<ScanChunk>] {
        &self.partitions
    }

    /// Rows after which a partition ends.
    #[must_use]
    pub fn limit(&self) -> Option<usize> {
        self.limit
    }

    /// The bytes of all columns and chunks.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.chunks(None).map(|chunk| chunk.bytes).sum()
    }

    fn chunks(&self, partition: Option<usize>) -> impl Iterator<Item = &ScanChunk> {
        let partitions = match partition {
            Some(partition) => self.partitions.get(partition..=partition).unwrap_or(&[]),
            None => &self.partitions,
        };
        partitions.iter().flatten()
    }
}

impl DisplayAs for ColumnScanExec {
    fn fmt_as(&self, _kind: DisplayFormatType, f: &mut Formatter<'_>) -> fmt::Result {
        let fields = self.schema.fields().iter();
        let names: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
        let chunks = self.chunks(None).count();
        write!(
            f,
            "ColumnScanExec: table={}, chunks={chunks}, partitions={}, projection=[{}]",
            self.table,
            self.partitions.len(),
            names.join(", ")
        )?;
        match self.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for ColumnScanExec {
    fn name(&self) -> &'static str {
        "ColumnScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _apply: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !children.is_empty() {
            return internal_err!("a column scan has no inputs");
        }
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(chunks) = self.partitions.get(partition) else {
            return internal_err!(
                "partition {partition} of {} of a scan",
                self.partitions.len()
            );
        };
        let batches = PartitionScan {
            table: Arc::clone(&self.table),
            schema: Arc::clone(&self.schema),
            client: self.client.clone(),
            batch_rows: context.session_config().batch_size().max(1),
            metrics: ScanMetrics::new(&self.metrics, partition),
        }
        .batches(chunks.clone());
        let batches = match self.limit {
            Some(limit) => limited(batches, limit),
            None => batches.boxed(),
        };
        let schema = Arc::clone(&self.schema);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        _inputs: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        let (mut rows, mut bytes) = (0, 0);
        for chunk in self.chunks(args.partition()) {
            rows += chunk.rows;
            bytes += chunk.bytes;
        }
        let exact = |value| Precision::Exact(usize::try_from(value).unwrap_or(usize::MAX));
        statistics.num_rows = exact(rows);
        statistics.total_byte_size = exact(bytes);
        if self.limit.is_some() {
            statistics = statistics.to_inexact();
        }
        Ok(Arc::new(statistics))
    }
}

/// The metrics of a partition.
#[derive(Clone)]
struct ScanMetrics {
    baseline: BaselineMetrics,
    /// Bytes of the columns that came from storage nodes.
    bytes_fetched: BytesCounterMetric,
    columns_fetched: Count,
}

impl ScanMetrics {
    fn new(metrics: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let build = || MetricBuilder::new(metrics);
        Self {
            baseline: BaselineMetrics::new(metrics, partition),
            bytes_fetched: build().bytes_counter("bytes_fetched"),
            columns_fetched: build().counter("columns_fetched", partition),
        }
    }
}

/// A partition that is being read.
#[derive(Clone)]
struct PartitionScan {
    table: Arc<str>,
    schema: SchemaRef,
    client: StorageClient,
    batch_rows: usize,
    metrics: ScanMetrics,
}

impl PartitionScan {
    /// The batches of these chunks. Columns of the next chunk are in flight while one is consumed.
    fn batches(
        self,
        chunks: Vec<ScanChunk>,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static {
        let (fetching, scan) = (self.clone(), self.clone());
        let fetched = stream::iter(chunks)
            .map(move |chunk| fetching.begin(chunk))
            .buffered(CHUNKS_AHEAD + 1);
        fetched
            .and_then(move |(chunk, columns)| ready(scan.decode(&chunk, columns)))
            .map_ok(move |rows| self.split(rows))
            .try_flatten()
    }

    /// Asks for the columns of a chunk at once, not only when the future is polled.
    fn begin(
        &self,
        chunk: ScanChunk,
    ) -> impl Future<Output = Result<(ScanChunk, Vec<ColumnData>)>> + Send + 'static + use<> {
        let names = self.names(&chunk).collect();
        let fetch = self.client.fetch(&chunk.node, names);
        fetch.map(|columns| Ok((chunk, columns?)))
    }

    fn names(&self, chunk: &ScanChunk) -> impl Iterator<Item = String> {
        let fields = self.schema.fields().iter();
        fields.map(|field| column_name(&self.table, chunk.number, field.name()))
    }

    fn decode(&self, chunk: &ScanChunk, columns: Vec<ColumnData>) -> Result<RecordBatch> {
        let _timer = self.metrics.baseline.elapsed_compute().timer();
        let mut arrays = Vec::with_capacity(columns.len());
        let fields = self.schema.fields().iter();
        for ((column, field), name) in columns.into_iter().zip(fields).zip(self.names(chunk)) {
            let shape = *column.shape();
            let bytes = usize::try_from(shape.bytes()).unwrap_or(usize::MAX);
            self.metrics.bytes_fetched.add_bytes(bytes);
            self.metrics.columns_fetched.add(1);
            let data_type = field.data_type();
            let Some(expected) = carried(data_type) else {
                return internal_err!("no column of a storage node is {data_type}");
            };
            if shape.data_type != expected || shape.rows != chunk.rows {
                return Err(StorageError::Mismatch {
                    node: chunk.node.to_string(),
                    column: name,
                    expected,
                    expected_rows: chunk.rows,
                    found: shape.data_type,
                    found_rows: shape.rows,
                }
                .into());
            }
            let array = to_array(column, data_type).map_err(|source| StorageError::Array {
                node: chunk.node.to_string(),
                column: name,
                source,
            })?;
            arrays.push(array);
        }
        let rows = usize::try_from(chunk.rows).unwrap_or(usize::MAX);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    /// The rows in batches of the session's size.
    fn split(
        &self,
        rows: RecordBatch,
    ) -> impl Stream<Item = Result<RecordBatch>> + Send + 'static + use<> {
        let (batch_rows, metrics) = (self.batch_rows, self.metrics.clone());
        let starts = (0..rows.num_rows()).step_by(batch_rows);
        stream::iter(starts.map(move |start| {
            let len = batch_rows.min(rows.num_rows() - start);
            metrics.baseline.output_rows().add(len);
            Ok(rows.slice(start, len))
        }))
    }
}

/// The first rows of a stream.
fn limited(
    batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    limit: usize,
) -> BoxStream<'static, Result<RecordBatch>> {
    let first = batches.scan(limit, |left, batch| {
        ready((*left > 0).then(|| {
            let batch = batch?;
            let rows = batch.num_rows().min(*left);
            *left -= rows;
            Ok(batch.slice(0, rows))
        }))
    });
    first.boxed()
}
