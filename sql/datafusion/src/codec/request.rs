//! What a stream is opened for.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion_distributed::{
    ExecuteTaskRequest, MaybeEncoded, ProducerHead, SetPlanRequest, WorkUnitFeedDeclaration,
};
use http::HeaderMap;
use prost::Message as _;
use url::Url;

use super::headers::{self, HeaderWire};
use super::task::{self, TaskKeyWire};
use super::{CodecError, to_u64, to_usize, to_uuid};

/// What the opener of a stream asks of a worker.
pub enum Request {
    /// The coordinator's channel to one task: the plan first, then messages in both directions.
    CoordinatorChannel {
        /// Options of the session, and what the user passes through.
        headers: HeaderMap,
        /// The task and its plan, still encoded: only the worker's session can decode it.
        plan: SetPlanRequest,
    },
    /// The record batches of one partition of a task.
    ExecutePartition {
        /// The task; its range is one partition.
        request: ExecuteTaskRequest,
        /// How many partitions the consumer asks this task for.
        consumer_partitions: usize,
        /// How the bodies of the record batches are compressed.
        compression: Compression,
    },
    /// The version of the worker.
    WorkerInfo,
    /// What the worker's node holds.
    Counters,
}

/// Compression of record batches, buffer by buffer, as the Arrow format has it.
///
/// The default is none: a network as fast as memory is slower with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, prost::Enumeration)]
#[repr(i32)]
pub enum Compression {
    /// Bodies are the columns' own bytes. A receiver reads them where they arrived.
    None = 0,
    /// LZ4 frames.
    Lz4 = 1,
    /// Zstandard at its default level.
    Zstd = 2,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RequestWire {
    #[prost(oneof = "RequestKind", tags = "1, 2, 3, 4")]
    kind: Option<RequestKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum RequestKind {
    #[prost(message, tag = "1")]
    SetPlan(SetPlanWire),
    #[prost(message, tag = "2")]
    Execute(ExecuteWire),
    #[prost(message, tag = "3")]
    WorkerInfo(EmptyWire),
    #[prost(message, tag = "4")]
    Counters(EmptyWire),
}

#[derive(Clone, PartialEq, prost::Message)]
struct EmptyWire {}

#[derive(Clone, PartialEq, prost::Message)]
struct SetPlanWire {
    #[prost(message, optional, tag = "1")]
    task_key: Option<TaskKeyWire>,
    #[prost(uint64, tag = "2")]
    task_count: u64,
    /// A `PhysicalPlanNode` of `datafusion-proto`.
    #[prost(bytes = "vec", tag = "3")]
    plan: Vec<u8>,
    #[prost(message, repeated, tag = "4")]
    feeds: Vec<FeedWire>,
    #[prost(string, tag = "5")]
    worker_url: String,
    #[prost(uint64, tag = "6")]
    query_start_ns: u64,
    #[prost(message, repeated, tag = "7")]
    headers: Vec<HeaderWire>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct FeedWire {
    #[prost(bytes = "vec", tag = "1")]
    id: Vec<u8>,
    #[prost(uint64, tag = "2")]
    partitions: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ExecuteWire {
    #[prost(message, optional, tag = "1")]
    task_key: Option<TaskKeyWire>,
    #[prost(uint64, tag = "2")]
    partition: u64,
    #[prost(enumeration = "Compression", tag = "3")]
    compression: i32,
    #[prost(oneof = "HeadWire", tags = "4, 5, 6")]
    head: Option<HeadWire>,
    #[prost(uint64, tag = "7")]
    consumer_partitions: u64,
}

/// [`ProducerHead`].
#[derive(Clone, PartialEq, prost::Oneof)]
enum HeadWire {
    #[prost(message, tag = "4")]
    None(EmptyWire),
    /// The number of output partitions.
    #[prost(uint64, tag = "5")]
    Broadcast(u64),
    /// A `Partitioning` of `datafusion-proto`.
    #[prost(bytes, tag = "6")]
    Repartition(Vec<u8>),
}

/// The request that opens a coordinator's channel.
///
/// The plan is encoded with the codecs of `datafusion-distributed` and those that the session of
/// `context` has.
///
/// # Errors
///
/// A node of the plan which no codec can encode.
pub fn encode_set_plan(
    headers: &HeaderMap,
    request: SetPlanRequest,
    context: &Arc<TaskContext>,
) -> Result<Vec<u8>> {
    let feed = |feed: WorkUnitFeedDeclaration| FeedWire {
        id: feed.id.as_bytes().to_vec(),
        partitions: to_u64(feed.partitions),
    };
    Ok(encode(RequestKind::SetPlan(SetPlanWire {
        task_key: Some(task::encode(&request.task_key)),
        task_count: to_u64(request.task_count),
        plan: request.plan.encode(context)?,
        feeds: request
            .work_unit_feed_declarations
            .into_iter()
            .map(feed)
            .collect(),
        worker_url: request.target_worker_url.into(),
        query_start_ns: to_u64(request.query_start_time_ns),
        headers: headers::encode(headers),
    })))
}

/// The requests for the partitions of a task: one for each of the range, in order.
///
/// # Errors
///
/// A partitioning which no codec can encode.
pub fn encode_execute_task(
    request: ExecuteTaskRequest,
    compression: Compression,
    context: &Arc<TaskContext>,
) -> Result<Vec<Vec<u8>>> {
    let head = match request.producer_head {
        ProducerHead::None => HeadWire::None(EmptyWire {}),
        ProducerHead::BroadcastExec { output_partitions } => {
            HeadWire::Broadcast(to_u64(output_partitions))
        }
        ProducerHead::RepartitionExec { partitioning } => {
            HeadWire::Repartition(partitioning.encode(context)?)
        }
    };
    let partitions = request.target_partition_start..request.target_partition_end;
    let one = |partition: usize| {
        encode(RequestKind::Execute(ExecuteWire {
            task_key: Some(task::encode(&request.task_key)),
            partition: to_u64(partition),
            compression: compression.into(),
            head: Some(head.clone()),
            consumer_partitions: to_u64(partitions.len()),
        }))
    };
    Ok(partitions.clone().map(one).collect())
}

/// The request for a worker's version.
#[must_use]
pub fn encode_worker_info_request() -> Vec<u8> {
    encode(RequestKind::WorkerInfo(EmptyWire {}))
}

/// The request for the counters of a worker's node.
#[must_use]
pub fn encode_counters_request() -> Vec<u8> {
    encode(RequestKind::Counters(EmptyWire {}))
}

/// The request that a peer opened a stream with.
///
/// # Errors
///
/// The bytes are no request.
pub fn decode_request(bytes: &[u8]) -> Result<Request, CodecError> {
    let wire = RequestWire::decode(bytes)?;
    match wire.kind.ok_or_else(|| CodecError::missing("request"))? {
        RequestKind::SetPlan(wire) => decode_set_plan(wire),
        RequestKind::Execute(wire) => decode_execute(wire),
        RequestKind::WorkerInfo(EmptyWire {}) => Ok(Request::WorkerInfo),
        RequestKind::Counters(EmptyWire {}) => Ok(Request::Counters),
    }
}

fn encode(kind: RequestKind) -> Vec<u8> {
    RequestWire { kind: Some(kind) }.encode_to_vec()
}

fn decode_set_plan(wire: SetPlanWire) -> Result<Request, CodecError> {
    let feed = |feed: FeedWire| {
        Ok(WorkUnitFeedDeclaration {
            id: to_uuid(&feed.id, "feed id")?,
            partitions: to_feed_partitions(feed.partitions)?,
        })
    };
    Ok(Request::CoordinatorChannel {
        headers: headers::decode(wire.headers)?,
        plan: SetPlanRequest {
            task_key: task::decode(wire.task_key)?,
            task_count: to_usize(wire.task_count, "task_count")?,
            plan: MaybeEncoded::Encoded(wire.plan),
            work_unit_feed_declarations: wire
                .feeds
                .into_iter()
                .map(feed)
                .collect::<Result<_, CodecError>>()?,
            target_worker_url: Url::parse(&wire.worker_url)
                .map_err(|error| CodecError::invalid("worker_url", &error))?,
            query_start_time_ns: to_usize(wire.query_start_ns, "query_start_ns")?,
        },
    })
}

/// The worker makes a queue for each partition of a feed before anything else happens, so that a
/// count from a malformed message must not be taken at its word.
fn to_feed_partitions(partitions: u64) -> Result<usize, CodecError> {
    const MAX: usize = 1 << 16;
    let partitions = to_usize(partitions, "feed partitions")?;
    if partitions > MAX {
        let reason = format!("{partitions} is more than {MAX}");
        return Err(CodecError::invalid("feed partitions", &reason));
    }
    Ok(partitions)
}

fn decode_execute(wire: ExecuteWire) -> Result<Request, CodecError> {
    let partition = to_usize(wire.partition, "partition")?;
    let end = partition
        .checked_add(1)
        .ok_or_else(|| CodecError::invalid("partition", "one more is no number"))?;
    let producer_head = match wire
        .head
        .ok_or_else(|| CodecError::missing("producer_head"))?
    {
        HeadWire::None(EmptyWire {}) => ProducerHead::None,
        HeadWire::Broadcast(partitions) => ProducerHead::BroadcastExec {
            output_partitions: to_usize(partitions, "output_partitions")?,
        },
        HeadWire::Repartition(partitioning) => ProducerHead::RepartitionExec {
            partitioning: MaybeEncoded::Encoded(partitioning),
        },
    };
    Ok(Request::ExecutePartition {
        request: ExecuteTaskRequest {
            task_key: task::decode(wire.task_key)?,
            target_partition_start: partition,
            target_partition_end: end,
            producer_head,
        },
        consumer_partitions: to_usize(wire.consumer_partitions, "consumer_partitions")?,
        compression: Compression::try_from(wire.compression)
            .map_err(|error| CodecError::invalid("compression", &error))?,
    })
}
