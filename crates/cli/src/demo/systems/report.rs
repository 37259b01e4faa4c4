//! What a system did, and how that compares with what this machine can do.

use super::SystemName;
use crate::report::scaled;
use serde::Serialize;
use serde_json::Value;

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

    /// Its rate with the unit.
    pub fn rate_in_words(&self) -> String {
        in_words(self.rate, self.unit)
    }

    /// Its ratio to the limit; small ones with a digit more.
    pub fn ratio_in_words(&self) -> String {
        match self.ratio {
            None => String::new(),
            Some(ratio) if ratio < 0.1 => format!("{ratio:.3}"),
            Some(ratio) => format!("{ratio:.2}"),
        }
    }

    /// Its limit with the unit and what it is.
    pub fn limit_in_words(&self) -> String {
        match (self.limit, self.limit_name) {
            (Some(limit), Some(name)) => format!("{} {name}", in_words(limit, self.unit)),
            _ => String::new(),
        }
    }
}

/// Large numbers in thousands, millions or billions, but for those that have such a unit.
fn in_words(number: f64, unit: &str) -> String {
    if unit.starts_with('G') {
        return format!("{number:.2} {unit}");
    }
    format!("{}{unit}", scaled(number))
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

    /// All rates, the headline first.
    pub fn measures(&self) -> impl Iterator<Item = &Measure> {
        self.headline.iter().chain(&self.more)
    }

    /// What is said of it when it has ended: the rates, and the verdict.
    pub fn in_words(&self) -> String {
        let mut text = String::new();
        for measure in self.measures() {
            let rate = measure.rate_in_words();
            text += &format!("  {:<28}{rate:>14}", measure.did);
            if measure.ratio.is_some() {
                let ratio = measure.ratio_in_words();
                text += &format!(", {ratio} of {}", measure.limit_in_words());
            }
            text.push('\n');
        }
        text + &self.verdict_in_words()
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
