//! The rebalancer on the testbed: it starts with all keys on the host, and the throughput that it
//! reaches is compared with the best fixed split.

use crate::experiment::bluefield::client::{Keys, Mix};
use crate::experiment::bluefield::index::{self, ENDPOINTS, Index, IndexPlan};
use crate::experiment::bluefield::server::Slowdown;
use crate::experiment::bluefield::{Core, tree};
use crate::figure::{Values, values};
use crate::harness::drive::{Failure, OrFailed};
use crate::harness::metered::on_core;
use crate::harness::tally::{Span, Tally};
use crate::harness::{ExperimentError, Result, Run};
use core::cell::RefCell;
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::index::{
    CoordinatorConfig, CoordinatorEvent, PartitionMap, RebalanceConfig,
};
use rackweave_endpoint::rpc;
use rackweave_sim::testbed::Server;
use rackweave_workload::ycsb::Zipf;
use std::rc::Rc;

/// Keys in the real trees: the moved data shrinks by the same ratio to the paper's 1 M keys.
pub const REAL_KEYS: u64 = 5_000;

/// Skew of the skewed workload; the lowest keys are the hottest.
const SKEW: f64 = 0.8;

/// Bytes of a page of entries that is moved.
const PAGE_BYTES: u32 = 2048;

/// Entries moved at a time.
const CHUNK: u32 = 512;

/// How often the endpoints are asked for their load.
const SAMPLE: Duration = Duration::from_micros(100);

/// Length of a part of the time series.
const PART: Duration = Duration::from_micros(250);

/// Factor by which the DPU becomes slower.
const SLOWER: u64 = 2;

/// The load that the rebalancer must handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scenario {
    /// Keys are requested uniformly.
    Uniform,
    /// The lowest keys are requested most.
    Skewed,
    /// The DPU becomes slower in the middle of the run.
    SlowDpu,
}

impl Scenario {
    /// All scenarios.
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Skewed, Self::SlowDpu];

    /// Its name in figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform keys",
            Self::Skewed => "skewed keys",
            Self::SlowDpu => "the DPU slows down",
        }
    }

    /// Time after which a short run must have settled.
    fn settle(self) -> Duration {
        match self {
            Self::Uniform | Self::SlowDpu => Duration::from_millis(5),
            // Ranges of unpopular keys have many keys for their share of the work.
            Self::Skewed => Duration::from_millis(9),
        }
    }

    fn plan(self) -> Result<IndexPlan> {
        let keys = match self {
            Self::Uniform | Self::SlowDpu => Keys::Uniform(REAL_KEYS),
            Self::Skewed => Zipf::new(REAL_KEYS, SKEW)
                .map(Keys::Ordered)
                .or_failed("the keys")?,
        };
        let mix = Mix { keys, updates: 0.0 };
        let scale = tree::PAPER_KEYS[0] / REAL_KEYS;
        Ok(IndexPlan::new(REAL_KEYS, scale, mix))
    }
}

/// The result of the rebalancer in a scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Course {
    /// The scenario.
    pub scenario: Scenario,
    /// Operations per second, by time in seconds.
    pub points: Vec<(f64, f64)>,
    /// When the final best split becomes the best, in seconds.
    pub best_from: f64,
    /// Operations per second at the end.
    pub reached: f64,
    /// The share of the keys on the DPU at the end.
    pub offload: f64,
    /// Number of moves, and of entries moved in total.
    pub moves: (usize, u64),
    /// The best fixed split at the end of the scenario: share on the DPU and operations per second.
    pub best: (f64, f64),
}

impl Course {
    /// What claims and notes say of it.
    pub fn values(&self) -> Values {
        values! {
            name: self.scenario.name(),
            over_best: self.reached / self.best.1,
            reached: self.reached / 1e6,
            offload: self.offload * 100.0,
            moves: self.moves.0,
            entries: self.moves.1,
            best_offload: self.best.0 * 100.0,
            best: self.best.1 / 1e6,
        }
    }
}

/// The slowdown of the DPU in a scenario, if there is one.
fn slowdown(scenario: Scenario, from: Duration) -> Option<Slowdown> {
    let slowdown = Slowdown {
        from: Instant::ZERO + from,
        factor: SLOWER,
    };
    (scenario == Scenario::SlowDpu).then_some(slowdown)
}

