//! Unique numbers from a register of the switch: `cargo run --example sequencer`.
//!
//! The switch answers a fetch-and-add in the pass in which it sees it. A client is for one thread
//! at a time; calls that are started together travel as one request.

use rackweave::sequencer::SequencerService;
use rackweave::{Rack, RackBuilder};
use std::error::Error;

const CALLS: u64 = 500;

/// A rack in this process. `Rack::builder().simulated()` builds one in virtual time.
pub fn main() -> Result<(), Box<dyn Error>> {
    run(Rack::builder())
}

/// Runs the example on the given rack.
pub fn run(builder: RackBuilder) -> Result<(), Box<dyn Error>> {
    let rack = builder.build()?;
    let sequencer = SequencerService::new(&rack, 1)?;
    let mut here = sequencer.connect(&rack.node("compute0")?)?;
    let mut there = sequencer.connect(&rack.node("compute1")?)?;

    // One number at a time, as for transaction timestamps, on two nodes.
    let mut all = Vec::new();
    for _ in 0..CALLS {
        all.extend(here.next(1)?);
        all.extend(there.next(1)?);
    }
    let complete = all.into_iter().eq(1..=2 * CALLS);
    println!("each number once, without a gap, in order: {complete}");

    // Many at a time, as for row numbers of a bulk load.
    println!("a thousand in one request: {:?}", here.next(1000)?);

    // The number at which a successor must start, so that no number is handed out twice.
    println!("none was handed out from {:?} on", sequencer.reserved());
    Ok(())
}
