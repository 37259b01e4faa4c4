//! One round of the workload: a shuffle of stamped items, judged at every consumer.

use crate::hosted::jobs::stamped::{
    self, Agreement, ConsumeArguments, Found, ProduceArguments, StreamEnd,
};
use rackweave_base::NodeId;
use rackweave_rack::RackConfig;
use rackweave_rack::hosted::{FlowStatus, HostedError, HostedFlow, HostedRack, JobStatus};
use serde::Serialize;
use std::time::{Duration, Instant};

/// Bytes of an item and of a ring.
const ITEM_BYTES: u32 = 256;
const RING_BYTES: u32 = 64 << 10;

/// Items of each producer for each consumer.
const ITEMS: u64 = 16_000;

/// How long nodes may take to join.
const JOIN_LIMIT: Duration = Duration::from_secs(15);

/// What takes longer hangs.
const ROUND_LIMIT: Duration = Duration::from_secs(30);

/// One round of so many fails when the switch dies, and does not wait for another.
const HASTY_EVERY: u64 = 4;

/// How long a round waits for another switch process.
const TAKEOVER_LIMIT: Duration = Duration::from_secs(10);

/// How long jobs may take to end after the flow was broken off.
const AFTERMATH_LIMIT: Duration = Duration::from_secs(5);

/// How often jobs are asked.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// How a round ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoundEnd {
    /// Every item arrived.
    Verified {
        items: u64,
        /// How often another switch process took the flow over meanwhile.
        takeovers: u64,
    },
    /// It could not be done, and why.
    Failed(String),
    /// Something was wrong that must not be.
    Violated(Vec<String>),
}

/// For whom one waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Patience {
    /// All jobs, unless one fails.
    UntilTrouble,
    /// All jobs that still can end.
    UntilAll,
}

/// The jobs of a round.
struct Round {
    rack: HostedRack,
    flow: HostedFlow,
    /// Whether it has another switch process take the flow over if this one dies.
    holds_on: bool,
    takeovers: u64,
    names: Vec<String>,
    jobs: Vec<RunningJob>,
}

struct RunningJob {
    node: NodeId,
    number: u64,
    consumes: bool,
    found: Option<Found>,
}

/// Runs a round on a rack that runs. The first half of the nodes produces, the other consumes.
pub fn run(config: &RackConfig, seed: u64) -> RoundEnd {
    let mut violations = Vec::new();
    let end = attempt(config, seed, &mut violations);
    match end {
        _ if !violations.is_empty() => RoundEnd::Violated(violations),
        Ok((items, takeovers)) => RoundEnd::Verified { items, takeovers },
        Err(error) if error.trim().is_empty() => {
            RoundEnd::Violated(vec!["an error that does not say what happened".into()])
        }
        // Every run has an address of its own, which would hide that errors are the same.
        Err(error) => {
            let address = config.hosted().control.to_string();
            RoundEnd::Failed(error.replace(&address, "the control address"))
        }
    }
}

fn attempt(
    config: &RackConfig,
    seed: u64,
    violations: &mut Vec<String>,
) -> Result<(u64, u64), String> {
    let text = |error: HostedError| error.to_string();
    let mut rack = HostedRack::connect(config).map_err(text)?;
    rack.wait_for_nodes(JOIN_LIMIT).map_err(text)?;
    let nodes: Vec<NodeId> = (0..config.node.len() as u16).map(NodeId).collect();
    let (producers, consumers) = nodes.split_at(nodes.len().div_ceil(2));
    // A rack of one node sends to itself.
    let consumers = if consumers.is_empty() {
        producers
    } else {
        consumers
    };
    let flow = rack
        .create_flow(producers, consumers, ITEM_BYTES, RING_BYTES)
        .map_err(text)?;
    let agreement = Agreement {
        seed,
        items: ITEMS,
        producers: producers.len() as u16,
        consumers: consumers.len() as u16,
    };
    let mut round = Round {
        rack,
        flow: flow.clone(),
        // Commands that do not hold on must come to a good end, too.
        holds_on: !seed.is_multiple_of(HASTY_EVERY),
        takeovers: 0,
        names: config.node.iter().map(|node| node.name.clone()).collect(),
        jobs: Vec::new(),
    };
    for (at, &node) in consumers.iter().enumerate() {
        let arguments = ConsumeArguments {
            agreement,
            index: at as u16,
            ring: flow.consumers[at],
        };
        round.start(node, stamped::CONSUME, &arguments, true)?;
    }
    for (at, &node) in producers.iter().enumerate() {
        let arguments = ProduceArguments {
            agreement,
            index: at as u16,
            rings: flow.of_producer(at),
        };
        round.start(node, stamped::PRODUCE, &arguments, false)?;
    }
    let mut ended = round.wait(ROUND_LIMIT, Patience::UntilTrouble, violations);
    if ended.is_err() {
        // Whoever is left says what it saw until now.
        round.break_off();
        let _ = round.wait(AFTERMATH_LIMIT, Patience::UntilAll, violations);
    }
    for found in round.jobs.iter().filter_map(|job| job.found.as_ref()) {
        violations.extend(found.violations.iter().cloned());
    }
    let found = |job: &&RunningJob| job.found.as_ref().map(|found| found.end);
    if ended.is_ok()
        && round
            .jobs
            .iter()
            .any(|job| found(&job) != Some(StreamEnd::Ended))
    {
        ended = Err(match round.rack.flow_status(round.flow.id) {
            Ok(FlowStatus::Aborted { reason }) => format!("the flow was broken off: {reason}"),
            Ok(_) => "a node lost the rack, and its end of the flow was broken off".into(),
            Err(error) => error.to_string(),
        });
    }
    ended?;
    let taken = round.jobs.iter().filter(|job| job.consumes);
    let items: u64 = taken
        .filter_map(|job| Some(job.found.as_ref()?.items))
        .sum();
    let expected = ITEMS * producers.len() as u64 * consumers.len() as u64;
    if items != expected {
        violations.push(format!(
            "{items} of {expected} items came, and nobody complained"
        ));
    }
    round.rack.close_flow(round.flow.id).map_err(text)?;
    Ok((items, round.takeovers))
}

