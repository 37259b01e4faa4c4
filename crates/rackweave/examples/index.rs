//! A B+tree on a storage node, read in three ways: `cargo run --example index`.
//!
//! By requests, the storage node's cores do the work. One-sided, the client READs a tree node for
//! each level. In the network, the switch knows the upper levels and leads the READ to the deepest
//! tree node that it knows, so that one or two are enough.

use rackweave::index::{Access, Direction, IndexNetworkSpec, IndexOptions, IndexService};
use rackweave::{EmbeddedRack, RackConfig, TIME_LIMIT};
use std::error::Error;
use std::sync::Arc;

const KEYS: u64 = 20_000;
const LOOKUPS: u64 = 500;

/// Runs the example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let rack = Arc::new(EmbeddedRack::new(&RackConfig::with_all_programs())?);
    let options = IndexOptions {
        node_bytes: 512,
        network: Some(IndexNetworkSpec::default()),
        ..IndexOptions::default()
    };
    let index = IndexService::new(&rack, &options)?;
    index.load((0..KEYS).map(|row| (row * 10, format!("row {row}").into_bytes())))?;
    let summary = index.load_network(TIME_LIMIT)?;
    println!(
        "{KEYS} keys loaded; the switch knows {} tree nodes",
        summary.targets
    );

    let node = rack.config().node_named("compute0").ok_or("no such node")?;
    for access in [Access::Rpc, Access::OneSided, Access::InNetwork] {
        let mut client = index.connect(node, access)?;
        for lookup in 0..LOOKUPS {
            let row = lookup * 7919 % KEYS;
            let value = client.get(row * 10)?.ok_or("a key is missing")?;
            assert_eq!(*value, *format!("row {row}").as_bytes());
        }
        let reads = client.client().reader_statistics().node_reads;
        let reads = reads as f64 / LOOKUPS as f64;
        println!("{access:?}: {LOOKUPS} keys found, {reads:.2} tree nodes READ for each");
    }

    let mut client = index.connect(node, Access::InNetwork)?;
    println!("a new key: {}", client.insert(55, b"new")?);
    println!("new again: {}", client.insert(55, b"another")?);
    println!("a key goes: {}", client.delete(60)?);
    for (key, value) in client.scan(40..=80, Direction::Forward, 10)? {
        println!("  {key}: {}", String::from_utf8_lossy(&value));
    }
    Ok(())
}
