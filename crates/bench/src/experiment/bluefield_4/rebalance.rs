//! The rebalancer on the testbed: it starts with all keys on the host, and the throughput that it
//! reaches is compared with the best fixed split.

use crate::experiment::bluefield::index::{self, ENDPOINTS, Index, IndexPlan};
use crate::experiment::bluefield::threads::{Keys, Mix};
use crate::experiment::bluefield::{Core, tree};
use crate::harness::prelude::*;
use rackweave_endpoint::index::{CoordinatorConfig, CoordinatorEvent, RebalanceConfig};

/// Keys in the real trees: the moved data shrinks by the same ratio to the paper's 1 M keys.
pub const REAL_KEYS: u64 = 5_000;

/// Bytes of a page of entries that is moved.
const PAGE_BYTES: u32 = 2048;

/// Entries moved at a time.
const CHUNK: u32 = 512;

/// How often the endpoints are asked for their load.
const SAMPLE: Duration = Duration::from_micros(100);

/// Length of a part of the time series.
const PART: Duration = Duration::from_micros(250);

/// A load that the rebalancer must handle.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Scenario {
    /// Its name in figures.
    pub name: &'static str,
    /// The skew of requests, with the lowest keys the most popular; none: all keys are equal.
    skew: Option<f64>,
    /// Milliseconds after which a short run must have settled.
    settle_ms: u64,
    /// Whether the DPU becomes slower in the middle of the run.
    slows_down: bool,
}

/// All scenarios, the one with equal keys first.
pub const SCENARIOS: [Scenario; 3] = [
    scenario("uniform keys", None, 5, false),
    // Ranges of unpopular keys have many keys for their share of the work.
    scenario("skewed keys", Some(0.8), 9, false),
    scenario("the DPU slows down", None, 5, true),
];

const fn scenario(
    name: &'static str,
    skew: Option<f64>,
    settle_ms: u64,
    slows_down: bool,
) -> Scenario {
    Scenario {
        name,
        skew,
        settle_ms,
        slows_down,
    }
}

impl Scenario {
    fn plan(self) -> Result<IndexPlan> {
        let keys = match self.skew {
            None => Keys::Uniform(REAL_KEYS),
            Some(skew) => Keys::Ordered(Zipf::new(REAL_KEYS, skew).or_failed("the keys")?),
        };
        let mix = Mix { keys, updates: 0.0 };
        let scale = tree::PAPER_KEYS[0] / REAL_KEYS;
        Ok(IndexPlan::new(REAL_KEYS, scale, mix))
    }
}

/// The result of the rebalancer in a scenario.
#[derive(Clone, PartialEq, Debug)]
pub struct Course {
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
    pub fn values(&self) -> Values {
        values! {
            name: self.scenario.name,
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

/// Runs a scenario with the rebalancer and with fixed splits.
pub fn course(run: &mut Run<'_>, scenario: Scenario) -> Result<Course> {
    let (times, micros) = run.scale.pick((1, 500), (2, 1_000));
    let settle = Duration::from_millis(scenario.settle_ms) * times;
    let slow_from = settle * u64::from(scenario.slows_down);
    let plan = IndexPlan {
        span: Span::new(settle + slow_from, Duration::from_micros(micros)),
        payload_max: PAGE_BYTES,
        capacity: 2 * REAL_KEYS,
        dpu_slower_from: scenario.slows_down.then_some(Instant::ZERO + slow_from),
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

pub fn courses(run: &mut Run<'_>) -> Result<Vec<Course>> {
    let scenarios = SCENARIOS.into_iter().enumerate();
    let courses = scenarios.map(|(at, scenario)| {
        let course = course(&mut run.part(at, SCENARIOS.len()), scenario);
        course.map_err(|error| error.with(scenario.name))
    });
    courses.collect()
}

/// Measures the figure beside figure 4: the rebalancer at work, over time. The paper leaves open
/// how a split is found and kept (section 4.1.2).
pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let courses = courses(run)?;
    let series = courses.iter().flat_map(|course| {
        let name = course.scenario.name;
        let points = course.points.iter();
        let points: Vec<_> = points.map(|(at, rate)| (at * 1e3, rate / 1e6)).collect();
        let end = points.last().map_or(0.0, |point| point.0);
        let best = course.best.1 / 1e6;
        let fixed = [(course.best_from * 1e3, best), (end, best)];
        [
            Series::new(format!("{name} | rebalanced"), points),
            Series::new(format!("{name} | best split that stays"), fixed),
        ]
    });
    let values = values! {
        keys: REAL_KEYS,
        courses: courses.iter().map(Course::values).collect::<Vec<Values>>(),
    };
    Ok(Measured::new(series.collect(), values))
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
        dpu_slower_from: scenario.slows_down.then_some(Instant::ZERO),
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
