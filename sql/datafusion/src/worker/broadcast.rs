//! Broadcast joins: equal requests of several consumers, answered once.
//!
//! Each task of a stage that reads a broadcast has requests of its own, for partitions of its own,
//! but the engine's `BroadcastExec` has the same batches for all of them. Those that have asked by
//! the time when the first batch is ready, or shortly after the first, are answered together: a
//! batch is encoded once, and sent as one broadcast of the exchange, which the switch multiplies.
//! Those that ask later are answered alone, and so is one that does not read while others do: what
//! they compute may be what it waits for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::future::{poll_fn, ready};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::runtime::JoinSet;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion_distributed::{ExecuteTaskRequest, ProducerHead, TaskKey};
use futures::{StreamExt as _, stream};
use rackweave::exchange::{BroadcastSender, Exchange, StreamSender};
use tokio::time::{Instant, timeout, timeout_at};

use super::{MESSAGE_BYTES_MAX, Stop, end, send_batches};
use crate::batches::{BatchEncoder, split};
use crate::codec::{self, Compression};

/// How long consumers that read wait for one that does not.
const PATIENCE: Duration = Duration::from_millis(10);

/// How long the first consumer waits for the others, if its first batch is there before them: they
/// are tasks of one stage, which start together.
const GATHERING: Duration = Duration::from_millis(2);

/// What equal requests have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct BroadcastSource {
    task: TaskKey,
    /// The partition below the `BroadcastExec`.
    partition: usize,
    compression: Compression,
    /// How many tasks read the broadcast.
    consumers: usize,
}

impl BroadcastSource {
    /// `None`: no other request is equal to this one.
    pub fn of(
        request: &ExecuteTaskRequest,
        consumer_partitions: usize,
        compression: Compression,
    ) -> Option<Self> {
        let ProducerHead::BroadcastExec { output_partitions } = request.producer_head else {
            return None;
        };
        // With one consumer, its partitions are all that there are.
        let shared = consumer_partitions > 0 && output_partitions > consumer_partitions;
        shared.then(|| Self {
            task: request.task_key,
            partition: request.target_partition_start % consumer_partitions,
            compression,
            consumers: output_partitions / consumer_partitions,
        })
    }
}

/// The consumers that wait for a first batch.
#[derive(Default)]
pub(super) struct Groups(Mutex<HashMap<BroadcastSource, Group>>);

#[derive(Default)]
struct Group {
    senders: Vec<StreamSender>,
    /// The same batches for each consumer but the first, whose task has its own.
    spare: Vec<SendableRecordBatchStream>,
    /// The first one's task.
    waker: Option<Waker>,
}

impl Groups {
    /// Answers a consumer: with others, if there are some. The first to ask stays here until all of
    /// its group have been answered.
    pub async fn answer(
        &self,
        exchange: &Exchange,
        source: BroadcastSource,
        sender: StreamSender,
        mut batches: SendableRecordBatchStream,
    ) {
        match self.groups().entry(source) {
            Entry::Occupied(mut group) => {
                let group = group.get_mut();
                group.senders.push(sender);
                group.spare.push(batches);
                if let Some(waker) = group.waker.take() {
                    waker.wake();
                }
                return;
            }
            Entry::Vacant(new) => {
                new.insert(Group {
                    senders: vec![sender],
                    ..Group::default()
                });
            }
        }
        let guard = Forming(self, source);
        let until = Instant::now() + GATHERING;
        let polled = poll_fn(|context| self.poll_first(source, context, &mut batches)).await;
        let complete = poll_fn(|context| self.poll_complete(source, context));
        // After that time, those that have come are all.
        let _ = timeout_at(until, complete).await;
        let Group { senders, spare, .. } = guard.close();
        let schema = batches.schema();
        let batches = match polled {
            None => return,
            Some(None) => batches,
            Some(Some(batch)) => {
                let all = stream::once(ready(batch)).chain(batches);
                Box::pin(RecordBatchStreamAdapter::new(schema, all))
            }
        };
        let answers = Answers {
            compression: source.compression,
            spare,
            alone: JoinSet::new(),
        };
        answers.all(exchange, senders, batches).await;
    }

