//! Partitions of a task at a worker that the test plays.

use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::Result;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::prelude::SessionContext;
use datafusion_distributed::{ChannelResolver as _, ExecuteTaskRequest, ProducerHead, TaskKey};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::HeaderMap;
use rackweave::Rack;
use rackweave::exchange::Exchange;
use tokio::task::coop;
use uuid::Uuid;

use super::start;
use crate::batches::BatchEncoder;
use crate::channel::{ChannelOptions, RackweaveChannelResolver, node_url};
use crate::codec::{Compression, Request, decode_request};

/// The partitions of a task, the worker's exchange, and the rack.
async fn partitions(
    range: Range<usize>,
) -> (Vec<BoxStream<'static, Result<RecordBatch>>>, Exchange, Rack) {
    let rack = Rack::builder().build().unwrap();
    let (client, worker) = (start(&rack, "compute0"), start(&rack, "storage0"));
    let options = ChannelOptions {
        budget_bytes: Some(1 << 20),
        ..ChannelOptions::default()
    };
    let resolver = RackweaveChannelResolver::new(client, options);
    let url = node_url("storage0").unwrap();
    let mut channel = resolver.get_worker_client_for_url(&url).await.unwrap();
    let request = ExecuteTaskRequest {
        task_key: TaskKey {
            query_id: Uuid::from_u128(1),
            stage_id: 2,
            task_number: 3,
        },
        target_partition_start: range.start,
        target_partition_end: range.end,
        producer_head: ProducerHead::None,
    };
    let (metrics, context) = (
        ExecutionPlanMetricsSet::new(),
        SessionContext::new().task_ctx(),
    );
    let streams = channel.execute_task(HeaderMap::new(), request, metrics, &context);
    (streams.await.unwrap(), worker, rack)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_nobody_polled_is_executed_and_cancelled() {
    let (mut streams, worker, _rack) = partitions(4..6).await;
    assert_eq!(streams.len(), 2);
    assert!(
        worker.accept_within(Duration::from_millis(50)).is_none(),
        "opened without a poll"
    );
    let partition = |request: &[u8]| match decode_request(request) {
        Ok(Request::ExecutePartition { request, .. }) => request.target_partition_start,
        _ => panic!("another request"),
    };
    drop(streams.pop());
    let mut dropped = worker.accept().await.unwrap();
    assert_eq!(partition(&dropped.request), 5);
    std::future::poll_fn(|context| dropped.sender.poll_stopped(context)).await;
    let mut polled = streams.pop().unwrap();
    assert!(matches!(futures::poll!(polled.next()), Poll::Pending));
    let opened = worker.accept().await.unwrap();
    assert_eq!(partition(&opened.request), 4);
    opened.sender.finish();
    let error = polled.next().await.unwrap().unwrap_err();
    assert!(
        error.to_string().contains("did not send a schema"),
        "{error}"
    );
    assert!(polled.next().await.is_none());
}

/// As an operator whose input always has something, which the engine neither cancels nor lets
/// others run beside.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_that_works_for_long_yields() {
    let (mut streams, worker, _rack) = partitions(0..1).await;
    let mut batches = streams.pop().unwrap();
    let producing = tokio::spawn(async move {
        let mut sender = worker.accept().await.unwrap().sender;
        let schema = Arc::new(Schema::empty());
        let (mut encoder, message) = BatchEncoder::start(&schema, Compression::None).unwrap();
        sender.send(message).await.unwrap();
        let rows = RecordBatchOptions::new().with_row_count(Some(1));
        let batch = RecordBatch::try_new_with_options(schema, vec![], &rows).unwrap();
        for _ in 0..3 {
            let message = encoder.encode(&batch).unwrap();
            sender.send(message).await.unwrap();
        }
        sender.finish();
        worker
    });
    let consuming = tokio::spawn(async move {
        for number in 0..3 {
            assert_eq!(batches.next().await.unwrap().unwrap().num_rows(), 1);
            assert!(coop::has_budget_remaining(), "after batch {number}");
            std::thread::sleep(Duration::from_millis(20));
            assert!(matches!(futures::poll!(batches.next()), Poll::Pending));
            assert!(!coop::has_budget_remaining(), "after work on {number}");
        }
        assert!(batches.next().await.is_none());
    });
    consuming.await.unwrap();
    producing.await.unwrap();
}
