//! A node's process: joins the rack, drives its NIC, answers the controller, runs jobs.

mod access;
mod cables;
mod jobs;
mod machine;
mod process;
mod serve;
mod shared;
mod term;

use super::again::Dialer;
use super::ports::{self, NodeEnd};
use super::pump::Pump;
use super::runtime::Runtime;
use super::{HostedError, abort_on_panic, connect_limit, security};
use crate::TargetOptions;
use crate::build::{self, Kind};
use crate::config::nearest::nearest;
use crate::config::{LinkKind, RackConfig, SwitchPlace};
use crate::hosted::messages::{NodeHello, NodeWelcome, PURPOSE_NODE};
use crate::services::namespaces_of;
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::memory::Origin;
use rackweave_base::packet::Pool;
use rackweave_base::{Block, Instant, KeyRng, NodeId, Rkey};
use rackweave_control::{Connection, Introduction, Security};
use rackweave_link::rdma_mtu;
use rackweave_nic::Nic;
use rackweave_target::{Backend, Target, TargetConfig, TargetError};
use rackweave_verbs::Mtu;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration as Time;

pub(super) use access::NodeAccessPoint;
use cables::CableMaker;
pub use jobs::{Job, Jobs, NoJobs};
use machine::NodeMachine;
pub(super) use process::NodesProcess;
pub(super) use serve::controller_patience;
pub(super) use shared::KEEP_LIMIT;
use shared::NodeCore;

/// Interval between two attempts to join.
const RETRY_AFTER: Time = Time::from_millis(250);

/// The same for a node that has just lost the controller: a standby takes over within milliseconds.
const RETRY_SOON: Time = Time::from_millis(10);

/// The places of controllers are tried in turn.
const AGAIN: &str = "they are tried again and again";

/// For how long a node has just lost the controller.
const SOON: Time = Time::from_secs(2);

/// Options of a node's process.
pub struct NodeOptions {
    /// The configuration of the rack.
    pub config: RackConfig,
    /// The name of this node.
    pub name: String,
    /// The address of the controller, if not that of the configuration; then that of the standby's.
    pub controllers: Vec<SocketAddr>,
    /// The jobs that commands can run on this node.
    pub jobs: Arc<dyn Jobs>,
    /// Whether the process opens the stores that the configuration has on this node, and serves
    /// them by an NVMe target.
    pub serves_stores: bool,
    /// Whether the process waits for a name that is taken: its previous process may have died.
    pub waits_for_name: bool,
}

/// Events of a node, for observers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeEvent {
    /// The controller does not answer yet.
    Waiting {
        /// The cause.
        why: String,
    },
    /// It has joined the rack.
    Joined {
        /// How its packets reach the switch.
        link: LinkKind,
    },
    /// It has lost the controller. It keeps everything for a while.
    Lost {
        /// The cause.
        why: String,
    },
}

/// A node's process.
pub struct NodeProcess {
    pub(super) core: Arc<NodeCore>,
    config: RackConfig,
    /// Where the controller may be.
    controllers: Vec<SwitchPlace>,
    security: Security,
    runtime: Runtime,
    process: NodesProcess,
    /// Whether the node has a target with the stores of the configuration.
    serves_stores: bool,
    waits_for_name: bool,
}

/// A target's configuration and namespaces.
type NewTarget = (TargetConfig, Vec<Box<dyn Backend>>);

impl NodeProcess {
    /// Prepares a node: nothing is connected yet.
    ///
    /// # Errors
    /// An unknown name, a bad configuration, a missing key, a folder that cannot be used.
    pub fn new(options: NodeOptions) -> Result<Self, HostedError> {
        let process = NodesProcess::new(&options.config, &[&options.name])?;
        Self::with(options, &process)
    }

    /// Prepares a node of this process.
    pub(super) fn with(options: NodeOptions, process: &NodesProcess) -> Result<Self, HostedError> {
        let NodeOptions {
            config,
            name,
            controllers,
            jobs,
            serves_stores,
            waits_for_name,
        } = options;
        config.check().map_err(build::RackError::from)?;
        let hosted = config.hosted();
        let position = config.node.iter().position(|node| node.name == name);
        let Some(at) = position else {
            let known: Vec<&str> = config.node.iter().map(|node| node.name.as_str()).collect();
            let hint = match nearest(&name, &known) {
                Some(near) => format!("did you mean {near:?}?"),
                None => format!("the configuration has {}", known.join(", ")),
            };
            return Err(HostedError::NoSuchNode { name, hint });
        };
        let mut places = super::controllers(&hosted);
        for (place, control) in places.iter_mut().zip(controllers) {
            place.control = control;
        }
        let runtime = Runtime::open(&hosted.directory())?;
        let pump =
            Pump::new(NodeMachine::new(), process.epoch).map_err(|error| HostedError::System {
                what: "no event descriptor",
                error,
            })?;
        Ok(Self {
            core: Arc::new(NodeCore::new(
                NodeId(at as u16),
                process,
                pump,
                config.node[at].byte_order.into(),
                jobs,
            )),
            controllers: places,
            security: security(&hosted, &name)?,
            config,
            runtime,
            process: process.clone(),
            serves_stores,
            waits_for_name,
        })
    }

