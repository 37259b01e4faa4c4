//! What a measurement says: every report is text by `Display` and JSON by `Serialize`. The fields
//! are described in docs/JSON.md.

use super::args::Test;
use crate::capture::CaptureReport;
use crate::mode::{EMBEDDED, HOSTED};
use hdrhistogram::Histogram;
use rackweave_rack::RackConfig;
use rackweave_rack::config::NodeConfig;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What was measured, and on what.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    /// The test.
    pub test: &'static str,
    /// `embedded`, `simulated`, `hosted`, or `none` where the test needs no rack.
    pub rack: &'static str,
    /// The seed of the rack.
    pub seed: u64,
    /// Driver threads of an embedded rack.
    pub driver_threads: u32,
    /// How the packets of each node of a hosted rack reach the switch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub links: Option<BTreeMap<String, &'static str>>,
}

/// What the messages looked like.
#[derive(Clone, Debug, Serialize)]
pub struct Parameters {
    pub size_bytes: u32,
    pub queue_pairs: u32,
    pub tx_depth: u32,
    pub mtu_bytes: u32,
    pub source: String,
    pub target: String,
}

/// How many messages, and how fast.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MessageRates {
    pub messages: u64,
    pub bytes: u64,
    pub elapsed_s: f64,
    pub messages_per_s: f64,
    pub gigabytes_per_s: f64,
    pub gigabits_per_s: f64,
}

/// How long messages took, in nanoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Latency {
    pub samples: u64,
    pub min: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    #[serde(rename = "p99.9")]
    pub p99_9: u64,
    pub max: u64,
    pub mean: f64,
}

/// The result of a test of messages from node to node.
#[derive(Clone, Debug, Serialize)]
pub struct MessageReport {
    #[serde(flatten)]
    pub setting: Setting,
    pub parameters: Parameters,
    #[serde(skip)]
    pub is_latency: bool,
    pub verified: bool,
    pub interrupted: bool,
    #[serde(flatten)]
    pub rates: MessageRates,
    pub latency_ns: Latency,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_utilisation: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureReport>,
}

impl Setting {
    /// The setting of `test` on a rack of `config` that runs as `rack` says.
    pub fn new(test: &Test, rack: &'static str, config: &RackConfig) -> Self {
        let is_embedded = rack == EMBEDDED;
        let hosted = config.hosted();
        let link = |node: &NodeConfig| (node.name.clone(), node.link_kind(&hosted).name());
        Self {
            test: test.name,
            rack,
            seed: config.seed,
            driver_threads: if is_embedded {
                config.driver_threads
            } else {
                0
            },
            links: (rack == HOSTED).then(|| config.node.iter().map(link).collect()),
        }
    }
}

impl MessageRates {
    /// `messages` of `size` bytes in `nanos`.
    pub fn new(messages: u64, size: u32, nanos: u64) -> Self {
        let bytes = messages * u64::from(size);
        let gigabytes_per_s = per_second(bytes, nanos) / 1e9;
        Self {
            messages,
            bytes,
            elapsed_s: nanos as f64 / 1e9,
            messages_per_s: per_second(messages, nanos),
            gigabytes_per_s,
            gigabits_per_s: gigabytes_per_s * 8.0,
        }
    }
}

impl Latency {
    /// What `histogram` holds.
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self {
            samples: histogram.len(),
            min: if histogram.is_empty() {
                0
            } else {
                histogram.min()
            },
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: histogram.max(),
            mean: histogram.mean(),
        }
    }
}

/// `count` per second, when it took `nanos`.
pub fn per_second(count: u64, nanos: u64) -> f64 {
    count as f64 * 1e9 / nanos.max(1) as f64
}

/// The share of `part` in `whole`; nothing of nothing is zero.
pub fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// A large number in thousands, millions or billions.
pub fn scaled(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{:.2} G", n / 1e9),
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e3 => format!("{:.2} k", n / 1e3),
        n => format!("{n:.2} "),
    }
}

/// How a verdict reads.
pub fn verdict(f: &mut fmt::Formatter<'_>, verified: bool, interrupted: bool) -> fmt::Result {
    if interrupted {
        writeln!(f, "interrupted: what follows from here on was not measured")?;
    }
    writeln!(f, "verified: {verified}")
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.links {
            // A hosted rack draws its numbers from the system: there is no seed to name.
            Some(links) => {
                let kinds: BTreeSet<_> = links.values().copied().collect();
                let kinds: Vec<_> = kinds.into_iter().collect();
                write!(f, "{}, hosted rack over {}", self.test, kinds.join(" and "))?;
            }
            None => write!(f, "{}, {} rack, seed {}", self.test, self.rack, self.seed)?,
        }
        if self.rack == EMBEDDED {
            write!(f, ", {} driver threads", self.driver_threads)?;
        }
        writeln!(f)
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        writeln!(
            f,
            "{:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "min[us]", "p50[us]", "p90[us]", "p99[us]", "p99.9[us]", "max[us]", "mean[us]"
        )?;
        writeln!(
            f,
            "{:>10.3} {:>10.3} {:>10.3} {:>10.3} {:>10.3} {:>10.3} {:>10.3}",
            micros(self.min),
            micros(self.p50),
            micros(self.p90),
            micros(self.p99),
            micros(self.p99_9),
            micros(self.max),
            self.mean / 1e3
        )
    }
}

impl fmt::Display for CaptureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "capture: {} packets, {} bytes in {}",
            self.packets, self.bytes, self.file
        )
    }
}

impl fmt::Display for MessageReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rates, parameters) = (&self.rates, &self.parameters);
        write!(f, "{}", self.setting)?;
        writeln!(
            f,
            "{} to {}: {} bytes, {} queue pairs, depth {}, MTU {}",
            parameters.source,
            parameters.target,
            parameters.size_bytes,
            parameters.queue_pairs,
            parameters.tx_depth,
            parameters.mtu_bytes
        )?;
        writeln!(
            f,
            "messages: {} in {:.6} s",
            rates.messages, rates.elapsed_s
        )?;
        if !self.is_latency {
            writeln!(
                f,
                "rate: {}messages/s, {:.3} GB/s, {:.3} Gbit/s",
                scaled(rates.messages_per_s),
                rates.gigabytes_per_s,
                rates.gigabits_per_s
            )?;
        }
        if let Some(utilisation) = self.link_utilisation {
            writeln!(f, "link utilisation: {:.1} %", utilisation * 100.0)?;
        }
        writeln!(f, "from post to completion:")?;
        write!(f, "{}", self.latency_ns)?;
        if let Some(capture) = &self.capture {
            write!(f, "{capture}")?;
        }
        verdict(f, self.verified, self.interrupted)
    }
}
