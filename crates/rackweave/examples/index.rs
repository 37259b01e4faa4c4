//! A B+tree on a storage node, read in three ways: `cargo run --example index`.
//!
//! By requests, the storage node's cores do the work. One-sided, the client READs one tree node per
//! level. In the network, the switch holds the upper levels and directs the READ to the deepest
//! tree node that it knows, so that one or two READs are enough.

use rackweave::index::{Access, Direction, IndexNetworkSpec, IndexOptions, IndexService};
use rackweave::{Rack, RackBuilder, TIME_LIMIT};
use std::error::Error;

const KEYS: u64 = 20_000;
const LOOKUPS: u64 = 500;

/// A rack in this process. `Rack::builder().simulated()` builds one in virtual time.
pub fn main() -> Result<(), Box<dyn Error>> {
    run(Rack::builder())
}

/// Runs the example on the given rack.
pub fn run(builder: RackBuilder) -> Result<(), Box<dyn Error>> {
    let rack = builder.build()?;
    let options = IndexOptions {
        node_bytes: 512,
        network: Some(IndexNetworkSpec::default()),
        ..IndexOptions::default()
    };
    let index = IndexService::new(&rack, &options)?;
    index.load((0..KEYS).map(|row| (row * 10, format!("row {row}").into_bytes())))?;
    let known = index.load_network(TIME_LIMIT)?.targets;
    println!("{KEYS} keys loaded; the switch knows {known} tree nodes");
    let node = rack.node("compute0")?;
    for access in [Access::Rpc, Access::OneSided, Access::InNetwork] {
        let mut client = index.connect(&node, access)?;
        for row in (0..LOOKUPS).map(|lookup| lookup * 7919 % KEYS) {
            let value = client.get(row * 10)?.ok_or("a key is missing")?;
            assert_eq!(*value, *format!("row {row}").as_bytes());
        }
        let reads = client.reader_statistics().node_reads as f64 / LOOKUPS as f64;
        println!("{access:?}: {LOOKUPS} keys found, {reads:.2} tree nodes READ for each");
    }

    let mut client = index.connect(&node, Access::InNetwork)?;
    let (is_new, is_gone) = (client.insert(55, b"new")?, client.delete(60)?);
    println!("a key comes: {is_new}, one goes: {is_gone}");
    for (key, value) in client.scan(40..=80, Direction::Forward, 10)? {
        println!("  {key}: {}", String::from_utf8_lossy(&value));
    }
    Ok(())
}
