//! Queries on a rack in this process: a coordinator, and workers at the other nodes.

use std::io::Write as _;
use std::time::{Duration, Instant};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::{DataFusionError, JoinType};
use datafusion::execution::SessionStateBuilder;
use datafusion::functions_aggregate::expr_fn::{count, sum};
use datafusion::prelude::{CsvReadOptions, DataFrame, SessionConfig, SessionContext, col, lit};
use datafusion_distributed::{
    ChannelResolver as _, DistributedExt as _, GetWorkerInfoRequest, SessionStateBuilderExt as _,
    Worker, WorkerQueryContext, WorkerSessionBuilder as _, display_plan_ascii,
};
use futures::StreamExt as _;
use rackweave::Rack;
use rackweave::exchange::{Exchange, ExchangeOptions};
use tokio::task::JoinHandle;

use crate::channel::{
    ChannelOptions, RackweaveChannelResolver, RackweaveWorkerResolver, node_url,
    worker_session_builder,
};
use crate::codec::Compression;
use crate::counters::{NodeCounters, TaskCounter};
use crate::worker::serve_counted;

mod partitions;

const WORKERS: [&str; 3] = ["storage0", "storage1", "compute1"];

/// Ends well before a test is taken for stuck.
const AMPLE: Duration = Duration::from_mins(1);

struct Cluster {
    coordinator: Exchange,
    workers: Vec<Exchange>,
    serving: Vec<JoinHandle<()>>,
    options: ChannelOptions,
    _rack: Rack,
}

fn start(rack: &Rack, node: &str) -> Exchange {
    Exchange::start(rack, &rack.node(node).unwrap(), ExchangeOptions::default()).unwrap()
}

impl Cluster {
    fn start(options: ChannelOptions) -> Self {
        let rack = Rack::builder().build().unwrap();
        let coordinator = start(&rack, "compute0");
        let workers: Vec<_> = WORKERS.iter().map(|node| start(&rack, node)).collect();
        let serve = |exchange: &Exchange| {
            let resolver = RackweaveChannelResolver::new(exchange.clone(), options.clone());
            let tasks = TaskCounter::default();
            let counted = tasks.clone();
            let sessions = worker_session_builder(resolver);
            let sessions = move |query: WorkerQueryContext| {
                let (headers, sessions) = (query.headers.clone(), sessions.clone());
                let builder = counted.watch(query);
                let query = WorkerQueryContext { builder, headers };
                async move { sessions.build_session_state(query).await }
            };
            let worker = Worker::from_session_builder(sessions).with_version("7");
            tokio::spawn(serve_counted(exchange.clone(), worker, tasks))
        };
        let serving = workers.iter().map(serve).collect();
        Self {
            coordinator,
            workers,
            serving,
            options,
            _rack: rack,
        }
    }

    fn resolver(&self) -> RackweaveChannelResolver {
        RackweaveChannelResolver::new(self.coordinator.clone(), self.options.clone())
    }

    fn session(&self) -> SessionContext {
        let config = SessionConfig::new()
            .with_target_partitions(3)
            .with_batch_size(512);
        let state = SessionStateBuilder::new()
            .with_default_features()
            .with_config(config)
            .with_distributed_worker_resolver(RackweaveWorkerResolver::new(WORKERS).unwrap())
            .with_distributed_channel_resolver(self.resolver())
            .with_distributed_planner()
            .with_distributed_file_scan_config_bytes_per_partition(1)
            .unwrap();
        SessionContext::from(state.build())
    }

    /// What the workers say they hold.
    async fn held(&self) -> NodeCounters {
        let resolver = self.resolver();
        let mut held = NodeCounters::default();
        for node in WORKERS {
            let url = node_url(node).unwrap();
            held = held + resolver.counters_of(&url).await.unwrap();
        }
        held
    }

