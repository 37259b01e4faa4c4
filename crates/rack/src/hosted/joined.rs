//! A rack of processes, as seen by a program that is one or more of its nodes.

use super::messages::{MemberReply, MemberRequest, PURPOSE_MEMBER, ServiceCall};
use super::node::{NoJobs, NodeAccessPoint, NodeEvent, NodeOptions, NodeProcess, NodesProcess};
use super::services::Services;
use super::{HostedError, unless_absent};
use crate::build::Kind;
use crate::config::{RackConfig, Role};
use crate::statistics::RackStatistics;
use crate::{Backend, NamedService, ProcessError, Rack};
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::{Block, Instant, Memory, NodeId, Rkey};
use rackweave_control::Connection;
use rackweave_controller::ask::{Ask, AskError, ForgetService, Reply, Request};
use rackweave_target::{Backend as Medium, Target, TargetConfig, TargetError};
use rackweave_verbs::{Mtu, NodeAccess};
use serde_json::Value;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration as Time;

/// Time limit for joining a rack.
const JOIN_LIMIT: Time = Time::from_secs(5);

/// Time limit for an answer of the controller, in addition to the time after which it gives up a
/// silent node.
const ANSWER_LIMIT: Time = Time::from_secs(30);

impl Rack {
    /// Joins a running rack of processes as one of its nodes. The process then has the node's NIC
    /// and memory, and every service of the rack, until the last clone of the rack and of what was
    /// made on it is dropped.
    ///
    /// # Errors
    /// If the configuration has no such node, another process is that node already, no controller
    /// answers, or keys do not match.
    pub fn join(config: impl AsRef<Path>, node: &str) -> Result<Self, HostedError> {
        let config = RackConfig::read(config.as_ref()).map_err(crate::RackError::from)?;
        Self::join_as(&config, &[node])
    }

    /// The same as one or several nodes, with a configuration that has been read. They share one
    /// memory.
    ///
    /// # Errors
    /// As for [`Rack::join`].
    pub fn join_as(config: &RackConfig, nodes: &[&str]) -> Result<Self, HostedError> {
        let mut rack = JoinedRack::new(config)?;
        for name in nodes {
            rack.add(name, true)?;
        }
        rack.finish()
    }

    /// Joins a running rack of processes as a guest: at a place of a section `[[guest]]` of the
    /// configuration that no other process has.
    ///
    /// # Errors
    /// If all places are taken, and as for [`Rack::join`].
    pub fn join_guest(config: impl AsRef<Path>) -> Result<Self, HostedError> {
        let config = RackConfig::read(config.as_ref()).map_err(crate::RackError::from)?;
        Self::join_guests(&config, 1)
    }

    /// The same at several places, with a configuration that has been read.
    ///
    /// # Errors
    /// As for [`Rack::join_guest`].
    pub fn join_guests(config: &RackConfig, count: usize) -> Result<Self, HostedError> {
        let mut rack = JoinedRack::new(config)?;
        let places = config.nodes_of(Role::Guest);
        let mut left = places.iter();
        for _ in 0..count {
            loop {
                let Some(place) = left.next() else {
                    let places = places.len();
                    return Err(HostedError::NoPlace { count, places });
                };
                match rack.add(&config.node[usize::from(place.0)].name, false) {
                    Err(error) if error.is_taken() => {}
                    added => break added?,
                }
            }
        }
        rack.finish()
    }
}

/// One of the nodes that this process is.
struct Joined {
    process: Arc<NodeProcess>,
    /// The connection on which the node asks the controller; `None` after the controller was lost.
    asking: Mutex<Option<Connection>>,
    /// The same for requests to services, which may ask the controller before they answer.
    calling: Mutex<Option<Connection>>,
    services: Services,
    thread: Option<JoinHandle<()>>,
}

impl Joined {
    fn new(process: Arc<NodeProcess>, thread: Option<JoinHandle<()>>) -> Self {
        Self {
            process,
            asking: Mutex::new(None),
            calling: Mutex::new(None),
            services: Services::default(),
            thread,
        }
    }
}

pub(super) struct JoinedRack {
    config: RackConfig,
    process: NodesProcess,
    /// The nodes that are here, by number.
    nodes: Vec<Option<Joined>>,
    /// When it is set, its threads end, and nothing of it connects to the controller any more.
    pub stop: Arc<AtomicBool>,
}

impl JoinedRack {
    /// A process that is no node yet.
    fn new(config: &RackConfig) -> Result<Self, HostedError> {
        let names: Vec<&str> = config.node.iter().map(|node| node.name.as_str()).collect();
        Ok(Self {
            config: config.clone(),
            process: NodesProcess::new(config, &names)?,
            nodes: config.node.iter().map(|_| None).collect(),
            stop: Arc::default(),
        })
    }

