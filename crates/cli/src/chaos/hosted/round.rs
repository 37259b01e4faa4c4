//! One round of the workload: a shuffle of checked items, verified at every consumer.

use crate::amount::Amount;
use crate::globals::Globals;
use crate::hosted::jobs::flow::{Contents, StreamEnd, StreamFound};
use crate::hosted::runner::{JobRunner, TaskId};
use crate::outcome::CliError;
use rackweave_base::NodeId;
use rackweave_rack::RackConfig;
use std::time::Duration;

/// Bytes of an item and of a ring.
const ITEM_BYTES: u32 = 256;
const RING_BYTES: u32 = 64 << 10;

/// Items from each producer to each consumer.
const ITEMS: u64 = 16_000;

/// A round that takes longer hangs.
const ROUND_LIMIT: Duration = Duration::from_secs(30);

/// One in this many rounds fails when the switch dies, and does not wait for a new one.
const HASTY_EVERY: u64 = 4;

/// How long jobs may take to end after the flow was aborted.
const AFTERMATH_LIMIT: Duration = Duration::from_secs(5);

/// The end of a round.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoundEnd {
    /// Every item arrived.
    Verified {
        items: u64,
        /// How often another switch process took over the flow meanwhile.
        takeovers: u64,
    },
    /// It failed with this error.
    Failed(String),
    /// It violated an invariant.
    Violated(Vec<String>),
}

/// Runs a round on a running rack. The first half of the nodes produces, the other half consumes.
pub fn run(config: &RackConfig, seed: u64, globals: &Globals) -> RoundEnd {
    let mut violations = Vec::new();
    let end = attempt(config, seed, globals, &mut violations);
    match end.map_err(|error| error.to_string()) {
        _ if !violations.is_empty() => RoundEnd::Violated(violations),
        Ok((items, takeovers)) => RoundEnd::Verified { items, takeovers },
        Err(error) if error.trim().is_empty() => {
            RoundEnd::Violated(vec!["an error that does not say what happened".into()])
        }
        // Every run has its own address, which would make equal errors look different.
        Err(error) => {
            let address = config.hosted().control.to_string();
            RoundEnd::Failed(error.replace(&address, "the control address"))
        }
    }
}

fn attempt(
    config: &RackConfig,
    seed: u64,
    globals: &Globals,
    violations: &mut Vec<String>,
) -> Result<(u64, u64), CliError> {
    let mut runner = JobRunner::gather(config, globals)?;
    let nodes: Vec<NodeId> = (0..config.residents().count() as u16).map(NodeId).collect();
    let (producers, consumers) = nodes.split_at(nodes.len().div_ceil(2));
    // A rack with one node sends to itself.
    let consumers = if consumers.is_empty() {
        producers
    } else {
        consumers
    };
    // Commands that do not wait for a new switch must also end in good order.
    if seed.is_multiple_of(HASTY_EVERY) {
        runner.give_up_early();
    }
    runner.set_limit(ROUND_LIMIT);
    let (bytes, contents) = ((ITEM_BYTES, RING_BYTES), Contents::Checked(seed));
    let amount = Amount::Count(ITEMS);
    let (sinks, sources) = runner.start_flow((producers, consumers), bytes, contents, amount)?;
    let all = [&sinks[..], &sources].concat();
    // A round that has begun is completed when the user wants to stop.
    runner.spare(&all);
    let ended = runner.wait(&all, |_| {});
    if let Err(error) = &ended {
        if runner.hangs() {
            violations.push(error.to_string());
        }
        settle(&mut runner, &all, violations);
    }
    let (mut items, mut have_ended) = (0, true);
    for &task in &all {
        let found: Option<StreamFound> = runner.take(task)?;
        have_ended &= found.as_ref().map(|found| found.end) == Some(StreamEnd::Ended);
        if let Some(found) = found {
            items += if sinks.contains(&task) {
                found.items
            } else {
                0
            };
            violations.extend(found.violations);
        }
    }
    ended?;
    if !have_ended {
        let lost = || "a node lost the rack, and its end of the flow was broken off".into();
        return Err(CliError::run(runner.broken().unwrap_or_else(lost)));
    }
    let expected = ITEMS * (sources.len() * sinks.len()) as u64;
    if items != expected {
        violations.push(format!(
            "{items} of {expected} items came, and nobody complained"
        ));
    }
    runner.close_flows();
    Ok((items, runner.takeovers().into()))
}

/// Lets the remaining jobs report what they have seen so far.
fn settle(runner: &mut JobRunner, all: &[TaskId], violations: &mut Vec<String>) {
    runner.give_up_early();
    runner.break_off();
    runner.set_limit(AFTERMATH_LIMIT);
    while let Err(error) = runner.wait(all, |_| {}) {
        if runner.hangs() {
            violations.push(error.to_string());
            return;
        }
    }
}
