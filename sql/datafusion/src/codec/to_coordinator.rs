//! What a worker sends back: to a coordinator's channel, and about itself.

use datafusion_distributed::{
    GetWorkerInfoResponse, LoadInfo, TaskMetrics, WorkerToCoordinatorMsg,
};
use prost::Message as _;

use super::metrics::{self, MetricsWire};
use super::{CodecError, to_u64, to_usize};

/// What arrives on a coordinator's channel.
pub enum FromWorker {
    /// The worker has decoded the plan and waits for executors. Always the first message.
    PlanAccepted,
    /// A message for the coordinator.
    Message(WorkerToCoordinatorMsg),
}

#[derive(Clone, PartialEq, prost::Message)]
struct FromWorkerWire {
    #[prost(oneof = "FromWorkerKind", tags = "1, 2, 3, 4")]
    kind: Option<FromWorkerKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum FromWorkerKind {
    #[prost(bool, tag = "1")]
    PlanAccepted(bool),
    #[prost(message, tag = "2")]
    Metrics(TaskMetricsWire),
    #[prost(message, tag = "3")]
    Load(LoadWire),
    #[prost(bool, tag = "4")]
    EndOfLoad(bool),
}

#[derive(Clone, PartialEq, prost::Message)]
struct TaskMetricsWire {
    /// Of the plan's nodes, in pre-order.
    #[prost(message, repeated, tag = "1")]
    nodes: Vec<MetricsWire>,
    #[prost(message, optional, tag = "2")]
    task: Option<MetricsWire>,
}

/// [`LoadInfo`].
#[derive(Clone, PartialEq, prost::Message)]
struct LoadWire {
    #[prost(uint64, tag = "1")]
    partition: u64,
    #[prost(uint64, tag = "2")]
    rows_ready: u64,
    #[prost(uint64, repeated, tag = "3")]
    column_bytes_ready: Vec<u64>,
    #[prost(float, repeated, tag = "4")]
    column_distinct: Vec<f32>,
    #[prost(float, repeated, tag = "5")]
    column_null: Vec<f32>,
    #[prost(uint64, tag = "6")]
    leaf_rows: u64,
    #[prost(bool, tag = "7")]
    end: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WorkerInfoWire {
    #[prost(string, tag = "1")]
    version: String,
}

/// The first message on a coordinator's channel.
#[must_use]
pub fn encode_plan_accepted() -> Vec<u8> {
    encode(FromWorkerKind::PlanAccepted(true))
}

/// A message of a worker as bytes.
///
/// Metrics of a kind that only the worker's own crates know are left out, as their type can't be
/// named by the coordinator.
#[must_use]
pub fn encode_to_coordinator(message: WorkerToCoordinatorMsg) -> Vec<u8> {
    encode(match message {
        WorkerToCoordinatorMsg::TaskMetrics(metrics) => FromWorkerKind::Metrics(TaskMetricsWire {
            nodes: metrics
                .pre_order_plan_metrics
                .iter()
                .map(metrics::encode)
                .collect(),
            task: Some(metrics::encode(&metrics.task_metrics)),
        }),
        WorkerToCoordinatorMsg::LoadInfo(load) => FromWorkerKind::Load(encode_load(load)),
        WorkerToCoordinatorMsg::LoadInfoEos => FromWorkerKind::EndOfLoad(true),
    })
}

/// The message of a worker that `bytes` are.
///
/// # Errors
///
/// The bytes are no such message.
pub fn decode_from_worker(bytes: &[u8]) -> Result<FromWorker, CodecError> {
    let wire = FromWorkerWire::decode(bytes)?;
    let message = match wire
        .kind
        .ok_or_else(|| CodecError::missing("message of the worker"))?
    {
        FromWorkerKind::PlanAccepted(_) => return Ok(FromWorker::PlanAccepted),
        FromWorkerKind::Metrics(wire) => WorkerToCoordinatorMsg::TaskMetrics(TaskMetrics {
            pre_order_plan_metrics: wire
                .nodes
                .into_iter()
                .map(metrics::decode)
                .collect::<Result<_, _>>()?,
            task_metrics: metrics::decode(
                wire.task
                    .ok_or_else(|| CodecError::missing("task metrics"))?,
            )?,
        }),
        FromWorkerKind::Load(wire) => WorkerToCoordinatorMsg::LoadInfo(decode_load(wire)?),
        FromWorkerKind::EndOfLoad(_) => WorkerToCoordinatorMsg::LoadInfoEos,
    };
    Ok(FromWorker::Message(message))
}

/// The answer to [`Request::WorkerInfo`](super::Request::WorkerInfo).
#[must_use]
pub fn encode_worker_info(version: &str) -> Vec<u8> {
    WorkerInfoWire {
        version: version.to_owned(),
    }
    .encode_to_vec()
}

/// The worker's answer about itself that `bytes` are.
///
/// # Errors
///
/// The bytes are no such answer.
pub fn decode_worker_info(bytes: &[u8]) -> Result<GetWorkerInfoResponse, CodecError> {
    let WorkerInfoWire { version } = WorkerInfoWire::decode(bytes)?;
    Ok(GetWorkerInfoResponse { version })
}

fn encode(kind: FromWorkerKind) -> Vec<u8> {
    FromWorkerWire { kind: Some(kind) }.encode_to_vec()
}

fn encode_load(load: LoadInfo) -> LoadWire {
    LoadWire {
        partition: to_u64(load.partition),
        rows_ready: to_u64(load.rows_ready),
        column_bytes_ready: load
            .per_column_bytes_ready
            .into_iter()
            .map(to_u64)
            .collect(),
        column_distinct: load.per_column_ndv_percentage,
        column_null: load.per_column_null_percentage,
        leaf_rows: to_u64(load.rows_pulled_from_leaf),
        end: load.reached_eos,
    }
}

fn decode_load(wire: LoadWire) -> Result<LoadInfo, CodecError> {
    Ok(LoadInfo {
        partition: to_usize(wire.partition, "partition")?,
        rows_ready: to_usize(wire.rows_ready, "rows_ready")?,
        per_column_bytes_ready: wire
            .column_bytes_ready
            .into_iter()
            .map(|bytes| to_usize(bytes, "column_bytes_ready"))
            .collect::<Result<_, _>>()?,
        per_column_ndv_percentage: wire.column_distinct,
        per_column_null_percentage: wire.column_null,
        rows_pulled_from_leaf: to_usize(wire.leaf_rows, "leaf_rows")?,
        reached_eos: wire.end,
    })
}