/// Runs a scenario with the rebalancer and with fixed splits.
pub fn course(run: &mut Run<'_>, scenario: Scenario) -> Result<Course> {
    let (times, micros) = run.scale.pick((1, 500), (2, 1_000));
    let settle = scenario.settle() * times;
    let slow_from = match scenario {
        Scenario::SlowDpu => settle,
        _ => Duration::ZERO,
    };
    let plan = IndexPlan {
        span: Span::new(settle + slow_from, Duration::from_micros(micros)),
        payload_max: PAGE_BYTES,
        capacity: 2 * REAL_KEYS,
        slowdown: slowdown(scenario, slow_from),
        ..scenario.plan()?
    };
    let mut index = Index::new(run.seed, &plan)?;
    let tally = Tally::new(index.rack.now(), plan.span);
    tally.borrow_mut().in_parts(index.rack.now(), PART);
    let log = coordinate(&mut index)?;
    index.start(&tally)?;
    Tally::run(&tally, &mut run.part(0, 2), &mut index.rack)?;
    let (tally, log) = (tally.borrow(), log.borrow());
    let part = log.map.part_of(ENDPOINTS[1].0);
    let first = part.map_or(REAL_KEYS, |part| part.low.min(REAL_KEYS));
    let entries = log.moves.iter().map(|(_, entries)| entries).sum();
    Ok(Course {
        scenario,
        points: tally.course(),
        best_from: slow_from.as_secs_f64(),
        reached: tally.per_second(),
        offload: (REAL_KEYS - first) as f64 / REAL_KEYS as f64,
        moves: (log.moves.len(), entries),
        best: best_static(&mut run.part(1, 2), scenario)?,
    })
}

/// Runs all scenarios.
pub fn courses(run: &mut Run<'_>) -> Result<Vec<Course>> {
    let scenarios = Scenario::ALL.into_iter().enumerate();
    let courses = scenarios.map(|(at, scenario)| {
        let course = course(&mut run.part(at, Scenario::ALL.len()), scenario);
        course.map_err(|error| error.with(scenario.name()))
    });
    courses.collect()
}

/// Starts a coordinator that rebalances and logs its actions.
fn coordinate(index: &mut Index) -> Result<Rc<RefCell<Log>>> {
    let config = CoordinatorConfig {
        rpc: rpc::ClientConfig {
            timeout: Duration::ZERO,
            window: 4,
            ..rpc::ClientConfig::default()
        },
        chunk: CHUNK,
        rebalance: Some(RebalanceConfig::default()),
        sample_every: SAMPLE,
        ..CoordinatorConfig::default()
    };
    let log = Rc::new(RefCell::new(Log {
        map: index.service.map(),
        moves: Vec::new(),
    }));
    let node = Server::Compute.at_port(0);
    let coordinator = index.service.coordinator(node, config);
    let mut coordinator = coordinator.or_failed("the coordinator")?;
    let noted = log.clone();
    let actor = on_core(Core::of(Server::Compute), move |now, verbs| {
        while let Some(event) = coordinator.poll(now, verbs) {
            noted.borrow_mut().note(now, &event)?;
        }
        Ok(Some((Duration::ZERO, coordinator.poll_timeout())))
    });
    index.rack.spawn(node, actor);
    Ok(log)
}

/// The best fixed split: searches the whole range of shares, then around the best.
fn best_static(run: &mut Run<'_>, scenario: Scenario) -> Result<(f64, f64)> {
    let plan = IndexPlan {
        slowdown: slowdown(scenario, Duration::ZERO),
        ..scenario.plan()?.counted(Duration::from_micros(400))
    };
    let mut best = (0.0, 0.0);
    let mut look = |offload: f64, best: &mut (f64, f64)| {
        let plan = IndexPlan {
            offload: offload.clamp(0.0, 1.0),
            ..plan.clone()
        };
        let seen = index::measure(run, &plan)?;
        if seen.per_second > best.1 {
            *best = (plan.offload, seen.per_second);
        }
        Ok::<(), ExperimentError>(())
    };
    for eighths in 0..8 {
        look(f64::from(eighths) / 8.0, &mut best)?;
    }
    for step in [0.0625, 0.03125, 0.015_625] {
        let about = best.0;
        look(about - step, &mut best)?;
        look(about + step, &mut best)?;
    }
    Ok(best)
}

/// The actions of a coordinator.
#[derive(Clone, PartialEq, Debug)]
struct Log {
    /// The newest map.
    map: PartitionMap,
    /// When ranges were moved, and their numbers of entries.
    moves: Vec<(Instant, u64)>,
}

impl Log {
    fn note(&mut self, now: Instant, event: &CoordinatorEvent) -> Result<(), Failure> {
        match event {
            CoordinatorEvent::Moved(moved) => {
                self.map = moved.map.clone();
                self.moves.push((now, moved.entries));
            }
            CoordinatorEvent::Ended(Err(error)) => {
                return Err(format!("a move: {error}"));
            }
            CoordinatorEvent::Gone(endpoint) => {
                return Err(format!("{endpoint} does not answer the coordinator"));
            }
            _ => {}
        }
        Ok(())
    }
}