    /// All streams are over, at each node.
    async fn check_idle(&self) {
        let deadline = Instant::now() + AMPLE;
        let exchanges = || self.workers.iter().chain([&self.coordinator]);
        while exchanges().any(|exchange| exchange.counters().streams > 0) {
            assert!(Instant::now() < deadline, "streams stay open");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.serving.iter().for_each(JoinHandle::abort);
    }
}

/// Files of rows: a number, one of a few keys, and a text.
fn files(rows: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in 0..6 {
        let mut out = std::fs::File::create(dir.path().join(format!("{file}.csv"))).unwrap();
        writeln!(out, "number,key,text").unwrap();
        for row in (0..rows).map(|row| row * 6 + file) {
            writeln!(
                out,
                "{row},{},the text of row {row} is long enough",
                row % 37
            )
            .unwrap();
        }
    }
    dir
}

async fn table(session: &SessionContext, dir: &tempfile::TempDir) -> DataFrame {
    session
        .read_csv(dir.path().to_str().unwrap(), CsvReadOptions::default())
        .await
        .unwrap()
}

async fn aggregate(session: &SessionContext, dir: &tempfile::TempDir) -> DataFrame {
    let rows = table(session, dir).await;
    let sums = vec![
        sum(col("number")).alias("sum"),
        count(col("text")).alias("rows"),
    ];
    rows.aggregate(vec![col("key")], sums)
        .unwrap()
        .sort_by(vec![col("key")])
        .unwrap()
}

async fn join(session: &SessionContext, dir: &tempfile::TempDir) -> DataFrame {
    let left = table(session, dir).await;
    let right = table(session, dir).await;
    let right = right
        .select(vec![col("number").alias("other"), col("text").alias("of")])
        .unwrap();
    let on = left
        .join(right, JoinType::Inner, &["number"], &["other"], None)
        .unwrap();
    on.sort_by(vec![col("number")]).unwrap()
}

fn text(batches: &[RecordBatch]) -> String {
    pretty_format_batches(batches).unwrap().to_string()
}

async fn check_same_as_on_one_node(options: ChannelOptions) {
    let cluster = Cluster::start(options);
    let dir = files(2000);
    let (distributed, single) = (cluster.session(), SessionContext::new());
    let pairs = [
        (
            aggregate(&distributed, &dir).await,
            aggregate(&single, &dir).await,
        ),
        (join(&distributed, &dir).await, join(&single, &dir).await),
    ];
    for (distributed, single) in pairs {
        let plan = distributed.clone().create_physical_plan().await.unwrap();
        let plan = display_plan_ascii(plan.as_ref(), false);
        assert!(plan.contains("NetworkShuffleExec"), "{plan}");
        let (distributed, single) = (distributed.collect().await, single.collect().await);
        assert_eq!(
            text(&distributed.unwrap()),
            text(&single.unwrap()),
            "{plan}"
        );
    }
    cluster.check_idle().await;
    let received = cluster
        .workers
        .iter()
        .map(|worker| worker.counters().bytes_received);
    assert!(
        received.sum::<u64>() > 100_000,
        "workers pulled from each other"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_has_the_result_that_it_has_on_one_node() {
    check_same_as_on_one_node(ChannelOptions::default()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_with_compression_and_little_memory() {
    let (compression, budget_bytes) = (Compression::Lz4, Some(1));
    check_same_as_on_one_node(ChannelOptions {
        compression,
        budget_bytes,
    })
    .await;
}

/// Rows with the number of rows before each of them: every task needs all of one side.
async fn ranks(session: &SessionContext, dir: &tempfile::TempDir) -> DataFrame {
    let right = table(session, dir).await;
    let right = right.select(vec![col("number").alias("other")]).unwrap();
    let all = table(session, dir)
        .await
        .join_on(right, JoinType::Inner, [col("number").gt(col("other"))])
        .unwrap()
        .aggregate(vec![col("number")], vec![count(lit(1)).alias("rank")])
        .unwrap();
    all.sort_by(vec![col("number")]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_requests_are_answered_by_one_broadcast() {
    let cluster = Cluster::start(ChannelOptions::default());
    let dir = files(200);
    let single = ranks(&SessionContext::new(), &dir).await;
    let expected = text(&single.collect().await.unwrap());
    let deadline = Instant::now() + AMPLE;
    let broadcasts = || {
        let counters = cluster.workers.iter().map(Exchange::counters);
        counters.map(|it| it.broadcasts_sent).sum::<u64>()
    };
    // The first queries have the nodes asked to take each other's broadcasts.
    while broadcasts() < 20 {
        let distributed = ranks(&cluster.session(), &dir).await;
        let plan = distributed.clone().create_physical_plan().await.unwrap();
        let plan = display_plan_ascii(plan.as_ref(), false);
        assert!(plan.contains("NetworkBroadcastExec"), "{plan}");
        assert_eq!(text(&distributed.collect().await.unwrap()), expected);
        assert!(Instant::now() < deadline, "nothing is broadcast: {plan}");
    }
    cluster.check_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_at_a_worker_has_its_type_at_the_coordinator() {
    let cluster = Cluster::start(ChannelOptions::default());
    let dir = files(100);
    let rows = table(&cluster.session(), &dir).await;
    let divided = sum(lit(1) / (col("number") - lit(77)));
    let rows = rows.aggregate(vec![col("key")], vec![divided]).unwrap();
    let error = rows.collect().await.unwrap_err();
    let root = error.find_root();
    let is_division = |error: &ArrowError| matches!(error, ArrowError::DivideByZero);
    assert!(
        matches!(root, DataFusionError::ArrowError(e, _) if is_division(e)),
        "{error:?}"
    );
    cluster.check_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_is_dropped_ends_at_the_workers() {
    let cluster = Cluster::start(ChannelOptions::default());
    let dir = files(5000);
    let mut batches = join(&cluster.session(), &dir)
        .await
        .execute_stream()
        .await
        .unwrap();
    batches.next().await.unwrap().unwrap();
    let held = cluster.held().await;
    assert!(held.streams > 0 && held.tasks > 0, "{held:?}");
    drop(batches);
    cluster.check_idle().await;
    let deadline = Instant::now() + AMPLE;
    loop {
        let held = cluster.held().await;
        if (held.tasks, held.bytes()) == (0, 0) {
            break;
        }
        assert!(Instant::now() < deadline, "{held:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let limited = table(&cluster.session(), &dir)
        .await
        .limit(0, Some(1))
        .unwrap();
    assert_eq!(limited.collect().await.unwrap()[0].num_rows(), 1);
    cluster.check_idle().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_tells_its_version() {
    let cluster = Cluster::start(ChannelOptions::default());
    let url = node_url("storage1").unwrap();
    let mut channel = cluster
        .resolver()
        .get_worker_client_for_url(&url)
        .await
        .unwrap();
    let info = channel
        .get_worker_info(GetWorkerInfoRequest {})
        .await
        .unwrap();
    assert_eq!(info.version, "7");
    let nowhere = node_url("nowhere").unwrap();
    let mut channel = cluster
        .resolver()
        .get_worker_client_for_url(&nowhere)
        .await
        .unwrap();
    let error = channel
        .get_worker_info(GetWorkerInfoRequest {})
        .await
        .err()
        .unwrap();
    assert!(error.to_string().contains("nowhere"), "{error}");
}
