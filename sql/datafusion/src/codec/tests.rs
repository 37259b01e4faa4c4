//! Tests of requests and messages as bytes, and of random bytes.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::prelude::SessionContext;
use datafusion_distributed::{
    CoordinatorToWorkerMsg, DistributedCodec, ExecuteTaskRequest, LoadInfo, MaybeEncoded,
    ProducerHead, SetPlanRequest, TaskKey, WorkUnitBatch, WorkUnitFeedDeclaration, WorkUnitMsg,
    WorkerToCoordinatorMsg,
};
use datafusion_proto::bytes::physical_plan_from_bytes_with_extension_codec;
use http::{HeaderMap, HeaderName, HeaderValue};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use url::Url;
use uuid::Uuid;

use super::metrics::tests::task_metrics;
use super::*;
use crate::counters::NodeCounters;

fn context() -> Arc<TaskContext> {
    SessionContext::new().task_ctx()
}

fn task_key() -> TaskKey {
    TaskKey {
        query_id: Uuid::from_u128(7 << 90),
        stage_id: 3,
        task_number: 5,
    }
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, false)]))
}

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    let name = HeaderName::from_static("x-some");
    headers.append(&name, HeaderValue::from_static("first"));
    headers.append(&name, HeaderValue::from_bytes(&[b's', 0xe9]).unwrap());
    headers.append("x-other", HeaderValue::from_static(""));
    headers
}

fn set_plan() -> Vec<u8> {
    let plan: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(schema()));
    let request = SetPlanRequest {
        task_key: task_key(),
        task_count: 9,
        plan: MaybeEncoded::Decoded(plan),
        work_unit_feed_declarations: vec![WorkUnitFeedDeclaration {
            id: Uuid::from_u128(11),
            partitions: 4,
        }],
        target_worker_url: Url::parse("rackweave://storage0").unwrap(),
        query_start_time_ns: 1 << 60,
    };
    encode_set_plan(&headers(), request, &context()).unwrap()
}

#[test]
fn a_plan_arrives() {
    let Request::CoordinatorChannel {
        headers: back,
        plan,
    } = decode_request(&set_plan()).unwrap()
    else {
        panic!("another request");
    };
    assert_eq!(back, headers());
    assert_eq!(plan.task_key, task_key());
    assert_eq!(plan.task_count, 9);
    assert_eq!(plan.target_worker_url.as_str(), "rackweave://storage0");
    assert_eq!(plan.query_start_time_ns, 1 << 60);
    let feed = &plan.work_unit_feed_declarations[0];
    assert_eq!((feed.id, feed.partitions), (Uuid::from_u128(11), 4));
    let MaybeEncoded::Encoded(bytes) = plan.plan else {
        panic!("decoded without a session")
    };
    let plan =
        physical_plan_from_bytes_with_extension_codec(&bytes, &context(), &DistributedCodec {})
            .unwrap();
    assert_eq!(plan.name(), "EmptyExec");
    assert_eq!(plan.schema(), schema());
}

fn execute(producer_head: ProducerHead) -> Vec<Vec<u8>> {
    let request = ExecuteTaskRequest {
        task_key: task_key(),
        target_partition_start: 4,
        target_partition_end: 7,
        producer_head,
    };
    encode_execute_task(request, Compression::Lz4, &context()).unwrap()
}

fn hash() -> ProducerHead {
    let partitioning = Partitioning::Hash(vec![Arc::new(Column::new("a", 0))], 7);
    ProducerHead::RepartitionExec {
        partitioning: MaybeEncoded::Decoded(partitioning),
    }
}

