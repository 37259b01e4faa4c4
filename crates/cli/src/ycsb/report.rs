//! What a run of YCSB found, as text and as JSON.

use super::args::YcsbArgs;
use rackweave_bench::pages::{Job, Outcome, PageCounts};
use rackweave_bench::ycsb::{Kind, Simulation, VerificationError};
use rackweave_workload::ycsb::{LatencySummary, YcsbOptions};
use serde::Serialize;
use std::fmt;

/// A run's result.
#[derive(Serialize)]
pub struct YcsbReport {
    pub mode: &'static str,
    pub target: &'static str,
    pub seed: u64,
    pub parameters: Parameters,
    /// Where the store lies.
    pub store: String,
    pub store_pages: u64,
    pub heap_pages: u64,
    pub indexed_pages: u64,
    /// The heap, over all buffer frames.
    pub heap_to_buffers: f64,
    pub load_seconds: f64,
    pub records_after: u64,
    pub operations: u64,
    pub seconds: f64,
    pub operations_per_s: f64,
    pub latency: Vec<Latency>,
    pub pages: PageCounts,
    /// Parts of all pages that operations got.
    pub shares: Shares,
    /// Bytes written home during the run.
    pub written_bytes: u64,
    /// Pages written home behind the run.
    pub flushed_pages: u64,
    pub verification_errors: u64,
    pub first_errors: Vec<VerificationError>,
    pub problems: Vec<String>,
    pub interrupted: bool,
    #[serde(flatten)]
    pub simulation: Option<Simulation>,
    pub verified: bool,
}

/// What the run was made with.
#[derive(Serialize)]
pub struct Parameters {
    #[serde(flatten)]
    pub common: Common,
    pub page_size_bytes: u32,
    pub buffer_bytes: u64,
    pub nodes: usize,
    pub threads: u16,
    pub depth: u16,
    pub rate: Option<f64>,
}

/// What any run is made with, whatever the records lie in.
#[derive(Serialize)]
pub struct Common {
    pub workload: String,
    pub records: u64,
    pub operations: u64,
    pub distribution: String,
    pub theta: f64,
    pub record_size_bytes: u32,
}

/// Latencies of a kind of operation.
#[derive(Serialize)]
pub struct Latency {
    pub kind: Kind,
    #[serde(flatten)]
    pub summary: LatencySummary,
}

/// Parts of all pages that operations got.
#[derive(Serialize)]
pub struct Shares {
    pub local: f64,
    pub memory: f64,
    pub storage: f64,
}

impl YcsbReport {
    pub(super) fn new(args: &YcsbArgs, job: &Job, store: String, outcome: &Outcome) -> Self {
        let options = &job.options;
        let pages = outcome.pages;
        let all = pages.fixes.max(1) as f64;
        let nodes = job.nodes.compute.len();
        let frames = nodes as f64 * f64::from(options.frames());
        let problems = [
            outcome
                .failure
                .map(|error| format!("the run ended early: {error}")),
            outcome
                .not_flushed
                .as_ref()
                .map(|error| format!("not everything was written home: {error}")),
        ];
        Self {
            mode: super::mode_name(args),
            target: "pages",
            seed: options.ycsb.seed,
            parameters: Parameters {
                common: Common::new(&options.ycsb, outcome.records),
                page_size_bytes: options.page_size,
                buffer_bytes: options.buffer_bytes,
                nodes,
                threads: options.threads,
                depth: options.depth,
                rate: options.rate,
            },
            store,
            store_pages: outcome.store_pages,
            heap_pages: outcome.heap_pages,
            indexed_pages: outcome.indexed,
            heap_to_buffers: outcome.heap_pages as f64 / frames,
            load_seconds: outcome.load_seconds,
            records_after: outcome.records_after,
            operations: outcome.operations,
            seconds: outcome.seconds,
            operations_per_s: outcome.throughput(),
            latency: Latency::all(&outcome.latencies),
            pages,
            shares: Shares {
                local: (pages.local_hits + pages.joined) as f64 / all,
                memory: (pages.memory_indexed + pages.memory_fallback) as f64 / all,
                storage: (pages.storage_indexed + pages.storage_fallback) as f64 / all,
            },
            written_bytes: pages.written * u64::from(options.page_size),
            flushed_pages: outcome.flushed,
            verification_errors: outcome.errors,
            first_errors: outcome.first_errors.clone(),
            problems: problems.into_iter().flatten().collect(),
            interrupted: outcome.interrupted,
            simulation: outcome.simulation.clone(),
            verified: outcome.is_verified(),
        }
    }
}

