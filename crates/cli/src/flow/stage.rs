//! The effects of a script's actions: flows with their ends, members that join and leave. The stage
//! is independent of clocks and of the kind of rack, which its runner has.

use super::report::{ActionReport, snapshot};
use super::script::{Action, Create, Leaver, What};
use crate::items::verify::{self, Evidence, Seen};
use crate::items::{ItemSource, Sink, Style};
use crate::measure::Amount;
use crate::programs::End;
use core::cell::RefCell;
use rackweave_base::{Duration, NodeId};
use rackweave_controller::flows::AbortReason;
use rackweave_controller::{FlowError, FlowShape, FlowSpec, FlowState, Loss};
use rackweave_rack::{Flow, Rack, RackConfig};
use serde_json::Value;
use std::rc::Rc;

/// An end that both its runner and the stage access.
pub type Shared<T> = Rc<RefCell<T>>;

/// A running end of a flow.
pub type RunningEnd = End<Shared<ItemSource>, Shared<Sink>>;

/// Ends that must be run from now on, with their nodes.
type Newcomers = Vec<(NodeId, RunningEnd)>;

/// A flow of the script.
pub struct FlowRecord {
    /// Its name in the script.
    pub name: String,
    /// How items find their consumers.
    pub shape: FlowShape,
    /// The latest weight.
    pub weight: Option<u32>,
    /// Bytes of an item.
    pub item_bytes: u32,
    /// Its producers, by number, with their nodes.
    pub sources: Vec<(NodeId, Shared<ItemSource>)>,
    /// Its consumers, by number, with their nodes, and whether they joined later.
    pub sinks: Vec<(NodeId, bool, Shared<Sink>)>,
    /// Nanoseconds since the start.
    pub begun: u64,
    /// None if it could not be set up.
    flow: Option<Flow>,
}

/// Everything that has happened so far.
pub struct ScriptRun {
    config: RackConfig,
    /// In the order of creation.
    pub flows: Vec<FlowRecord>,
    /// In the order of time.
    pub actions: Vec<ActionReport>,
    /// The snapshots of `report` actions.
    pub snapshots: Vec<Value>,
}

/// What an action has done, and the ends that it has started.
type Done = Result<(String, Newcomers), FlowError>;

/// Message about a flow, and about the ring of a member.
const MADE: &str = "the controller just made it";

impl ScriptRun {
    /// A stage for the rack of `config`, on which nothing has happened.
    pub fn new(config: &RackConfig) -> Self {
        Self {
            config: config.clone(),
            flows: Vec::new(),
            actions: Vec::new(),
            snapshots: Vec::new(),
        }
    }

    /// Executes an action. Refusals are recorded; the caller must run the returned ends.
    pub fn act(&mut self, action: &Action, rack: &Rack, now: u64) -> Newcomers {
        let done = match (&action.what, &action.flow) {
            (What::Create(create), Some(name)) => self.create(name, create, rack, now),
            (What::Report, name) => {
                let named =
                    |flow: &&FlowRecord| name.as_ref().is_none_or(|name| *name == flow.name);
                let flows = self.flows.iter().filter(named);
                let shown = flows.map(|flow| snapshot(flow, now));
                let (shown, words): (Vec<Value>, Vec<String>) = shown.unzip();
                self.snapshots.extend(shown);
                Ok((words.join("; "), Newcomers::new()))
            }
            (what, name) => {
                let flows = self.flows.iter_mut();
                match flows.rev().find(|flow| Some(&flow.name) == name.as_ref()) {
                    Some(flow) => flow.change(what, &self.config, now),
                    None => Err(FlowError::NotRunning),
                }
            }
        };
        let (done, newcomers) = match done {
            Ok((done, newcomers)) => (Ok(done), newcomers),
            Err(error) => (Err(self.config.name_nodes(&error.to_string())), Vec::new()),
        };
        self.actions.push(ActionReport::new(action, now, done));
        newcomers
    }

