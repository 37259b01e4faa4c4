//! The rebalancer against a queueing model of a host and its DPU.
//!
//! Clients keep a fixed number of requests in flight. Each crosses the network, waits for a core of
//! the endpoint that owns its key, is served, and returns. The cost of a request depends on the
//! endpoint's clock and on how many of its keys are cached, so on the split itself.

use super::*;
use rackweave_base::{Instant, Rng};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

const KEYS: u64 = 1 << 16;
const CLIENTS: usize = 128;
const ROUND_TRIP: f64 = 4e-6;

/// The cost of requests at an endpoint.
#[derive(Clone, Copy)]
struct Server {
    cores: usize,
    /// Seconds for a request without cache misses.
    base: f64,
    /// Seconds for a miss.
    miss: f64,
    /// Number of keys that fit in the cache.
    cached: f64,
    slowdown: f64,
}

/// The sum of a few uniform draws gives bell-shaped costs; most requests are near the mean.
fn service(server: &Server, keys: u64, rng: &mut Rng) -> f64 {
    let misses = (1.0 - server.cached / (keys.max(1) as f64)).max(0.0);
    let mean = (server.base + server.miss * misses) * server.slowdown;
    let spread = (0..4).map(|_| rng.fraction()).sum::<f64>() / 4.0;
    mean * (0.5 + spread)
}

#[derive(Clone, Copy)]
enum Keys {
    Uniform,
    /// In descending order of popularity.
    Zipf,
    /// The same distribution in a scrambled order.
    Scrambled,
}

/// By inversion of the continuous distribution with density `x^-0.99`, which is close enough.
fn draw(keys: Keys, rng: &mut Rng) -> u64 {
    let zipf = |rng: &mut Rng| {
        let exponent: f64 = 0.01;
        let top = (KEYS as f64 + 1.0).powf(exponent);
        let x = (1.0 + rng.fraction() * (top - 1.0)).powf(1.0 / exponent);
        (x as u64 - 1).min(KEYS - 1)
    };
    match keys {
        Keys::Uniform => rng.below(KEYS),
        Keys::Zipf => zipf(rng),
        // Odd, so that it is a permutation.
        Keys::Scrambled => zipf(rng).wrapping_mul(40_503).wrapping_add(977) % KEYS,
    }
}

/// The model.
struct World {
    servers: [Server; 2],
    keys: Keys,
    boundary: u64,
    rng: Rng,
    now: f64,
    /// Requests in flight: when they arrive, in nanoseconds, and where.
    events: BinaryHeap<Reverse<(u64, usize, bool)>>,
    queues: [VecDeque<()>; 2],
    idle: [usize; 2],
    served: [u64; 2],
    busy: [f64; 2],
    sampled: [Vec<u64>; 2],
}

impl World {
    fn new(servers: [Server; 2], keys: Keys, boundary: u64, seed: u64) -> Self {
        let mut world = Self {
            servers,
            keys,
            boundary,
            rng: Rng::new(seed),
            now: 0.0,
            events: BinaryHeap::new(),
            queues: Default::default(),
            idle: [servers[0].cores, servers[1].cores],
            served: [0; 2],
            busy: [0.0; 2],
            sampled: Default::default(),
        };
        for _ in 0..CLIENTS {
            world.ask();
        }
        world
    }

    fn ask(&mut self) {
        let key = draw(self.keys, &mut self.rng);
        let to = usize::from(key >= self.boundary);
        if self.sampled[to].len() < 4096 {
            self.sampled[to].push(key);
        }
        let at = ((self.now + ROUND_TRIP) * 1e9) as u64;
        self.events.push(Reverse((at, to, true)));
    }

    fn start(&mut self, at: usize) {
        while self.idle[at] > 0 && self.queues[at].pop_front().is_some() {
            let keys = [self.boundary, KEYS - self.boundary][at];
            let time = service(&self.servers[at], keys, &mut self.rng);
            self.idle[at] -= 1;
            self.busy[at] += time;
            let done = ((self.now + time) * 1e9) as u64;
            self.events.push(Reverse((done, at, false)));
        }
    }