#[test]
fn a_request_for_each_partition() {
    for (partition, bytes) in (4..).zip(execute(hash())) {
        let Request::ExecutePartition {
            request,
            consumer_partitions,
            compression,
        } = decode_request(&bytes).unwrap()
        else {
            panic!("another request");
        };
        assert_eq!(compression, Compression::Lz4);
        assert_eq!((compression, consumer_partitions), (Compression::Lz4, 3));
        let range = request.target_partition_start..request.target_partition_end;
        assert_eq!(range, partition..partition + 1);
        let ProducerHead::RepartitionExec { partitioning } = request.producer_head else {
            panic!("another head");
        };
        let partitioning = partitioning.decode(schema(), &context()).unwrap();
        assert_eq!(partitioning.to_string(), "Hash([a@0], 7)");
    }
    assert_eq!(execute(hash()).len(), 3);
    let head = |head| match decode_request(&execute(head)[0]).unwrap() {
        Request::ExecutePartition { request, .. } => request.producer_head,
        _ => panic!("another request"),
    };
    let broadcast = head(ProducerHead::BroadcastExec {
        output_partitions: 12,
    });
    assert!(matches!(
        broadcast,
        ProducerHead::BroadcastExec {
            output_partitions: 12
        }
    ));
    assert!(matches!(head(ProducerHead::None), ProducerHead::None));
}

#[test]
fn a_worker_tells_its_version() {
    assert!(matches!(
        decode_request(&encode_worker_info_request()),
        Ok(Request::WorkerInfo)
    ));
    assert_eq!(
        decode_worker_info(&encode_worker_info("1.2"))
            .unwrap()
            .version,
        "1.2"
    );
}

#[test]
fn a_worker_tells_its_counters() {
    assert!(matches!(
        decode_request(&encode_counters_request()),
        Ok(Request::Counters)
    ));
    let counters = NodeCounters {
        streams: 1,
        bytes_waiting: 2,
        bytes_queued: 3,
        tasks: 4,
        resident_bytes: u64::MAX,
    };
    let decoded = decode_counters(&encode_counters(&counters));
    assert_eq!(decoded.unwrap(), counters);
}

fn units() -> Vec<u8> {
    #[derive(Clone, PartialEq, prost::Message)]
    struct File {
        #[prost(string, tag = "1")]
        path: String,
    }
    let unit = |body| WorkUnitMsg {
        id: Uuid::from_u128(3),
        partition: 2,
        body,
        created_timestamp_unix_nanos: 10,
        sent_timestamp_unix_nanos: 20,
        received_timestamp_unix_nanos: 30,
        processed_timestamp_unix_nanos: 40,
    };
    let file = MaybeEncoded::Decoded(Box::new(File {
        path: "p".to_owned(),
    }) as Box<_>);
    let batch = vec![unit(file), unit(MaybeEncoded::Encoded(vec![1, 2]))];
    encode_to_worker(CoordinatorToWorkerMsg::WorkUnitBatch(WorkUnitBatch {
        batch,
    }))
}

#[test]
fn work_units_arrive() {
    let Ok(CoordinatorToWorkerMsg::WorkUnitBatch(batch)) = decode_to_worker(&units()) else {
        panic!("another message");
    };
    let bodies = [vec![10, 1, b'p'], vec![1, 2]];
    for (unit, expected) in batch.batch.into_iter().zip(bodies) {
        assert_eq!((unit.id, unit.partition), (Uuid::from_u128(3), 2));
        assert!(matches!(unit.body, MaybeEncoded::Encoded(body) if body == expected));
        let times = [
            unit.created_timestamp_unix_nanos,
            unit.sent_timestamp_unix_nanos,
            unit.received_timestamp_unix_nanos,
            unit.processed_timestamp_unix_nanos,
        ];
        assert_eq!(times, [10, 20, 30, 40]);
    }
    let end = encode_to_worker(CoordinatorToWorkerMsg::WorkUnitEos);
    assert!(matches!(
        decode_to_worker(&end),
        Ok(CoordinatorToWorkerMsg::WorkUnitEos)
    ));
}

