//! The functions behind the fuzz targets, and the replay of their corpora.
//!
//! Each target is a function of bytes that must return for every input: [`parse`] feeds the parser,
//! [`nic`] packets to one NIC, [`nic_ops`] operations on two connected NICs, [`switch`] packets and
//! faults to a switch that runs flows, [`programs()`] to one with pages and sequencers,
//! [`handshake()`] a stream to both state machines of the messaging handshake, [`tree_node()`] the
//! memory of a B+tree to its readers, [`rpc()`] messages above the transport and requests to an
//! index server, [`superblock()`] page 0 of a page store, [`config()`] the text of a configuration,
//! [`nvme()`] capsules to an NVMe-oF target, [`control()`] a stream of control messages,
//! [`shared_memory()`] the segment of a link, the arena and the handover of a hostile process,
//! [`index()`] queries to a switch that leads them, [`messaging()`] what a hostile peer writes into
//! the memory of a messaging connection, [`ask()`] requests of a node to the controller,
//! [`connections()`] what a program and its peer do with the connection manager.
//!
//! They also assert invariants:
//!
//! - A parsed packet or message is a fixpoint of emitting and parsing.
//! - Protected bytes never change. A packet that is not from a queue pair's peer changes only a
//!   counter of drops.
//! - No item is lost, repeated or out of order.
//! - A handshake ends and holds no resources.
//! - A walk through a tree ends, reads nothing outside of the tree, and finds what an intact tree
//!   holds.
//! - An index server answers as a model does.
//! - A superblock with one wrong bit is refused.
//! - A configuration is unchanged when it is written again.
//! - Every command has exactly one response and touches no memory that it has not named.
//! - A stream gives the same messages wherever it is cut, and an error about one is a single line.
//! - A link delivers what the segment says or refuses it, while another link continues to work.
//! - Each query is led to the tree node that a model finds, or dropped for the model's reason.
//! - A receiver delivers what its peer wrote and the protocol allows, or closes the connection for
//!   one reason.
//! - Whatever a node asks, every request has a reply, and nodes that it has nothing to do with keep
//!   their memory and their connections.
//! - A connection that was begun ends with one event, whatever its peer says, and nothing of it
//!   stays.
//!
//! The same functions run under libFuzzer (`fuzz/`, by `cargo xtask fuzz`) and in this crate's test
//! `replay`, over the corpora checked in under `fuzz/corpus` and over mutations of them. [`seeds`]
//! makes the inputs that a corpus starts with.
//!
//! Only public interfaces are used: no component exposes its internals for fuzzing.

mod ask;
mod config;
mod connections;
mod control;
mod fixture;
mod handshake;
mod index;
mod input;
mod messaging;
mod nic;
mod nic_ops;
mod nvme;
mod packets;
mod parse;
mod programs;
mod rack;
mod rpc;
pub mod seeds;
mod shared_memory;
mod superblock;
mod switch;
mod tree_node;

pub use ask::ask;
pub use config::config;
pub use connections::connections;
pub use control::control;
pub use handshake::handshake;
pub use index::index;
pub use messaging::messaging;
pub use nic::nic;
pub use nic_ops::nic_ops;
pub use nvme::nvme;
pub use parse::parse;
pub use programs::programs;
pub use rpc::rpc;
pub use shared_memory::shared_memory;
pub use superblock::superblock;
pub use switch::switch;
pub use tree_node::tree_node;

/// A fuzz target: its name, which is also that of its corpus, and its function.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name.
    pub name: &'static str,
    /// The function under test.
    pub run: fn(&[u8]),
    /// The initial inputs of its corpus, by name.
    pub seeds: fn() -> Vec<(String, Vec<u8>)>,
}

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> fixture::Seeds) -> Target {
    Target { name, run, seeds }
}

/// All targets.
pub const TARGETS: [Target; 17] = [
    target("parse", parse, seeds::parse),
    target("nic", nic, seeds::nic),
    target("nic_ops", nic_ops, seeds::nic_ops),
    target("switch", switch, seeds::switch),
    target("programs", programs, seeds::programs),
    target("handshake", handshake, handshake::seeds),
    target("tree_node", tree_node, tree_node::seeds),
    target("rpc", rpc, rpc::seeds),
    target("superblock", superblock, superblock::seeds),
    target("config", config, config::seeds),
    target("nvme", nvme, nvme::seeds),
    target("control", control, control::seeds),
    target("shared_memory", shared_memory, shared_memory::seeds),
    target("index", index, index::seeds),
    target("messaging", messaging, messaging::seeds),
    target("ask", ask, ask::seeds),
    target("connections", connections, connections::seeds),
];
