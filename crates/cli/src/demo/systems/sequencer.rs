//! Sequencers: several clients draw numbers, from a register of the switch and from a word in a
//! host's memory. Every number must come exactly once.

use super::Stage;
use super::SystemName;
use super::report::{Measure, SystemReport};
use super::yardstick;
use crate::outcome::CliError;
use crate::patience::Patience;
use crate::perf::report::per_second;
use crate::progress::Progress;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::{Instant as Moment, NodeId};
use rackweave_endpoint::sequencer::{Sequencer, SequencerConfig};
use rackweave_rack::Node;
use rackweave_rack::services::{
    AttachedSequencer, SequencerOptions, SequencerPlacement, SequencerService,
};
use serde_json::json;
use std::time::Instant;

/// Seconds of each kind of sequencer at scale factor 1.
const SECONDS: f64 = 4.0;

/// Calls of a client under way at a time; those that wait are combined.
const CALLS: u32 = 64;

/// Clients, each a thread.
const CLIENTS: u16 = 3;

/// Polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 64;

/// What clients drew.
struct Drawn {
    numbers: u64,
    nanos: u64,
    /// What is wrong with them.
    problem: Option<String>,
}

impl Drawn {
    fn rate(&self) -> f64 {
        per_second(self.numbers, self.nanos)
    }
}

/// A client, and where it is.
struct Client {
    node: Node,
    sequencer: AttachedSequencer,
}

/// Runs it.
///
/// # Errors
/// If switch or nodes have no room, or a connection breaks.
pub fn run(stage: &Stage<'_>) -> Result<SystemReport, CliError> {
    let rack = stage.rack;
    // The last node has the word, others have clients; there are two nodes at least.
    let host = NodeId(rack.config().node.len() as u16 - 1);
    let nodes: Vec<_> = (0..CLIENTS).map(|at| NodeId(at % host.0.max(1))).collect();
    let mut bar = Progress::new(stage.globals, "sequencer");
    stage.live.phase("sequencer: in the switch");
    let switch = draw(stage, &nodes, SequencerPlacement::Switch)?;
    bar.set(|| 0.5);
    stage.live.phase("sequencer: in a host's memory");
    let hosted = draw(stage, &nodes, SequencerPlacement::Memory(host))?;
    Ok(report(stage, nodes.len(), switch, hosted))
}

fn report(stage: &Stage<'_>, clients: usize, switch: Drawn, hosted: Drawn) -> SystemReport {
    let limit = yardstick::fetch_add(clients);
    let measure = |did: String, drawn: &Drawn| {
        let measure = Measure::alone(did, drawn.rate(), "/s");
        measure.beside("fetch_add", limit)
    };
    let mut system = SystemReport::new(SystemName::Sequencer);
    system.headline = Some(measure(format!("{clients} clients, the switch"), &switch));
    system.more = vec![measure("the same, a host's word".into(), &hosted)];
    let both = [&switch, &hosted];
    system.verified = both
        .iter()
        .all(|drawn| drawn.problem.is_none() && drawn.numbers > 0);
    system.interrupted = stage.globals.interrupt.is_set();
    system.details = json!({
        "clients": clients,
        "calls": CALLS,
        "switch_numbers": switch.numbers,
        "host_numbers": hosted.numbers,
    });
    let problems = [switch.problem, hosted.problem].into_iter();
    system.problems = problems.flatten().collect();
    system
}

