//! The consumers' side: channels from a coordinator or an executor to the workers.
//!
//! A worker is a node of the rack, and its URL is [`rackweave://NODE`](node_url). Each call is one
//! exchange stream or several:
//!
//! - A coordinator's channel is one stream with messages in both directions.
//! - Each partition that an executor pulls is a stream of its own. A partition that isn't consumed
//!   holds its own stream back and no other, so that operators may pull in any order. The streams
//!   of a query share a [`Budget`] for what has arrived and wasn't taken.

mod counters;
mod partition;
mod resolver;
mod url;

pub use resolver::{
    ChannelOptions, RackweaveChannelResolver, RackweaveWorkerResolver, worker_session_builder,
};
pub use url::{node_of, node_url};

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, Label, MetricBuilder};
use datafusion_distributed::{
    BytesMetricExt as _, CoordinatorToWorkerMsg, DISTRIBUTED_DATAFUSION_TASK_ID_LABEL,
    ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse, MaybeEncoded, SetPlanRequest,
    WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use http::HeaderMap;
use rackweave::exchange::{Budget, StreamError, StreamReceiver, StreamSender};

use self::partition::{PartitionMetrics, PartitionStream};
use self::resolver::Shared;
use crate::codec::{self, FromWorker};

/// Bytes of a worker's messages to a coordinator that may wait: metrics and load. They have a
/// budget of their own, as a stage may wait for them whose streams of batches are full.
const CONTROL_BUDGET_BYTES: u64 = 4 << 20;

/// A channel to one worker.
#[derive(Clone)]
struct RackweaveChannel {
    shared: Arc<Shared>,
    node: Arc<str>,
}

#[async_trait]
impl WorkerChannel for RackweaveChannel {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        mut request: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<BoxStream<'static, Result<WorkerToCoordinatorMsg>>> {
        let plan = request.plan.encode(context)?;
        MetricBuilder::new(&metrics)
            .with_label(Label::new(DISTRIBUTED_DATAFUSION_TASK_ID_LABEL, "0"))
            .bytes_counter("plan_bytes_sent")
            .add_bytes(plan.len());
        request.plan = MaybeEncoded::Encoded(plan);
        let request = codec::encode_set_plan(&headers, request, context)?;
        let (sender, mut receiver) = self.open(request, &Budget::new(CONTROL_BUDGET_BYTES))?;
        let forwarding = SpawnedTask::spawn(forward(sender, messages));
        match next_from_worker(&mut receiver).await {
            Some(Ok(FromWorker::PlanAccepted)) => {}
            Some(Err(error)) => return Err(error),
            Some(Ok(FromWorker::Message(_))) | None => return Err(self.silent("accept the plan")),
        }
        // The task that forwards ends with the stream: a coordinator that gives up drops both.
        let answers = stream::unfold(Some((receiver, forwarding)), async |open| {
            let (mut receiver, forwarding) = open?;
            match next_from_worker(&mut receiver).await? {
                Ok(FromWorker::Message(message)) => {
                    Some((Ok(message), Some((receiver, forwarding))))
                }
                Ok(FromWorker::PlanAccepted) => {
                    let twice = "a worker accepted a plan twice".to_owned();
                    Some((Err(DataFusionError::Internal(twice)), None))
                }
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(answers.boxed())
    }

    /// `headers` have no reader: what a task needs of them came with its plan.
    async fn execute_task(
        &mut self,
        _headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> Result<Vec<BoxStream<'static, Result<RecordBatch>>>> {
        let budget = self.shared.budget(request.task_key.query_id, context)?;
        let metrics = PartitionMetrics::new(&metrics);
        let compression = self.shared.options.compression;
        let requests = codec::encode_execute_task(request, compression, context)?;
        let open = |request| {
            let (channel, budget) = (self.clone(), Arc::clone(&budget));
            PartitionStream::new(channel, request, budget, metrics.clone()).boxed()
        };
        Ok(requests.into_iter().map(open).collect())
    }

    async fn get_worker_info(
        &mut self,
        _request: GetWorkerInfoRequest,
    ) -> Result<GetWorkerInfoResponse> {
        let request = codec::encode_worker_info_request();
        let (sender, mut receiver) = self.open(request, &Budget::new(CONTROL_BUDGET_BYTES))?;
        sender.finish();
        match receiver.next().await {
            Some(Ok(answer)) => Ok(codec::decode_worker_info(&answer)?),
            Some(Err(error)) => Err(stream_error(error)),
            None => Err(self.silent("tell its version")),
        }
    }
}

impl RackweaveChannel {
    fn open(&self, request: Vec<u8>, budget: &Budget) -> Result<(StreamSender, StreamReceiver)> {
        let opened = self.shared.exchange.open(&self.node, request, budget);
        opened.map_err(|error| DataFusionError::External(Box::new(error)))
    }

    /// A worker ended a stream in order and before it said what it had to.
    fn silent(&self, what: &str) -> DataFusionError {
        DataFusionError::Internal(format!("the worker at {} did not {what}", self.node))
    }
}

/// The error that a stream ended with, in the type that it had at the worker.
pub(crate) fn stream_error(error: StreamError) -> DataFusionError {
    match error {
        StreamError::Failed(bytes) => codec::decode_error(&bytes),
        error => DataFusionError::External(Box::new(error)),
    }
}

async fn next_from_worker(receiver: &mut StreamReceiver) -> Option<Result<FromWorker>> {
    Some(match receiver.next().await? {
        Ok(message) => codec::decode_from_worker(&message).map_err(DataFusionError::from),
        Err(error) => Err(stream_error(error)),
    })
}

/// Sends the coordinator's messages. Their end is the worker's sign that the query is over.
async fn forward(
    mut sender: StreamSender,
    mut messages: BoxStream<'static, CoordinatorToWorkerMsg>,
) {
    while let Some(message) = messages.next().await {
        // The receiver's side tells the coordinator what happened.
        if sender.send(codec::encode_to_worker(message)).await.is_err() {
            return;
        }
    }
    sender.finish();
}
