//! A distributed `SELECT key, sum(value) GROUP BY key`: `cargo run --example exchange`.
//!
//! Three workers each have a part of a table. In the first stage they partition their rows by key;
//! in the second, each sums one partition, which it pulls from all of them. A coordinator starts
//! the second stage and collects its results. Each arrow is a stream with its own credit:
//!
//! ```text
//! coordinator ──"sum 2"──▶ worker 2 ──"rows 2"──▶ workers 0, 1, 2
//! ```
//!
//! An engine does the same with its plans in the requests and its batches in the messages.

use rackweave::exchange::{Budget, Exchange, ExchangeOptions, Incoming, StreamReceiver};
use rackweave::{Rack, RackBuilder};
use std::collections::BTreeMap;
use std::error::Error;

const WORKERS: [&str; 3] = ["storage0", "storage1", "compute1"];
const ROWS: u64 = 30_000; // of each worker
const BATCH: usize = 1_000; // rows of a message
const BUDGET: u64 = 16 << 20; // bytes that a query may have waiting at a node

type Failure = Box<dyn Error>;

/// A rack in this process; on a rack of processes each worker has its own.
pub fn main() -> Result<(), Failure> {
    run(Rack::builder())
}

/// Runs the example on the given rack.
pub fn run(builder: RackBuilder) -> Result<(), Failure> {
    let rack = builder.build()?;
    for (number, name) in WORKERS.iter().enumerate() {
        let exchange = start(&rack, name)?;
        std::thread::spawn(move || serve(&exchange, number as u64));
    }
    let coordinator = start(&rack, "compute0")?;
    let budget = Budget::new(BUDGET);
    let (mut groups, mut total) = (0, 0);
    for mut results in pull(&coordinator, "sum", 0..WORKERS.len(), &budget)? {
        while let Some(message) = results.next_wait() {
            for (_key, sum) in pairs(&message?) {
                (groups, total) = (groups + 1, total + sum);
            }
        }
    }
    println!(
        "{groups} groups, {total} in total, at most {} bytes waited",
        budget.peak()
    );
    assert_eq!(
        (groups, total),
        (100, WORKERS.len() as u64 * (0..ROWS).sum::<u64>())
    );
    Ok(())
}

fn start(rack: &Rack, node: &str) -> Result<Exchange, Failure> {
    Ok(Exchange::start(
        rack,
        &rack.node(node)?,
        ExchangeOptions::default(),
    )?)
}

/// Opens a stream to every worker. Partition *i* of the request goes to worker *i*.
fn pull(
    exchange: &Exchange,
    operator: &str,
    partitions: impl Iterator<Item = usize>,
    budget: &Budget,
) -> Result<Vec<StreamReceiver>, Failure> {
    let open = |(worker, partition): (&&str, usize)| {
        let (sender, receiver) =
            exchange.open(worker, format!("{operator} {partition}"), budget)?;
        sender.finish(); // there is nothing but the request
        Ok(receiver)
    };
    WORKERS.iter().zip(partitions).map(open).collect()
}

/// A worker: each stream has a thread of its own here. Tasks of an executor do as well.
fn serve(exchange: &Exchange, number: u64) {
    while let Some(mut stream) = exchange.accept_wait() {
        let exchange = exchange.clone();
        std::thread::spawn(move || match execute(&exchange, number, &mut stream) {
            Ok(()) => stream.sender.finish(),
            // The peer gets the text, and its own consumer in turn.
            Err(error) => stream.sender.fail(error.to_string()),
        });
    }
}

fn execute(exchange: &Exchange, number: u64, stream: &mut Incoming) -> Result<(), Failure> {
    let request = String::from_utf8(stream.request.clone())?;
    match request.split_once(' ') {
        Some(("rows", partition)) => rows(number, partition.parse()?, stream),
        Some(("sum", partition)) => sum(exchange, partition.parse()?, stream),
        _ => Err(format!("no such operator: {request}").into()),
    }
}

/// The first stage: this worker's rows of a partition, in batches.
fn rows(number: u64, partition: u64, stream: &mut Incoming) -> Result<(), Failure> {
    let key = |row: u64| (row * 7 + number) % 100;
    let mine = (0..ROWS).map(|row| (key(row), row));
    let mine = mine.filter(|(key, _)| key % WORKERS.len() as u64 == partition);
    let rows: Vec<(u64, u64)> = mine.collect();
    for batch in rows.chunks(BATCH) {
        // Waits while the consumer has a window of batches. An error: it wants no more.
        stream.sender.send_wait(bytes(batch.iter().copied()))?;
    }
    Ok(())
}

/// The second stage: sums of a partition. Its inputs may be read in any order, also one after the
/// other: a stream that nobody reads stops no other.
fn sum(exchange: &Exchange, partition: usize, stream: &mut Incoming) -> Result<(), Failure> {
    let budget = Budget::new(BUDGET);
    let mut sums = BTreeMap::<u64, u64>::new();
    for mut input in pull(exchange, "rows", std::iter::repeat(partition), &budget)? {
        while let Some(message) = input.next_wait() {
            for (key, value) in pairs(&message?) {
                *sums.entry(key).or_default() += value;
            }
        }
    }
    Ok(stream.sender.send_wait(bytes(sums.into_iter()))?)
}

fn bytes(pairs: impl Iterator<Item = (u64, u64)>) -> Vec<u8> {
    pairs
        .flat_map(|(key, value)| [key.to_le_bytes(), value.to_le_bytes()].concat())
        .collect()
}

fn pairs(message: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    message
        .chunks_exact(16)
        .map(move |pair| (number(&pair[..8]), number(&pair[8..])))
}