/// Has a client on each node draw numbers in a thread of its own, for a while, and checks all of
/// them.
fn draw(
    stage: &Stage<'_>,
    nodes: &[NodeId],
    placement: SequencerPlacement,
) -> Result<Drawn, CliError> {
    let options = SequencerOptions::new(placement);
    let made = SequencerService::with(stage.rack, &options).map_err(CliError::run)?;
    let client = |&at: &NodeId| {
        let sequencer = made.client(at, SequencerConfig::default());
        Ok::<_, CliError>(Client {
            node: stage.rack.node_at(at),
            sequencer: sequencer.map_err(CliError::run)?,
        })
    };
    let mut clients = nodes.iter().map(client).collect::<Result<Vec<_>, _>>()?;
    let span = stage.scale.span(SECONDS);
    let stop = AtomicBool::new(false);
    let started = Instant::now();
    let is_over = || {
        let over = started.elapsed() >= span || stage.globals.interrupt.is_set();
        over || stop.load(Ordering::Relaxed)
    };
    let work = |client: &mut Client| {
        let drawn = client.draw(&is_over);
        // One whose connection is gone ends the others, too.
        stop.fetch_or(drawn.is_err(), Ordering::Relaxed);
        drawn
    };
    let drawn: Vec<_> = std::thread::scope(|scope| {
        let work = &work;
        let start = |client| scope.spawn(move || work(client));
        let threads: Vec<_> = clients.iter_mut().map(start).collect();
        let joined = threads.into_iter().map(|thread| {
            let joined = thread.join();
            joined.unwrap_or_else(|_| Err(CliError::run("a client panicked")))
        });
        joined.collect()
    });
    let nanos = started.elapsed().as_nanos() as u64;
    for client in clients {
        made.release(client.sequencer);
    }
    let drawn = drawn.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (numbers, problem) = match each_once(drawn) {
        Ok(numbers) => (numbers, None),
        Err(problem) => (0, Some(problem)),
    };
    Ok(Drawn {
        numbers,
        nanos,
        problem,
    })
}

impl Client {
    /// Keeps calls under way until it is over, and waits for the last ones. What was drawn, with
    /// numbers that follow one another as one range.
    fn draw(&mut self, is_over: &dyn Fn() -> bool) -> Result<Vec<Range<u64>>, CliError> {
        let Self { node, sequencer } = self;
        let mut drawn: Vec<Range<u64>> = Vec::new();
        let mut patience = Patience::new(node);
        let (mut left, mut round, mut over) = (CALLS, 0u32, false);
        while !over || left < CALLS {
            round = round.wrapping_add(1);
            if round.is_multiple_of(POLLS_PER_LOOK) && !over {
                over = is_over();
            }
            while left > 0 && !over {
                sequencer.begin(1).map_err(CliError::run)?;
                left -= 1;
            }
            let mut failed = None;
            let before = left;
            node.with(|nic| {
                // Time stands still: nothing is to time out.
                while let Some(done) = sequencer.poll(Moment::ZERO, nic) {
                    left += 1;
                    match (done.result, drawn.last_mut()) {
                        (Ok(range), Some(last)) if last.end == range.start => last.end = range.end,
                        (Ok(range), _) => drawn.push(range),
                        (Err(error), _) => failed = Some(error),
                    }
                }
            });
            if let Some(error) = failed {
                return Err(CliError::run(error));
            }
            patience.wait(left > before);
        }
        Ok(drawn)
    }
}

/// Sees whether all numbers from zero on were drawn, each once. How many, or what is wrong.
fn each_once(drawn: Vec<Vec<Range<u64>>>) -> Result<u64, String> {
    let mut all: Vec<_> = drawn.into_iter().flatten().collect();
    all.sort_unstable_by_key(|range| range.start);
    let mut next = 0;
    for range in all {
        if range.start < next {
            return Err(format!("number {} was drawn twice", range.start));
        }
        if range.start > next {
            return Err(format!("nobody drew number {next}"));
        }
        next = range.end;
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges what clients drew, each some ranges given by their ends.
    fn judged(drawn: &[&[(u64, u64)]]) -> Result<u64, String> {
        let ranges = |one: &&[(u64, u64)]| one.iter().map(|&(first, end)| first..end).collect();
        each_once(drawn.iter().map(ranges).collect())
    }

    #[test]
    fn numbers_that_are_missing_or_come_twice_are_noticed() {
        assert_eq!(judged(&[&[(0, 5), (9, 12)], &[(5, 9)]]), Ok(12));
        assert_eq!(judged(&[]), Ok(0));
        let missing = judged(&[&[(0, 5)], &[(6, 9)]]).expect_err("5 is missing");
        assert!(missing.contains("nobody drew number 5"), "{missing}");
        let twice = judged(&[&[(0, 5)], &[(4, 9)]]).expect_err("4 came twice");
        assert!(twice.contains("number 4 was drawn twice"), "{twice}");
    }
}