    /// Makes the process a node, and waits until the controller has admitted it.
    fn add(&mut self, name: &str, waits_for_name: bool) -> Result<(), HostedError> {
        let options = NodeOptions {
            config: self.config.clone(),
            name: name.to_owned(),
            controllers: Vec::new(),
            jobs: Arc::new(NoJobs),
            serves_stores: false,
            waits_for_name,
        };
        let process = NodeProcess::with(options, &self.process);
        let process = process.map_err(|error| unless_absent(&self.config.hosted(), error))?;
        let process = Arc::new(process);
        let (report, reported) = channel();
        let (running, stop) = (process.clone(), self.stop.clone());
        let thread = std::thread::Builder::new().name(format!("node-{name}"));
        let thread = thread.spawn(move || {
            let watch = |event| _ = report.send(Ok(event));
            if let Err(error) = running.run(&stop, &watch) {
                let _ = report.send(Err(error));
            }
        });
        let thread = thread.map_err(|error| HostedError::System {
            what: "no thread for the node",
            error,
        })?;
        let node = usize::from(process.node().0);
        self.nodes[node] = Some(Joined::new(process, Some(thread)));
        let joined = wait_until_joined(&reported, std::time::Instant::now() + JOIN_LIMIT);
        // The controller admits this connection once it has admitted the node.
        let dialer = self.nodes[node]
            .as_ref()
            .expect("just entered")
            .process
            .dialer(&self.stop);
        let asking = joined.and_then(|()| dialer.dial(PURPOSE_MEMBER));
        let place = &mut self.nodes[node];
        match asking {
            Ok(connection) => {
                if let Some(joined) = place {
                    joined.asking = Mutex::new(Some(connection));
                }
                Ok(())
            }
            Err(error) => {
                // Its thread has ended.
                place.take_if(|_| error.is_taken());
                Err(error)
            }
        }
    }

    /// The rack, once the process is a node.
    fn finish(self) -> Result<Rack, HostedError> {
        if self.nodes.iter().all(Option::is_none) {
            let (name, hint) = (String::new(), "name one at least".to_owned());
            return Err(HostedError::NoSuchNode { name, hint });
        }
        Ok(Rack::new(Arc::new(self)))
    }

    /// The rack as seen by the process of a node.
    pub fn of(process: Arc<NodeProcess>) -> Self {
        let config = process.config().clone();
        let mut nodes: Vec<_> = config.node.iter().map(|_| None).collect();
        let (at, shared) = (usize::from(process.node().0), process.process().clone());
        nodes[at] = Some(Joined::new(process, None));
        Self {
            config,
            process: shared,
            nodes,
            stop: Arc::default(),
        }
    }

    /// The first of the nodes.
    fn first(&self) -> &Joined {
        let mut all = self.nodes.iter().flatten();
        all.next().expect("a process joins as one node at least")
    }

    fn here(&self, node: NodeId) -> Option<&Joined> {
        self.nodes.get(usize::from(node.0))?.as_ref()
    }

    /// The node whose connection a request takes: one that may send it.
    fn asker(&self, request: &MemberRequest) -> &Joined {
        let may = |node: &&Joined| match request {
            MemberRequest::Ask(request) => request.may_be_sent_by(node.process.node()),
            MemberRequest::Statistics | MemberRequest::MtuToHost(_) | MemberRequest::Call(_) => {
                true
            }
        };
        let mut all = self.nodes.iter().flatten();
        // If none may, the controller says so.
        all.find(may).unwrap_or_else(|| self.first())
    }

    fn request(&self, request: &MemberRequest) -> Result<MemberReply, AskError> {
        let joined = self.asker(request);
        let limit = ANSWER_LIMIT + self.config.hosted().dead_after();
        let asking = match request {
            MemberRequest::Call(_) => &joined.calling,
            _ => &joined.asking,
        };
        let mut asking = asking.lock().expect("no holder panics");
        // The switch's process may have been replaced by another since the last request.
        asking.take_if(|connection| connection.receive::<Value>(Time::ZERO).is_err());
        let connection = match &mut *asking {
            Some(connection) => connection,
            none => {
                let dialed = joined.process.dialer(&self.stop).dial(PURPOSE_MEMBER);
                none.insert(dialed.map_err(|_| AskError::NoAnswer)?)
            }
        };
        let reply = connection.request(request, limit);
        reply.map_err(|_| {
            *asking = None;
            AskError::NoAnswer
        })
    }
}

