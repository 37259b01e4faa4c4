//! The table that closes the demo: 80 columns, and few enough lines for one screen.

use super::report::{Measure, SystemReport};
use crate::report::{COLUMNS, wrapped};
use std::fmt;

/// What the limits are, by their names; docs/JSON.md says more.
const LIMITS: [(&str, &str); 5] = [
    ("memcpy", "one thread, no cache"),
    ("copies", "of the pages that came from nodes, alone"),
    ("store", "its pages by its medium alone"),
    ("local", "as many threads at the tree"),
    ("fetch_add", "as many threads"),
];

/// The table of these systems.
pub struct Table<'a>(pub &'a [SystemReport]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "system",
            "what was done",
            "rate",
            "limit of the machine",
            "ratio",
            "ok",
        ];
        write_row(f, head)?;
        writeln!(f, "{}", "-".repeat(COLUMNS - 1))?;
        for system in self.0 {
            let verdict = if system.verified { "yes" } else { "NO" };
            let (mut name, mut verdict) = (system.name.name(), verdict);
            for measure in system.measures() {
                let (rate, limit) = (measure.rate_in_words(), measure.limit_in_words());
                let ratio = measure.ratio_in_words();
                write_row(f, [name, &measure.did, &rate, &limit, &ratio, verdict])?;
                (name, verdict) = ("", "");
            }
            if system.headline.is_none() {
                let what = if system.interrupted {
                    "interrupted"
                } else {
                    "failed"
                };
                write_row(f, [name, what, "", "", "", verdict])?;
            }
        }
        writeln!(f, "{}", "-".repeat(COLUMNS - 1))?;
        self.write_foot(f)
    }
}

impl Table<'_> {
    /// What the limits are, and remarks.
    fn write_foot(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let measures = || self.0.iter().flat_map(SystemReport::measures);
        let is_named = |name: &str| measures().any(|one: &Measure| one.limit_name == Some(name));
        let limits = LIMITS.iter().filter(|(name, _)| is_named(name));
        let limits: Vec<_> = limits
            .map(|(name, what)| format!("{name}: {what}"))
            .collect();
        if !limits.is_empty() {
            f.write_str(&wrapped(&(limits.join("; ") + "."), 0))?;
        }
        for system in self.0 {
            if let Some(remark) = &system.remark {
                f.write_str(&wrapped(&format!("{}: {remark}", system.name.name()), 0))?;
            }
            for problem in &system.problems {
                let problem = format!("{}: problem: {problem}", system.name.name());
                f.write_str(&wrapped(&problem, 0))?;
            }
        }
        Ok(())
    }
}

fn write_row(f: &mut fmt::Formatter<'_>, cells: [&str; 6]) -> fmt::Result {
    let [system, did, rate, limit, ratio, ok] = cells;
    let row = format!("{system:<9} {did:<25} {rate:>12} {limit:>20} {ratio:>5} {ok:<3}");
    writeln!(f, "{}", row.trim_end())
}

#[cfg(test)]
mod tests {
    use super::super::SystemName;
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
        let text = Table(&[tree, failed]).to_string();
        assert!(text.lines().all(|line| line.len() < COLUMNS), "{text}");
        insta::assert_snapshot!(text);
    }
}