    fn create(&mut self, name: &str, create: &Create, rack: &Rack, now: u64) -> Done {
        let made = spec_of(create, rack).and_then(|spec| rack.create_flow(spec));
        let mut played = FlowRecord {
            name: name.to_owned(),
            shape: create.shape,
            weight: create.weight,
            item_bytes: create.item_bytes,
            sources: Vec::new(),
            sinks: Vec::new(),
            begun: now,
            flow: None,
        };
        let made = made.map(|flow| {
            played.flow = Some(flow);
            let mut newcomers = Newcomers::new();
            // Consumers first, so that the first item does not wait for its consumer.
            let consumers = create.consumers.iter().zip(&create.consumer_rates);
            for (at, (name, &rate)) in consumers.enumerate() {
                let node = node_of(name, &self.config);
                newcomers.push(played.sink(at, (node, false), rate, now));
            }
            for (at, name) in create.producers.iter().enumerate() {
                let (node, manner) = (node_of(name, &self.config), create.producer_rate);
                newcomers.push(played.source(at, node, (create.amount, manner), now));
            }
            (create.to_string(), newcomers)
        });
        self.flows.push(played);
        made
    }

    /// All problems, in words, after everything has ended; `is_over` says whether it has.
    pub fn judge(&self, is_over: bool) -> Vec<String> {
        let mut problems = Vec::new();
        for action in &self.actions {
            problems.extend(action.problem());
        }
        for flow in &self.flows {
            let name = &flow.name;
            match flow.state() {
                FlowEnd::Broken(reason) => {
                    let reason = self.config.name_nodes(&reason.to_string());
                    problems.push(format!("{name}: it was broken off: {reason}"));
                }
                FlowEnd::Running if !is_over => {
                    problems.push(format!("{name}: it has not come to its end"));
                }
                _ => {}
            }
            for (at, (_, _, sink)) in flow.sinks.iter().enumerate() {
                let problem = sink.borrow().problem.clone();
                problems.extend(problem.map(|it| format!("{name}: consumer {at}: {it}")));
            }
            let found = flow.judge(is_over).into_iter();
            problems.extend(found.map(|problem| format!("{name}: {problem}")));
        }
        problems
    }
}

/// The end of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowEnd {
    /// It was never set up.
    Refused,
    /// It has not ended.
    Running,
    /// All was delivered.
    Ended,
    /// The script closed it.
    Closed,
    /// Something else aborted it.
    Broken(AbortReason),
}

impl FlowRecord {
    /// The state of the flow.
    pub fn state(&self) -> FlowEnd {
        let Some(flow) = &self.flow else {
            return FlowEnd::Refused;
        };
        match flow.state() {
            FlowState::Running => FlowEnd::Running,
            FlowState::Ended => FlowEnd::Ended,
            FlowState::Aborted(AbortReason::Closed) => FlowEnd::Closed,
            FlowState::Aborted(reason) => FlowEnd::Broken(reason),
        }
    }

    /// Members that were lost.
    pub fn losses(&self) -> Vec<Loss> {
        self.flow
            .as_ref()
            .map_or_else(Vec::new, |flow| flow.losses())
    }

    fn flow(&mut self) -> Result<&mut Flow, FlowError> {
        self.flow.as_mut().ok_or(FlowError::NotRunning)
    }

    fn change(&mut self, what: &What, config: &RackConfig, now: u64) -> Done {
        let done = match what {
            What::Weight(weight) => {
                self.flow()?.set_weight(*weight)?;
                self.weight = *weight;
                weight.map_or("no weight".into(), |weight| format!("weight {weight}"))
            }
            What::AddConsumer(joiner) => {
                let node = node_of(&joiner.node, config);
                let at = self.flow()?.add_consumer(&joiner.node)?;
                let newcomer = self.sink(at, (node, true), joiner.rate, now);
                return Ok((format!("consumer {at} on {}", joiner.node), vec![newcomer]));
            }
            What::AddProducer(joiner) => {
                let node = node_of(&joiner.node, config);
                let at = self.flow()?.add_producer(node)?;
                let newcomer = self.source(at, node, (joiner.amount, joiner.rate), now);
                return Ok((format!("producer {at} on {}", joiner.node), vec![newcomer]));
            }
            What::RemoveConsumer(leaver) => {
                let at = match leaver {
                    Leaver::Index(at) => *at,
                    Leaver::Node(name) => self.on_node(node_of(name, config)),
                };
                self.flow()?.remove_consumer(at)?;
                self.sinks[at].2.borrow_mut().removed = true;
                let node = &config.node[usize::from(self.sinks[at].0.0)].name;
                format!("consumer {at} on {node} leaves")
            }
            What::Close => {
                self.flow()?.close();
                "closed".into()
            }
            What::Create(_) | What::Report => unreachable!("the stage does these itself"),
        };
        Ok((done, Newcomers::new()))
    }

