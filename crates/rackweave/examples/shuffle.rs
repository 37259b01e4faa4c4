//! Rows from two storage nodes to two compute nodes, by key: `cargo run --example shuffle`.
//!
//! Producers and consumers load and store in their own memory; the switch moves what is there.

use rackweave::flow::{Partitioner, Taken};
use rackweave::{EmbeddedRack, RackConfig};
use std::error::Error;
use std::thread::scope;

const ROWS: u64 = 100_000;
const ROW: usize = 16;

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let rack = EmbeddedRack::new(&RackConfig::default())?;
    let node = |name: &str| rack.config().node_named(name).ok_or("no such node");
    let producers = [node("storage0")?, node("storage1")?];
    let consumers = [node("compute0")?, node("compute1")?];
    let flow = rack.create_flow(rack.flow_spec(&producers, &consumers, 16 << 10, 512 << 10))?;
    let progress = &*rack.progress(); // whoever waits drives the rack

    let sums = scope(|scope| {
        for producer in 0..producers.len() {
            let mut rows = Partitioner::new(flow.producers(producer)?, ROW);
            scope.spawn(move || {
                let first = producer as u64 * ROWS;
                for key in first..first + ROWS {
                    let row = |bytes: &mut [u8]| bytes[..8].copy_from_slice(&key.to_le_bytes());
                    rows.push_wait(progress, key, row)?;
                }
                rows.finish_wait(progress)
            });
        }
        let mut consuming = Vec::new();
        for consumer in 0..consumers.len() {
            let mut consumer = flow.consumer(consumer)?;
            consuming.push(scope.spawn(move || {
                let (mut count, mut sum) = (0u64, 0u64);
                let mut add = |item: &[u8]| {
                    for row in Partitioner::rows(item, ROW).into_iter().flatten() {
                        let key = row.first_chunk().copied().map_or(0, u64::from_le_bytes);
                        (count, sum) = (count + 1, sum + key);
                    }
                };
                while let Taken::Items(_) = consumer.take_each_wait(progress, 1, &mut add) {}
                (count, sum)
            }));
        }
        let sums = consuming.into_iter().map(|thread| thread.join());
        let sums: Result<Vec<(u64, u64)>, _> = sums.collect();
        sums.map_err(|_| Box::<dyn Error>::from("a consumer panicked"))
    })?;
    for (consumer, (count, sum)) in sums.iter().enumerate() {
        println!("compute{consumer}: {count} rows, their keys add up to {sum}");
    }
    let all: u64 = sums.iter().map(|(_, sum)| sum).sum();
    println!("all there: {}", all == (0..2 * ROWS).sum::<u64>());
    Ok(())
}
