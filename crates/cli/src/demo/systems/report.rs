//! What a system did, and how that compares with what this machine can do; and the table that
//! closes the demo.

use super::{Stage, SystemName};
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
    /// What the rate and the limit are in.
    pub unit: &'static str,
    /// What the limit is; nothing if there is none to compare with.
    pub limit_name: Option<&'static str>,
    /// In `unit`.
    pub limit: Option<f64>,
    /// The rate over the limit.
    pub ratio: Option<f64>,
}

/// One system of the demo.
#[derive(Debug, Serialize)]
pub struct SystemReport {
    /// Which.
    pub name: SystemName,
    /// Its rate, and what it is compared with; nothing if it came to none.
    #[serde(flatten)]
    pub headline: Option<Measure>,
    /// Further rates of the same system.
    pub more: Vec<Measure>,
    /// Whether all that it did was verified.
    pub verified: bool,
    /// Real seconds, set-up and checks included.
    pub seconds: f64,
    /// Whether it ended early because the user wanted it to.
    pub interrupted: bool,
    /// What went wrong, in words.
    pub problems: Vec<String>,
    /// What else there is to say of it; see docs/JSON.md.
    pub details: Value,
    /// A remark for the foot of the table.
    #[serde(skip)]
    pub remark: Option<String>,
}

impl Measure {
    /// A rate that nothing is compared with.
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

    /// The same beside a limit. One that was not to be measured is none.
    pub fn beside(self, limit_name: &'static str, limit: f64) -> Self {
        let is_limit = limit.is_finite() && limit > 0.0;
        Self {
            limit_name: is_limit.then_some(limit_name),
            limit: is_limit.then_some(limit),
            ratio: is_limit.then(|| self.rate / limit),
            ..self
        }
    }

    /// Its cells in a table; small ratios have a digit more.
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

/// Large numbers in thousands, millions or billions, but for those that have such a unit.
fn in_words(number: f64, unit: &str) -> String {
    if unit.starts_with('G') {
        return format!("{number:.2} {unit}");
    }
    let text = scaled(number);
    let (digits, prefix) = text.split_once(' ').unwrap_or((&text, ""));
    // The table has no room for a fifth digit.
    match digits.parse::<f64>() {
        Ok(digits) if digits >= 100.0 => format!("{digits:.1} {prefix}{unit}"),
        _ => format!("{text}{unit}"),
    }
}

impl SystemReport {
    /// One that has not done anything yet.
    pub fn new(name: SystemName) -> Self {
        Self {
            name,
            headline: None,
            more: Vec::new(),
            verified: false,
            seconds: 0.0,
            interrupted: false,
            problems: Vec::new(),
            details: Value::Null,
            remark: None,
        }
    }

    /// One that came to nothing.
    pub fn failed(name: SystemName, problem: impl Into<String>) -> Self {
        Self {
            problems: vec![problem.into()],
            ..Self::new(name)
        }
    }

    /// One that came to these rates, the headline first.
    pub fn found(
        name: SystemName,
        stage: &Stage<'_>,
        rates: impl IntoIterator<Item = Measure>,
    ) -> Self {
        let mut rates = rates.into_iter();
        Self {
            headline: rates.next(),
            more: rates.collect(),
            interrupted: stage.globals.interrupt.is_set(),
            ..Self::new(name)
        }
    }

    /// All rates, the headline first.
    fn measures(&self) -> impl Iterator<Item = &Measure> {
        self.headline.iter().chain(&self.more)
    }

    /// What is said of it when it has ended: the rates, and the verdict.
    pub fn in_words(&self) -> String {
        let rows = self.measures().map(|one| row(&HEADS[1..5], one.cells()));
        rates(&rows.collect::<Vec<_>>()) + &self.verdict_in_words()
    }

    /// The same without the rates.
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

/// What the limits are, by their names; docs/JSON.md says more.
const LIMITS: [(&str, &str); 5] = [
    ("memcpy", "one thread, no cache"),
    ("copies", "of the pages that came from nodes, alone"),
    ("store", "its pages by its medium alone"),
    ("local", "as many threads at the tree"),
    ("fetch_add", "as many threads"),
];

/// The columns of the table that closes the demo; those of a system's rates are between.
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

/// The table that closes the demo: 80 columns, and few enough lines for one screen. Below it, what
/// the limits are, remarks and problems.
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
