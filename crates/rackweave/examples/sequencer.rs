//! Numbers that nobody gets twice, from a register of the switch: `cargo run --example sequencer`.
//!
//! The switch answers a fetch-and-add in the pass in which it sees it. Threads of several nodes ask
//! at a time; calls that are begun together travel as one request.

use rackweave::sequencer::SequencerService;
use rackweave::{EmbeddedRack, RackConfig};
use std::error::Error;
use std::sync::Arc;
use std::thread::scope;

const CALLS: u64 = 500;

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let rack = Arc::new(EmbeddedRack::new(&RackConfig::with_all_programs())?);
    let node = |name: &str| rack.config().node_named(name).ok_or("no such node");
    let nodes = [node("compute0")?, node("compute1")?];
    let sequencer = SequencerService::new(&rack, 1)?;

    // One number at a time, as for timestamps of transactions, on two nodes.
    let mut all = scope(|scope| {
        let mut threads = Vec::new();
        for node in nodes {
            let mut client = sequencer.connect(node)?;
            threads.push(scope.spawn(move || {
                let numbers = (0..CALLS).map(|_| client.next(1).map(|range| range.start));
                numbers.collect::<Result<Vec<_>, _>>()
            }));
        }
        let mut all = Vec::new();
        for (node, thread) in nodes.iter().zip(threads) {
            let numbers = thread.join().expect("no panic")?;
            println!("{node:?} got {CALLS} numbers, from {} on", numbers[0]);
            all.extend(numbers);
        }
        Ok::<_, Box<dyn Error>>(all)
    })?;
    all.sort_unstable();
    let complete = all.into_iter().eq(1..=2 * CALLS);
    println!("each number once, without a gap: {complete}");

    // Many at a time, as for row numbers of a bulk load.
    let mut client = sequencer.connect(nodes[0])?;
    println!("a thousand in one request: {:?}", client.next(1000)?);

    // A restart of the switch forgets the register, not what was promised.
    rack.restart_switch()?;
    let error = client.next(1).expect_err("the connection broke");
    println!("after a restart of the switch: {error}");
    client.reconnect()?;
    println!("no number comes twice: {:?}", client.next(1)?);
    Ok(())
}