impl fmt::Display for YcsbReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = &self.parameters;
        writeln!(
            f,
            "YCSB {} over pages, {} rack, {}",
            parameters.common.workload,
            self.mode,
            parameters.common.keys(),
        )?;
        writeln!(
            f,
            "  {} records of {} bytes in {} pages of {} ({}), in {}",
            parameters.common.records,
            parameters.common.record_size_bytes,
            self.heap_pages,
            size(u64::from(parameters.page_size_bytes)),
            size(self.heap_pages * u64::from(parameters.page_size_bytes)),
            self.store
        )?;
        writeln!(
            f,
            "  compute nodes: {}, {} of buffer frames each; the heap is {:.1} times theirs",
            parameters.nodes,
            size(parameters.buffer_bytes),
            self.heap_to_buffers
        )?;
        writeln!(
            f,
            "  threads per node: {}, operations under way in each: {}; pages that the switch indexes: {}",
            parameters.threads, parameters.depth, self.indexed_pages
        )?;
        writeln!(f, "  store ready after {:.2} s", self.load_seconds)?;
        let done = (self.operations, self.seconds, self.operations_per_s);
        write_rate(f, done, parameters.rate, self.simulation.is_some())?;
        write_latencies(f, &self.latency)?;
        self.write_pages(f)?;
        write_simulation(f, self.simulation.as_ref())?;
        Verdict {
            first_errors: &self.first_errors,
            problems: &self.problems,
            interrupted: self.interrupted,
            errors: self.verification_errors,
            verified: self.verified,
        }
        .fmt(f)
    }
}

/// How a report ends.
pub(super) struct Verdict<'a> {
    pub first_errors: &'a [VerificationError],
    pub problems: &'a [String],
    pub interrupted: bool,
    pub errors: u64,
    pub verified: bool,
}

impl fmt::Display for Verdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for VerificationError { key, page, reason } in self.first_errors {
            match page {
                Some(page) => writeln!(f, "error: record {key}, page {page}: {reason}")?,
                None => writeln!(f, "error: record {key}: {reason}")?,
            }
        }
        for problem in self.problems {
            writeln!(f, "problem: {problem}")?;
        }
        if self.interrupted {
            writeln!(f, "interrupted")?;
        }
        let verdict = if self.verified {
            "verified: every record that was read was whole and as new as it had to be".to_owned()
        } else if self.errors > 0 {
            format!("NOT VERIFIED: {} errors", self.errors)
        } else {
            "NOT VERIFIED: the run did not come to its end".to_owned()
        };
        writeln!(f, "\n{verdict}")
    }
}

/// Latencies as a table.
pub(super) fn write_latencies(f: &mut fmt::Formatter<'_>, all: &[Latency]) -> fmt::Result {
    writeln!(
        f,
        "\n{:<20}{:>9}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
        "latency in us", "count", "mean", "p50", "p90", "p99", "p99.9", "max"
    )?;
    for Latency { kind, summary } in all {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        writeln!(
            f,
            "  {:<18}{:>9}{:>10.1}{:>10.1}{:>10.1}{:>10.1}{:>10.1}{:>10.1}",
            kind.name(),
            summary.count,
            summary.mean_ns / 1e3,
            micros(summary.p50_ns),
            micros(summary.p90_ns),
            micros(summary.p99_ns),
            micros(summary.p99_9_ns),
            micros(summary.max_ns)
        )?;
    }
    Ok(())
}

