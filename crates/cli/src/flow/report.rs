//! What came of a script: a table for people, one object for programs (docs/JSON.md).

use super::Play;
use super::script::Action;
use super::stage::{FlowEnd, Played};
use crate::mode::SIMULATED;
use rackweave_controller::Loss;
use rackweave_rack::RackConfig;
use serde::Serialize;
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
    pub snapshots: Vec<Snapshot>,
    pub flows: Vec<FlowEntry>,
    /// Everything that went wrong, in words.
    pub problems: Vec<String>,
    pub interrupted: bool,
    pub verified: bool,
}

/// What became of an action.
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
    /// What was done, or why it was refused.
    pub outcome: String,
    pub expect_error: bool,
}

/// A flow while it runs.
#[derive(Serialize, Debug)]
pub struct Snapshot {
    pub at_s: f64,
    pub flow: String,
    pub state: &'static str,
    pub items_pushed: u64,
    pub items_taken: u64,
    /// By the consumers' numbers.
    pub items_by_consumer: Vec<u64>,
}

/// A flow and its members.
#[derive(Serialize)]
pub struct FlowEntry {
    pub name: String,
    pub shape: &'static str,
    /// The last one.
    pub weight: Option<u32>,
    pub item_bytes: u32,
    /// `ended`, `closed`, `broken off`, `refused` or `running`.
    pub state: &'static str,
    /// At all consumers together: a replicated item counts at each.
    pub items: u64,
    pub gigabytes_per_s: f64,
    pub members: Vec<Member>,
    pub losses: Vec<Lost>,
}

/// A producer or consumer.
#[derive(Serialize)]
pub struct Member {
    pub role: &'static str,
    pub number: usize,
    pub node: String,
    pub items: u64,
    /// Over its life: from its beginning to its last item.
    pub gigabytes_per_s: f64,
    pub state: &'static str,
}

/// A member that was lost.
#[derive(Serialize)]
pub struct Lost {
    pub role: &'static str,
    pub number: usize,
    pub node: String,
    pub items: u64,
    pub reason: String,
}

impl ActionReport {
    /// An action that was done at `now`, or refused.
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

    /// What is wrong with how it went.
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

impl Snapshot {
    /// `flow`, whose state is `end`, at `now`.
    pub fn of(flow: &Played, end: FlowEnd, now: u64) -> Self {
        let by_consumer: Vec<u64> = flow
            .sinks
            .iter()
            .map(|(_, _, sink)| sink.borrow().items())
            .collect();
        Self {
            at_s: now as f64 / 1e9,
            flow: flow.name.clone(),
            state: state_name(end),
            items_pushed: pushed(flow),
            items_taken: by_consumer.iter().sum(),
            items_by_consumer: by_consumer,
        }
    }
}

fn pushed(flow: &Played) -> u64 {
    let sources = flow.sources.iter();
    sources
        .map(|(_, source)| source.borrow().pushed().iter().sum::<u64>())
        .sum()
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

impl FlowEntry {
    fn new(flow: &Played, config: &RackConfig) -> Self {
        let node = |node: rackweave_base::NodeId| config.node[usize::from(node.0)].name.clone();
        let size = u64::from(flow.item_bytes);
        // Bytes per nanosecond are gigabytes per second.
        let rate = |items: u64, nanos: u64| (items * size) as f64 / nanos.max(1) as f64;
        let mut members = Vec::new();
        for (number, (place, source)) in flow.sources.iter().enumerate() {
            let source = source.borrow();
            let items = source.pushed().iter().sum();
            members.push(Member {
                role: "producer",
                number,
                node: node(*place),
                items,
                gigabytes_per_s: rate(items, source.life()),
                state: source.state(),
            });
        }
        let (mut items, mut last) = (0, flow.begun);
        for (number, (place, _, sink)) in flow.sinks.iter().enumerate() {
            let sink = sink.borrow();
            items += sink.items();
            last = last.max(sink.last());
            members.push(Member {
                role: "consumer",
                number,
                node: node(*place),
                items: sink.items(),
                gigabytes_per_s: rate(sink.items(), sink.life()),
                state: sink.state(),
            });
        }
        let lost = |loss: Loss| Lost {
            role: loss.role,
            number: loss.index,
            node: node(loss.node),
            items: loss.items,
            reason: config.name_nodes(&loss.reason.to_string()),
        };
        Self {
            name: flow.name.clone(),
            shape: flow.shape.name(),
            weight: flow.weight,
            item_bytes: flow.item_bytes,
            state: state_name(flow.state()),
            items,
            gigabytes_per_s: rate(items, last - flow.begun),
            members,
            losses: flow.losses().into_iter().map(lost).collect(),
        }
    }
}

impl ScriptReport {
    /// What has become of `play` in `span` nanoseconds.
    pub(super) fn new(play: &Play, mode: &'static str, span: u64, interrupted: bool) -> Self {
        let stage = &play.stage;
        let flows = stage.flows.iter();
        let problems = stage.judge(play.is_over);
        Self {
            script: play.script.name.clone(),
            mode,
            seed: play.config.seed,
            driver_threads: None,
            elapsed_s: span as f64 / 1e9,
            real_seconds: None,
            events: None,
            trace_hash: None,
            flows: flows
                .map(|flow| FlowEntry::new(flow, &play.config))
                .collect(),
            verified: problems.is_empty() && play.is_over,
            problems,
            interrupted,
            actions: Vec::new(),
            snapshots: Vec::new(),
        }
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {} items pushed, {} taken",
            self.flow, self.state, self.items_pushed, self.items_taken
        )
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

impl fmt::Display for FlowEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weight = match self.weight {
            Some(weight) => format!(", weight {weight}"),
            None => String::new(),
        };
        let what = format!("{} ({}{weight})", self.name, self.shape);
        let lost: u64 = self.losses.iter().map(|loss| loss.items).sum();
        writeln!(
            f,
            "  {what:<32} {:>10} {:>9.3} {lost:>7}  {}",
            self.items, self.gigabytes_per_s, self.state
        )?;
        for member in &self.members {
            let what = format!("  {} {} on {}", member.role, member.number, member.node);
            let lost = |loss: &&Lost| loss.role == member.role && loss.number == member.number;
            let lost = self.losses.iter().find(lost).map_or(0, |loss| loss.items);
            writeln!(
                f,
                "  {what:<32} {:>10} {:>9.3} {lost:>7}  {}",
                member.items, member.gigabytes_per_s, member.state
            )?;
        }
        for loss in &self.losses {
            writeln!(
                f,
                "    lost: {} {} on {}: {}",
                loss.role, loss.number, loss.node, loss.reason
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for ScriptReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let article = if self.mode == SIMULATED { "a" } else { "an" };
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
        writeln!(
            f,
            "\n  {:<32} {:>10} {:>9} {:>7}  state",
            "flow and members", "items", "GB/s", "lost"
        )?;
        for flow in &self.flows {
            write!(f, "{flow}")?;
        }
        writeln!(f)?;
        for problem in &self.problems {
            writeln!(f, "  problem    {problem}")?;
        }
        let virtually = if self.mode == SIMULATED {
            " of virtual time"
        } else {
            ""
        };
        writeln!(f, "  run        {:.6} s{virtually}", self.elapsed_s)?;
        if let (Some(events), Some(real), Some(hash)) =
            (self.events, self.real_seconds, &self.trace_hash)
        {
            writeln!(
                f,
                "  simulator  {events} events in {real:.2} s; trace {hash}"
            )?;
        }
        if self.interrupted {
            writeln!(f, "interrupted: what was to come was left out")?;
        }
        write!(f, "verified: {}", self.verified)
    }
}
