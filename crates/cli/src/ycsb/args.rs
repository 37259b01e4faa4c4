//! Arguments of `ycsb`.

use crate::globals::RackArgs;
use clap::{Args, ValueEnum};
use rackweave_workload::ycsb::{Distribution, Workload};
use std::path::PathBuf;

/// Arguments of `ycsb`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave ycsb --target pages --workload c --zipf 1.1
  rackweave ycsb --workload a --nodes 4 --depth 16 --buffer 8m
  rackweave ycsb --workload b --indexed 1000           the other pages by the memory server
  rackweave ycsb --workload e --file heap.pages        keep the store, and use it again:
  rackweave ycsb --workload f --file heap.pages --reuse
  rackweave ycsb --workload a --rate 20000             open loop, latency from the intended time
  rackweave ycsb --workload d --simulated --loss 0.01 --seed 7
  rackweave ycsb --target index --access one-sided --cache 1m --workload b
  rackweave ycsb --target index --access in-network --workload c
  rackweave ycsb --target index --access rpc --endpoints 2 --workload e --simulated

Workloads: a (half reads, half updates), b (5 % updates), c (reads), d (reads of what was inserted
last), e (scans), f (half reads, half read-modify-writes). Every record that is read is verified:
that it is whole, and that its version may be seen; a scan must leave none out.

Pages: without --config the rack has --nodes compute nodes, a storage node with the NVMe target,
and a memory server for pages that are not indexed; with it, the compute nodes, the first storage
node and the first memory node of the file. Index: records are the values of a B+tree in the memory
of the first storage node and, with --endpoints 2, of the first DPU. Keys keep the order of records.
In-network: without --config there are two switches in a row, as in fat-btree, with room for 1024
ranges in the fat root and three layers of 4096 tree nodes; a configuration may say otherwise
(switch.topology, switch.index_*). They are given anew what is asked for most while the run goes on.