impl Round {
    /// Breaks the flow off. A switch that has not taken it over cannot: its rings would wait for
    /// one who does, so the jobs are stopped.
    fn break_off(&mut self) {
        if let Ok(FlowStatus::Unknown) = self.rack.flow_status(self.flow.id) {
            for job in self.jobs.iter().filter(|job| job.found.is_none()) {
                let _ = self.rack.stop_job(job.node, job.number);
            }
        } else {
            let _ = self.rack.close_flow(self.flow.id);
        }
    }

    fn start(
        &mut self,
        node: NodeId,
        name: &str,
        arguments: &impl Serialize,
        consumes: bool,
    ) -> Result<(), String> {
        let arguments = serde_json::to_value(arguments).map_err(|error| error.to_string())?;
        let number = self
            .rack
            .start_job(node, name, arguments)
            .map_err(|error| error.to_string())?;
        self.jobs.push(RunningJob {
            node,
            number,
            consumes,
            found: None,
        });
        Ok(())
    }

    /// Waits for jobs. One that takes too long is a violation.
    fn wait(
        &mut self,
        limit: Duration,
        patience: Patience,
        violations: &mut Vec<String>,
    ) -> Result<(), String> {
        let deadline = Instant::now() + limit;
        let mut problem = Ok(());
        let mut gone = vec![false; self.jobs.len()];
        loop {
            let mut waits_for = None;
            for (job, gone) in self.jobs.iter_mut().zip(&mut gone) {
                if job.found.is_some() || *gone {
                    continue;
                }
                let name = &self.names[usize::from(job.node.0)];
                let failed = match self.rack.poll_job(job.node, job.number) {
                    Ok(JobStatus::Running { done }) => {
                        waits_for = Some(format!("{name}, which has {done} items"));
                        continue;
                    }
                    Ok(JobStatus::Done { result }) => match serde_json::from_value::<Found>(result)
                    {
                        Ok(found) => {
                            let is_sound = found.violations.is_empty();
                            job.found = Some(found);
                            if is_sound {
                                continue;
                            }
                            format!("{name} found what must not be")
                        }
                        Err(error) => format!("{name} answers nonsense: {error}"),
                    },
                    Ok(JobStatus::Failed { error }) => format!("{name}: {error}"),
                    Ok(JobStatus::Unknown) => format!("{name} has joined anew and lost its work"),
                    Err(HostedError::Control(error))
                        if patience == Patience::UntilTrouble && self.holds_on =>
                    {
                        match self.rack.reconnect(&mut [&mut self.flow], TAKEOVER_LIMIT) {
                            Ok(()) => {
                                self.takeovers += 1;
                                waits_for = Some(format!("{name}, after a takeover"));
                                continue;
                            }
                            Err(why) => format!("{error}; and then: {why}"),
                        }
                    }
                    // The node has died, or the switch.
                    Err(error) => error.to_string(),
                };
                *gone = true;
                if problem.is_ok() {
                    problem = Err(failed);
                }
            }
            let in_trouble = problem.is_err() && patience == Patience::UntilTrouble;
            let Some(who) = waits_for.filter(|_| !in_trouble) else {
                return problem;
            };
            if Instant::now() >= deadline {
                let limit = limit.as_secs();
                violations.push(format!("not over after {limit} s: waits for {who}"));
                return Err("it hangs".into());
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}
