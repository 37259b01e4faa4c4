//! Results of a script (docs/JSON.md), and what its text shows of them.

use super::Play;
use super::script::Action;
use super::stage::{FlowEnd, FlowRecord};
use crate::globals::SIMULATED;
use crate::report::{joined, object, titled};
use rackweave_base::NodeId;
use rackweave_rack::RackConfig;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Results that only some racks have.
#[derive(Serialize, Default)]
pub struct RackFound {
    pub driver_threads: Option<usize>,
    /// Real time of a simulated run.
    pub real_seconds: Option<f64>,
    pub events: Option<u64>,
    pub trace_hash: Option<String>,
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
    let pushed = sources.map(|(_, source)| source.borrow().pushed.iter().sum::<u64>());
    let sinks = flow.sinks.iter();
    let taken: Vec<u64> = sinks.map(|(_, _, sink)| sink.borrow().items).collect();
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
        let ends = (number, *at, source.pushed.iter().sum());
        members.push(member("producer", ends, source.life(), source.state()));
    }
    let (mut items, mut last) = (0, flow.begun);
    for (number, (at, _, sink)) in flow.sinks.iter().enumerate() {
        let sink = sink.borrow();
        items += sink.items;
        last = last.max(sink.last);
        let ends = (number, *at, sink.items);
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

/// The results of `play` after `span` nanoseconds on a rack that has these further results. Takes
/// over what its stage has recorded.
pub(super) fn found(
    play: &mut Play,
    mode: &'static str,
    span: u64,
    of_rack: RackFound,
    interrupted: bool,
) -> Map<String, Value> {
    let problems = play.stage.judge(play.is_over);
    let flows = play.stage.flows.iter();
    let flows: Vec<_> = flows.map(|flow| flow_entry(flow, &play.config)).collect();
    let head = json!({
        "script": play.script.name,
        "mode": mode,
        "seed": play.config.seed,
        "joined_as": play.joined_as.take(),
    });
    let actions = json!({
        // From the start to the last item, in virtual time if simulated.
        "elapsed_s": span as f64 / 1e9,
        "actions": core::mem::take(&mut play.stage.actions),
        "snapshots": core::mem::take(&mut play.stage.snapshots),
        "flows": flows,
    });
    let end = json!({
        "interrupted": interrupted,
        "verified": problems.is_empty() && play.is_over,
        "problems": problems,
    });
    object(joined([head, json!(of_rack), actions, end]))
}

/// The results as text. Snapshots are in the outcomes of their actions.
pub(super) fn text(found: &Map<String, Value>) -> String {
    let time = match found["mode"] == SIMULATED {
        true => "virtual_time_s",
        false => "elapsed_s",
    };
    let word = |key: &str| found[key].as_str().unwrap_or_default();
    let (script, mode) = (word("script"), word("mode"));
    let actions = found["actions"].as_array().into_iter().flatten();
    let shown = json!({
        "actions": actions.map(action_row).collect::<Vec<_>>(),
        "flows": found["flows"],
        time: found["elapsed_s"],
        "real_seconds": found["real_seconds"],
        "events": found["events"],
        "trace_hash": found["trace_hash"],
        "problems": found["problems"],
        "interrupted": found["interrupted"],
        "verified": found["verified"],
    });
    let heading = match found["joined_as"].as_object() {
        Some(joined_as) => {
            let pairs = joined_as.iter();
            let pairs = pairs.map(|(node, by)| format!("{} as {node}", by.as_str().unwrap_or("")));
            let pairs = pairs.collect::<Vec<_>>().join(", ");
            format!("{script} on a {mode} rack, with {pairs}")
        }
        None => {
            let article = if mode == SIMULATED { "a" } else { "an" };
            format!("{script} on {article} {mode} rack, seed {}", found["seed"])
        }
    };
    titled(&heading, &[], object(shown))
}

/// An action in the table of the text.
fn action_row(action: &Value) -> Value {
    let is = |key: &str| action[key] == true;
    let refused = match (is("done"), is("expect_error")) {
        (true, false) => "",
        (true, true) => "not refused, as it should have been: ",
        (false, true) => "refused, as expected: ",
        (false, false) => "refused: ",
    };
    let millis = action["happened_s"].as_f64().unwrap_or_default() * 1e3;
    json!({
        "at [ms]": format!("{millis:.3}"),
        "action": action["action"],
        "flow": action["flow"].as_str().unwrap_or("all"),
        "outcome": format!("{refused}{}", action["outcome"].as_str().unwrap_or_default()),
    })
}
