//! The report of `exchange`.

use super::{Medians, bytes, head, line, ratio_names};
use crate::execute::Measurement;
use crate::session::Compression;
use crate::traffic::Traffic;
use crate::transport::{LinkChoice, Transport};
use serde::Serialize;
use std::fmt::Write as _;

/// The report of `exchange`.
#[derive(Debug, Serialize)]
pub struct ExchangeReport {
    /// In the order of the rounds.
    pub transports: Vec<Transport>,
    /// Worker processes. Each sends to each other one.
    pub workers: usize,
    /// How the packets of a local rack got from process to process.
    pub link: LinkChoice,
    /// Of batches on the way.
    pub compression: Compression,
    /// Partitions that a worker read from each other one.
    pub partitions: usize,
    /// MiB that may have arrived and wait.
    pub budget: usize,
    /// One for each number of rows of a batch.
    pub cases: Vec<ExchangeCase>,
}

/// The measurements with one number of rows of a batch.
#[derive(Debug, Serialize)]
pub struct ExchangeCase {
    /// Rows of a batch.
    pub batch_rows: usize,
    /// Rows that all workers together got.
    pub rows: u64,
    /// Their bytes in memory.
    pub bytes: u64,
    /// For each transport, one for each round.
    pub runs: Vec<Vec<Measurement>>,
    /// For each transport.
    pub medians: Vec<Medians>,
    /// For each transport, of the bytes in memory and the median of the seconds; 10^9 bytes.
    pub gigabytes_per_second: Vec<f64>,
}

impl ExchangeCase {
    /// Of runs in which `traffic` was moved.
    pub fn new(traffic: &Traffic, runs: Vec<Vec<Measurement>>) -> Self {
        let total = traffic.total();
        let medians: Vec<_> = runs.iter().map(|runs| Medians::of(runs)).collect();
        #[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
        let gigabytes = total.bytes as f64 / 1e9;
        let rate = |medians: &Medians| gigabytes / medians.seconds;
        Self {
            batch_rows: traffic.batch_rows,
            rows: total.rows,
            bytes: total.bytes,
            gigabytes_per_second: medians.iter().map(rate).collect(),
            medians,
            runs,
        }
    }
}

impl ExchangeReport {
    /// The table of `compare`, with two lines for each number of rows: what was measured, and the
    /// bytes in memory for each second.
    pub fn text(&self) -> String {
        let mut text = head("batch rows", &self.transports);
        for case in &self.cases {
            let name = case.batch_rows.to_string();
            let measured = line(&self.transports, &name, &case.medians);
            let _ = writeln!(text, "{measured}");
            let size = usize::try_from(case.bytes).unwrap_or(usize::MAX);
            let _ = write!(text, "{:>12}", bytes(size));
            for rate in &case.gigabytes_per_second {
                let _ = write!(text, " | {rate:>7.3} GB/s                ");
            }
            let rates = case.gigabytes_per_second.split_last();
            let (last, others) = rates.map_or((&0.0, &[][..]), |rates| rates);
            for (other, name) in others.iter().zip(ratio_names(&self.transports)) {
                let width = name.len();
                let _ = write!(text, " | {:>width$.2}", other / last);
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_bytes_in_memory() {
        let traffic = Traffic::new(4, 1, 8192, 1 << 30);
        let run = |seconds, cpu_seconds| Measurement {
            seconds,
            cpu_seconds,
            exchange_bytes: Some(5 << 20),
            waiting_bytes_max: None,
            fetched_bytes: None,
            rows: 4,
        };
        let runs = vec![vec![run(1.0, 1.5)], vec![run(2.0, 2.0)]];
        let case = ExchangeCase::new(&traffic, runs);
        let rate = case.gigabytes_per_second[0];
        assert!((1.07..1.09).contains(&rate), "a GiB in a second: {rate}");
        let report = ExchangeReport {
            transports: vec![Transport::Rackweave, Transport::Flight],
            workers: 4,
            link: LinkChoice::SharedMemory,
            compression: Compression::None,
            partitions: 1,
            budget: 64,
            cases: vec![case],
        };
        let text = report.text();
        let lines: Vec<_> = text.lines().collect();
        let [head, measured, rates] = lines[..] else {
            panic!("{text}");
        };
        assert!(head.ends_with("rackweave/flight  CPU"), "{text}");
        assert!(measured.ends_with("0.50 0.75"), "{text}");
        assert!(rates.ends_with("2.00") && rates.contains("GB/s"), "{text}");
    }
}