    /// Runs for this time; returns the number of requests served.
    fn run(&mut self, seconds: f64) -> u64 {
        let (before, until) = (self.served.iter().sum::<u64>(), self.now + seconds);
        while let Some(Reverse((at, to, arrives))) = self.events.pop() {
            self.now = at as f64 / 1e9;
            if arrives {
                self.queues[to].push_back(());
            } else {
                self.idle[to] += 1;
                self.served[to] += 1;
                self.ask();
            }
            self.start(to);
            if self.now >= until {
                break;
            }
        }
        self.served.iter().sum::<u64>() - before
    }

    fn samples(&mut self, elapsed: f64) -> Vec<EndpointSample> {
        let sample = |at: usize| {
            let mut keys = core::mem::take(&mut self.sampled[at]);
            keys.sort_unstable();
            let count = keys.len().min(128);
            let quantile = |n: usize| keys[(2 * n + 1) * keys.len() / (2 * count)];
            EndpointSample {
                served: core::mem::take(&mut self.served[at]),
                busy: nanos(core::mem::take(&mut self.busy[at])),
                elapsed: nanos(elapsed),
                threads: self.servers[at].cores as u32,
                queue: self.queues[at].len() as u32,
                keys: (0..count).map(quantile).collect(),
            }
        };
        (0..2).map(sample).collect()
    }

    fn map(&self) -> PartitionMap {
        PartitionMap::split(&[self.boundary]).unwrap()
    }
}

fn nanos(seconds: f64) -> Duration {
    Instant::from_nanos((seconds * 1e9) as u64).since(Instant::ZERO)
}

const HOST: Server = Server {
    cores: 8,
    base: 0.7e-6,
    miss: 0.5e-6,
    cached: 24_000.0,
    slowdown: 1.0,
};
const DPU: Server = Server {
    cores: 8,
    base: 1.7e-6,
    miss: 2.0e-6,
    cached: 6_000.0,
    slowdown: 1.0,
};

/// The best throughput of any split in requests per second, over splits in steps of 4 % of the
/// requests.
fn best(servers: [Server; 2], keys: Keys) -> f64 {
    let mut rng = Rng::new(99);
    let mut drawn: Vec<u64> = (0..20_000).map(|_| draw(keys, &mut rng)).collect();
    drawn.sort_unstable();
    let mut all: Vec<u64> = (0..=25).map(|at| drawn[(at * 19_999) / 25]).collect();
    all.extend([0, KEYS, 1, 2, 3]);
    let rate = |boundary: u64| {
        let mut world = World::new(servers, keys, boundary, 5);
        world.run(0.001);
        world.run(0.004) as f64 / 0.004
    };
    all.into_iter().map(rate).fold(0.0, f64::max)
}

/// The course of a run of the rebalancer.
struct Course {
    rate: f64,
    /// The boundary after each interval.
    boundaries: Vec<u64>,
    last: World,
}

/// Runs with the rebalancer for some intervals of 2 ms; the rate is that of the last ten.
fn rebalanced(mut world: World, rebalancer: &mut Rebalancer, intervals: usize) -> Course {
    let (mut boundaries, mut rates) = (Vec::new(), Vec::new());
    for _ in 0..intervals {
        let served = world.run(0.002);
        rates.push(served as f64 / 0.002);
        let samples = world.samples(0.002);
        let map = world.map();
        if let Some(step) = rebalancer.decide(&map, &samples) {
            // A step must be a move that the map allows.
            let (low, last) = (step.low, step.last);
            let next = map.with_move(step.from, step.to, low, last).unwrap();
            let part = next.part_of(EndpointId(0));
            world.boundary = part.map_or(0, |part| part.last + 1).min(KEYS);
            // The requests in flight when keys moved say nothing about either split.
            world.run(0.0005);
            world.samples(0.0005);
        }
        boundaries.push(world.boundary);
    }
    let last = &rates[rates.len() - 10..];
    Course {
        rate: last.iter().sum::<f64>() / last.len() as f64,
        boundaries,
        last: world,
    }
}

