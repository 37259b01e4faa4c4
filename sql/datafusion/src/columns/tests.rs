//! Tables at storage nodes of a rack in this process.

use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, Int64Array, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::{SessionStateBuilder, TaskContext};
use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_distributed::{DistributedExt as _, SessionStateBuilderExt as _, Worker};
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_extension_codec, physical_plan_to_bytes_with_extension_codec,
};
use rackweave::Rack;
use rackweave::config::{NodeConfig, Role};
use rackweave::exchange::{Exchange, ExchangeOptions};
use tokio::task::JoinHandle;

use super::*;
use crate::channel::{ChannelOptions, RackweaveChannelResolver, RackweaveWorkerResolver};
use crate::worker::serve;

const CHUNKS: u32 = 5;
const CHUNK_ROWS: i64 = 1000;

/// The chunks of the storage nodes.
const SHARES: [(&str, &[u32]); 2] = [("storage0", &[0, 2, 4]), ("storage1", &[1, 3])];

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("number", DataType::Int64, false),
        Field::new("text", DataType::Utf8View, true),
    ]))
}

fn chunk(number: u32) -> RecordBatch {
    let first = i64::from(number) * CHUNK_ROWS;
    let numbers = first..first + CHUNK_ROWS;
    let text = |number: i64| (number % 7 > 0).then(|| format!("the text of row {number}"));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(numbers.clone())),
        Arc::new(StringViewArray::from_iter(numbers.map(text))),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

fn start(rack: &Rack, node: &str) -> Exchange {
    Exchange::start(rack, &rack.node(node).unwrap(), ExchangeOptions::default()).unwrap()
}

fn server(rack: &Rack, exchange: &Exchange, chunks: &[u32]) -> StorageServer {
    let mut tables = StorageTables::new(rack);
    tables.add_table("items", schema(), CHUNKS).unwrap();
    for &number in chunks {
        tables.add_chunk("items", number, &chunk(number)).unwrap();
    }
    let listen = "127.0.0.1:0".parse().unwrap();
    StorageServer::start(rack, exchange.clone(), listen, tables).unwrap()
}

fn serving(server: StorageServer) -> JoinHandle<()> {
    tokio::spawn(async move { server.serve().await })
}

struct Cluster {
    rack: Rack,
    coordinator: Exchange,
    client: StorageClient,
    storage: Vec<(Exchange, JoinHandle<()>)>,
}

impl Cluster {
    fn start() -> Self {
        let rack = Rack::builder().configure(|config| {
            config.node.push(NodeConfig::new("compute2", Role::Compute));
        });
        let rack = rack.build().unwrap();
        let coordinator = start(&rack, "compute0");
        let client = StorageClient::start(&rack, &coordinator).unwrap();
        let start = |(node, chunks): (&str, &[u32])| {
            let exchange = start(&rack, node);
            let server = server(&rack, &exchange, chunks);
            (exchange, serving(server))
        };
        let storage = SHARES.into_iter().map(start).collect();
        Self {
            rack,
            coordinator,
            client,
            storage,
        }
    }

    async fn table(&self) -> StorageTable {
        let nodes = SHARES.map(|(node, _)| node);
        let mut tables = tables(&self.client, nodes).await.unwrap();
        assert_eq!(tables.len(), 1);
        tables.remove(0)
    }

    async fn session(&self) -> SessionContext {
        let config = SessionConfig::new()
            .with_target_partitions(2)
            .with_batch_size(300);
        let context = SessionContext::new_with_config(config);
        let table = Arc::new(self.table().await);
        context.register_table("items", table).unwrap();
        context
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.storage.iter().for_each(|(_, serving)| serving.abort());
    }
}

async fn query(context: &SessionContext, sql: &str) -> String {
    let rows = context.sql(sql).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&rows).unwrap().to_string()
}

async fn fails(context: &SessionContext, sql: &str) -> String {
    let rows = context.sql(sql).await.unwrap().collect();
    let ended = tokio::time::timeout(Duration::from_secs(20), rows).await;
    ended.expect("it ends").unwrap_err().to_string()
}

/// The bytes that a scan fetched.
async fn fetched(scan: ColumnScanExec) -> usize {
    let scan: Arc<dyn ExecutionPlan> = Arc::new(scan);
    collect(Arc::clone(&scan), Arc::new(TaskContext::default()))
        .await
        .unwrap();
    let metrics = scan.metrics().unwrap();
    let values = metrics.iter().map(|metric| metric.value());
    let fetched = values.filter(|value| value.name() == "bytes_fetched");
    fetched.map(MetricValue::as_usize).sum()
}

