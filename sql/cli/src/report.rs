//! What `run`, `compare` and `exchange` report: one model, printed as text or as JSON.

mod exchange;

pub use exchange::{ExchangeCase, ExchangeReport};

use crate::execute::Measurement;
use crate::session::SessionOptions;
use crate::transport::Transport;
use serde::Serialize;
use std::fmt::Write as _;

/// What all measurements of a report have in common.
#[derive(Debug, Clone, Serialize)]
pub struct Setting {
    /// The data directory.
    pub data: String,
    /// Of TPC-H data.
    pub scale_factor: Option<f64>,
    /// Worker processes; 0 for one process without workers.
    pub workers: usize,
    /// Storage nodes with the tables; none if they are read from the files.
    pub storage_nodes: Vec<String>,
    /// What plans depend on.
    pub options: SessionOptions,
}

/// The report of `run`.
#[derive(Debug, Serialize)]
pub struct RunReport {
    /// How batches got from process to process.
    pub transport: Transport,
    #[serde(flatten)]
    pub setting: Setting,
    /// One for each query.
    pub queries: Vec<QueryReport>,
    /// Sum over the queries of the median of the seconds.
    pub total_seconds: f64,
}

/// A query in the report of `run`.
#[derive(Debug, Default, Serialize)]
pub struct QueryReport {
    /// Its name.
    pub name: String,
    /// One for each repetition.
    pub runs: Vec<Measurement>,
    /// What `--check` found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
    /// Why there is no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What `--check` found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// Against one process.
    pub single: Verdict,
    /// Against the published answer; `None` where there is none for the data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<Verdict>,
}

/// The outcome of a comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// No difference.
    Equal,
    /// The first difference.
    Differs(String),
}

impl From<Result<(), String>> for Verdict {
    fn from(result: Result<(), String>) -> Self {
        result.map_or_else(Self::Differs, |()| Self::Equal)
    }
}

impl QueryReport {
    /// Whether the query ran, and no comparison found a difference.
    pub fn succeeded(&self) -> bool {
        let equal = |check: &Check| {
            check.single == Verdict::Equal
                && check
                    .published
                    .as_ref()
                    .is_none_or(|verdict| *verdict == Verdict::Equal)
        };
        self.error.is_none() && self.check.as_ref().is_none_or(equal)
    }

    /// One line: what it took, and what is wrong with it.
    pub fn text(&self) -> String {
        let mut line = format!("{:<12}", self.name);
        if let Some(error) = &self.error {
            let _ = write!(line, " failed: {error}");
            return line;
        }
        let exchange = self.runs.last().and_then(|run| run.exchange_bytes);
        let fetched = self.runs.last().and_then(|run| run.fetched_bytes);
        let waiting = self
            .runs
            .iter()
            .filter_map(|run| run.waiting_bytes_max)
            .max();
        let _ = write!(
            line,
            "{:>9.3} s {:>9.2} s {:>12} {:>12} {:>12} {:>9}",
            median(self.runs.iter().map(|run| run.seconds)),
            median(self.runs.iter().map(|run| run.cpu_seconds)),
            exchange.map_or_else(|| "-".to_owned(), bytes),
            fetched.map_or_else(|| "-".to_owned(), bytes),
            waiting.map_or_else(|| "-".to_owned(), bytes),
            self.runs.last().map_or(0, |run| run.rows),
        );
        if let Some(check) = &self.check {
            let verdicts = [
                Some(("single", &check.single)),
                check.published.as_ref().map(|v| ("published", v)),
            ];
            for (name, verdict) in verdicts.into_iter().flatten() {
                let _ = match verdict {
                    Verdict::Equal => write!(line, "  {name}: equal"),
                    Verdict::Differs(difference) => write!(line, "  {name}: DIFFERS: {difference}"),
                };
            }
        }
        line
    }
}

/// The heads of the columns of [`QueryReport::text`].
pub const RUN_HEADER: &str =
    "query           seconds         CPU     exchange      fetched      waiting      rows";

/// The report of `compare`.
#[derive(Debug, Serialize)]
pub struct CompareReport {
    /// In the order of the rounds.
    pub transports: Vec<Transport>,
    #[serde(flatten)]
    pub setting: Setting,
    /// One for each query.
    pub queries: Vec<ComparedQuery>,
    /// Sums over the queries.
    pub total: Vec<Medians>,
}

/// A query in the report of `compare`.
#[derive(Debug, Serialize)]
pub struct ComparedQuery {
    /// Its name.
    pub name: String,
    /// Whether all transports have the same plan.
    pub plans_equal: bool,
    /// For each transport, one for each round.
    pub runs: Vec<Vec<Measurement>>,
    /// For each transport.
    pub medians: Vec<Medians>,
}

/// Medians over rounds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Medians {
    /// Wall time.
    pub seconds: f64,
    /// CPU time of all processes.
    pub cpu_seconds: f64,
    /// Bytes from process to process, in the last round.
    pub exchange_bytes: Option<usize>,
}

