//! What the experiments of the BlueField paper share: its testbed in virtual time, clients and
//! servers that pay for their work.
//!
//! The testbed is `rackweave_sim::testbed`; what operations on trees cost is
//! `rackweave_sim::TreeCost`; every constant is in `rackweave_sim::devices`.

pub mod client;
pub mod coordinator;
pub mod index;
pub mod metered;
pub mod rack;
pub mod server;
pub mod sweep;
pub mod tree;

use rackweave_sim::testbed::Server;

pub use super::work::Core;

/// Where the paper is meant.
pub const PAPER: &str = "Thostrup et al., ADMS 2022";

impl Core {
    /// A core of a server.
    pub fn of(server: Server) -> Self {
        Self {
            cpu: server.cpu(),
            caches: server.caches(),
        }
    }
}
