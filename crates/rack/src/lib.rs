//! Builds a rack from one configuration.
//!
//! [`config`] is the TOML file and its defaults. [`Rack`] is the interface to a rack of any kind.
//! [`EmbeddedRack`] runs all nodes and the switch in this process in real time; [`SimulatedRack`]
//! runs the same machines in virtual time on modelled hardware. Each is a [`Backend`] of a `Rack`,
//! and a [`rackweave_controller::Site`] to the controller. `hosted` has racks with a process per
//! node. [`services`] has a database's parts: pages, indexes, sequencers; [`messaging`] connects
//! nodes, and [`exchange`] has streams between them.
//!
//! This crate may use both an endpoint and the switch. It must not know any workload or command.

mod address;
mod build;
mod capture;
pub mod config;
mod embedded;
pub mod exchange;
mod flow;
#[cfg(feature = "hosted")]
pub mod hosted;
mod index;
mod linked;
mod locked;
#[cfg(test)]
mod mesh_tests;
pub mod messaging;
mod pages;
pub mod paths;
mod rack;
pub mod services;
mod simulated;
pub mod statistics;
pub mod testing;

pub use address::Address;
pub use build::{RackError, pipeline_config, switch_config_of};
pub use capture::SwitchCapture;
pub use config::choices::Kind as RackKind;
pub use config::{ConfigError, RackConfig};
pub use embedded::EmbeddedRack;
pub use flow::{Flow, FlowBuilder, NodeRef};
pub use index::network::{
    BRANCHES, IndexCounters, IndexNetwork, IndexNetworkError, IndexNetworkSpec, LoadProgress,
    NetworkSummary,
};
pub use index::{
    Attach, Attached, Index, IndexEndpointSpec, IndexLoss, IndexSetUpError, IndexSpec,
    ReplicaStatus, SharedDatagramServer, SharedReplica, SharedServer,
};
pub use pages::{PageEnds, TargetOptions};
pub use rack::{
    Backend, ForeignEnd, ForeignError, ForeignHost, NamedService, Node, ProcessError, Rack,
    RackBuilder,
};
pub use simulated::{RunEnd, SimulatedRack, SsdBackend, SsdStall};
