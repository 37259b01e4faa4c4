//! The workers' side: answers the streams that coordinators and executors open.

mod broadcast;
mod sweep;

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::common::runtime::JoinSet;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion_distributed::{CoordinatorToWorkerMsg, ExecuteTaskRequest, SetPlanRequest, Worker};
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, Stream, StreamExt as _};
use http::HeaderMap;
use rackweave::exchange::{Exchange, Incoming, StreamError, StreamReceiver, StreamSender};

use self::broadcast::{BroadcastSource, Groups};
use self::sweep::OpenTasks;
use crate::batches::{BatchEncoder, split};
use crate::channel::stream_error;
use crate::codec::{self, Compression, Request};
use crate::counters::{NodeCounters, TaskCounter};

/// Batches with more bytes are sent in parts, so that no message comes near the longest that
/// streams allow, and consumers needn't hold one in whole.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Answers all streams that other nodes open to this one, until the exchange is closed.
///
/// Each stream has a task of its own on the runtime that this is called on. When the returned
/// future is dropped, all of them end, and the peers' streams with them.
///
/// The sessions of `worker` need a way to other workers:
/// [`worker_session_builder`](crate::channel::worker_session_builder).
pub async fn serve(exchange: Exchange, worker: Worker) {
    serve_counted(exchange, worker, TaskCounter::default()).await;
}

/// As [`serve`]. The tasks that the sessions of `worker` [count](TaskCounter::watch) are among what
/// the node says it holds.
pub async fn serve_counted(exchange: Exchange, worker: Worker, tasks: TaskCounter) {
    let mut answers = JoinSet::new();
    let serving = Serving {
        worker,
        exchange,
        tasks,
        open: OpenTasks::new(),
        groups: Arc::default(),
    };
    let (open, worker) = (serving.open.clone(), serving.worker.clone());
    answers.spawn(open.sweep_when_idle(worker));
    while let Some(incoming) = serving.exchange.accept().await {
        answers.spawn(answer(serving.clone(), incoming));
        // Those that are over. One that panicked has reported it, and its peer saw the stream end.
        while answers.try_join_next().is_some() {}
    }
}

/// What the answers to all streams need.
#[derive(Clone)]
struct Serving {
    worker: Worker,
    exchange: Exchange,
    /// Those that something holds.
    tasks: TaskCounter,
    /// Those whose coordinators are there.
    open: OpenTasks,
    /// Consumers of broadcasts that are answered together.
    groups: Arc<Groups>,
}

/// Why a stream ends early.
enum Stop {
    /// The peer gets the error.
    Failed(DataFusionError),
    /// There is nobody to get it.
    PeerStopped,
}

impl From<DataFusionError> for Stop {
    fn from(error: DataFusionError) -> Self {
        Self::Failed(error)
    }
}

impl From<StreamError> for Stop {
    fn from(error: StreamError) -> Self {
        match error {
            StreamError::TooLong { .. } => Self::Failed(DataFusionError::External(Box::new(error))),
            _ => Self::PeerStopped,
        }
    }
}

async fn answer(serving: Serving, incoming: Incoming) {
    let Incoming {
        request,
        mut sender,
        receiver,
        ..
    } = incoming;
    let worker = &serving.worker;
    let answered = match codec::decode_request(&request) {
        Ok(Request::CoordinatorChannel { headers, plan }) => {
            let _open = serving.open.enter();
            answer_coordinator(worker, headers, plan, receiver, &mut sender).await
        }
        Ok(Request::ExecutePartition {
            request,
            consumer_partitions,
            compression,
        }) => {
            // A consumer sends nothing, and a stream is open as long as either end of it is held.
            drop(receiver);
            let source = BroadcastSource::of(&request, consumer_partitions, compression);
            let Some((sender, executed)) = execute(worker, request, sender).await else {
                return;
            };
            // Each alone is sooner, where nothing is gained by waiting for the others.
            let source = source.filter(|_| serving.exchange.options().broadcasts);
            return match (executed, source) {
                (Ok(batches), Some(source)) => {
                    let Serving {
                        groups, exchange, ..
                    } = &serving;
                    groups.answer(exchange, source, sender, batches).await;
                }
                (executed, _) => answer_executor(executed, compression, sender).await,
            };
        }
        Ok(Request::WorkerInfo) => sender
            .send(codec::encode_worker_info(worker.version()))
            .await
            .map_err(Stop::from),
        Ok(Request::Counters) => {
            let mut counters = NodeCounters::of(&serving.exchange, &serving.tasks);
            // The stream that asks is one of them.
            counters.streams = counters.streams.saturating_sub(1);
            let answer = codec::encode_counters(&counters);
            sender.send(answer).await.map_err(Stop::from)
        }
        Err(error) => Err(Stop::Failed(error.into())),
    };
    end(sender, answered);
}

fn end(sender: StreamSender, answered: Result<(), Stop>) {
    match answered {
        Ok(()) => sender.finish(),
        Err(Stop::Failed(error)) => sender.fail(codec::encode_error(&error)),
        Err(Stop::PeerStopped) => {}
    }
}

