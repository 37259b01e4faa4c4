//! The switch's process: the switch on a thread of its own, the controller, and the control
//! connections of nodes and commands.
//!
//! Threads: the *pump* drives the switch and never blocks; the *minder* takes the switch's reports
//! and has each flow handled by its own thread; the *acceptor* accepts connections; and every node
//! and every command has a thread for its requests. They all use one controller, which has a lock
//! for each flow (`rackweave_controller::flows`): a slow node delays only the flows that it is a
//! member of and the commands that request them.

mod acceptor;
mod arenas;
mod cables;
mod candidate;
mod claims;
mod commands;
mod ends;
mod foreign;
mod introductions;
mod kept;
mod machine;
mod members;
mod minder;
mod requests;
mod restoring;
mod site;
mod term;

use super::pump::Pump;
use super::runtime::{Runtime, SwitchLock};
use super::{Counters, Elector, HostedError, abort_on_panic, security};
use crate::config::{LinkKind, RackConfig, SwitchPlace};
use crate::statistics::Observed;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rackweave_base::memory::Origin;
use rackweave_base::packet::Pool;
use rackweave_base::{Memory, NodeId};
use rackweave_control::{CONTROLLER_NAME, Closer, Credential, Listener};
use rackweave_controller::{Controller, Fabric, Site};
use rackweave_link::udp::Hub;
use rackweave_switch::Tap;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};

use arenas::Arenas;
use cables::Cables;
use foreign::HostPort;
use introductions::Introductions;
use kept::{Kept, StoredState};
pub(super) use machine::SwitchMachine;
pub(super) use members::Member;
use minder::{News, Reports};
use restoring::Restoring;
use site::Asking;
use term::Term;

/// The origin of the switch's memory in packets. Those of nodes count from one.
const SWITCH_ORIGIN: Origin = Origin(u16::MAX - 1);

/// Options of a switch's process.
pub struct SwitchOptions {
    /// The configuration of the rack.
    pub config: RackConfig,
    /// The controller's listening address, if not that of the configuration.
    pub listen: Option<SocketAddr>,
    /// Whether it is the standby.
    pub is_standby: bool,
    /// What elects the leader, if not what the configuration says.
    pub elector: Option<Arc<dyn Elector>>,
}

/// Events of the switch, for observers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SwitchEvent {
    /// A node has joined the rack.
    Joined {
        /// Its name.
        node: String,
        /// How its packets reach the switch.
        link: LinkKind,
    },
    /// A node has joined, but its stores could not be connected again.
    StoresFailed {
        /// Its name.
        node: String,
        /// The cause.
        why: String,
    },
    /// A node has left.
    Left {
        /// Its name.
        node: String,
        /// The cause; `None` if it left regularly.
        why: Option<String>,
    },
    /// The state that an earlier switch process had left has been restored.
    Restored {
        /// Nodes that have not come back: they count as dead.
        absent: Vec<String>,
    },
    /// The state that an earlier switch process had left is not used: the rack starts anew.
    StateLeft {
        /// The cause.
        why: String,
    },
    /// The controller's state cannot be stored: it will not outlive this process.
    StateNotSaved {
        /// The cause.
        why: String,
    },
    /// Another process leads, or soon will: this one ends.
    SteppedDown {
        /// The cause.
        why: String,
    },
    /// A connection was refused.
    Refused {
        /// The cause.
        why: String,
    },
}

/// State shared by the threads of a switch's process.
pub(super) struct SwitchCore {
    pub config: RackConfig,
    /// Where this process runs.
    place: SwitchPlace,
    /// For how long it leads.
    term: Arc<Term>,
    pub runtime: Runtime,
    pub memory: Memory,
    pub pool: Pool,
    pub hub: Option<Hub>,
    pub pump: Pump<SwitchMachine>,
    fabric: Arc<Fabric>,
    /// The services in the switch. Locked while a node is asked for one of them; the fabric is not.
    controller: Mutex<Controller>,
    observed: Observed,
    news: Arc<News>,
    reports: Reports,
    /// The members, by node.
    members: Vec<Mutex<Option<Arc<Member>>>>,
    /// The ports of foreign hosts, in the order of the configuration.
    hosts: Vec<HostPort>,
    /// The nodes whose processes are joining.
    claims: Mutex<BTreeSet<NodeId>>,
    /// How many times each node has joined.
    joins: Vec<AtomicU64>,
    /// Distinguishes this controller from others. A process that restores the state of an earlier
    /// one is the same controller.
    instance: AtomicU64,
    /// The state that outlives the process.
    state: Mutex<StoredState>,
    /// Why the state could not be stored, until that is reported.
    unsaved: Mutex<Option<String>>,
    restoring: Restoring,
    /// The numbers of the commands that are connected.
    sessions: Mutex<BTreeSet<u64>>,
    arenas: Arenas,
    jobs: AtomicU64,
    refused: Mutex<Counters>,
    /// Connections that were admitted, to be closed if their keys are revoked.
    admitted: Mutex<Vec<Admitted>>,
    introductions: Introductions,
    cables: Cables,
    pub stop: AtomicBool,
    started: std::time::Instant,
}

