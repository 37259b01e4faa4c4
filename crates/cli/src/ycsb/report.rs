//! What a run of YCSB found, as text and as JSON.

use super::args::YcsbArgs;
use crate::mode::{EMBEDDED, SIMULATED};
use rackweave_bench::ycsb::{Load, Outcome, VerificationError};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::{self, Write as _};

/// A run's result. `T` is what there is to say of the table.
#[derive(Serialize)]
pub(super) struct Report<'a, T: Serialize> {
    mode: &'static str,
    target: &'static str,
    seed: u64,
    /// What the run was made with. What has no meaning for the table is null.
    parameters: Value,
    #[serde(flatten)]
    outcome: &'a Outcome<T>,
    operations_per_s: f64,
    problems: Vec<String>,
    pub verified: bool,
    /// What follows from outcome and parameters.
    #[serde(flatten)]
    derived: Value,
    #[serde(skip)]
    load: &'a Load,
    #[serde(skip)]
    text: Text,
}

/// What a report says of the table for people, line by line.
#[derive(Default)]
pub(super) struct Text {
    /// What the records lie in: behind the workload.
    pub over: String,
    /// What the run was made with.
    pub setting: String,
    /// What the table has counted.
    pub counts: String,
}

impl<'a, T: Serialize> Report<'a, T> {
    /// `parameters` and `derived` are those of the table.
    pub fn new(
        args: &YcsbArgs,
        target: &'static str,
        (load, outcome): (&'a Load, &'a Outcome<T>),
        parameters: Value,
        derived: Value,
        text: Text,
    ) -> Self {
        let ycsb = &load.ycsb;
        let mut all = json!({
            "workload": ycsb.workload.to_string(),
            "records": outcome.records,
            "operations": ycsb.operations,
            "distribution": ycsb.distribution().to_string(),
            "theta": ycsb.theta,
            "record_size_bytes": ycsb.record_size,
            "threads": load.threads,
            "rate": load.rate,
        });
        if let (Value::Object(all), Value::Object(more)) = (&mut all, parameters) {
            all.extend(more);
        }
        Self {
            mode: if args.simulated { SIMULATED } else { EMBEDDED },
            target,
            seed: ycsb.seed,
            parameters: all,
            outcome,
            operations_per_s: outcome.throughput(),
            problems: outcome.problems(),
            verified: outcome.is_verified(),
            derived,
            load,
            text,
        }
    }

    fn write_latencies(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<20}{:>9}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "latency in us", "count", "mean", "p50", "p90", "p99", "p99.9", "max"
        )?;
        for latency in &self.outcome.latencies {
            let (kind, found) = (latency.kind.name(), &latency.summary);
            write!(
                f,
                "  {kind:<18}{:>9}{:>10.1}",
                found.count,
                found.mean_ns / 1e3
            )?;
            for nanos in [
                found.p50_ns,
                found.p90_ns,
                found.p99_ns,
                found.p99_9_ns,
                found.max_ns,
            ] {
                write!(f, "{:>10.1}", nanos as f64 / 1e3)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }

    fn write_time(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<20}{:>10}{:>15}{:>10}",
            "time of threads", "compute", "communication", "waiting"
        )?;
        for share in &self.outcome.time {
            writeln!(
                f,
                "  {:<18}{:>9.1}%{:>14.1}%{:>9.1}%",
                share.who,
                share.compute * 100.0,
                share.communication * 100.0,
                share.waiting * 100.0
            )?;
        }
        Ok(())
    }

    fn write_verdict(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for VerificationError { key, page, reason } in &self.outcome.first_errors {
            let page = page.map_or_else(String::new, |page| format!(", page {page}"));
            writeln!(f, "error: record {key}{page}: {reason}")?;
        }
        for problem in &self.problems {
            writeln!(f, "problem: {problem}")?;
        }
        if self.outcome.interrupted {
            writeln!(f, "interrupted")?;
        }
        f.write_str("\n")?;
        match (self.verified, self.outcome.errors) {
            (true, _) => writeln!(
                f,
                "verified: every record that was read was whole and as new as it had to be"
            ),
            (false, 0) => writeln!(f, "NOT VERIFIED: the run did not come to its end"),
            (false, errors) => writeln!(f, "NOT VERIFIED: {errors} errors"),
        }
    }
}

impl<T: Serialize> fmt::Display for Report<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (outcome, ycsb, text) = (self.outcome, &self.load.ycsb, &self.text);
        let keys = match &*ycsb.distribution().to_string() {
            "uniform" => "uniform keys".into(),
            other => format!("{other} keys, skew {}", ycsb.theta),
        };
        let (workload, over, mode) = (ycsb.workload, &text.over, self.mode);
        writeln!(f, "YCSB {workload} over {over}, {mode} rack, {keys}")?;
        f.write_str(&text.setting)?;
        writeln!(f, "  records ready after {:.2} s", outcome.load_seconds)?;
        let simulation = outcome.simulation.as_ref();
        let virtually = simulation.map_or("", |_| " of virtual time");
        let rate = self.load.rate;
        let wanted = rate.map_or_else(String::new, |rate| format!(" ({rate} wanted)"));
        writeln!(
            f,
            "\n{} operations in {:.3} s{virtually}: {:.0} per second{wanted}",
            outcome.operations, outcome.seconds, self.operations_per_s
        )?;
        self.write_latencies(f)?;
        f.write_char('\n')?;
        f.write_str(&text.counts)?;
        self.write_time(f)?;
        if let Some(simulation) = simulation {
            writeln!(
                f,
                "\n{} events in {:.2} s of real time, trace hash {}",
                simulation.events, simulation.real_seconds, simulation.trace_hash
            )?;
        }
        self.write_verdict(f)
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