fn load() -> Vec<u8> {
    encode_to_coordinator(WorkerToCoordinatorMsg::LoadInfo(LoadInfo {
        partition: 1,
        rows_ready: 2,
        per_column_bytes_ready: vec![3, 1 << 40],
        per_column_ndv_percentage: vec![0.5, 0.0],
        per_column_null_percentage: vec![1.0],
        rows_pulled_from_leaf: 6,
        reached_eos: true,
    }))
}

#[test]
fn load_arrives() {
    let Ok(FromWorker::Message(WorkerToCoordinatorMsg::LoadInfo(load))) =
        decode_from_worker(&load())
    else {
        panic!("another message");
    };
    assert_eq!(
        (load.partition, load.rows_ready, load.rows_pulled_from_leaf),
        (1, 2, 6)
    );
    assert_eq!(load.per_column_bytes_ready, [3, 1 << 40]);
    assert_eq!(load.per_column_ndv_percentage, [0.5, 0.0]);
    assert_eq!(load.per_column_null_percentage, [1.0]);
    assert!(load.reached_eos);
    let end = encode_to_coordinator(WorkerToCoordinatorMsg::LoadInfoEos);
    let end = decode_from_worker(&end).unwrap();
    assert!(matches!(
        end,
        FromWorker::Message(WorkerToCoordinatorMsg::LoadInfoEos)
    ));
    let accepted = decode_from_worker(&encode_plan_accepted()).unwrap();
    assert!(matches!(accepted, FromWorker::PlanAccepted));
}

#[test]
fn too_many_partitions_of_a_feed_are_an_error() {
    let error = |partitions| {
        let request = SetPlanRequest {
            task_key: task_key(),
            task_count: 1,
            plan: MaybeEncoded::Encoded(vec![]),
            work_unit_feed_declarations: vec![WorkUnitFeedDeclaration {
                id: Uuid::nil(),
                partitions,
            }],
            target_worker_url: Url::parse("rackweave://a").unwrap(),
            query_start_time_ns: 0,
        };
        decode_request(&encode_set_plan(&HeaderMap::new(), request, &context()).unwrap()).err()
    };
    assert!(error(1 << 16).is_none());
    assert!(matches!(
        error((1 << 16) + 1),
        Some(CodecError::Invalid { .. })
    ));
}

/// Wrong bytes give an error or a message, never a panic.
#[test]
fn malformed_bytes_are_errors() {
    let mut random = StdRng::seed_from_u64(crate::testing::seed());
    let inner = DataFusionError::Plan("inner".to_owned());
    let error = DataFusionError::Collection(vec![inner.context("around")]);
    let metrics = encode_to_coordinator(WorkerToCoordinatorMsg::TaskMetrics(task_metrics()));
    let mut good = vec![set_plan(), units(), load(), metrics, encode_error(&error)];
    good.extend(execute(hash()));
    let decode = |bytes: &[u8]| {
        drop(decode_request(bytes));
        drop(decode_to_worker(bytes));
        drop(decode_worker_info(bytes));
        drop(decode_counters(bytes));
        drop(decode_error(bytes).to_string());
        if let Ok(FromWorker::Message(WorkerToCoordinatorMsg::TaskMetrics(metrics))) =
            decode_from_worker(bytes)
        {
            // What is accepted can be shown and summed.
            for set in &metrics.pre_order_plan_metrics {
                drop(set.aggregate_by_name().to_string());
            }
        }
    };
    for bytes in &good {
        (0..bytes.len()).for_each(|len| decode(&bytes[..len]));
        for _ in 0..2000 {
            let mut bytes = bytes.clone();
            for _ in 0..random.random_range(1..4) {
                let at = random.random_range(0..bytes.len());
                bytes[at] = random.random();
            }
            decode(&bytes);
        }
    }
    for _ in 0..20_000 {
        let mut bytes = vec![0; random.random_range(0..64)];
        random.fill(&mut bytes[..]);
        decode(&bytes);
    }
}