/// How a table of operations begins.
pub(super) fn write_rate(
    f: &mut fmt::Formatter<'_>,
    (operations, seconds, per_s): (u64, f64, f64),
    rate: Option<f64>,
    is_virtual: bool,
) -> fmt::Result {
    let virtually = if is_virtual { " of virtual time" } else { "" };
    let wanted = rate.map_or_else(String::new, |rate| format!(" ({rate} wanted)"));
    writeln!(
        f,
        "\n{operations} operations in {seconds:.3} s{virtually}: {per_s:.0} per second{wanted}"
    )
}

/// What only a simulated rack tells.
pub(super) fn write_simulation(
    f: &mut fmt::Formatter<'_>,
    simulation: Option<&Simulation>,
) -> fmt::Result {
    let Some(simulation) = simulation else {
        return Ok(());
    };
    writeln!(
        f,
        "\n{} events in {:.2} s of real time, trace hash {}",
        simulation.events, simulation.real_seconds, simulation.trace_hash
    )
}

impl Common {
    /// `records` were there when operations began.
    pub(super) fn new(options: &YcsbOptions, records: u64) -> Self {
        Self {
            workload: options.workload.to_string(),
            records,
            operations: options.operations,
            distribution: options.distribution().to_string(),
            theta: options.theta,
            record_size_bytes: options.record_size,
        }
    }

    /// How keys are drawn.
    pub(super) fn keys(&self) -> String {
        match &*self.distribution {
            "uniform" => "uniform keys".into(),
            other => format!("{other} keys, skew {}", self.theta),
        }
    }
}

impl Latency {
    /// As the report has them.
    pub(super) fn all(latencies: &[(Kind, LatencySummary)]) -> Vec<Self> {
        let one = |&(kind, summary): &(Kind, LatencySummary)| Self { kind, summary };
        latencies.iter().map(one).collect()
    }
}

impl YcsbReport {
    fn write_pages(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pages = &self.pages;
        let all = pages.fixes.max(1) as f64;
        writeln!(
            f,
            "\n{:<20}{:>10}{:>9}{:>12}{:>12}",
            "pages served from", "pages", "share", "indexed", "fallback"
        )?;
        let mut row = |name: &str, count: u64, by: Option<(u64, u64)>| {
            let share = count as f64 / all * 100.0;
            match by {
                Some((indexed, fallback)) => writeln!(
                    f,
                    "  {name:<18}{count:>10}{share:>8.1}%{indexed:>12}{fallback:>12}"
                ),
                None => writeln!(f, "  {name:<18}{count:>10}{share:>8.1}%"),
            }
        };
        row("local, verified", pages.local_hits, None)?;
        row("joined", pages.joined, None)?;
        let by = (pages.memory_indexed, pages.memory_fallback);
        row("remote memory", by.0 + by.1, Some(by))?;
        let by = (pages.storage_indexed, pages.storage_fallback);
        row("SSD", by.0 + by.1, Some(by))?;
        writeln!(
            f,
            "  stale copies {}, conflicts {}, evicted {} clean and {} dirty, {} written home during \
             the run and {} behind it",
            pages.stale_copies,
            pages.conflicts,
            pages.evicted_clean,
            pages.evicted_dirty,
            size(self.written_bytes),
            size(self.flushed_pages * u64::from(self.parameters.page_size_bytes)),
        )
    }
}

/// Bytes for people.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..0x400 => format!("{bytes} B"),
        0x400..0x10_0000 => format!("{:.0} KiB", bytes as f64 / 1024.0),
        0x10_0000..0x4000_0000 => format!("{:.1} MiB", bytes as f64 / 1048576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1073741824.0),
    }
}