/// A connection that was admitted.
struct Admitted {
    name: String,
    credential: Credential,
    closer: Closer,
}

/// A switch's process.
pub struct SwitchProcess {
    listener: Listener,
    handovers: UnixListener,
    /// What an earlier process has left, until it is restored, or why it cannot be used.
    left: Mutex<Result<Option<Kept>, String>>,
    pub(super) core: Arc<SwitchCore>,
    /// Dropped after all sockets: the next leader may listen at the same addresses.
    _resigns: term::Resigns,
    _lock: SwitchLock,
}

impl SwitchCore {
    /// Calls `act` with the fabric, which may send requests to nodes and wait for their replies.
    pub fn control<R>(&self, act: impl FnOnce(&Fabric, &mut dyn Site) -> R) -> R {
        act(&self.fabric, &mut Asking(self))
    }

    /// Calls `act` with the controller, after waiting for operations on services.
    pub fn serve<R>(&self, act: impl FnOnce(&mut Controller, &mut dyn Site) -> R) -> R {
        let mut controller = self.controller.lock().expect("no holder panics");
        let result = act(&mut controller, &mut Asking(self));
        if !self.restoring.is_on() {
            self.save_all(&controller);
        }
        result
    }

    pub fn member(&self, node: NodeId) -> Option<Arc<Member>> {
        let place = self.members.get(usize::from(node.0))?;
        let member = place.lock().expect("no holder panics").clone();
        member.filter(|member| member.is_alive())
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether it stops, or leads no longer.
    fn has_ended(&self) -> bool {
        self.is_stopped() || !self.term.leads()
    }

    fn count_refused(&self, reason: &str) {
        let mut refused = self.refused.lock().expect("no holder panics");
        *refused.entry(reason.into()).or_default() += 1;
    }
}

impl SwitchProcess {
    /// The address at which the controller listens.
    ///
    /// # Errors
    /// The system's error.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Rereads its keys and the list of revoked ones. New connections are checked against them, and
    /// existing ones whose keys are revoked or have expired are closed. Returns the names of the
    /// peers of those.
    ///
    /// # Errors
    /// A file is missing or invalid. Nothing has changed then.
    pub fn read_keys(&self) -> Result<Vec<String>, HostedError> {
        let security = security(&self.core.config.hosted(), CONTROLLER_NAME)?;
        self.listener.set_security(security);
        let mut closed = Vec::new();
        let mut admitted = self.core.admitted.lock().expect("no holder panics");
        admitted.retain(|peer| {
            let is_good = self.listener.accepts(&peer.credential);
            if !is_good {
                peer.closer.close();
                closed.push(peer.name.clone());
            }
            is_good && !peer.closer.is_gone()
        });
        Ok(closed)
    }

    /// Shows every packet at the switch to `tap`. From the first one on, all packets of the rack
    /// pass the switch.
    pub fn set_tap(&self, tap: Option<Box<dyn Tap>>) {
        let core = &self.core;
        if tap.is_some() {
            core.end_cables();
        }
        core.pump.with(|machine| machine.linked.switch.set_tap(tap));
    }

    /// The memory with the payloads of the switch's packets, for a capture.
    pub fn memory(&self) -> &Memory {
        &self.core.memory
    }

    /// Serves the rack until `stop`; then sends farewell to all nodes. Events are passed to
    /// `watch`.
    pub fn run(&self, stop: &AtomicBool, watch: &(dyn Fn(SwitchEvent) + Sync)) {
        let core = &self.core;
        let acceptor = acceptor::Acceptor {
            core,
            listener: &self.listener,
            handovers: &self.handovers,
            waiting: ends::Waiting::default(),
            watch,
        };
        let left = core::mem::replace(&mut *self.left.lock().expect("no holder panics"), Ok(None));
        std::thread::scope(|scope| {
            match left {
                Ok(Some(kept)) => _ = scope.spawn(|| abort_on_panic(|| core.restore(kept, watch))),
                Ok(None) => {}
                Err(why) => watch(SwitchEvent::StateLeft { why }),
            }
            scope.spawn(|| abort_on_panic(|| core.keep_leading()));
            scope.spawn(|| abort_on_panic(|| core.pump.run()));
            scope.spawn(|| abort_on_panic(|| core.mind(scope)));
            scope.spawn(|| abort_on_panic(|| acceptor.take_handovers(scope)));
            abort_on_panic(|| acceptor.run(scope, stop));
            core.stop.store(true, Ordering::Relaxed);
            core.pump.stop();
            core.news.tell();
            core.introductions.note_change();
            let _ = rustix::net::shutdown(&self.handovers, rustix::net::Shutdown::Both);
        });
        // The lock is still held, so it is no other switch's.
        let _ = std::fs::remove_file(core.runtime.handover(core.place.socket));
        if let Some(why) = core.term.lost() {
            watch(SwitchEvent::SteppedDown { why });
        }
    }
}
