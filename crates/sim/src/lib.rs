//! The deterministic simulator: the state machines of a rack in virtual time.
//!
//! A [`World`] holds NICs, the switch and the links between them, with models of the time that
//! hardware takes: links ([`LinkModel`]), NICs ([`NicModel`]), CPUs ([`CpuModel`]), caches
//! ([`CacheModel`], [`TreeCost`]), SSDs ([`SsdModel`]). The models' constants come from data sheets
//! and papers and are in [`devices`], each with its source; [`testbed`] assembles the machines of
//! the BlueField paper, [`testbed_fat_btree`] those of the Fat-B+Tree paper and
//! [`testbed_communication`] those of the communication tier. [`Actor`]s are the programs that run
//! on the nodes' cores. One seed decides everything that is random, so runs with the same seed are
//! identical; their trace hashes prove it.
//!
//! [`checkers`] verify a run from outside; they share no code with what they verify.
//!
//! It knows nothing of flows, pages or switch programs. Continue with [`world`].

mod caches;
pub mod checkers;
mod cpu;
pub mod devices;
mod nic_model;
mod picos;
pub mod queue;
mod ssd;
pub mod testbed;
pub mod testbed_communication;
pub mod testbed_fat_btree;
mod trace;
mod tree_cost;
mod unit;
mod wire_link;
mod word_turns;
pub mod world;

pub use caches::{Area, CacheModel, Loads};
pub use cpu::{Category, CpuModel, CpuReport};
pub use nic_model::NicModel;
pub use ssd::{Distribution, DistributionError, Ssd, SsdAccess, SsdModel};
pub use trace::TraceHash;
pub use tree_cost::{TreeCost, TreeLevel, TreeShape};
pub use unit::{UnitModel, UnitWork, stream_time};
pub use wire_link::{EcnModel, LinkCounters, LinkModel, SimLink};
pub use world::{
    Actor, ActorId, CableModel, Context, DirectionReport, LinkReport, NodeModel, ReadLines, Step,
    Stop, SwitchModel, SwitchPort, World, WorldConfig, WorldError,
};
