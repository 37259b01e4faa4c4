//! Decides which keys to move, so that all endpoints are equally busy.
//!
//! With more requests than the endpoints can serve, the busiest endpoint limits throughput: `1 /
//! max(share × cost)`, where the share is that of all requests and the cost is the endpoint's time
//! for one. The larger an endpoint's share, the higher its cost, if it changes at all (more keys,
//! fewer of them cached). So with two endpoints there is one best share, where both are equally
//! busy; more keys on either side make that side the bottleneck. The rebalancer measures both
//! costs, computes the share at which they would be equally busy, moves a part of the difference,
//! and measures again.
//!
//! Queues and latencies are not considered: with a fixed number of requests in flight nearly all of
//! them wait at the bottleneck, however small the difference between the endpoints. Busy time must
//! include only time spent on requests, not time spent polling for them.
//!
//! The rebalancer is a pure function of its input. It moves nothing.

use super::map::{EndpointId, Part, PartitionMap};
use super::server::EndpointReport;
use rackweave_base::Duration;

/// Configuration of a rebalancer.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RebalanceConfig {
    /// Rebalancing starts when the busy fractions of two endpoints differ by more than this part of
    /// the larger one. It continues until they differ by less than half of it.
    pub tolerance: f64,
    /// Nothing is moved while no endpoint's busy fraction exceeds this.
    pub busy_min: f64,
    /// Maximum part of the difference that one step moves.
    pub gain: f64,
    /// Maximum share of the requests of both endpoints that one step moves.
    pub share_max: f64,
    /// Minimum number of served requests for a cost measurement to count.
    pub served_min: u64,
    /// Number of consecutive samples that must show an imbalance.
    pub samples: u32,
}

impl Default for RebalanceConfig {
    fn default() -> Self {
        Self {
            tolerance: 0.06,
            busy_min: 0.3,
            gain: 0.8,
            share_max: 0.1,
            served_min: 200,
            samples: 2,
        }
    }
}

/// The work of an endpoint in an interval in which nothing was moved.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct EndpointSample {
    /// Requests served.
    pub served: u64,
    /// Total time that its cores have worked.
    pub busy: Duration,
    /// Length of the interval.
    pub elapsed: Duration,
    /// Number of cores.
    pub threads: u32,
    /// Requests waiting at the end of the interval.
    pub queue: u32,
    /// Keys, ascending, that divide its requests into parts of equal weight.
    pub keys: Vec<u64>,
}

impl EndpointSample {
    /// The difference between two reports.
    pub fn between(before: &EndpointReport, after: &EndpointReport, elapsed: Duration) -> Self {
        let served = after.statistics.served();
        let busy = after.busy.as_nanos();
        Self {
            served: served.saturating_sub(before.statistics.served()),
            busy: Duration::from_nanos(busy.saturating_sub(before.busy.as_nanos())),
            elapsed,
            threads: after.threads,
            queue: after.queue,
            keys: after.keys.clone(),
        }
    }

    /// The fraction of its time that the endpoint has worked.
    pub fn busy_fraction(&self) -> f64 {
        let time = self.elapsed.as_secs_f64() * f64::from(self.threads.max(1));
        if time > 0.0 {
            self.busy.as_secs_f64() / time
        } else {
            0.0
        }
    }

    /// The endpoint's time for one request, over all cores, in seconds.
    fn cost(&self) -> Option<f64> {
        let served = self.served as f64 * f64::from(self.threads.max(1));
        (served > 0.0 && self.busy > Duration::ZERO).then(|| self.busy.as_secs_f64() / served)
    }
}

/// Keys to be moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The current owner.
    pub from: EndpointId,
    /// The next owner.
    pub to: EndpointId,
    /// The least key.
    pub low: u64,
    /// The greatest key.
    pub last: u64,
}

/// State of a pair of neighbours.
#[derive(Clone, Copy, Debug)]
struct Pair {
    gain: f64,
    /// Whether the last step moved keys to the right.
    went_right: Option<bool>,
    /// Number of consecutive samples that showed an imbalance.
    agreed: u32,
    /// Whether a rebalancing is in progress.
    active: bool,
}

/// Decides which keys to move.
#[derive(Clone, Debug)]
pub struct Rebalancer {
    config: RebalanceConfig,
    /// By the left endpoint.
    pairs: Vec<Pair>,
    /// The last valid cost of each endpoint.
    costs: Vec<Option<f64>>,
}

/// Two neighbours, and the imbalance between them.
struct Gap {
    left: usize,
    right: usize,
    /// The part of both endpoints' requests that should move right; left if negative.
    share: f64,
    /// The difference of the busy fractions, as part of the larger one.
    difference: f64,
}

impl Rebalancer {
    /// A rebalancer for this number of endpoints.
    pub fn new(endpoints: u16, config: RebalanceConfig) -> Self {
        let pair = Pair {
            gain: config.gain,
            went_right: None,
            agreed: 0,
            active: false,
        };
        Self {
            pairs: vec![pair; usize::from(endpoints)],
            costs: vec![None; usize::from(endpoints)],
            config,
        }
    }

    /// The next keys to move, if any, based on what the endpoints did since the last step.
    pub fn decide(&mut self, map: &PartitionMap, samples: &[EndpointSample]) -> Option<Step> {
        for (cost, sample) in self.costs.iter_mut().zip(samples) {
            if sample.served >= self.config.served_min {
                *cost = sample.cost().or(*cost);
            }
        }
        let mut worst: Option<Gap> = None;
        for (left, right) in neighbours(map) {
            let Some(gap) = self.gap(left, right, samples) else {
                continue;
            };
            if worst
                .as_ref()
                .is_none_or(|worst| gap.difference > worst.difference)
            {
                worst = Some(gap);
            }
        }
        let gap = worst?;
        self.step(map, samples, &gap)
    }

