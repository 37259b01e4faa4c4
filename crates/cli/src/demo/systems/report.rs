//! Results of a system, and their comparison with what this machine can do; and the final table of
//! the demo.

use super::{SystemName, SystemRun};
use crate::report::{self, COLUMNS, scaled, wrapped};
use serde::Serialize;
use serde_json::{Map, Value};

/// A rate beside a limit of this machine that was measured in the same run.
#[derive(Clone, Debug, Serialize)]
pub struct Measure {
    /// What was done, in a few words.
    pub did: String,
    /// In `unit`.
    pub rate: f64,
    /// The unit of rate and limit.
    pub unit: &'static str,
    /// The name of the limit; none if there is nothing to compare with.
    pub limit_name: Option<&'static str>,
    /// In `unit`.
    pub limit: Option<f64>,
    /// The rate divided by the limit.
    pub ratio: Option<f64>,
}

/// One system of the demo.
#[derive(Debug, Default, Serialize)]
pub struct SystemReport {
    pub name: SystemName,
    /// Its rate, and its comparison; none if it has no result.
    #[serde(flatten)]
    pub headline: Option<Measure>,
    /// Further rates of the same system.
    pub more: Vec<Measure>,
    /// Whether everything it did was verified.
    pub verified: bool,
    /// Real seconds, set-up and checks included.
    pub seconds: f64,
    /// Whether the user stopped it early.
    pub interrupted: bool,
    /// What went wrong, in words.
    pub problems: Vec<String>,
    /// Further results; see docs/JSON.md.
    pub details: Value,
    /// A remark below the table.
    #[serde(skip)]
    pub remark: Option<String>,
}

impl Measure {
    /// A rate without a comparison.
    pub fn alone(did: impl Into<String>, rate: f64, unit: &'static str) -> Self {
        Self {
            did: did.into(),
            rate,
            unit,
            limit_name: None,
            limit: None,
            ratio: None,
        }
    }

    /// Adds a limit. A limit that could not be measured is omitted.
    pub fn beside(self, limit_name: &'static str, limit: f64) -> Self {
        let is_limit = limit.is_finite() && limit > 0.0;
        Self {
            limit_name: is_limit.then_some(limit_name),
            limit: is_limit.then_some(limit),
            ratio: is_limit.then(|| self.rate / limit),
            ..self
        }
    }

    /// Its cells in a table; small ratios have one more digit.
    fn cells(&self) -> [String; 4] {
        let limit = self.limit.zip(self.limit_name);
        let limit = limit.map(|(limit, name)| format!("{} {name}", in_words(limit, self.unit)));
        let ratio = self.ratio.map(|ratio| match ratio {
            ..0.1 => format!("{ratio:.3}"),
            _ => format!("{ratio:.2}"),
        });
        [
            self.did.clone(),
            in_words(self.rate, self.unit),
            limit.unwrap_or_default(),
            ratio.unwrap_or_default(),
        ]
    }
}

/// Scales large numbers to thousands, millions or billions, unless the unit is already scaled.
fn in_words(number: f64, unit: &str) -> String {
    if unit.starts_with('G') {
        return format!("{number:.2} {unit}");
    }
    let text = scaled(number);
    let (digits, prefix) = text.split_once(' ').unwrap_or((&text, ""));
    // The table has no space for a fifth digit.
    match digits.parse::<f64>() {
        Ok(digits) if digits >= 100.0 => format!("{digits:.1} {prefix}{unit}"),
        _ => format!("{text}{unit}"),
    }
}

impl SystemReport {
    /// A system that has not done anything yet.
    pub fn new(name: SystemName) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// A system without a result.
    pub fn failed(name: SystemName, problem: impl Into<String>) -> Self {
        Self {
            problems: vec![problem.into()],
            ..Self::new(name)
        }
    }

    /// A system with these rates, the headline first.
    pub fn found(
        name: SystemName,
        run: &SystemRun<'_>,
        rates: impl IntoIterator<Item = Measure>,
    ) -> Self {
        let mut rates = rates.into_iter();
        Self {
            headline: rates.next(),
            more: rates.collect(),
            interrupted: run.globals.interrupt.is_set(),
            ..Self::new(name)
        }
    }

    /// All rates, the headline first.
    fn measures(&self) -> impl Iterator<Item = &Measure> {
        self.headline.iter().chain(&self.more)
    }

