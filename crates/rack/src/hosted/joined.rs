//! A rack of processes, as seen by a program that is one or more of its nodes.

use super::messages::{MemberReply, MemberRequest, PURPOSE_MEMBER, ServiceCall};
use super::node::{Job, Jobs, NodeAccessPoint, NodeEvent, NodeOptions, NodeProcess};
use super::services::Services;
use super::{CONNECT_LIMIT, HostedError, connect};
use crate::build::Kind;
use crate::config::{LinkKind, RackConfig};
use crate::statistics::RackStatistics;
use crate::{Backend, NamedService, ProcessError, Rack};
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::{Block, Instant, Memory, NodeId, Rkey};
use rackweave_control::{Connection, ControlError};
use rackweave_controller::Named;
use rackweave_controller::ask::{Ask, AskError, ForgetService, Reply, Request, ShareName};
use rackweave_target::{Backend as Medium, Target, TargetConfig, TargetError};
use rackweave_verbs::NodeAccess;
use serde_json::Value;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration as Time;

/// Time limit for joining a rack.
const JOIN_LIMIT: Time = Time::from_secs(5);

/// Interval between two attempts to connect.
const RETRY_AFTER: Time = Time::from_millis(20);

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

    /// The same as one or several nodes, with a configuration that has been read. Of several, none
    /// may be connected by shared memory: they have one memory, which is named after one node.
    ///
    /// # Errors
    /// As for [`Rack::join`].
    pub fn join_as(config: &RackConfig, nodes: &[&str]) -> Result<Self, HostedError> {
        Ok(Self::new(Arc::new(JoinedRack::new(config, nodes)?)))
    }
}

/// A member of a rack runs no jobs of commands.
struct NoJobs;

impl Jobs for NoJobs {
    fn run(&self, _: &str, _: Value, _: &Job) -> Result<Value, String> {
        Err("this node is a program of its own, which runs no jobs".into())
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

struct JoinedRack {
    config: RackConfig,
    memory: Memory,
    /// The nodes that are here, by number.
    nodes: Vec<Option<Joined>>,
    page_alarm: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl JoinedRack {
    fn new(config: &RackConfig, names: &[&str]) -> Result<Self, HostedError> {
        let hosted = config.hosted();
        let kind = |name: &&&str| {
            let node = config.node.iter().find(|node| node.name == **name);
            node.map(|node| node.link_kind(&hosted))
        };
        let shared = names
            .iter()
            .filter(|name| kind(name) == Some(LinkKind::SharedMemory));
        if names.len() > 1 && shared.count() > 0 {
            return Err(HostedError::SharedBySeveral);
        }
        if names.is_empty() {
            let (name, hint) = (String::new(), "name one at least".to_owned());
            return Err(HostedError::NoSuchNode { name, hint });
        }
        let mut rack = Self {
            config: config.clone(),
            memory: NodeProcess::memory_for(config, names)?,
            nodes: config.node.iter().map(|_| None).collect(),
            page_alarm: Arc::default(),
            stop: Arc::default(),
        };
        let epoch = std::time::Instant::now();
        let mut events = Vec::new();
        for name in names {
            let options = NodeOptions {
                config: config.clone(),
                name: (*name).to_owned(),
                controller: None,
                jobs: Arc::new(NoJobs),
                serves_stores: false,
            };
            let process =
                NodeProcess::with(options, (rack.memory.clone(), epoch), &rack.page_alarm)?;
            let (report, reported) = channel();
            let (process, stop) = (Arc::new(process), rack.stop.clone());
            let running = process.clone();
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
            let node = process.node();
            rack.nodes[usize::from(node.0)] = Some(Joined {
                process,
                asking: Mutex::new(None),
                calling: Mutex::new(None),
                services: Services::default(),
                thread: Some(thread),
            });
            events.push(reported);
        }
        let deadline = std::time::Instant::now() + JOIN_LIMIT;
        events
            .iter()
            .try_for_each(|reported| wait_until_joined(reported, deadline))?;
        // The controller admits this connection once it has admitted the node.
        for joined in rack.nodes.iter_mut().flatten() {
            let connection = dial(config, joined.process.name(), PURPOSE_MEMBER)?;
            joined.asking = Mutex::new(Some(connection));
        }
        Ok(rack)
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
            MemberRequest::Statistics | MemberRequest::Call(_) => true,
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
        let connection = match &mut *asking {
            Some(connection) => connection,
            none => {
                let dialed = dial(&self.config, joined.process.name(), PURPOSE_MEMBER);
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

/// Connects a node that has joined to the controller once more.
///
/// # Errors
/// If the node is not in the rack, or the controller does not answer.
pub(super) fn dial(
    config: &RackConfig,
    node: &str,
    purpose: &str,
) -> Result<Connection, HostedError> {
    let deadline = std::time::Instant::now() + CONNECT_LIMIT;
    loop {
        match connect(config, node, purpose, Value::Null) {
            // It joins again soon, if it has lost the controller.
            Err(HostedError::Control(
                ControlError::Refused { .. } | ControlError::Unreachable { .. },
            )) if std::time::Instant::now() < deadline => std::thread::sleep(RETRY_AFTER),
            other => return other,
        }
    }
}

/// Gives a name to a service of a node, over a connection for this alone: the thread of services
/// does so, too, when the controller was lost.
fn share(config: &RackConfig, node: (&str, NodeId), name: &str) -> Result<(), ProcessError> {
    let (of, node) = node;
    let (name, what) = (name.to_owned(), Named::Service(node));
    let request = ShareName { name, what }.into_request();
    let mut connection = dial(config, of, PURPOSE_MEMBER).map_err(|_| AskError::NoAnswer)?;
    let reply = connection.request(&MemberRequest::Ask(Box::new(request)), CONNECT_LIMIT);
    match reply.map_err(|_| AskError::NoAnswer)? {
        MemberReply::Answer(reply) => {
            ShareName::answer_of(*reply?).ok_or(AskError::NoAnswer)??;
            Ok(())
        }
        _ => Err(AskError::NoAnswer.into()),
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
        &self.memory
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

    fn block(&self, node: NodeId, rkey: Rkey) -> Option<Block> {
        self.here(node)?.process.block(rkey)
    }

    fn page_alarm(&self) -> Arc<AtomicBool> {
        self.page_alarm.clone()
    }

    fn set_target(
        &self,
        node: NodeId,
        config: TargetConfig,
        namespaces: Vec<Box<dyn Medium>>,
    ) -> Result<(), TargetError> {
        let joined = self.here(node).ok_or(rackweave_verbs::CqError::NoAnswer)?;
        let memory = &self.memory;
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
        let (node, of) = (joined.process.node(), joined.process.name());
        let (config, own_name) = (self.config.clone(), of.to_owned());
        let again = move |name: &str| {
            // If it is taken meanwhile, callers reach whatever has it.
            let _taken = share(&config, (&own_name, node), name);
        };
        let services = &joined.services;
        services.add((&self.config, of), (name, service), &self.stop, again)?;
        share(&self.config, (of, node), name).inspect_err(|_| services.remove(name))
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
            joined.services.join();
            if let Some(thread) = joined.thread.take() {
                // It has ended by a panic, which was reported, or leaves the rack now.
                let _ = thread.join();
            }
        }
    }
}