    /// Is a member of the rack until `stop`, joining again whenever the controller was lost. Events
    /// are passed to `watch`.
    ///
    /// # Errors
    /// If the controller refuses this node permanently.
    pub fn run(&self, stop: &AtomicBool, watch: &dyn Fn(NodeEvent)) -> Result<(), HostedError> {
        std::thread::scope(|scope| {
            scope.spawn(|| abort_on_panic(|| self.core.pump.run()));
            let result = abort_on_panic(|| self.belong(stop, watch));
            self.core.end();
            result
        })
    }

    /// What connects it again, unless `stop` is set.
    pub(super) fn dialer(&self, stop: &Arc<AtomicBool>) -> Dialer {
        Dialer {
            config: self.config.clone(),
            name: self.name().to_owned(),
            node: self.node(),
            stop: stop.clone(),
            further: self.core.further.clone(),
        }
    }

    /// Closes its further connections: a thread that waits for a message on one looks whether to
    /// stop.
    pub(super) fn close_further(&self) {
        self.core.further.close();
    }

    /// Its number.
    pub(super) fn node(&self) -> NodeId {
        self.core.id
    }

    /// The configuration of the rack.
    pub(super) fn config(&self) -> &RackConfig {
        &self.config
    }

    /// What it shares with the other nodes of its process.
    pub(super) fn process(&self) -> &NodesProcess {
        &self.process
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        self.security.name()
    }

    /// The secret of the rack that it has joined last.
    pub(super) fn identity(&self) -> u64 {
        self.core.identity.load(Ordering::Relaxed)
    }

    /// How often it has forgotten what the controller had made.
    pub(super) fn forgotten(&self) -> u64 {
        self.core.forgotten.load(Ordering::Relaxed)
    }

    /// The current time of this process.
    pub(super) fn now(&self) -> Instant {
        self.core.pump.now()
    }

    /// The largest MTU that its link carries; `None` before it has joined.
    pub(super) fn mtu(&self) -> Option<Mtu> {
        let bytes = self.core.pump.peek(|machine| machine.link_mtu())?;
        rdma_mtu(bytes).and_then(Mtu::from_bytes)
    }

    /// The memory of a region that the controller has made here.
    pub(super) fn block(&self, rkey: Rkey) -> Option<Block> {
        self.core.open_region(rkey)
    }

    /// Puts a target behind the NIC, in place of an existing one, which ends.
    pub(super) fn set_target(
        &self,
        make: impl FnOnce(&mut Nic) -> Result<Target, TargetError>,
    ) -> Result<(), TargetError> {
        self.core.pump.with(|machine| machine.set_target(make))
    }

    fn belong(&self, stop: &AtomicBool, watch: &dyn Fn(NodeEvent)) -> Result<(), HostedError> {
        let mut reported_at: Option<std::time::Instant> = None;
        let mut taken_since = None;
        let mut lost_at = None;
        let mut places = self.controllers.iter().cycle();
        let mut place = places.next().expect("a rack has a controller");
        while !stop.load(Ordering::Relaxed) {
            self.core.keep_house();
            match self.join(place) {
                Ok((connection, channel, cables)) => {
                    (reported_at, taken_since) = (None, None);
                    let link = self.link_kind();
                    watch(NodeEvent::Joined { link });
                    let serving = serve::Serving::new(&self.core, channel, cables);
                    let lost = serving.run(connection, &self.config.hosted(), stop);
                    self.core.disconnect();
                    lost_at = Some(std::time::Instant::now());
                    // One that is stopped accepts connections, and answers none.
                    place = places.next().expect(AGAIN);
                    if let Some(why) = lost {
                        watch(NodeEvent::Lost { why });
                    }
                }
                // A node that was requested to end need not have joined.
                Err(_) if stop.load(Ordering::Relaxed) => break,
                Err(error) => {
                    // A node that has joined has its name, if an attempt failed that the switch
                    // still counts.
                    let patience = match self.waits_for_name || lost_at.is_some() {
                        true => 5 * self.config.hosted().dead_after(),
                        false => Time::ZERO,
                    };
                    if !error.may_pass_for_node(&mut taken_since, patience) {
                        return Err(error);
                    }
                    // The first failure is common, and attempts may follow closely.
                    let at = reported_at.get_or_insert_with(std::time::Instant::now);
                    if at.elapsed() >= RETRY_AFTER {
                        reported_at = Some(std::time::Instant::now());
                        let why = error.to_string();
                        watch(NodeEvent::Waiting { why });
                    }
                    place = places.next().expect(AGAIN);
                }
            }
            let is_soon = lost_at.is_some_and(|at| at.elapsed() < SOON);
            if !stop.load(Ordering::Relaxed) {
                std::thread::sleep(if is_soon { RETRY_SOON } else { RETRY_AFTER });
            }
        }
        Ok(())
    }