    /// The first consumer on a node that has not been removed. If there is none, a removed one,
    /// which the controller will refuse.
    fn on_node(&self, node: NodeId) -> usize {
        let here = || {
            self.sinks
                .iter()
                .enumerate()
                .filter(|(_, sink)| sink.0 == node)
        };
        let living = here().find(|(_, sink)| !sink.2.borrow().removed);
        let any = living.or_else(|| here().next());
        any.map_or(self.sinks.len(), |(at, _)| at)
    }

    fn sink(
        &mut self,
        at: usize,
        (node, joined): (NodeId, bool),
        rate: Option<f64>,
        now: u64,
    ) -> (NodeId, RunningEnd) {
        let flow = self.flow.as_ref().expect(MADE);
        let consumer = flow.take_consumer(at).expect(MADE);
        let index = (self.shape == FlowShape::Shuffle).then_some(at);
        let style = Style::checked(rate, now);
        let sink = Sink::new(consumer, flow.consumer_bell(at), index, style);
        let sink = Rc::new(RefCell::new(sink));
        self.sinks.push((node, joined, sink.clone()));
        (node, End::Sink(sink))
    }

    fn source(
        &mut self,
        at: usize,
        node: NodeId,
        (amount, rate): (Amount, Option<f64>),
        now: u64,
    ) -> (NodeId, RunningEnd) {
        let flow = self.flow.as_ref().expect(MADE);
        let rings = flow.take_producers(at).expect(MADE);
        let style = Style::checked(rate, now);
        let source = ItemSource::new(rings, flow.producer_bells(at), at, amount, style);
        let source = Rc::new(RefCell::new(source));
        self.sources.push((node, source.clone()));
        (node, End::Source(source))
    }

    /// Compares the pushed items with those seen.
    fn judge(&self, is_over: bool) -> Vec<String> {
        let sinks = self.sinks.iter();
        let sinks: Vec<_> = sinks.map(|(_, _, sink)| sink.borrow()).collect();
        let seen = self.sinks.iter().zip(&sinks);
        let seen = seen.map(|((_, joined, _), sink)| Seen {
            runs: &sink.runs,
            joined: *joined,
            left: sink.removed,
        });
        let pushed = self.sources.iter();
        let pushed = pushed.map(|(_, source)| source.borrow().pushed.clone());
        let is_cut = !is_over || matches!(self.state(), FlowEnd::Closed | FlowEnd::Broken(_));
        verify::judge(&Evidence {
            shape: self.shape,
            pushed: pushed.collect(),
            seen: seen.collect(),
            is_cut,
        })
    }
}

/// What the controller is asked for.
///
/// # Errors
/// If the flow is impossible.
pub fn spec_of(create: &Create, rack: &Rack) -> Result<FlowSpec, FlowError> {
    let flow = rack.flow(&create.producers, &create.consumers);
    let mut spec = flow
        .shape(create.shape)
        .item_bytes(create.item_bytes)
        .ring_bytes(create.ring_bytes)
        .weight(create.weight)
        .on_loss(create.on_loss)
        .doorbells(create.doorbells)
        .spec()?;
    if let Some(micros) = create.poll_interval_us {
        spec.poll_interval = Duration::from_micros(micros);
        spec.poll_interval_max = spec.poll_interval_max.max(spec.poll_interval);
    }
    spec.batch_bytes = create.batch_bytes.unwrap_or(spec.batch_bytes);
    Ok(spec)
}

/// The node with a name that has been checked.
fn node_of(name: &str, config: &RackConfig) -> NodeId {
    let node = config.node_named(name);
    node.expect("the script was checked against this rack")
}
