//! Results of a script: text for users, one object for programs (docs/JSON.md).

use super::Play;
use super::script::Action;
use super::stage::{FlowEnd, FlowRecord};
use crate::mode::SIMULATED;
use crate::report::{Text, without_nulls};
use rackweave_base::NodeId;
use rackweave_rack::RackConfig;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;

/// The result of the command.
#[derive(Serialize)]
pub struct ScriptReport {
    pub script: String,
    /// `embedded` or `simulated`.
    pub mode: &'static str,
    pub seed: u64,
    pub driver_threads: Option<usize>,
    /// From the start to the last item, in virtual time if simulated.
    pub elapsed_s: f64,
    /// Real time of a simulated run.
    pub real_seconds: Option<f64>,
    pub events: Option<u64>,
    pub trace_hash: Option<String>,
    pub actions: Vec<ActionReport>,
    /// Flows while they ran.
    pub snapshots: Vec<Value>,
    /// Flows and their members.
    pub flows: Vec<Value>,
    /// All problems, in words.
    pub problems: Vec<String>,
    pub interrupted: bool,
    pub verified: bool,
}

/// The outcome of an action.
#[derive(Serialize, Debug)]
pub struct ActionReport {
    /// Counted from one, in the order of the script.
    pub number: usize,
    /// When it was due, and when it happened.
    pub at_s: f64,
    pub happened_s: f64,
    pub action: &'static str,
    pub flow: Option<String>,
    pub done: bool,
    /// The result, or why it was refused.
    pub outcome: String,
    pub expect_error: bool,
}

impl ActionReport {
    /// An action that was executed at `now`, or refused.
    pub fn new(action: &Action, now: u64, done: Result<String, String>) -> Self {
        Self {
            number: action.place.number,
            at_s: action.at as f64 / 1e9,
            happened_s: now as f64 / 1e9,
            action: action.word(),
            flow: action.flow.clone(),
            done: done.is_ok(),
            outcome: done.unwrap_or_else(|error| error),
            expect_error: action.expect_error,
        }
    }

    /// The problem with its outcome, if there is one.
    pub fn problem(&self) -> Option<String> {
        let (number, word, outcome) = (self.number, self.action, &self.outcome);
        match (self.done, self.expect_error) {
            (false, false) => Some(format!("action {number}: {word} was refused: {outcome}")),
            (true, true) => Some(format!(
                "action {number}: {word} was to be refused, and was done"
            )),
            _ => None,
        }
    }
}

fn state_name(end: FlowEnd) -> &'static str {
    match end {
        FlowEnd::Refused => "refused",
        FlowEnd::Running => "running",
        FlowEnd::Ended => "ended",
        FlowEnd::Closed => "closed",
        FlowEnd::Broken(_) => "broken off",
    }
}

/// The state of a flow at `now`, as JSON and in words.
pub fn snapshot(flow: &FlowRecord, now: u64) -> (Value, String) {
    let sources = flow.sources.iter();
    let pushed = sources.map(|(_, source)| source.borrow().pushed().iter().sum::<u64>());
    let sinks = flow.sinks.iter();
    let taken: Vec<u64> = sinks.map(|(_, _, sink)| sink.borrow().items()).collect();
    let (pushed, all_taken): (u64, u64) = (pushed.sum(), taken.iter().sum());
    let (name, state) = (&flow.name, state_name(flow.state()));
    let words = format!("{name} {state}: {pushed} items pushed, {all_taken} taken");
    let snapshot = json!({
        "at_s": now as f64 / 1e9,
        "flow": name,
        "state": state,
        "items_pushed": pushed,
        "items_taken": all_taken,
        // In the order of the consumers' numbers.
        "items_by_consumer": taken,
    });
    (snapshot, words)
}