    fn link_kind(&self) -> LinkKind {
        self.config.node[usize::from(self.core.id.0)].link_kind(&self.config.hosted())
    }

    /// Its current keys, which may have been renewed.
    fn security(&self) -> Security {
        let now = security(&self.config.hosted(), self.security.name());
        now.unwrap_or_else(|_| self.security.clone())
    }

    /// Connects, says hello, and makes this end of the link.
    fn join(
        &self,
        switch: &SwitchPlace,
    ) -> Result<(Connection, Option<UnixStream>, CableMaker<'_>), HostedError> {
        let pool = Pool::new(self.config.payload_buffers as usize);
        let place = ports::NodePlacement {
            config: &self.config,
            node: self.core.id,
            switch,
            runtime: &self.runtime,
            memory: &self.core.memory,
            pool: &pool,
        };
        // A link that this side makes is made first: its properties are part of the hello.
        let mut end = NodeEnd::open(&place)?;
        let hello = NodeHello {
            cables: self.core.pump.peek(|machine| machine.cables()),
            imports: self.process.imports.of(self.core.id),
            link: self.link_kind(),
            mtu: end.mtu(&place)?,
            udp: end.udp(),
            pid: std::process::id(),
            incarnation: self.core.incarnation.load(Ordering::Relaxed),
            memory: self.process.memory_id,
        };
        let introduction = Introduction {
            purpose: PURPOSE_NODE.into(),
            rack: format!("{:016x}", self.config.agreement()),
            body: serde_json::to_value(hello).expect("a hello has a JSON form"),
        };
        let (mut connection, welcome) = Connection::connect(
            switch.control,
            &self.security(),
            introduction,
            connect_limit(&self.config.hosted(), self.controllers.len()),
        )?;
        let mut welcome: NodeWelcome =
            serde_json::from_value(welcome).map_err(|_| HostedError::BadAnswer)?;
        self.core.meet(&welcome)?;
        self.core.memory.set_origin(Origin(welcome.origin));
        let channel = end.complete(&place, &mut welcome, &mut connection)?;
        let faults = self.config.faults_of(self.core.id);
        let target = self.target_to_add()?;
        let link = ports::with_faults(end.into_link(), faults, &self.core.memory)?;
        let config = build::nic_config(&self.config, self.core.id, Kind::Hosted);
        let memory = self.core.memory.clone();
        let cables = CableMaker {
            config: &self.config,
            pool: pool.clone(),
        };
        let has_cables = self.config.allows_direct_cables();
        let nic = || {
            let mut nic = Nic::new(config, memory, pool, KeyRng::system());
            if has_cables {
                nic.allow_direct_cables();
            }
            nic
        };
        self.core.plug(link, nic);
        // The controller looks for it once the node has joined.
        if let Some((config, namespaces)) = target {
            let memory = &self.core.memory;
            let added = self.set_target(|nic| Target::new(config, nic, memory, namespaces));
            added.map_err(|error| HostedError::Failed(error.to_string()))?;
        }
        Ok((connection, channel, cables))
    }

    /// The target with the stores of this node in the configuration. `None` if the node has no
    /// store, its target exists, or its program makes one itself.
    fn target_to_add(&self) -> Result<Option<NewTarget>, HostedError> {
        let has_directory = self.config.switch.page_entries > 0;
        if !self.serves_stores || !has_directory || self.core.pump.peek(|it| it.has_target()) {
            return Ok(None);
        }
        let namespaces = namespaces_of(&self.config, self.core.id);
        let namespaces = namespaces.map_err(|error| HostedError::Store(error.to_string()))?;
        let target = TargetOptions::default().config(&self.config);
        Ok((!namespaces.is_empty()).then_some((target, namespaces)))
    }
}
