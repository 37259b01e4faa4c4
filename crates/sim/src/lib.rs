//! The deterministic simulator: the machines of a rack in virtual time.
//!
//! A [`World`] holds NICs, the switch and the links between them, with models of what hardware
//! takes in time: links ([`LinkModel`]), NICs ([`NicModel`]), CPUs ([`CpuModel`]), caches
//! ([`CacheModel`], [`TreeCost`]), SSDs ([`SsdModel`]). The models' constants come from data sheets
//! and papers and stand, each with its source, in [`devices`]; [`testbed`] puts the BlueField
//! paper's machines together, [`testbed_fat_btree`] those of the Fat-B+Tree paper and
//! [`testbed_communication`] those of the communication tier. [`Actor`]s are the programs that run
//! on the nodes' cores. One seed decides everything that is random, so a run with the same seed is
//! the same run; its trace hash says so.
//!
//! [`checkers`] judge a run from outside; they share no code with what they judge.
//!
//! It knows no flow, no page and no program of the switch. Read on in [`world`].

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
