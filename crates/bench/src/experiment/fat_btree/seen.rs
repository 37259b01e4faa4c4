//! What was seen of a run of lookups, and the panels that figures 5, 6, 8 and 9 draw of it.

use super::client::Log;
use crate::figure::{Axis, Claim, Series};

/// What lookups one after the other took.
#[derive(Clone, PartialEq, Debug)]
pub struct Seen {
    /// How long each took, in nanoseconds, ascending.
    latencies_ns: Vec<u64>,
    /// READs of each, in the order of lookups.
    reads: Vec<u64>,
    /// Lookups per second.
    pub per_second: f64,
}

impl From<Log> for Seen {
    fn from(log: Log) -> Self {
        let mut latencies_ns = log.latencies_ns;
        latencies_ns.sort_unstable();
        Self {
            per_second: latencies_ns.len() as f64 / log.span.as_secs_f64(),
            latencies_ns,
            reads: log.reads,
        }
    }
}

impl Seen {
    /// Mean latency in microseconds.
    pub fn mean_us(&self) -> f64 {
        let all: u64 = self.latencies_ns.iter().sum();
        all as f64 / self.latencies_ns.len() as f64 / 1e3
    }

    /// The latency that this part of all does not exceed, in microseconds.
    pub fn quantile_us(&self, part: f64) -> f64 {
        let last = self.latencies_ns.len().saturating_sub(1);
        let found = self.latencies_ns.get((part * last as f64).round() as usize);
        found.map_or(f64::NAN, |&nanos| nanos as f64 / 1e3)
    }

    /// Mean READs of a lookup.
    pub fn round_trips(&self) -> f64 {
        self.reads.iter().sum::<u64>() as f64 / self.reads.len() as f64
    }

    /// Which percentage of all took so many READs, by their number.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let mut reads = self.reads.clone();
        reads.sort_unstable();
        let all = reads.len() as f64;
        let groups = reads.chunk_by(|a, b| a == b);
        let point = |same: &[u64]| (same[0] as f64, same.len() as f64 / all * 100.0);
        groups.map(point).collect()
    }
}

/// A curve of a figure: one value for each x.
#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// What was seen, by x.
    pub points: Vec<(f64, Seen)>,
}

impl Curve {
    /// What was seen at `x`.
    pub fn at(&self, x: f64) -> Option<&Seen> {
        let found = self.points.iter().find(|point| point.0 == x);
        found.map(|(_, seen)| seen)
    }
}

/// The panels of latency, throughput and round trips, each with an axis of its own.
pub fn panels(curves: &[Curve]) -> Vec<Series> {
    type Value = fn(&Seen) -> f64;
    let panels: [(&str, Value); 4] = [
        ("mean latency [us]", Seen::mean_us),
        ("99 % latency [us]", |seen| seen.quantile_us(0.99)),
        ("lookups [k/s]", |seen| seen.per_second / 1e3),
        ("round trips of a lookup", Seen::round_trips),
    ];
    let series = panels.into_iter().flat_map(|(panel, value)| {
        curves.iter().map(move |curve| Series {
            name: format!("{panel} | {}", curve.name),
            points: curve
                .points
                .iter()
                .map(|(x, seen)| (*x, value(seen)))
                .collect(),
        })
    });
    series.collect()
}

/// The axis of [`panels`], whose names say what each shows.
pub fn axis() -> Axis {
    Axis::linear("microseconds, thousands per second, READs", "")
}

/// What the paper says of a point, and what was seen there: the first of `curves` is the network's,
/// the second the baseline's.
pub fn claims(curves: &[Curve], figure: &str, told: &[Told]) -> Vec<Claim> {
    let [network, baseline, ..] = curves else {
        return Vec::new();
    };
    let claim = |told: &Told| {
        let both = network.at(told.x).zip(baseline.at(told.x));
        let source = format!("section V-B, figure {figure}");
        let (what, unit, ours) = match told.of {
            Of::Mean => {
                let ours = both.map(|(ours, base)| 1.0 - ours.mean_us() / base.mean_us());
                ("mean latency saved", "%", ours.map(|part| part * 100.0))
            }
            Of::Tail => {
                let part = |seen: &Seen| seen.quantile_us(0.99);
                let ours = both.map(|(ours, base)| 1.0 - part(ours) / part(base));
                ("99 % latency saved", "%", ours.map(|part| part * 100.0))
            }
            Of::Throughput => {
                let ours = both.map(|(ours, base)| ours.per_second / base.per_second);
                ("throughput over the baseline's", "x", ours)
            }
        };
        Claim {
            what: format!("{what}, {}", told.point),
            source,
            paper: told.paper(),
            ours: ours.unwrap_or(f64::NAN),
            unit: unit.into(),
        }
    };
    told.iter().map(claim).collect()
}

/// Of what the paper tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    /// The mean latency.
    Mean,
    /// The latency that 99 % do not exceed.
    Tail,
    /// Lookups per second.
    Throughput,
}

/// Two numbers of the paper at one point.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Told {
    /// Of what.
    pub of: Of,
    /// The point's x.
    pub x: f64,
    /// The point in words.
    pub point: &'static str,
    /// In the network, in microseconds or in thousands per second.
    pub network: f64,
    /// The same of the baseline.
    pub baseline: f64,
}

impl Told {
    /// What the paper says of a point: its x and its words; in the network, and of the baseline.
    pub const fn new(of: Of, (x, point): (f64, &'static str), network: f64, baseline: f64) -> Self {
        Self {
            of,
            x,
            point,
            network,
            baseline,
        }
    }
}

impl Told {
    /// Their ratio: percent saved, or times as much.
    fn paper(&self) -> f64 {
        match self.of {
            Of::Mean | Of::Tail => (1.0 - self.network / self.baseline) * 100.0,
            Of::Throughput => self.network / self.baseline,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::Duration;

    fn seen(latencies_ns: &[u64], reads: &[u64]) -> Seen {
        Seen::from(Log {
            latencies_ns: latencies_ns.to_vec(),
            reads: reads.to_vec(),
            span: Duration::from_nanos(latencies_ns.iter().sum()),
            failure: None,
        })
    }

    #[test]
    fn latencies_and_round_trips_are_summed_up() {
        let seen = seen(&[4000, 1000, 3000, 2000], &[4, 1, 3, 2]);
        assert_eq!(seen.mean_us(), 2.5);
        assert_eq!((seen.quantile_us(0.0), seen.quantile_us(1.0)), (1.0, 4.0));
        assert!((seen.per_second / 4e5 - 1.0).abs() < 1e-9);
        assert_eq!(seen.round_trips(), 2.5);
        assert_eq!(seen.distribution()[1], (2.0, 25.0));
    }

    #[test]
    fn claims_compare_ratios_with_ratios() {
        let curve = |latency| Curve {
            name: "one".into(),
            points: vec![(2.0, seen(&[latency], &[1]))],
        };
        let told = |of, network, baseline| Told {
            of,
            x: 2.0,
            point: "at two",
            network,
            baseline,
        };
        let told = [
            told(Of::Mean, 30.0, 120.0),
            told(Of::Tail, 60.0, 120.0),
            told(Of::Throughput, 30.0, 10.0),
        ];
        let claims = claims(&[curve(1000), curve(4000)], "5", &told);
        let both: Vec<(f64, f64)> = claims
            .iter()
            .map(|claim| (claim.paper, claim.ours))
            .collect();
        assert_eq!(both, [(75.0, 75.0), (50.0, 75.0), (3.0, 4.0)]);
    }
}
