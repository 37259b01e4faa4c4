//! A rack of processes: one for the switch and its controller, one per node, on one machine or on
//! several.
//!
//! Packets travel on links ([`crate::config::LinkKind`]); everything else on control connections
//! (`rackweave_control`): a node joins, and from then on the controller sends requests and the node
//! replies, at least once per heartbeat. Operations of the controller on a NIC are requests and
//! replies here (`switch::site`). On a second connection the node asks the controller for what its
//! services need, and on a third its own services are asked. Commands connect in the same way and
//! request flows and jobs.
//!
//! **Failures.** A node whose connection ends or that misses its heartbeats is dead: its flows are
//! aborted, its port unplugged. A node that loses the controller keeps its rings for a while and
//! joins again; the command that owned the flow may have the next switch process take it over.
//! Nothing that a process leaves behind blocks the next: memory and links have no names, locks end
//! with their holders, sockets of dead processes are replaced.
//!
//! * [`NodeProcess`]: a node. [`Jobs`]: the programs that it runs at a command's request.
//! * [`Rack::join`](crate::Rack::join): a program that is a node.
//! * [`SwitchProcess`]: the switch and the controller.
//! * [`HostedRack`]: a command's interface to a running rack.

mod again;
mod client;
mod credit;
mod elector;
mod flow_names;
mod joined;
mod messages;
mod node;
mod ports;
mod pump;
mod runtime;
mod seal;
mod services;
mod serving;
mod switch;

pub use client::HostedRack;
pub use elector::{Elector, ElectorError, EtcdElector, FileElector, Part};
pub use flow_names::{HostedFlow, RingName};
pub use messages::{Counters, FlowStatus, HostStatus, JobStatus, NodeStatus, RackStatus};
pub use node::{Job, Jobs, NoJobs, NodeEvent, NodeOptions, NodeProcess};
pub use switch::{SwitchEvent, SwitchOptions, SwitchProcess};

use crate::build::RackError;
use crate::config::{HostedSection, LinkKind, RackConfig, SecurityKind, SwitchPlace};
use rackweave_control::{Connection, ControlError, Identity, Introduction, KeyError, Security};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

/// How often a thread that waits for something else checks whether to stop. Where a stop should
/// not take so long, it wakes the thread.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The name in the key of operators.
pub const OPERATOR_NAME: &str = "operator";

/// Errors of a process of a hosted rack. One line each, with a remedy.
#[derive(Debug, thiserror::Error)]
pub enum HostedError {
    /// The control connection failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// Nothing listens where the controller should be.
    #[error("no rack runs at {control}: {error}; start one with `rackweave up`")]
    NotRunning {
        /// The controller's address.
        control: SocketAddr,
        /// The error of the system.
        error: std::io::Error,
    },
    /// A key is missing or invalid.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The configuration, budget or tables are invalid.
    #[error(transparent)]
    Rack(#[from] RackError),
    /// The folder for sockets and locks cannot be used.
    #[error("{}: {problem}; {remedy}", path.display())]
    Directory {
        /// The path that cannot be used.
        path: PathBuf,
        /// The cause.
        problem: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// A second switch was started on one folder.
    #[error(
        "another switch runs with {}; stop it, or give this one a hosted.directory of its own",
        directory.display()
    )]
    SwitchRuns {
        /// The folder.
        directory: PathBuf,
    },
    /// A standby was started for a rack that has none.
    #[error("this rack has no standby; add a section [hosted.standby] to its configuration")]
    NoStandby,
    /// The elector cannot be used.
    #[error("no switch process can be elected: {0}")]
    Elector(#[from] ElectorError),
    /// The controller is of an earlier term than one that this node has met.
    #[error("a controller of term {epoch} is not obeyed: one of term {newest} was met before")]
    OldTerm {
        /// The number of its term.
        epoch: u64,
        /// The number of the newest term.
        newest: u64,
    },
    /// A node that the configuration does not have.
    #[error("there is no node named {name:?}; {hint}")]
    NoSuchNode {
        /// The name.
        name: String,
        /// The name that was probably meant, or the existing names.
        hint: String,
    },
    /// A store of this node cannot be opened.
    #[error("{0}")]
    Store(String),
    /// The rack did not admit the node in time.
    #[error("no rack to join: {why}; start one with `rackweave up`")]
    NotJoined {
        /// The last cause.
        why: String,
    },
    /// There are not enough free places for guests.
    #[error(
        "{count} places for guests are needed, and of the {places} of the rack too few are free; \
         raise `count` of a [[guest]] in its configuration"
    )]
    NoPlace {
        /// The places that are needed.
        count: usize,
        /// The places that the configuration has.
        places: usize,
    },
    /// A link cannot be made.
    #[error("the {kind} link of {node}: {problem}")]
    Link {
        /// Its kind.
        kind: &'static str,
        /// Its node.
        node: String,
        /// The cause and the remedy.
        problem: String,
    },
    /// The controller cannot execute the request.
    #[error("{0}")]
    Failed(String),
    /// The controller's reply does not match the request.
    #[error("the controller's answer makes no sense; run the same release on both sides")]
    BadAnswer,
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The attempted operation.
        what: &'static str,
        /// The system's error.
        error: std::io::Error,
    },
}