Exit status: 0 verified, 1 not verified, 2 bad usage or the store cannot be used, 130 interrupted.")]
pub struct YcsbArgs {
    /// What records lie in
    #[arg(long, value_enum, default_value_t)]
    pub target: Target,
    /// Which operations: a to f
    #[arg(long, value_name = "NAME", default_value_t)]
    pub workload: Workload,
    /// Records at the start; without it 200000, of a simulated rack 20000, of a store that is used
    /// again what it has
    #[arg(long, value_name = "N")]
    pub records: Option<u64>,
    /// Operations of all threads together; without it 100000, of a simulated rack 20000
    #[arg(long, value_name = "N")]
    pub operations: Option<u64>,
    /// How records are chosen: uniform, zipfian, scrambled, latest; without it as the workload says
    #[arg(long, value_name = "NAME")]
    pub distribution: Option<Distribution>,
    /// The skew of every distribution but the uniform, 0 to 1.5
    #[arg(long, visible_alias = "zipf", value_name = "Z", default_value_t = 0.99)]
    pub theta: f64,
    /// Bytes of a record, a multiple of 8
    #[arg(long, value_name = "BYTES", value_parser = bytes, default_value = "1000")]
    pub record_size: u64,
    /// Records of a scan at most
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub scan_length: u32,
    /// Pages: bytes of a page, a power of two from 4k to 1m; without it, switch.page_size
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub page_size: Option<u64>,
    /// Pages: bytes of each compute node's buffer frames; k, m and g may follow
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub buffer: Option<u64>,
    /// Compute nodes; without it 2, or all of the configuration
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=200))]
    pub nodes: Option<u16>,
    /// Worker threads of each compute node; of the storage node with --access local
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub threads: u16,
    /// Operations of each thread under way at a time; without it 8
    #[arg(long, value_name = "N")]
    pub depth: Option<u16>,
    /// Index: how threads come to the tree; without it by rpc
    #[arg(long, value_enum, value_name = "HOW")]
    pub access: Option<AccessArg>,
    /// Index: bytes of a tree node, 512, 1k, 2k or 4k; without it 2k
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub node_size: Option<u64>,
    /// Index: 1 is the storage node alone; 2 gives its DPU the upper half of the records, and new
    /// ones; without it 1
    #[arg(long, value_name = "N")]
    pub endpoints: Option<u16>,
    /// Index: the most children of an inner tree node; without it as many as fit, in-network 16,
    /// which is what a switch can know of one
    #[arg(long, value_name = "N")]
    pub fan_out: Option<u16>,
    /// Index, one-sided or in-network: into how many parts a scan is divided, read at a time;
    /// without it 1
    #[arg(long, value_name = "N")]
    pub scan_parts: Option<u16>,
    /// Index, one-sided: bytes of upper tree nodes that each thread keeps of each endpoint; without
    /// it none
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub cache: Option<u64>,
    /// Index: server threads of each endpoint; without it 1
    #[arg(long, value_name = "N")]
    pub server_threads: Option<u16>,
    /// Pages: how many the switch indexes; without it, as many as fit
    #[arg(long, value_name = "N")]
    pub indexed: Option<u64>,
    /// Pages: the node whose memory has the directory entries of the others; without it, the first
    /// memory node
    #[arg(long, value_name = "NODE")]
    pub fallback: Option<String>,
    /// Pages: the file that the store lies in; without it, one without a name in the folder for
    /// temporary files
    #[arg(long, value_name = "PATH", conflicts_with = "memory")]
    pub file: Option<PathBuf>,
    /// Pages: use the store that is in the file
    #[arg(long, requires = "file")]
    pub reuse: bool,
    /// Pages: the store lies in memory, not in a file
    #[arg(long)]
    pub memory: bool,
    /// Pages: each write to the file is whole or not there when the power fails, and durable; a
    /// file stays with or without it
    #[arg(long, conflicts_with = "memory")]
    pub double_write: bool,
    /// Pages: whether nodes read by leases, without asking the switch, what is read often; both:
    /// one run without and one with them. Not in virtual time
    #[arg(long, value_name = "WHEN", default_value = "on")]
    pub leases: Leases,
    /// Pages: how often the switch verifies a page, without a write in between, before nodes get
    /// leases on it
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(..=7))]
    pub lease_after: u8,
    /// Operations per second of all threads together, at times of a Poisson process; latencies
    /// count from the intended time. Without it, an operation begins when another ends
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// In virtual time, on a modelled 100 Gbit/s testbed with four SSDs
    #[arg(long)]
    pub simulated: bool,
    #[command(flatten)]
    pub rack: RackArgs,
}

/// Whether nodes get leases.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leases {
    /// They do
    On,
    /// They do not
    Off,
    /// A run without, then a run with them
    Both,
}

/// What records lie in.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Target {
    /// A heap of pages
    #[default]
    Pages,
    /// A B+tree
    Index,
}

/// How threads come to the tree.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessArg {
    /// Threads of the storage node call it
    Local,
    /// Threads of compute nodes send requests
    Rpc,
    /// Threads of compute nodes READ it, and send requests to change it
    OneSided,
    /// The same, and READs begin at the deepest tree node that the switches on the way know
    InNetwork,
}

/// A number of bytes; `k`, `m` and `g` stand for 2^10, 2^20 and 2^30.
fn bytes(text: &str) -> Result<u64, String> {
    let lower = text.to_ascii_lowercase();
    let (digits, shift) = match lower.char_indices().last() {
        Some((at, 'k')) => (&lower[..at], 10),
        Some((at, 'm')) => (&lower[..at], 20),
        Some((at, 'g')) => (&lower[..at], 30),
        _ => (&lower[..], 0),
    };
    let number: u64 = digits
        .parse()
        .map_err(|_| "a number is needed; k, m or g may follow".to_owned())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "too many bytes".to_owned())
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn bytes_may_have_a_unit() {
        assert_eq!(bytes("4096"), Ok(4096));
        assert_eq!(bytes("64k"), Ok(64 << 10));
        assert_eq!(bytes("3M"), Ok(3 << 20));
        assert_eq!(bytes("1g"), Ok(1 << 30));
        for wrong in ["", "k", "4kk", "-1", "1.5m", "18446744073709551615g"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