async fn answer_coordinator(
    worker: &Worker,
    headers: HeaderMap,
    plan: SetPlanRequest,
    receiver: StreamReceiver,
    sender: &mut StreamSender,
) -> Result<(), Stop> {
    let messages = coordinator_messages(receiver);
    let mut answers = worker.coordinator_channel(headers, plan, messages).await?;
    sender.send(codec::encode_plan_accepted()).await?;
    while let Some(answer) = next_unless_stopped(&mut answers, sender).await? {
        sender.send(codec::encode_to_coordinator(answer?)).await?;
    }
    Ok(())
}

/// Executes one partition, even if the consumer has cancelled by now: the task's other partitions
/// may wait for it (see `channel::partition`). The stream doesn't stay open for that, as a task
/// whose plan never comes is waited for long.
async fn execute(
    worker: &Worker,
    request: ExecuteTaskRequest,
    mut sender: StreamSender,
) -> Option<(StreamSender, Result<SendableRecordBatchStream>)> {
    let mut executing = Box::pin(worker.execute_task(request));
    let polling = unless_stopped(&mut sender, |context| executing.poll_unpin(context));
    let Ok(executed) = polling.await else {
        drop(sender);
        // The consumer is gone; what it would have got is dropped, which frees the task.
        drop(executing.await);
        return None;
    };
    let batches = executed.and_then(|(batches, _context)| {
        batches.into_iter().next().ok_or_else(|| {
            let text = "a task executed no partition where one was asked for".to_owned();
            DataFusionError::Internal(text)
        })
    });
    Some((sender, batches))
}

async fn answer_executor(
    executed: Result<SendableRecordBatchStream>,
    compression: Compression,
    mut sender: StreamSender,
) {
    let answered = match executed {
        Ok(batches) => send_batches(batches, compression, &mut sender, 0).await,
        Err(error) => Err(error.into()),
    };
    end(sender, answered);
}

/// Sends the schema and the batches, but for the first `got` messages: the consumer has them.
async fn send_batches(
    mut batches: SendableRecordBatchStream,
    compression: Compression,
    sender: &mut StreamSender,
    got: usize,
) -> Result<(), Stop> {
    let started = BatchEncoder::start(&batches.schema(), compression);
    let (mut encoder, schema) = started.map_err(DataFusionError::from)?;
    let mut left = got;
    if left == 0 {
        sender.send(schema).await?;
    }
    left = left.saturating_sub(1);
    while let Some(batch) = next_unless_stopped(&mut batches, sender).await? {
        for part in split(&batch?, MESSAGE_BYTES_MAX) {
            // Also those that the consumer has: the encoder remembers dictionaries.
            let message = encoder.encode(&part).map_err(DataFusionError::from)?;
            if left == 0 {
                sender.send(message).await?;
            }
            left = left.saturating_sub(1);
        }
    }
    Ok(())
}

/// The next item, unless the peer stops first: a stream that computes for long before it has an
/// item ends when nobody wants it any more.
async fn next_unless_stopped<T>(
    items: &mut (impl Stream<Item = T> + Unpin),
    sender: &mut StreamSender,
) -> Result<Option<T>, Stop> {
    unless_stopped(sender, |context| items.poll_next_unpin(context)).await
}

/// What `poll` gives, unless the peer stops first.
async fn unless_stopped<T>(
    sender: &mut StreamSender,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Result<T, Stop> {
    poll_fn(|context| {
        if let Poll::Ready(error) = sender.poll_stopped(context) {
            return Poll::Ready(Err(error.into()));
        }
        poll(context).map(Ok)
    })
    .await
}

fn coordinator_messages(
    receiver: StreamReceiver,
) -> BoxStream<'static, Result<CoordinatorToWorkerMsg>> {
    stream::unfold(Some(receiver), async |receiver| {
        let mut receiver = receiver?;
        let message = match receiver.next().await? {
            Ok(bytes) => codec::decode_to_worker(&bytes).map_err(DataFusionError::from),
            Err(error) => Err(stream_error(error)),
        };
        Some(match message {
            Ok(message) => (Ok(not_from_the_future(message)), Some(receiver)),
            Err(error) => (Err(error), None),
        })
    })
    .boxed()
}

/// `datafusion-distributed` subtracts the times of a work unit from those that it measures here
/// itself, and takes clocks for equal: a coordinator's that is ahead would make its difference
/// wrap around, or panic.
fn not_from_the_future(mut message: CoordinatorToWorkerMsg) -> CoordinatorToWorkerMsg {
    if let CoordinatorToWorkerMsg::WorkUnitBatch(batch) = &mut message {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now = usize::try_from(since.as_nanos()).unwrap_or(usize::MAX);
        for unit in &mut batch.batch {
            let created = unit.created_timestamp_unix_nanos.min(now);
            unit.created_timestamp_unix_nanos = created;
            unit.sent_timestamp_unix_nanos = unit.sent_timestamp_unix_nanos.clamp(created, now);
        }
    }
    message
}