impl Medians {
    /// The medians of several measurements.
    pub fn of(runs: &[Measurement]) -> Self {
        Self {
            seconds: median(runs.iter().map(|run| run.seconds)),
            cpu_seconds: median(runs.iter().map(|run| run.cpu_seconds)),
            exchange_bytes: runs.last().and_then(|run| run.exchange_bytes),
        }
    }

    fn add(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.cpu_seconds += other.cpu_seconds;
        let (own, other) = (self.exchange_bytes, other.exchange_bytes);
        self.exchange_bytes = own.map_or(other, |own| Some(own + other.unwrap_or(0)));
    }
}

impl CompareReport {
    /// Sums the queries up.
    pub fn new(transports: Vec<Transport>, setting: Setting, queries: Vec<ComparedQuery>) -> Self {
        let mut total = vec![Medians::default(); transports.len()];
        for query in &queries {
            for (total, medians) in total.iter_mut().zip(&query.medians) {
                total.add(medians);
            }
        }
        Self {
            transports,
            setting,
            queries,
            total,
        }
    }

    /// A table: for each transport seconds, CPU and bytes; then ratios to the last transport.
    pub fn text(&self) -> String {
        let transports = &self.transports;
        let mut text = head("query", transports);
        for query in &self.queries {
            let note = if query.plans_equal {
                ""
            } else {
                "  the plans differ"
            };
            let line = line(transports, &query.name, &query.medians);
            let _ = writeln!(text, "{line}{note}");
        }
        let _ = writeln!(text, "{}", line(transports, "total", &self.total));
        text
    }
}

/// The heads of the columns of [`line`], the first of which is `name`.
fn head(name: &str, transports: &[Transport]) -> String {
    let mut text = format!("{name:<12}");
    for transport in transports {
        let _ = write!(text, " | {:>9}       CPU   exchange", transport.name());
    }
    for ratio in ratio_names(transports) {
        let _ = write!(text, " | {ratio}  CPU");
    }
    text.push('\n');
    text
}

/// `A/LAST` for each transport but the last.
fn ratio_names(transports: &[Transport]) -> Vec<String> {
    let Some((last, others)) = transports.split_last() else {
        return Vec::new();
    };
    let ratio = |other: &Transport| format!("{}/{}", other.name(), last.name());
    others.iter().map(ratio).collect()
}

/// For each transport seconds, CPU and bytes; then ratios to the last transport.
fn line(transports: &[Transport], name: &str, medians: &[Medians]) -> String {
    let mut line = format!("{name:<12}");
    for Medians {
        seconds,
        cpu_seconds,
        exchange_bytes,
    } in medians
    {
        let exchange = exchange_bytes.map_or_else(|| "-".to_owned(), bytes);
        let _ = write!(
            line,
            " | {seconds:>7.3} s {cpu_seconds:>7.2} s {exchange:>10}"
        );
    }
    let Some((last, others)) = medians.split_last() else {
        return line;
    };
    for (other, name) in others.iter().zip(ratio_names(transports)) {
        let width = name.len();
        let seconds = other.seconds / last.seconds;
        let cpu = other.cpu_seconds / last.cpu_seconds;
        let _ = write!(line, " | {seconds:>width$.2} {cpu:>4.2}");
    }
    line
}

/// The median; the mean of the two middle values of an even number; 0 of nothing.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        length if length % 2 == 1 => values[length / 2],
        length => f64::midpoint(values[length / 2 - 1], values[length / 2]),
    }
}

/// A size with a binary unit.
pub fn bytes(bytes: usize) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
    let mut size = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if size < 1024.0 {
            return if unit == "B" {
                format!("{bytes} B")
            } else {
                format!("{size:.1} {unit}")
            };
        }
        size /= 1024.0;
    }
    format!("{size:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::{Check, QueryReport, Verdict, bytes, median};

    #[test]
    fn medians_and_sizes() {
        let check = |values: &[f64], expect: f64| {
            assert!(
                (median(values.iter().copied()) - expect).abs() < 1e-12,
                "{values:?}"
            );
        };
        check(&[], 0.0);
        check(&[3.0, 1.0, 2.0], 2.0);
        check(&[4.0, 1.0], 2.5);
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 40), "3.0 TiB");
    }

    #[test]
    fn a_difference_is_no_success() {
        let differs = || Verdict::Differs("row 1".to_owned());
        let report = |single, published| QueryReport {
            check: Some(Check { single, published }),
            ..QueryReport::default()
        };
        assert!(report(Verdict::Equal, None).succeeded());
        assert!(report(Verdict::Equal, Some(Verdict::Equal)).succeeded());
        assert!(!report(differs(), None).succeeded());
        assert!(!report(Verdict::Equal, Some(differs())).succeeded());
        let failed = QueryReport {
            error: Some("no".to_owned()),
            ..QueryReport::default()
        };
        assert!(!failed.succeeded() && failed.text().contains("failed: no"));
    }
}