impl HostedError {
    /// Whether a later attempt to connect may succeed: the controller is starting, or ended
    /// meanwhile.
    fn may_pass(&self) -> bool {
        match self {
            Self::Control(
                ControlError::WrongKey { .. }
                | ControlError::Revoked { .. }
                | ControlError::Version { .. }
                | ControlError::NotOurProtocol { .. }
                | ControlError::PlainNotLoopback { .. },
            ) => false,
            Self::Control(_) | Self::NotRunning { .. } | Self::OldTerm { .. } => true,
            _ => false,
        }
    }

    /// The same for a node that wants to join. A name that is taken may be that of its predecessor,
    /// whose death has not been detected yet.
    fn may_pass_for_node(
        &self,
        taken_since: &mut Option<std::time::Instant>,
        patience: Duration,
    ) -> bool {
        match self {
            Self::Control(ControlError::Refused { .. }) => {
                let now = std::time::Instant::now();
                let since = *taken_since.get_or_insert(now);
                self.is_taken() && now - since < patience
            }
            // A switch process that is not obeyed holds the name, since it waits for this node.
            Self::OldTerm { .. } => {
                *taken_since = None;
                true
            }
            // The switch may be restarting: its socket does not exist yet, or no longer.
            Self::Link { kind, .. } => *kind == LinkKind::SharedMemory.name(),
            error => error.may_pass(),
        }
    }

    /// Whether no controller answers at the address.
    fn is_absence(&self) -> bool {
        matches!(self, Self::NotRunning { .. })
    }

    /// Whether another process has the name of a node.
    pub(crate) fn is_taken(&self) -> bool {
        let Self::Control(ControlError::Refused { reason, .. }) = self else {
            return false;
        };
        reason.contains("taken")
    }
}

/// How a process called `name` authenticates itself.
pub(crate) fn security(hosted: &HostedSection, name: &str) -> Result<Security, HostedError> {
    Ok(match hosted.security {
        SecurityKind::Plain => Security::Plain { name: name.into() },
        SecurityKind::Tls => Security::Tls(Identity::load(&hosted.keys(), name)?),
    })
}

/// Time limit for establishing a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// The same for another place when a controller has answered at one and refused. That one leads,
/// unless it does not know yet that its term has ended; the other one may be stopped.
const OTHER_LIMIT: Duration = Duration::from_millis(500);

/// An error of preparing to use the rack, or, if no rack runs, that: it comes before missing keys,
/// which `rackweave up` makes.
fn unless_absent(hosted: &HostedSection, error: HostedError) -> HostedError {
    let HostedError::Key(KeyError::Missing { .. }) = error else {
        return error;
    };
    let places = controllers(hosted);
    let mut tried = places.iter().map(|place| {
        let control = place.control;
        let tried = TcpStream::connect_timeout(&control, CONNECT_LIMIT);
        tried
            .err()
            .map(|error| HostedError::NotRunning { control, error })
    });
    let first = tried.next().flatten();
    first
        .filter(|_| tried.all(|it| it.is_some()))
        .unwrap_or(error)
}

/// Connects a process called `name` to the controller. A member's `number` is that of its process,
/// a command's the one that it has drawn.
fn connect(
    config: &RackConfig,
    name: &str,
    purpose: &str,
    number: u64,
) -> Result<Connection, HostedError> {
    let hosted = config.hosted();
    let introduction = Introduction {
        purpose: purpose.into(),
        rack: format!("{:016x}", config.agreement()),
        body: number.into(),
    };
    let security = security(&hosted, name).map_err(|error| unless_absent(&hosted, error))?;
    let mut last = None;
    let places = controllers(&hosted);
    for &SwitchPlace { control, .. } in &places {
        let has_answer = last
            .as_ref()
            .is_some_and(|it: &HostedError| !it.is_absence());
        let limit = match has_answer {
            true => OTHER_LIMIT,
            false => connect_limit(&hosted, places.len()),
        };
        match Connection::connect(control, &security, introduction.clone(), limit) {
            Ok((connection, _)) => return Ok(connection),
            Err(ControlError::Unreachable { error, .. }) => {
                last = last.or(Some(HostedError::NotRunning { control, error }));
            }
            // The first refusal says more than a place at which no process leads.
            Err(error) => last = last.filter(|it| !it.is_absence()).or(Some(error.into())),
        }
    }
    Err(last.expect("a rack has a controller"))
}

/// The places at which a controller may be reached: those with an address of their own.
fn controllers(hosted: &HostedSection) -> Vec<SwitchPlace> {
    let mut places = hosted.switch_places();
    places.dedup_by_key(|place| place.control);
    places
}

/// Time limit for establishing a connection to one of so many places. A process that is stopped, or
/// a machine that is gone, keeps others waiting for the other one.
fn connect_limit(hosted: &HostedSection, places: usize) -> Duration {
    match places {
        1 => CONNECT_LIMIT,
        _ => CONNECT_LIMIT.min(hosted.dead_after()),
    }
}

/// Runs `act`, the work of a thread that the process cannot do without, and aborts the process if
/// it panics. Otherwise the process would keep its name in the rack and its locks, and its
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
