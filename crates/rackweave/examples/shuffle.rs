//! Rows from two storage nodes to two compute nodes, by key: `cargo run --example shuffle`.
//!
//! Producers and consumers load and store in their own memory; the switch moves the items. Here one
//! thread plays all of them, so the rings hold all rows; each may have a thread of its own.

use rackweave::flow::{Partitioner, Taken};
use rackweave::{Rack, RackBuilder};
use std::error::Error;

const ROWS: u64 = 10_000;
const ROW: usize = 16;

/// A rack in this process. `Rack::builder().simulated()` builds one in virtual time.
pub fn main() -> Result<(), Box<dyn Error>> {
    run(Rack::builder())
}

/// Runs the example on the given rack.
pub fn run(builder: RackBuilder) -> Result<(), Box<dyn Error>> {
    let rack = builder.build()?;
    let (from, to) = (["storage0", "storage1"], ["compute0", "compute1"]);
    let flow = rack.flow(from, to).build()?;
    let progress = rack.any_node(); // Waiting drives the rack.
    for producer in 0..2 {
        let mut rows = Partitioner::new(flow.take_producers(producer as usize)?, ROW);
        for key in producer * ROWS..(producer + 1) * ROWS {
            let row = |bytes: &mut [u8]| bytes[..8].copy_from_slice(&key.to_le_bytes());
            rows.push_wait(&progress, key, row)?;
        }
        rows.finish_wait(&progress)?;
    }
    let mut all = 0;
    for index in 0..2 {
        let mut sum = 0;
        let mut add = |item: &[u8]| {
            for row in Partitioner::rows(item, ROW).into_iter().flatten() {
                sum += row.first_chunk().copied().map_or(0, u64::from_le_bytes);
            }
        };
        let mut consumer = flow.take_consumer(index)?;
        while let Taken::Items(_) = consumer.take_each_wait(&progress, 1, &mut add) {}
        println!("compute{index}: rows whose keys add up to {sum}");
        all += sum;
    }
    println!("all there: {}", all == (0..2 * ROWS).sum::<u64>());
    Ok(())
}