#[track_caller]
fn check_peak(keys: Keys, from: u64) {
    let servers = [HOST, DPU];
    let mut rebalancer = Rebalancer::new(2, RebalanceConfig::default());
    let world = World::new(servers, keys, from, 17);
    let course = rebalanced(world, &mut rebalancer, 60);
    let best = best(servers, keys);
    let part = course.rate / best;
    assert!(
        part > 0.95,
        "{part:.3} of the best, {:?}",
        course.boundaries
    );
    check_quiet(&course.boundaries[30..]);

    // From now on the DPU is three times slower.
    let servers = [
        HOST,
        Server {
            slowdown: 3.0,
            ..DPU
        },
    ];
    let mut world = course.last;
    world.servers = servers;
    let course = rebalanced(world, &mut rebalancer, 60);
    let best = self::best(servers, keys);
    let part = course.rate / best;
    assert!(
        part > 0.95,
        "{part:.3} of the best when slow, {:?}",
        course.boundaries
    );
    check_quiet(&course.boundaries[30..]);
}

/// Once the boundary has settled it stays.
#[track_caller]
fn check_quiet(boundaries: &[u64]) {
    let turns = boundaries
        .windows(3)
        .filter(|w| (w[0] < w[1]) != (w[1] < w[2]) && w[0] != w[1] && w[1] != w[2]);
    let changes = boundaries.windows(2).filter(|w| w[0] != w[1]).count();
    assert!(changes <= 6, "{changes} changes: {boundaries:?}");
    assert!(turns.count() <= 2, "it oscillates: {boundaries:?}");
}

#[test]
fn it_finds_the_peak_of_uniform_keys() {
    check_peak(Keys::Uniform, KEYS);
    check_peak(Keys::Uniform, KEYS / 2);
    check_peak(Keys::Uniform, KEYS / 16);
}

#[test]
fn it_finds_the_peak_of_skewed_keys() {
    check_peak(Keys::Zipf, KEYS / 2);
    check_peak(Keys::Zipf, KEYS / 8);
}

#[test]
fn it_finds_the_peak_of_skewed_and_scattered_keys() {
    check_peak(Keys::Scrambled, KEYS);
    check_peak(Keys::Scrambled, KEYS / 2);
}

fn sample(served: u64, busy_ms: u64, keys: &[u64]) -> EndpointSample {
    EndpointSample {
        served,
        busy: Duration::from_millis(busy_ms),
        elapsed: Duration::from_millis(100),
        threads: 1,
        queue: 0,
        keys: keys.to_vec(),
    }
}

#[test]
fn it_leaves_alone_what_is_idle_unknown_or_even() {
    let map = PartitionMap::split(&[100]).unwrap();
    let mut rebalancer = Rebalancer::new(2, RebalanceConfig::default());
    let keys = [10, 50, 90];
    for _ in 0..5 {
        for samples in [
            // No endpoint is busy.
            [sample(1000, 20, &keys), sample(10, 1, &[150])],
            // There are no requests.
            [sample(0, 0, &[]), sample(0, 0, &[])],
            // Both are equally busy.
            [sample(4000, 90, &keys), sample(1000, 88, &[150])],
        ] {
            assert_eq!(rebalancer.decide(&map, &samples), None);
        }
    }
}

#[test]
fn one_step_moves_no_more_than_it_may_and_needs_agreement() {
    let map = PartitionMap::whole(2, EndpointId(0)).unwrap();
    let mut rebalancer = Rebalancer::new(2, RebalanceConfig::default());
    let keys: Vec<u64> = (0..100).map(|at| at * 10 + 5).collect();
    let samples = [sample(10_000, 100, &keys), sample(0, 0, &[])];
    assert_eq!(rebalancer.decide(&map, &samples), None, "once is chance");
    let step = rebalancer.decide(&map, &samples).unwrap();
    assert_eq!((step.from, step.to), (EndpointId(0), EndpointId(1)));
    assert_eq!(step.last, u64::MAX);
    let moved = keys.iter().filter(|&&key| key >= step.low).count();
    assert_eq!(moved, 10, "a tenth of all requests");
}

#[test]
fn a_key_that_cannot_be_divided_stays() {
    let part = PartitionMap::split(&[100]).unwrap().parts()[0];
    // Half of the requests go to the last key.
    let keys = [10, 30, 50, 70, 99, 99, 99, 99];
    assert_eq!(cut(&keys, part, true, 0.1), None);
    assert_eq!(cut(&keys, part, true, 0.4), Some((99, 99)));
    assert_eq!(cut(&keys, part, true, 0.7), Some((49, 99)));
    assert_eq!(cut(&keys, part, false, 0.125), Some((0, 20)));
    assert_eq!(cut(&[], part, false, 0.5), None);
}
