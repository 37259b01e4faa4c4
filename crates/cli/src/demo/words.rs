//! Results of the demo, as text.

use super::report::DemoReport;
use super::systems::table;
use crate::mode::{HOSTED, SIMULATED};
use crate::report::{Text, object};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;

impl fmt::Display for DemoReport {
    /// If several systems ran, the results of flows were already printed when they ended.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mode == SIMULATED {
            return write!(f, "{}verified: {}", self.flows(), self.verified);
        }
        f.write_str("\n")?;
        if let Some(capture) = &self.capture {
            write!(f, "{}", Text::new(object(json!({ "capture": capture }))))?;
        }
        write!(f, "{}", table(&self.systems))?;
        if self.interrupted {
            let names: Vec<_> = self.systems.iter().map(|one| one.name.name()).collect();
            writeln!(f, "interrupted: {} began before that", names.join(", "))?;
        }
        write!(f, "verified: {} ({:.0} s)", self.verified, self.seconds)
    }
}

impl DemoReport {
    /// The results of flows, before the report is complete.
    pub fn flows_in_words(
        &mut self,
        before: &BTreeMap<String, u64>,
        now: BTreeMap<String, u64>,
    ) -> String {
        self.fill_counters(before, now);
        self.flows()
    }

    /// The results of flows. The answers are narrow enough for a terminal; the JSON form has every
    /// column.
    fn flows(&self) -> String {
        const LATER: [&str; 5] = ["systems", "added", "seconds", "interrupted", "verified"];
        const Q1: &str = "Q1, the pricing summary of line items by return flag and status";
        const JOIN: &str = "line items joined with the orders of 1995, by order priority";
        let cells = |row: &Value| {
            json!({
                "flag": row["return_flag"],
                "status": row["line_status"],
                "quantity": row["sum_quantity"],
                "discounted price": row["sum_discounted_price"],
                "with tax": row["sum_charge"],
                "lines": row["count"],
            })
        };
        let reported = |(key, value): (String, Value)| match &*key {
            // A hosted rack takes its random numbers from the system.
            "seed" if self.mode == HOSTED => None,
            "q1" => Some((Q1.to_owned(), self.q1.iter().map(cells).collect())),
            "join" => Some((JOIN.to_owned(), value)),
            other => (!LATER.contains(&other)).then_some((key, value)),
        };
        let found = object(self).into_iter().filter_map(reported).collect();
        Text::new(found).to_string()
    }
}