    fn gap(&self, left: usize, right: usize, samples: &[EndpointSample]) -> Option<Gap> {
        let (a, b) = (samples.get(left)?, samples.get(right)?);
        let total = (a.served + b.served) as f64;
        let busy = (a.busy_fraction(), b.busy_fraction());
        let busiest = busy.0.max(busy.1);
        if a.served + b.served < self.config.served_min || busiest < self.config.busy_min {
            return None;
        }
        // An endpoint that has served nothing yet is assumed to have the same cost.
        let known = self.costs[left].or(self.costs[right])?;
        let cost = |at: usize| self.costs[at].unwrap_or(known);
        let (cost_a, cost_b) = (cost(left), cost(right));
        let best = cost_b / (cost_a + cost_b);
        let share = a.served as f64 / total - best;
        let load = |sample: &EndpointSample, cost: f64| sample.served as f64 * cost;
        let (load_a, load_b) = (load(a, cost_a), load(b, cost_b));
        let difference = (load_a - load_b).abs() / load_a.max(load_b);
        Some(Gap {
            left,
            right,
            share,
            difference,
        })
    }

    fn step(&mut self, map: &PartitionMap, samples: &[EndpointSample], gap: &Gap) -> Option<Step> {
        let pair = &mut self.pairs[gap.left];
        let threshold = match pair.active {
            true => self.config.tolerance / 2.0,
            false => self.config.tolerance,
        };
        if gap.difference < threshold {
            pair.agreed = 0;
            pair.active = false;
            return None;
        }
        pair.agreed += 1;
        if !pair.active && pair.agreed < self.config.samples {
            return None;
        }
        let right = gap.share > 0.0;
        match pair.went_right {
            // The last step overshot: take smaller steps from here on.
            Some(before) if before != right => pair.gain = (pair.gain / 2.0).max(0.05),
            _ => pair.gain = (pair.gain * 1.5).min(self.config.gain),
        }
        pair.went_right = Some(right);
        pair.active = true;
        let share = (gap.share.abs() * pair.gain).min(self.config.share_max);
        let (from, to) = match right {
            true => (gap.left, gap.right),
            false => (gap.right, gap.left),
        };
        let total = samples[gap.left].served + samples[gap.right].served;
        let wanted = share * total as f64 / samples[from].served.max(1) as f64;
        let part = map.part_of(EndpointId(from as u16))?;
        let cut = cut(&samples[from].keys, part, right, wanted.min(1.0));
        let Some((low, last)) = cut else {
            // The keys to be moved cannot be divided.
            let pair = &mut self.pairs[gap.left];
            pair.active = false;
            return None;
        };
        Some(Step {
            from: EndpointId(from as u16),
            to: EndpointId(to as u16),
            low,
            last,
        })
    }
}

/// Pairs of endpoints that may exchange keys: neighbours in the map, and endpoints without keys
/// next to the last one that has some.
fn neighbours(map: &PartitionMap) -> impl Iterator<Item = (usize, usize)> {
    let parts = map.parts();
    let pairs = parts
        .windows(2)
        .map(|pair| (pair[0].endpoint.index(), pair[1].endpoint.index()));
    let last = parts.last().map(|part| part.endpoint.index());
    let empty = (0..map.endpoints()).find(|&at| map.part_of(EndpointId(at)).is_none());
    let beside = last
        .zip(empty)
        .map(|(last, empty)| (last, usize::from(empty)));
    pairs.chain(beside).collect::<Vec<_>>().into_iter()
}

/// The keys at one end of a part that get about `share` of its requests, according to its
/// quantiles; `None` if moving no keys comes closest to that share.
fn cut(keys: &[u64], part: Part, high: bool, share: f64) -> Option<(u64, u64)> {
    if keys.is_empty() {
        return None;
    }
    let count = keys.len();
    // The distance of quantile number `at`, counted from the end, to the end.
    let distance = |at: usize| match high {
        true => part.last - keys[count - 1 - at].min(part.last),
        false => keys[at].max(part.low) - part.low,
    };
    let whole = part.last - part.low;
    // A quantile is in the middle of its weight.
    let place = (share * count as f64 - 0.5).clamp(-0.5, count as f64 - 0.5);
    let before = place.floor();
    let at = before as i64;
    let near = if at < 0 { 0 } else { distance(at as usize) };
    let far = match (at + 1) as usize {
        next if next < count => distance(next),
        _ => whole,
    };
    let reach = match far == near && at >= 0 {
        // One key gets more requests than there are between two quantiles: move all of it or
        // nothing.
        true => {
            let equal = |n: &usize| distance(*n) == near;
            let first = (0..count).find(equal).unwrap_or(0) as f64 - 0.5;
            let end = (0..count).rev().find(equal).unwrap_or(0) as f64 + 0.5;
            match place - first < end - place {
                true => near.checked_sub(1)?,
                false => near,
            }
        }
        false => near + ((far - near) as f64 * (place - before)) as u64,
    };
    let reach = reach.min(whole);
    Some(match high {
        true => (part.last - reach, part.last),
        false => (part.low, part.low + reach),
    })
}

#[cfg(test)]
mod tests;