    /// The first batch; `Ready(None)`: nobody wants it.
    fn poll_first(
        &self,
        source: BroadcastSource,
        context: &mut Context<'_>,
        batches: &mut SendableRecordBatchStream,
    ) -> Poll<Option<Option<Result<RecordBatch>>>> {
        if let Some(group) = self.groups().get_mut(&source) {
            group.waker = Some(context.waker().clone());
            let mut stopped = 0;
            for sender in &mut group.senders {
                stopped += usize::from(sender.poll_stopped(context).is_ready());
            }
            if stopped == group.senders.len() {
                return Poll::Ready(None);
            }
        }
        batches.poll_next_unpin(context).map(Some)
    }

    /// Ready when all have come but one, which may be in this process, where the engine needs no
    /// stream.
    fn poll_complete(&self, source: BroadcastSource, context: &mut Context<'_>) -> Poll<()> {
        match self.groups().get_mut(&source) {
            Some(group) if group.senders.len() + 1 < source.consumers => {
                group.waker = Some(context.waker().clone());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    fn groups(&self) -> MutexGuard<'_, HashMap<BroadcastSource, Group>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A group that others may join. It ends with the task of its first member.
struct Forming<'a>(&'a Groups, BroadcastSource);

impl Forming<'_> {
    fn close(self) -> Group {
        self.0.groups().remove(&self.1).unwrap_or_default()
    }
}

impl Drop for Forming<'_> {
    fn drop(&mut self) {
        self.0.groups().remove(&self.1);
    }
}

/// The answers to a group.
struct Answers {
    compression: Compression,
    /// The same batches for each consumer that may be answered alone.
    spare: Vec<SendableRecordBatchStream>,
    alone: JoinSet<()>,
}

impl Answers {
    async fn all(
        mut self,
        exchange: &Exchange,
        mut senders: Vec<StreamSender>,
        batches: SendableRecordBatchStream,
    ) {
        match exchange.broadcast(&mut senders) {
            Some(mut broadcast) => {
                for sender in senders {
                    self.answer_alone(sender, 0);
                }
                let sent = self.broadcast(&mut broadcast, batches).await;
                match sent {
                    Ok(()) => broadcast.finish(),
                    Err(Stop::Failed(error)) => broadcast.fail(codec::encode_error(&error)),
                    Err(Stop::PeerStopped) => {}
                }
            }
            None => {
                self.spare.push(batches);
                for sender in senders {
                    self.answer_alone(sender, 0);
                }
            }
        }
        while self.alone.join_next().await.is_some() {}
    }

    /// Answers a consumer that has got some messages already.
    fn answer_alone(&mut self, mut sender: StreamSender, got: usize) {
        let (batches, compression) = (self.spare.pop(), self.compression);
        let batches = batches.expect("one remains in the broadcast, or none is in it");
        self.alone.spawn(async move {
            let answered = send_batches(batches, compression, &mut sender, got).await;
            end(sender, answered);
        });
    }

    async fn broadcast(
        &mut self,
        broadcast: &mut BroadcastSender,
        mut batches: SendableRecordBatchStream,
    ) -> Result<(), Stop> {
        let mut sent = 0;
        let started = BatchEncoder::start(&batches.schema(), self.compression);
        let (mut encoder, schema) = started.map_err(DataFusionError::from)?;
        self.send(broadcast, schema, &mut sent).await?;
        loop {
            let next = poll_fn(|context| {
                if broadcast.poll_stopped(context).is_ready() {
                    return Poll::Ready(Err(Stop::PeerStopped));
                }
                batches.poll_next_unpin(context).map(Ok)
            });
            let Some(batch) = next.await? else {
                return Ok(());
            };
            for part in split(&batch?, MESSAGE_BYTES_MAX) {
                let message = encoder.encode(&part).map_err(DataFusionError::from)?;
                self.send(broadcast, message, &mut sent).await?;
            }
        }
    }

    async fn send(
        &mut self,
        broadcast: &mut BroadcastSender,
        message: Vec<u8>,
        sent: &mut usize,
    ) -> Result<(), Stop> {
        let mut message = Some(message);
        while message.is_some() {
            let sending = poll_fn(|context| broadcast.poll_send(context, &mut message));
            match timeout(PATIENCE, sending).await {
                Ok(done) => done?,
                Err(_) => {
                    for sender in broadcast.take_blocked() {
                        self.answer_alone(sender, *sent);
                    }
                }
            }
        }
        *sent += 1;
        Ok(())
    }
}
