//! A switch process before it leads: everything that takes time and needs no other process is
//! prepared, so that a standby takes over at once.

use super::arenas::Arenas;
use super::cables::Cables;
use super::introductions::Introductions;
use super::kept::StoredState;
use super::minder::{News, Reports};
use super::term::{Resigns, Term};
use super::{SWITCH_ORIGIN, SwitchCore, SwitchMachine, SwitchOptions, SwitchProcess, foreign};
use crate::build::{self, Kind};
use crate::config::{HostConfig, LinkKind, RackConfig, SwitchPlace};
use crate::hosted::elector::{self, Elector, ElectorError};
use crate::hosted::runtime::{Runtime, SwitchLock};
use crate::hosted::{HostedError, security};
use crate::statistics::Observed;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rackweave_base::packet::Pool;
use rackweave_base::{KeyRng, Memory};
use rackweave_control::{CONTROLLER_NAME, Listener, Security};
use rackweave_controller::Controller;
use rackweave_link::udp::{Hub, HubConfig};
use rackweave_programs::Pipeline;
use rackweave_switch::{Switch, SwitchConfig};
use std::sync::{Arc, Mutex};
use std::time::{Duration as Time, Instant};

/// Region memory of the switch's process, which registers none.
const MEMORY_LIMIT: usize = 1 << 20;

/// Bytes of Ethernet payload in a VXLAN packet.
const UDP_MTU: usize = rackweave_link::in_process::MTU;

/// How long a standby waits before it first tries to become the leader: if both processes are
/// started together, the other one leads.
const PRECEDENCE: Time = Time::from_millis(500);

/// A switch process that does not lead yet.
pub(super) struct Candidate {
    config: RackConfig,
    place: SwitchPlace,
    runtime: Runtime,
    lock: SwitchLock,
    elector: Arc<dyn Elector>,
    security: Security,
    memory: Memory,
    switch: Switch<Pipeline>,
    controller: Controller,
    observed: Observed,
}

impl SwitchProcess {
    /// Prepares a switch that leads at once: foreign hosts have their ports, no node has joined
    /// yet.
    ///
    /// # Errors
    /// A bad configuration, a missing key, an address in use, another switch that leads.
    pub fn new(options: SwitchOptions) -> Result<Self, HostedError> {
        let candidate = Candidate::new(options)?;
        let epoch = candidate.elector.campaign()?;
        let epoch = epoch.ok_or_else(|| candidate.runtime.taken())?;
        candidate.lead(epoch)
    }

    /// The same, after waiting until no other process leads. `None` if it is to stop before.
    /// `waits` is called if it has to wait, with the reason if that is not another leader.
    ///
    /// # Errors
    /// As for [`SwitchProcess::new`].
    pub fn elected(
        options: SwitchOptions,
        stop: &AtomicBool,
        waits: impl FnOnce(Option<ElectorError>),
    ) -> Result<Option<Self>, HostedError> {
        let is_standby = options.is_standby;
        let candidate = Candidate::new(options)?;
        let began = Instant::now();
        while is_standby && began.elapsed() < PRECEDENCE && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(candidate.elector.campaign_every());
        }
        let mut waits = Some(waits);
        while !stop.load(Ordering::Relaxed) {
            let campaign = candidate.elector.campaign();
            if let Ok(Some(epoch)) = campaign {
                return candidate.lead(epoch).map(Some);
            }
            // An elector that cannot be reached now may be later.
            if let Some(waits) = waits.take() {
                waits(campaign.err());
            }
            std::thread::sleep(candidate.elector.campaign_every());
        }
        Ok(None)
    }
}

impl Candidate {
    fn new(options: SwitchOptions) -> Result<Self, HostedError> {
        let SwitchOptions {
            config,
            listen,
            is_standby,
            elector,
        } = options;
        config.check().map_err(build::RackError::from)?;
        let hosted = config.hosted();
        let mut places = hosted.switch_places().into_iter();
        let place = places.nth(usize::from(is_standby));
        let mut place = place.ok_or(HostedError::NoStandby)?;
        place.listen = listen.unwrap_or(place.listen);
        let runtime = Runtime::open(&hosted.directory())?;
        let lock = runtime.lock_switch(place.name)?;
        let security = security(&hosted, CONTROLLER_NAME)?;
        let memory = shared_memory()?;
        let (switch, _) =
            build::build_switch(&config, Kind::Hosted, &memory, SwitchConfig::default())?;
        let controller = build::build_controller(&config, KeyRng::system());
        controller.guard_sources(true);
        let topology = config.topology().map_err(build::RackError::from)?;
        Ok(Self {
            elector: elector.unwrap_or_else(|| elector::of(&config)),
            observed: Observed::new(&config, &topology),
            config,
            place,
            runtime,
            lock,
            security,
            memory,
            switch,
            controller,
        })
    }

    /// Begins to lead.
    fn lead(self, epoch: u64) -> Result<SwitchProcess, HostedError> {
        let Self {
            config,
            place,
            runtime,
            lock,
            elector,
            security,
            memory,
            switch,
            controller,
            observed,
        } = self;
        let term = Arc::new(Term::new(elector.clone(), epoch));
        term.renew()?;
        let listener = Listener::bind(place.listen, security)?;
        let handovers = runtime.listen(&lock, place.socket)?;
        let pool = Pool::new(config.payload_buffers as usize);
        let hub = open_hub(&config, &place, &memory, &pool)?;
        let (hosts, host_links) = foreign::open(&config, hub.as_ref(), &memory, &pool)?;
        let mut keys = KeyRng::system();
        let (instance, first_job) = (keys.next_u64(), keys.next_u64() >> 1);
        let mut state = StoredState::new(elector, config.agreement(), instance);
        let left = state.read();
        let (restoring, arenas): (_, Arenas) = state.begin_restoring(&left);
        let instance = state.rack.instance;
        state.set_services(&controller.service_state(), None);
        let news = Arc::new(News::default());
        let pump = SwitchMachine::pump(switch, &config, news.clone(), term.clone())?;
        let cables = Cables::new(config.allows_direct_cables());
        let core = SwitchCore {
            place,
            term,
            runtime,
            memory,
            pool,
            hub,
            pump,
            fabric: controller.fabric().clone(),
            controller: Mutex::new(controller),
            observed,
            news,
            reports: Reports::default(),
            members: config.node.iter().map(|_| Mutex::new(None)).collect(),
            hosts,
            claims: Mutex::default(),
            joins: config.node.iter().map(|_| AtomicU64::new(0)).collect(),
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
        Ok(SwitchProcess {
            _resigns: Resigns(core.term.clone()),
            core: Arc::new(core),
            listener,
            handovers,
            left: Mutex::new(left),
            _lock: lock,
        })
    }
}

/// The socket of all nodes and foreign hosts whose link is UDP, if there are any.
fn open_hub(
    config: &RackConfig,
    place: &SwitchPlace,
    memory: &Memory,
    pool: &Pool,
) -> Result<Option<Hub>, HostedError> {
    let hosted = config.hosted();
    let nodes = config.node.iter().map(|node| node.link_kind(&hosted));
    let mut kinds = nodes.chain(config.host.iter().map(HostConfig::link_kind));
    if !kinds.any(|kind| kind == LinkKind::Udp) {
        return Ok(None);
    }
    let of_hub = HubConfig {
        bind: place.udp,
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