const TOTAL: &str = "select count(*) as c, sum(number) as s, count(text) as t, max(text) as m \
                     from items where number % 2 = 0";

/// Without spaces and lines.
const TOTAL_ROW: &str = "|2500|6247500|2142|thetextofrow998|";

fn is_total(rows: &str) -> bool {
    rows.replace(' ', "").contains(TOTAL_ROW)
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_are_found_and_read() {
    let cluster = Cluster::start();
    let table = cluster.table().await;
    assert_eq!((table.name(), table.rows()), ("items", 5000));
    let context = cluster.session().await;
    let total = query(&context, TOTAL).await;
    assert!(is_total(&total), "{total}");
    let all = query(&context, "select * from items order by number").await;
    let rows: Vec<_> = (0..CHUNKS).map(chunk).collect();
    assert_eq!(all, pretty_format_batches(&rows).unwrap().to_string());
    let first = query(&context, "select number from items limit 3").await;
    assert_eq!(first.lines().count(), 3 + 4, "{first}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_projected_is_fetched() {
    let cluster = Cluster::start();
    let table = cluster.table().await;
    let scan =
        |projection: &[usize], limit| table.scan_columns(Some(projection), limit, 2).unwrap();
    let [none, number, text] = [&[][..], &[0], &[1]].map(|projection| scan(projection, None));
    let (numbers, texts) = (number.bytes(), text.bytes());
    assert_eq!(numbers, 5 * 8000);
    assert!(texts > 5000 * 16, "{texts}");
    assert_eq!(table.bytes(), numbers + texts);
    assert_eq!(fetched(number).await as u64, numbers);
    assert_eq!(fetched(text).await as u64, texts);
    assert_eq!(fetched(none).await, 0);
    // A limit reads the chunks that have as many rows.
    assert_eq!(fetched(scan(&[0], Some(1500))).await, 2 * 8000);
    let context = cluster.session().await;
    let counted = query(&context, "select count(*) as n from items").await;
    assert!(counted.contains("5000"), "{counted}");
}

#[tokio::test]
async fn scans_are_sent_to_workers() {
    let cluster = Cluster::start();
    let scan = cluster
        .table()
        .await
        .scan_columns(Some(&[1, 0]), Some(7), 3)
        .unwrap();
    let codec = ColumnScanCodec::new(cluster.client.clone());
    let plan: Arc<dyn ExecutionPlan> = Arc::new(scan.clone());
    let bytes = physical_plan_to_bytes_with_extension_codec(plan, &codec).unwrap();
    let context = TaskContext::default();
    let plan = physical_plan_from_bytes_with_extension_codec(&bytes, &context, &codec).unwrap();
    let decoded = plan.downcast_ref::<ColumnScanExec>().unwrap();
    assert_eq!(decoded.schema(), scan.schema());
    assert_eq!(decoded.partitions(), scan.partitions());
    assert_eq!((decoded.table(), decoded.limit()), ("items", Some(7)));
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_divide_a_scan() {
    let cluster = Cluster::start();
    let worker = |node| {
        let exchange = start(&cluster.rack, node);
        let channels = RackweaveChannelResolver::new(exchange.clone(), ChannelOptions::default());
        let client = StorageClient::start(&cluster.rack, &exchange).unwrap();
        let build = move |query: datafusion_distributed::WorkerQueryContext| {
            let builder = query
                .builder
                .with_distributed_channel_resolver(channels.clone());
            let state = with_column_scans(builder, &client).build();
            async move { Ok(state) }
        };
        tokio::spawn(serve(exchange, Worker::from_session_builder(build)))
    };
    // Storage nodes have no workers, so these are at the nodes that are left.
    let nodes = ["compute1", "compute2"];
    let serving = nodes.map(worker);
    let channels =
        RackweaveChannelResolver::new(cluster.coordinator.clone(), ChannelOptions::default());
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_config(SessionConfig::new().with_target_partitions(2))
        .with_distributed_worker_resolver(RackweaveWorkerResolver::new(nodes).unwrap())
        .with_distributed_channel_resolver(channels)
        .with_distributed_planner()
        .with_distributed_file_scan_config_bytes_per_partition(1)
        .unwrap();
    let state = with_column_scans(state, &cluster.client);
    let context = SessionContext::from(state.build());
    let table = Arc::new(cluster.table().await);
    context.register_table("items", table).unwrap();
    let plan = context
        .sql(TOTAL)
        .await
        .unwrap()
        .create_physical_plan()
        .await
        .unwrap();
    let text = datafusion_distributed::display_plan_ascii(plan.as_ref(), false);
    assert!(
        text.contains("t1: ColumnScanExec: table=items, chunks=2, partitions=2"),
        "{text}"
    );
    let total = query(&context, TOTAL).await;
    assert!(is_total(&total), "{total}");
    serving.iter().for_each(JoinHandle::abort);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storage_node_that_was_started_again_is_found() {
    let mut cluster = Cluster::start();
    let context = cluster.session().await;
    let before = query(&context, TOTAL).await;
    let (exchange, serving_before) = cluster.storage.remove(1);
    serving_before.abort();
    // The server is dropped with its task.
    assert!(serving_before.await.unwrap_err().is_cancelled());
    let server = server(&cluster.rack, &exchange, SHARES[1].1);
    cluster.storage.push((exchange, serving(server)));
    assert_eq!(query(&context, TOTAL).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_name_the_storage_node() {
    let mut cluster = Cluster::start();
    let context = cluster.session().await;
    query(&context, TOTAL).await;
    let (exchange, serving_before) = cluster.storage.remove(1);
    serving_before.abort();
    assert!(serving_before.await.unwrap_err().is_cancelled());
    // Other columns under the same names.
    let mut other = StorageTables::new(&cluster.rack);
    other.add_table("items", schema(), CHUNKS).unwrap();
    other.add_chunk("items", 1, &chunk(1).slice(0, 10)).unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let other = StorageServer::start(&cluster.rack, exchange.clone(), listen, other).unwrap();
    let serving_other = serving(other);
    let error = fails(&context, TOTAL).await;
    let expect = "the storage node storage1 has 10 rows of int64 as 'items/1/number', not 1000";
    assert!(error.contains(expect), "{error}");
    serving_other.abort();
    assert!(serving_other.await.unwrap_err().is_cancelled());
    // A node without an exchange.
    exchange.close();
    drop(exchange);
    let error = fails(&context, TOTAL).await;
    assert!(
        error.contains("the storage node storage1 can't be reached"),
        "{error}"
    );
    let error = tables(&cluster.client, ["storage1"]).await.unwrap_err();
    assert!(matches!(&error, StorageError::Unreachable { node, .. } if node == "storage1"));
}

#[tokio::test]
async fn shares_must_fit() {
    let rack = Rack::builder().build().unwrap();
    let exchange = start(&rack, "compute0");
    let client = StorageClient::start(&rack, &exchange).unwrap();
    let part = |chunks: &[u32], total| TablePart {
        name: "items".to_owned(),
        schema: schema(),
        chunks_total: total,
        chunks: chunks
            .iter()
            .map(|&number| ChunkDescription {
                number,
                rows: 10,
                column_bytes: vec![80, 160],
            })
            .collect(),
    };
    let check = |parts: [TablePart; 2], expect: &str| {
        let answers = [Arc::from("a"), Arc::from("b")].into_iter().zip(parts);
        let answers = answers.map(|(node, part)| (node, vec![part])).collect();
        let combined = combine(&client, answers);
        let shown = combined.map_or_else(
            |error| error.to_string(),
            |tables| format!("{} rows", tables[0].rows()),
        );
        assert!(shown.contains(expect), "{shown}");
    };
    check([part(&[0, 2], 3), part(&[1], 3)], "30 rows");
    // Both have chunk 1.
    check([part(&[0, 1], 3), part(&[1, 2], 3)], "30 rows");
    check([part(&[0], 3), part(&[2], 3)], "chunk 1 of the 3 chunks");
    check(
        [part(&[0], 3), part(&[1], 2)],
        "the numbers of chunks differ",
    );
    let mut other = part(&[0], 2);
    other.chunks[0].rows = 11;
    check(
        [part(&[0, 1], 2), other],
        "a and b have different tables 'items': the rows",
    );
    let mut other = part(&[1], 2);
    other.schema = Arc::new(schema().project(&[0]).unwrap());
    check([part(&[0], 2), other], "the columns differ");
}