/// A flow, its members, and those that were lost. The rate of a member is over its life, from its
/// start to its last item; the items of a flow are the sum over all consumers: a replicated item
/// counts at each.
fn flow_entry(flow: &FlowRecord, config: &RackConfig) -> Value {
    let node = |node: NodeId| config.node[usize::from(node.0)].name.as_str();
    let size = u64::from(flow.item_bytes);
    // Bytes per nanosecond are gigabytes per second.
    let rate = |items: u64, nanos: u64| (items * size) as f64 / nanos.max(1) as f64;
    let member = |role: &str, (number, at, items): (usize, NodeId, u64), life, state: &str| {
        json!({
            "role": role,
            "number": number,
            "node": node(at),
            "items": items,
            "gigabytes_per_s": rate(items, life),
            "state": state,
        })
    };
    let mut members = Vec::new();
    for (number, (at, source)) in flow.sources.iter().enumerate() {
        let source = source.borrow();
        let ends = (number, *at, source.pushed().iter().sum());
        members.push(member("producer", ends, source.life(), source.state()));
    }
    let (mut items, mut last) = (0, flow.begun);
    for (number, (at, _, sink)) in flow.sinks.iter().enumerate() {
        let sink = sink.borrow();
        items += sink.items();
        last = last.max(sink.last());
        let ends = (number, *at, sink.items());
        members.push(member("consumer", ends, sink.life(), sink.state()));
    }
    let losses = flow.losses().into_iter().map(|loss| {
        json!({
            "role": loss.role,
            "number": loss.index,
            "node": node(loss.node),
            "items": loss.items,
            "reason": config.name_nodes(&loss.reason.to_string()),
        })
    });
    json!({
        "name": flow.name,
        "shape": flow.shape.name(),
        // The latest weight.
        "weight": flow.weight,
        "item_bytes": flow.item_bytes,
        "state": state_name(flow.state()),
        "items": items,
        "gigabytes_per_s": rate(items, last - flow.begun),
        "members": members,
        "losses": losses.collect::<Vec<_>>(),
    })
}

impl ScriptReport {
    /// The results of `play` after `span` nanoseconds. Takes over what its stage has recorded.
    pub(super) fn new(play: &mut Play, mode: &'static str, span: u64, interrupted: bool) -> Self {
        let problems = play.stage.judge(play.is_over);
        let flows = play.stage.flows.iter();
        let flows = flows.map(|flow| flow_entry(flow, &play.config));
        Self {
            script: play.script.name.clone(),
            mode,
            seed: play.config.seed,
            driver_threads: None,
            elapsed_s: span as f64 / 1e9,
            real_seconds: None,
            events: None,
            trace_hash: None,
            flows: flows.collect(),
            verified: problems.is_empty() && play.is_over,
            problems,
            interrupted,
            actions: core::mem::take(&mut play.stage.actions),
            snapshots: core::mem::take(&mut play.stage.snapshots),
        }
    }
}

impl fmt::Display for ActionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flow = self.flow.as_deref().unwrap_or("all");
        let refused = match (self.done, self.expect_error) {
            (true, false) => "",
            (true, true) => "not refused, as it should have been: ",
            (false, true) => "refused, as expected: ",
            (false, false) => "refused: ",
        };
        writeln!(
            f,
            "  {:>11.3}  {:<15} {:<10} {refused}{}",
            self.happened_s * 1e3,
            self.action,
            flow,
            self.outcome
        )
    }
}

impl fmt::Display for ScriptReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (article, time) = match self.mode {
            SIMULATED => ("a", "virtual_time_s"),
            _ => ("an", "elapsed_s"),
        };
        writeln!(
            f,
            "{} on {article} {} rack, seed {}\n",
            self.script, self.mode, self.seed
        )?;
        writeln!(
            f,
            "  {:>11}  {:<15} {:<10} outcome",
            "at [ms]", "action", "flow"
        )?;
        for action in &self.actions {
            write!(f, "{action}")?;
        }
        let more = without_nulls(json!({
            "flow": self.flows,
            time: self.elapsed_s,
            "real_time_s": self.real_seconds,
            "events": self.events,
            "trace_hash": self.trace_hash,
        }));
        if let Value::Object(more) = &more {
            write!(f, "\n{}", Text(more))?;
        }
        for problem in &self.problems {
            writeln!(f, "problem: {problem}")?;
        }
        if self.interrupted {
            writeln!(f, "interrupted: what was to come was left out")?;
        }
        write!(f, "verified: {}", self.verified)
    }
}
