//! The rebalancer on the testbed: it begins with all keys on the host, and what it reaches is set
//! beside the best split that stays as it is.

use crate::experiment::bluefield::client::{Keys, Mix};
use crate::experiment::bluefield::coordinator::{CoordinatorActor, Log};
use crate::experiment::bluefield::index::{self, ENDPOINTS, Index, Plan};
use crate::experiment::bluefield::metered::Outbox;
use crate::experiment::bluefield::server::Slowdown;
use crate::experiment::bluefield::{Core, rack, tree};
use crate::experiment::tally::{Shared, Tally};
use crate::experiment::{ExperimentError, Run, Scale};
use core::cell::RefCell;
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::index::{CoordinatorConfig, RebalanceConfig};
use rackweave_endpoint::rpc;
use rackweave_sim::testbed::Server;
use rackweave_workload::ycsb::Zipf;
use std::rc::Rc;

/// Keys that the trees really have: what moves is as many times less than the paper's 1 M keys.
pub const REAL_KEYS: u64 = 5_000;

/// Skew of the skewed keys, the least ones being the hottest.
const SKEW: f64 = 0.8;

/// Bytes of a page of entries that changes hands.
const PAGE_BYTES: u32 = 2048;

/// Entries that change hands at a time.
const CHUNK: u32 = 512;

/// How often the endpoints are asked how they are doing.
const SAMPLE: Duration = Duration::from_micros(100);

/// A part of the time series.
const PART: Duration = Duration::from_micros(250);

/// How much slower the DPU gets.
const SLOWER: u64 = 2;

/// What the rebalancer has to deal with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scenario {
    /// Keys are asked for alike.
    Uniform,
    /// The least keys are asked for most.
    Skewed,
    /// The DPU gets slower in the middle of the run.
    SlowDpu,
}

impl Scenario {
    /// All.
    pub const ALL: [Self; 3] = [Self::Uniform, Self::Skewed, Self::SlowDpu];

    /// What figures call it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform keys",
            Self::Skewed => "skewed keys",
            Self::SlowDpu => "the DPU slows down",
        }
    }

    /// Time after which it is to have settled, in a short run.
    fn settle(self) -> Duration {
        match self {
            Self::Uniform | Self::SlowDpu => Duration::from_millis(5),
            // Keys that few ask for are many for their share of the work.
            Self::Skewed => Duration::from_millis(9),
        }
    }

    fn keys(self) -> Result<Keys, ExperimentError> {
        match self {
            Self::Uniform | Self::SlowDpu => Ok(Keys::Uniform(REAL_KEYS)),
            Self::Skewed => Zipf::new(REAL_KEYS, SKEW)
                .map(Keys::Ordered)
                .map_err(|error| rack::failed("the keys", error)),
        }
    }

    fn plan(self) -> Result<Plan, ExperimentError> {
        let mix = Mix {
            keys: self.keys()?,
            updates: 0.0,
        };
        let scale = tree::PAPER_KEYS[0] / REAL_KEYS;
        Ok(Plan::new(REAL_KEYS, scale, mix))
    }
}

/// What the rebalancer has made of a scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Course {
    /// Which.
    pub scenario: Scenario,
    /// Operations per second, by seconds.
    pub points: Vec<(f64, f64)>,
    /// From when on the best split is the best, in seconds.
    pub best_from: f64,
    /// Operations per second at the end.
    pub reached: f64,
    /// The part of the keys that the DPU has at the end.
    pub offload: f64,
    /// Moves, and entries of all.
    pub moves: (usize, u64),
    /// The best split that stays as it is, at the end of the scenario: part on the DPU and
    /// operations per second.
    pub best: (f64, f64),
}

/// When a scenario ends, and when the DPU gets slower in it.
struct Times {
    slow_from: Duration,
    warm_up: Duration,
    counted: Duration,
}

impl Times {
    fn new(scale: Scale, scenario: Scenario) -> Self {
        let (times, counted) = match scale {
            Scale::Quick => (1, Duration::from_micros(500)),
            Scale::Full | Scale::Paper => (2, Duration::from_millis(1)),
        };
        let settle = scenario.settle() * times;
        let slow_from = match scenario {
            Scenario::SlowDpu => settle,
            _ => Duration::ZERO,
        };
        Self {
            slow_from,
            warm_up: settle + slow_from,
            counted,
        }
    }
}

/// How much slower the DPU gets in a scenario, if it does.
fn slowdown(scenario: Scenario, from: Duration) -> Option<Slowdown> {
    let slowdown = Slowdown {
        from: Instant::ZERO + from,
        factor: SLOWER,
    };
    (scenario == Scenario::SlowDpu).then_some(slowdown)
}

/// Runs a scenario with the rebalancer and with splits that stay.
///
/// # Errors
/// If a run goes wrong or the user wishes to stop.
pub fn course(
    run: &mut Run<'_>,
    share: f64,
    scenario: Scenario,
) -> Result<Course, ExperimentError> {
    let times = Times::new(run.scale, scenario);
    let plan = Plan {
        warm_up: times.warm_up,
        counted: times.counted,
        payload_max: PAGE_BYTES,
        room: 2 * REAL_KEYS,
        slowdown: slowdown(scenario, times.slow_from),
        ..scenario.plan()?
    };
    let mut index = Index::new(run.seed, &plan)?;
    let tally = Tally::new(index.rack.now(), plan.warm_up, plan.counted);
    tally.borrow_mut().in_parts(index.rack.now(), PART);
    let log = coordinate(&mut index, &tally)?;
    index.start(&tally)?;
    rack::drive(run, share, &mut index.rack, &tally)?;
    let (tally, log) = (tally.borrow(), log.borrow());
    let part = log.map.part_of(ENDPOINTS[1].0);
    let first = part.map_or(REAL_KEYS, |part| part.low.min(REAL_KEYS));
    let entries = log.moves.iter().map(|(_, entries)| entries).sum();
    Ok(Course {
        scenario,
        points: tally.course(),
        best_from: times.slow_from.as_secs_f64(),
        reached: tally.per_second(),
        offload: (REAL_KEYS - first) as f64 / REAL_KEYS as f64,
        moves: (log.moves.len(), entries),
        best: best_static(run, share, scenario)?,
    })
}

/// Starts a coordinator that rebalances; what it does is in the log.
fn coordinate(index: &mut Index, tally: &Shared) -> Result<Rc<RefCell<Log>>, ExperimentError> {
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
    let actor = CoordinatorActor {
        coordinator: coordinator.map_err(|error| rack::failed("the coordinator", error))?,
        core: Core::of(Server::Compute),
        outbox: Outbox::default(),
        log: log.clone(),
        tally: tally.clone(),
    };
    index.rack.spawn(node, Box::new(actor));
    Ok(log)
}

/// The best split that stays as it is: a search over all parts, then about the best of them.
fn best_static(
    run: &mut Run<'_>,
    share: f64,
    scenario: Scenario,
) -> Result<(f64, f64), ExperimentError> {
    let plan = Plan {
        slowdown: slowdown(scenario, Duration::ZERO),
        counted: Duration::from_micros(400),
        ..scenario.plan()?
    };
    let mut best = (0.0, 0.0);
    let mut look = |offload: f64, best: &mut (f64, f64)| {
        let plan = Plan {
            offload: offload.clamp(0.0, 1.0),
            ..plan.clone()
        };
        let seen = index::measure(run, share, &plan)?;
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
