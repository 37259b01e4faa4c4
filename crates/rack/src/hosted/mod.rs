//! A rack of processes: one for the switch and its controller, one per node, on one machine or on
//! several.
//!
//! Packets travel on links ([`crate::config::LinkKind`]); everything else on control connections
//! (`rackweave_control`): a node joins, and from then on the controller asks and the node answers,
//! at least once per heartbeat. What the controller does with a local NIC it does here by question
//! and answer (`switch::site`). Commands connect in the same way and ask for flows and jobs.
//!
//! **Who dies.** A node whose connection ends or that misses its heartbeats is dead: its flows are
//! broken off, its port unplugged. A node that loses the controller keeps its rings for a while and
//! joins again; the command whose flow it was may have the next switch process take it over.
//! Nothing that a process leaves behind hinders the next: memory and links have no names, locks go
//! with their holders, sockets of the dead are replaced.
//!
//! * [`NodeProcess`]: a node. [`Jobs`]: the programs that it runs when a command asks for them.
//! * [`SwitchProcess`]: the switch and the controller.
//! * [`HostedRack`]: what a command asks of a rack that runs.

mod client;
mod messages;
mod node;
mod ports;
mod pump;
mod runtime;
mod switch;

pub use client::HostedRack;
pub use messages::{Counters, FlowStatus, HostedFlow, JobStatus, NodeStatus, RackStatus, RingName};
pub use node::{Job, Jobs, NodeEvent, NodeOptions, NodeProcess};
pub use switch::{SwitchEvent, SwitchOptions, SwitchProcess};

use crate::build::RackError;
use crate::config::{HostedSection, SecurityKind};
use rackweave_control::{ControlError, Identity, KeyError, Security};
use std::path::PathBuf;

/// The name in the key of those who give commands.
pub const OPERATOR_NAME: &str = "operator";

/// Why a process of a hosted rack cannot do what it should. One line each, with a remedy.
#[derive(Debug, thiserror::Error)]
pub enum HostedError {
    /// The control connection.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// A key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// Configuration, budget, tables.
    #[error(transparent)]
    Rack(#[from] RackError),
    /// The folder for sockets and locks.
    #[error("{}: {problem}; {remedy}", path.display())]
    Directory {
        /// What cannot be used.
        path: PathBuf,
        /// Why.
        problem: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A second switch on one folder.
    #[error(
        "another switch runs with {}; stop it, or give this one a hosted.directory of its own",
        directory.display()
    )]
    SwitchRuns {
        /// The folder.
        directory: PathBuf,
    },
    /// A node that the configuration does not have.
    #[error("there is no node named {name:?}; {hint}")]
    NoSuchNode {
        /// The name.
        name: String,
        /// The name that was probably meant, or those that there are.
        hint: String,
    },
    /// A link cannot be made.
    #[error("the {kind} link of {node}: {problem}")]
    Link {
        /// Its kind.
        kind: &'static str,
        /// Whose it is.
        node: String,
        /// Why, and what to do.
        problem: String,
    },
    /// The controller cannot do it.
    #[error("{0}")]
    Failed(String),
    /// It answered something else than was asked.
    #[error("the controller's answer makes no sense; run the same release on both sides")]
    BadAnswer,
    /// The system refuses.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        error: std::io::Error,
    },
}

/// How a process called `name` makes itself known.
pub(crate) fn security(hosted: &HostedSection, name: &str) -> Result<Security, HostedError> {
    Ok(match hosted.security {
        SecurityKind::Plain => Security::Plain { name: name.into() },
        SecurityKind::Tls => Security::Tls(Identity::load(&hosted.keys(), name)?),
    })
}

/// Runs `act`, the work of a thread without which the process is of no use, and aborts the process
/// if it panics. Otherwise the process would keep its name in the rack and its locks, and its
/// supervisor would not restart it.
fn abort_on_panic<R>(act: impl FnOnce() -> R) -> R {
    struct Guard;
    impl Drop for Guard {
        fn drop(&mut self) {
            if std::thread::panicking() {
                std::process::abort();
            }
        }
    }
    let _guard = Guard;
    act()
}

#[cfg(test)]
mod tests;
