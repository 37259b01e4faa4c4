//! Tests of the counts, and of operators as bytes.

use super::*;
use datafusion::execution::TaskContext;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_distributed::{DistributedExt as _, MaybeEncoded};

const TRAFFIC: Traffic = Traffic {
    workers: 3,
    partitions: 2,
    batches: 11,
    batch_rows: 100,
};

fn context() -> Arc<TaskContext> {
    let config = SessionConfig::new().with_distributed_user_codec(TrafficCodec);
    SessionContext::new_with_config(config).task_ctx()
}

/// Executes an operator in this process.
async fn execute(plan: Arc<dyn ExecutionPlan>) -> Vec<RecordBatch> {
    datafusion::physical_plan::collect(plan, context())
        .await
        .unwrap()
}

fn source() -> Arc<dyn ExecutionPlan> {
    let Traffic {
        partitions,
        batches,
        batch_rows,
        ..
    } = TRAFFIC;
    Arc::new(SourceExec::new(partitions, batches, batch_rows))
}

#[tokio::test]
async fn what_is_counted_is_what_was_made() {
    let batches = execute(source()).await;
    assert_eq!(batches.len(), 22);
    let of_one_producer = batches.iter().map(Totals::of).sum::<Totals>();
    assert_eq!(of_one_producer.rows, 2200);
    assert_eq!(TRAFFIC.per_consumer(), of_one_producer.times(2));
    assert_eq!(TRAFFIC.total(), of_one_producer.times(6));
    let values = |batch: &RecordBatch| -> u64 {
        let per_row = batch.get_array_memory_size() / batch.num_rows();
        per_row as u64
    };
    let per_row = of_one_producer.bytes / of_one_producer.rows;
    assert!(
        (90..=values(&batches[0])).contains(&per_row),
        "{per_row} bytes"
    );
    let counted = execute(Arc::new(CountExec::new(source(), 2))).await;
    assert_eq!(
        counted.iter().flat_map(count::read).collect::<Vec<_>>(),
        [of_one_producer]
    );
}

#[test]
fn wrong_counts_are_errors() {
    let right = TRAFFIC.per_consumer();
    let check = |counted: &[Totals]| {
        let rows: Vec<_> = counted
            .iter()
            .map(|row| count::write(row).unwrap())
            .collect();
        TRAFFIC.check(&rows)
    };
    assert_eq!(check(&[right; 3]), Ok(()));
    let fewer = check(&[right; 2]).unwrap_err();
    assert!(fewer.contains("2 of 3 consumers"), "{fewer}");
    let (mut rows, mut bytes, mut sum) = (right, right, right);
    rows.rows -= 1;
    bytes.bytes += 1;
    sum.sum += 1;
    for wrong in [rows, bytes, sum] {
        let error = check(&[right, wrong, right]).unwrap_err();
        assert_eq!(error, format!("a consumer got {wrong}, not {right}"));
    }
}

#[test]
fn sizes_are_rounded_up_to_batches() {
    let traffic = |bytes| Traffic::new(4, 2, 1000, bytes);
    assert_eq!(traffic(1).batches, 1);
    let least = traffic(1).total().bytes;
    assert_eq!(traffic(least).batches, 1);
    assert_eq!(
        traffic(10 * least).total().rows,
        12 * 2 * 1000 * traffic(10 * least).batches as u64
    );
    assert!(traffic(10 * least).total().bytes >= 10 * least);
}

#[test]
fn no_consumer_reads_from_its_own_worker() {
    for number in 2..6 {
        let url = |worker| Url::parse(&format!("rackweave://worker{worker}")).unwrap();
        let workers: Vec<_> = (0..number).map(url).collect();
        let handler = routes(workers.clone());
        let place = |plan: Arc<dyn ExecutionPlan>, task_count| {
            let event = RouteTasksEvent {
                task_ctx: context(),
                plan: &plan,
                task_count,
            };
            handler.handle(event).unwrap().unwrap().urls
        };
        let consumers = place(Arc::new(CountExec::new(source(), 1)), number);
        assert_eq!(consumers, workers);
        let producers = place(source(), number * (number - 1));
        for (consumer, tasks) in consumers.iter().zip(producers.chunks(number - 1)) {
            let mut all = tasks.to_vec();
            all.push(consumer.clone());
            all.sort();
            assert_eq!(all, workers);
        }
    }
}

#[test]
fn operators_are_the_same_after_the_way_to_a_worker() {
    let plan: Arc<dyn ExecutionPlan> = Arc::new(CountExec::new(source(), 2));
    let shown = |plan: &Arc<dyn ExecutionPlan>| {
        let plan = datafusion::physical_plan::displayable(plan.as_ref());
        plan.indent(false).to_string()
    };
    let bytes = MaybeEncoded::Decoded(Arc::clone(&plan))
        .encode(&context())
        .unwrap();
    let context = context();
    let codec =
        datafusion_distributed::DistributedCodec::new_combined_with_user(context.session_config());
    let decoded = datafusion_proto::bytes::physical_plan_from_bytes_with_extension_codec(
        &bytes, &context, &codec,
    );
    assert_eq!(shown(&decoded.unwrap()), shown(&plan));
}