    /// The text about a system that has ended: the rates, and the verdict.
    pub fn in_words(&self) -> String {
        let rows = self.measures().map(|one| row(&HEADS[1..5], one.cells()));
        rates(&rows.collect::<Vec<_>>()) + &self.verdict_in_words()
    }

    /// The verdict without the rates.
    pub fn verdict_in_words(&self) -> String {
        let mut text = String::new();
        for problem in &self.problems {
            text += &format!("  problem: {problem}\n");
        }
        let verdict = match (self.verified, self.interrupted) {
            (true, false) => "verified",
            (true, true) => "interrupted; what was done is verified",
            (false, true) => "interrupted",
            (false, false) => "NOT verified",
        };
        text + &format!("  {verdict}, {:.1} s", self.seconds)
    }
}

/// What the limits are, by name; docs/JSON.md says more.
const LIMITS: [(&str, &str); 5] = [
    ("memcpy", "one thread, no cache"),
    ("copies", "of the pages that came from nodes, alone"),
    ("store", "its pages by its medium alone"),
    ("local", "as many threads at the tree"),
    ("fetch_add", "as many threads"),
];

/// The columns of the final table; those of a system's rates are in between.
const HEADS: [&str; 6] = [
    "system",
    "what was done",
    "rate",
    "limit of the machine",
    "ratio",
    "ok",
];

fn row<const N: usize>(heads: &[&str], cells: [String; N]) -> Map<String, Value> {
    let heads = heads.iter().map(|&head| head.to_owned());
    heads.zip(cells.map(Value::from)).collect()
}

fn rates(rows: &[Map<String, Value>]) -> String {
    report::table(&rows.iter().collect::<Vec<_>>(), None)
}

/// The final table of the demo: 80 columns, and few enough lines for one screen. Limits, remarks
/// and problems are below it.
pub fn table(systems: &[SystemReport]) -> String {
    let mut rows = Vec::new();
    for system in systems {
        let verdict = if system.verified { "yes" } else { "NO" };
        let (mut name, mut verdict) = (system.name.name(), verdict);
        let what = match system.interrupted {
            true => "interrupted",
            false => "failed",
        };
        let nothing = [what, "", "", ""].map(String::from);
        let nothing = system.headline.is_none().then_some(nothing);
        for cells in system.measures().map(Measure::cells).chain(nothing) {
            let [did, rate, limit, ratio] = cells;
            let cells = [name.into(), did, rate, limit, ratio, verdict.into()];
            rows.push(row(&HEADS, cells));
            (name, verdict) = ("", "");
        }
    }
    let (rule, rates) = ("-".repeat(COLUMNS - 1), rates(&rows));
    let (heads, rates) = rates.split_once('\n').unwrap_or_default();
    let mut text = format!("{heads}\n{rule}\n{rates}{rule}\n");
    let measures = || systems.iter().flat_map(SystemReport::measures);
    let is_named = |name: &str| measures().any(|one| one.limit_name == Some(name));
    let limits = LIMITS.iter().filter(|(name, _)| is_named(name));
    let limits: Vec<_> = limits
        .map(|(name, what)| format!("{name}: {what}"))
        .collect();
    if !limits.is_empty() {
        text += &wrapped(&(limits.join("; ") + "."), 0);
    }
    for system in systems {
        let problems = system.problems.iter();
        let problems = problems.map(|problem| format!("problem: {problem}"));
        for foot in system.remark.iter().cloned().chain(problems) {
            text += &wrapped(&format!("{}: {foot}", system.name.name()), 0);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_fits_its_columns_and_says_what_failed() {
        let mut tree = SystemReport::new(SystemName::Tree);
        let led = Measure::alone("YCSB b, led by the switch", 177_034.0, "op/s");
        tree.headline = Some(led.beside("local", 617_300.0));
        tree.more = vec![Measure::alone("shuffled", 0.98, "GB/s").beside("memcpy", 10.43)];
        tree.verified = true;
        tree.remark = Some("2.0 READs for a lookup".repeat(8));
        let failed = SystemReport::failed(SystemName::Pages, "a page was lost ".repeat(20));
        let text = table(&[tree, failed]);
        assert!(text.lines().all(|line| line.len() < COLUMNS), "{text}");
        insta::assert_snapshot!(text);
    }
}
