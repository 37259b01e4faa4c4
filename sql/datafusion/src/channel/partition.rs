//! The record batches of one partition of a task.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::{DataFusionError, Result};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricValue, Time,
};
use datafusion_distributed::{BytesCounterMetric, BytesMetricExt as _};
use futures::Stream;
use rackweave::exchange::{Budget, StreamReceiver};
use tokio::task::coop;

use super::{RackweaveChannel, stream_error};
use crate::batches::BatchDecoder;

/// Operators run as long as their inputs have something, and only a task that yields can be
/// cancelled, or lets its thread do something else. So each batch takes a unit of the budget of 128
/// that `tokio` gives a task until it yields, as the items of its own channels do; and another one
/// for as long as this that the operator has worked on the batch before. A task yields after 10 ms.
const UNIT_OF_WORK: Duration = Duration::from_micros(78);

/// Metrics of the partitions that an operator pulls from one task, under the names that
/// `datafusion-distributed`'s own client gives them.
#[derive(Clone)]
pub(super) struct PartitionMetrics {
    /// Messages and their bytes.
    messages: Count,
    bytes: BytesCounterMetric,
    /// The most that the query's streams had waiting at this node.
    waiting_bytes_max: Gauge,
    /// Time spent on taking messages and making batches of them.
    elapsed: Time,
}

impl PartitionMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        let elapsed = Time::new();
        MetricBuilder::new(metrics).build(MetricValue::ElapsedCompute(elapsed.clone()));
        Self {
            messages: MetricBuilder::new(metrics).global_counter("msg_count"),
            bytes: MetricBuilder::new(metrics).bytes_counter("bytes_transferred"),
            waiting_bytes_max: MetricBuilder::new(metrics).global_gauge("max_mem_used"),
            elapsed,
        }
    }
}

/// Opens its exchange stream when it is polled first.
///
/// A worker's task waits until each of its partitions is executed: an operator that hands rows to
/// several partitions holds those back that nobody asked for. One that is dropped before it was
/// polled therefore opens its stream all the same, and cancels it at once.
pub(super) struct PartitionStream {
    channel: RackweaveChannel,
    budget: Arc<Budget>,
    metrics: PartitionMetrics,
    decoder: BatchDecoder,
    state: State,
    /// When the last batch was given, if the operator has not waited since.
    given: Option<Instant>,
}

enum State {
    /// With the request that opens it.
    Unopened(Vec<u8>),
    Open(StreamReceiver),
    Ended,
}

impl PartitionStream {
    pub(super) fn new(
        channel: RackweaveChannel,
        request: Vec<u8>,
        budget: Arc<Budget>,
        metrics: PartitionMetrics,
    ) -> Self {
        let state = State::Unopened(request);
        Self {
            channel,
            budget,
            metrics,
            decoder: BatchDecoder::new(),
            state,
            given: None,
        }
    }

    fn open(&mut self, request: Vec<u8>) -> Result<()> {
        let (sender, receiver) = self.channel.open(request, &self.budget)?;
        sender.finish();
        self.state = State::Open(receiver);
        Ok(())
    }

    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if let State::Unopened(request) = &mut self.state {
            let request = std::mem::take(request);
            if let Err(error) = self.open(request) {
                return Poll::Ready(Some(Err(error)));
            }
        }
        loop {
            let State::Open(receiver) = &mut self.state else {
                return Poll::Ready(None);
            };
            let message = match ready!(receiver.poll_next(context)) {
                Some(Ok(message)) => message,
                Some(Err(error)) => return Poll::Ready(Some(Err(stream_error(error)))),
                None if self.decoder.schema().is_none() => {
                    return Poll::Ready(Some(Err(self.channel.silent("send a schema"))));
                }
                None => return Poll::Ready(None),
            };
            self.metrics.messages.add(1);
            self.metrics.bytes.add_bytes(message.len());
            let peak = usize::try_from(self.budget.peak()).unwrap_or(usize::MAX);
            self.metrics.waiting_bytes_max.set_max(peak);
            if let Some(batch) = self.decoder.decode(message.into()).transpose() {
                return Poll::Ready(Some(batch.map_err(DataFusionError::from)));
            }
        }
    }
}

impl Stream for PartitionStream {
    type Item = Result<RecordBatch>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<RecordBatch>>> {
        if let Some(given) = self.given.take() {
            charge(given.elapsed(), context);
        }
        let unit = ready!(coop::poll_proceed(context));
        let elapsed = self.metrics.elapsed.clone();
        let _timer = elapsed.timer();
        let polled = self.poll_batch(context);
        if polled.is_ready() {
            unit.made_progress();
            self.given = Some(Instant::now());
        }
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.state = State::Ended;
        }
        polled
    }
}

/// Takes the units of work that was done from the budget of the task.
fn charge(work: Duration, context: &mut Context<'_>) {
    let mut left = work;
    while left >= UNIT_OF_WORK && coop::has_budget_remaining() {
        left -= UNIT_OF_WORK;
        match coop::poll_proceed(context) {
            Poll::Ready(unit) => unit.made_progress(),
            Poll::Pending => return,
        }
    }
}

impl Drop for PartitionStream {
    fn drop(&mut self) {
        if let State::Unopened(request) = &mut self.state {
            let request = std::mem::take(request);
            // A worker that can't be reached waits for nobody.
            let _ = self.open(request);
        }
    }
}