/// Waits until a node has joined the rack.
fn wait_until_joined(
    reported: &Receiver<Result<NodeEvent, HostedError>>,
    deadline: std::time::Instant,
) -> Result<(), HostedError> {
    let mut last = "no answer".to_owned();
    loop {
        let left = deadline.saturating_duration_since(std::time::Instant::now());
        match reported.recv_timeout(left) {
            Ok(Ok(NodeEvent::Joined { .. })) => return Ok(()),
            Ok(Ok(NodeEvent::Waiting { why } | NodeEvent::Lost { why })) => last = why,
            Ok(Err(error)) => return Err(error),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(HostedError::NotJoined { why: last });
            }
        }
    }
}

impl Backend for JoinedRack {
    fn config(&self) -> &RackConfig {
        &self.config
    }

    fn kind(&self) -> Kind {
        Kind::Hosted
    }

    fn identity(&self) -> u64 {
        self.first().process.identity()
    }

    fn memory(&self) -> &Memory {
        &self.process.memory
    }

    fn now(&self) -> Instant {
        self.first().process.now()
    }

    fn node(self: Arc<Self>, node: NodeId) -> Option<Arc<dyn NodeAccess>> {
        let joined = self.here(node)?;
        Some(Arc::new(NodeAccessPoint::new(&joined.process)))
    }

    fn is_alive(&self, node: NodeId) -> bool {
        self.here(node).is_some()
    }

    fn incarnation(&self, node: NodeId) -> u64 {
        self.here(node).map_or(0, |it| it.process.forgotten())
    }

    fn block(&self, node: NodeId, rkey: Rkey) -> Option<Block> {
        self.here(node)?.process.block(rkey)
    }

    fn mtu(&self, node: NodeId) -> Mtu {
        let most = Mtu::from_bytes(self.config.nic.mtu).unwrap_or_default();
        let link = self.here(node).and_then(|joined| joined.process.mtu());
        link.map_or(most, |link| link.min(most))
    }

    fn mtu_to_host(&self, name: &str) -> Result<Mtu, String> {
        match self.request(&MemberRequest::MtuToHost(name.to_owned())) {
            Ok(MemberReply::MtuToHost(Some(mtu))) => Ok(mtu),
            Ok(_) => Err("the switch does not know it".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn page_alarm(&self) -> Arc<AtomicBool> {
        self.process.page_alarm.clone()
    }

    fn set_target(
        &self,
        node: NodeId,
        config: TargetConfig,
        namespaces: Vec<Box<dyn Medium>>,
    ) -> Result<(), TargetError> {
        let joined = self.here(node).ok_or(rackweave_verbs::CqError::NoAnswer)?;
        let memory = &self.process.memory;
        joined
            .process
            .set_target(|nic| Target::new(config, nic, memory, namespaces))
    }

    fn statistics(&self) -> RackStatistics {
        match self.request(&MemberRequest::Statistics) {
            Ok(MemberReply::Statistics(statistics)) => *statistics,
            _ => RackStatistics::default(),
        }
    }

    fn provide(&self, name: &str, service: Arc<NamedService>) -> Result<(), ProcessError> {
        let joined = self.first();
        let dialer = joined.process.dialer(&self.stop);
        joined.services.add(&dialer, (name, service))?;
        let shared = dialer.share(name);
        shared.inspect_err(|_| joined.services.remove(name))
    }

    fn withdraw(&self, name: &str) {
        let joined = self.first();
        joined.services.remove(name);
        let (name, node) = (name.to_owned(), joined.process.node());
        // A controller that is gone has forgotten it.
        let _gone = self.ask(ForgetService { name, node }.into_request());
    }

    fn call(&self, name: &str, body: Value) -> Result<Value, ProcessError> {
        let name = name.to_owned();
        match self.request(&MemberRequest::Call(ServiceCall { name, body }))? {
            MemberReply::Called(answer) => answer.map_err(ProcessError::Refused),
            _ => Err(AskError::NoAnswer.into()),
        }
    }

    fn ask(&self, request: Request) -> Result<Reply, AskError> {
        match self.request(&MemberRequest::Ask(Box::new(request)))? {
            MemberReply::Answer(answer) => answer.map(|reply| *reply),
            _ => Err(AskError::NoAnswer),
        }
    }
}

impl Drop for JoinedRack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for joined in self.nodes.iter_mut().flatten() {
            joined.process.close_further();
            joined.services.join();
            if let Some(thread) = joined.thread.take() {
                // It has ended by a panic, which was reported, or leaves the rack now.
                let _ = thread.join();
            }
        }
    }
}
