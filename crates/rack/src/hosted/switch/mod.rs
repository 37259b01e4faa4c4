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

use super::pump::Pump;
use super::runtime::{Runtime, SwitchLock};
use super::{Counters, HostedError, abort_on_panic, security};
use crate::build::{self, Kind};
use crate::config::{HostConfig, LinkKind, RackConfig};
use crate::statistics::Observed;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rackweave_base::memory::Origin;
use rackweave_base::packet::Pool;
use rackweave_base::{KeyRng, Memory, NodeId};
use rackweave_control::{CONTROLLER_NAME, Closer, Credential, Listener};
use rackweave_controller::{Controller, Fabric, Site};
use rackweave_link::udp::{Hub, HubConfig};
use rackweave_switch::{SwitchConfig, Tap};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener;
use std::sync::{Arc, Mutex};

use arenas::Arenas;
use cables::Cables;
use foreign::HostPort;
use introductions::Introductions;
use kept::{Kept, StateFile};
pub(super) use machine::SwitchMachine;
pub(super) use members::Member;
use minder::{News, Reports};
use restoring::Restoring;
use site::Asking;

/// Region memory of the switch's process, which registers none.
const MEMORY_LIMIT: usize = 1 << 20;

/// The origin of the switch's memory in packets. Those of nodes count from one.
const SWITCH_ORIGIN: Origin = Origin(u16::MAX - 1);

/// Bytes of Ethernet payload in a VXLAN packet.
const UDP_MTU: usize = rackweave_link::in_process::MTU;

/// Options of a switch's process.
pub struct SwitchOptions {
    /// The configuration of the rack.
    pub config: RackConfig,
    /// The controller's listening address, if not that of the configuration.
    pub listen: Option<SocketAddr>,
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
    /// The controller's state cannot be saved: it will not outlive this process.
    StateNotSaved {
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
    /// The file in which the state outlives the process.
    state: Mutex<StateFile>,
    /// Why the state could not be saved, until that is reported.
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
    pub(super) core: Arc<SwitchCore>,
    listener: Listener,
    handovers: UnixListener,
    /// What an earlier process has left, until it is restored, or why it cannot be used.
    left: Mutex<Result<Option<Kept>, String>>,
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

    fn count_refused(&self, reason: &str) {
        let mut refused = self.refused.lock().expect("no holder panics");
        *refused.entry(reason.into()).or_default() += 1;
    }
}

/// The socket of all nodes and foreign hosts whose link is UDP, if there are any.
fn open_hub(config: &RackConfig, memory: &Memory, pool: &Pool) -> Result<Option<Hub>, HostedError> {
    let hosted = config.hosted();
    let nodes = config.node.iter().map(|node| node.link_kind(&hosted));
    let mut kinds = nodes.chain(config.host.iter().map(HostConfig::link_kind));
    if !kinds.any(|kind| kind == LinkKind::Udp) {
        return Ok(None);
    }
    let of_hub = HubConfig {
        bind: hosted.udp,
        vni: hosted.vni,
        mtu: UDP_MTU,
    };
    let hub = Hub::bind(of_hub, memory.clone(), pool.clone());
    let hub = hub.map_err(|error| HostedError::Link {
        kind: LinkKind::Udp.name(),
        node: "the switch".into(),
        problem: error.to_string(),
    })?;
    Ok(Some(hub))
}

/// The memory of the switch's process.
fn shared_memory() -> Result<Memory, HostedError> {
    let memory = Memory::shared(MEMORY_LIMIT).map_err(|error| HostedError::Link {
        kind: LinkKind::SharedMemory.name(),
        node: "the switch".into(),
        problem: error.to_string(),
    })?;
    memory.set_origin(SWITCH_ORIGIN);
    Ok(memory)
}

impl SwitchProcess {
    /// Prepares a switch: foreign hosts have their ports, no node has joined yet.
    ///
    /// # Errors
    /// A bad configuration, a missing key, an address in use, another switch in the same folder.
    pub fn new(options: SwitchOptions) -> Result<Self, HostedError> {
        let SwitchOptions { config, listen } = options;
        config.check().map_err(build::RackError::from)?;
        let hosted = config.hosted();
        let runtime = Runtime::open(&hosted.directory())?;
        let lock = runtime.lock_switch()?;
        let security = security(&hosted, CONTROLLER_NAME)?;
        let at = listen.or(hosted.listen).unwrap_or(hosted.control);
        let listener = Listener::bind(at, security)?;
        let handovers = runtime.listen(&lock)?;
        let memory = shared_memory()?;
        let pool = Pool::new(config.payload_buffers as usize);
        let hub = open_hub(&config, &memory, &pool)?;
        let (hosts, host_links) = foreign::open(&config, hub.as_ref(), &memory, &pool)?;
        let mut keys = KeyRng::system();
        let (instance, first_job) = (keys.next_u64(), keys.next_u64() >> 1);
        let (switch, _) =
            build::build_switch(&config, Kind::Hosted, &memory, SwitchConfig::default())?;
        let controller = build::build_controller(&config, keys);
        let path = runtime.path("controller.state");
        let mut state = StateFile::new(path, config.agreement(), instance);
        let left = state.read();
        let (restoring, arenas) = state.begin_restoring(&left);
        let instance = state.rack.instance;
        state.set_services(&controller.service_state(), None);
        controller.guard_sources(true);
        let nodes = config.node.len();
        let news = Arc::new(News::default());
        let pump = SwitchMachine::pump(switch, &config, news.clone())?;
        let cables = Cables::new(config.allows_direct_cables());
        let core = SwitchCore {
            runtime,
            memory,
            pool,
            hub,
            pump,
            fabric: controller.fabric().clone(),
            controller: Mutex::new(controller),
            observed: Observed::new(&config, &config.topology().map_err(build::RackError::from)?),
            news,
            reports: Reports::default(),
            members: (0..nodes).map(|_| Mutex::new(None)).collect(),
            hosts,
            claims: Mutex::default(),
            joins: (0..nodes).map(|_| AtomicU64::new(0)).collect(),
            instance: AtomicU64::new(instance),
            state: Mutex::new(state),
            unsaved: Mutex::default(),
            restoring,
            sessions: Mutex::default(),
            arenas,
            // Nodes may still run jobs of an earlier process.
            jobs: AtomicU64::new(first_job),
            refused: Mutex::default(),
            admitted: Mutex::default(),
            introductions: Introductions::default(),
            cables,
            stop: AtomicBool::new(false),
            started: std::time::Instant::now(),
            config,
        };
        core.enter_hosts(host_links)?;
        Ok(Self {
            core: Arc::new(core),
            listener,
            handovers,
            left: Mutex::new(left),
            _lock: lock,
        })
    }

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
            scope.spawn(|| abort_on_panic(|| core.pump.run()));
            scope.spawn(|| abort_on_panic(|| core.mind(scope)));
            scope.spawn(|| abort_on_panic(|| acceptor.take_handovers(scope)));
            abort_on_panic(|| acceptor.run(scope, stop));
            core.stop.store(true, Ordering::Relaxed);
            core.pump.stop();
        });
        // The lock is still held, so it is no other switch's.
        let _ = std::fs::remove_file(core.runtime.handover());
    }
}
