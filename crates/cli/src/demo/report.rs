//! Results of the demo.

use super::systems::{SystemReport, table};
use super::{DemoPlan, Found};
use crate::capture::CaptureReport;
use crate::globals::{HOSTED, SIMULATED};
use crate::report::{object, text};
use rackweave_base::NodeId;
use rackweave_rack::config::Role;
use rackweave_workload::tpch::{JoinRow, Q1Row, QueryResult, RowCounts, ScaleFactor};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// The demo's result.
#[derive(Serialize, Default)]
pub struct DemoReport {
    /// `embedded`, `simulated` or `hosted`.
    pub mode: &'static str,
    pub seed: u64,
    pub scale_factor: f64,
    pub item_size: u32,
    pub driver_threads: Option<usize>,
    /// The activity of each node.
    pub nodes: Vec<Value>,
    pub rows_orders: u64,
    pub rows_lineitem: u64,
    /// Bytes of rows that went through the switch.
    pub bytes: u64,
    pub generate_seconds: f64,
    /// Shuffle and queries: real time, or virtual time if simulated.
    pub shuffle_seconds: f64,
    /// Real time of a simulated shuffle.
    pub real_seconds: Option<f64>,
    pub gigabytes_per_second: f64,
    pub memcpy_gigabytes_per_second: Option<f64>,
    pub ratio_to_memcpy: Option<f64>,
    pub events: Option<u64>,
    pub trace_hash: Option<String>,
    pub q1: Vec<Value>,
    pub join: Vec<Value>,
    /// Equal on every run over the same rows.
    pub result_checksum: Option<String>,
    /// Whether Q1 equals the answer published in the TPC-H specification; only at scale factor 1.
    pub matches_published_q1: Option<bool>,
    /// Q1 once more, over a load-balanced flow.
    pub balanced: Option<Value>,
    /// The orders at every consumer of a replicated flow.
    pub replicated: Option<Value>,
    /// Runs that this kind of rack does not support, in words.
    pub left_out: Vec<String>,
    pub switch_counters: BTreeMap<String, u64>,
    /// Packets and bytes of the capture file.
    pub capture: Option<Value>,
    /// Every system that ran, in order.
    pub systems: Vec<SystemReport>,
    /// Settings that the demo added to the configuration so that all systems fit, by name.
    pub added: BTreeMap<String, Value>,
    /// Real seconds of all systems together; zero where only flows run.
    pub seconds: f64,
    /// Whether the user stopped it early.
    pub interrupted: bool,
    /// All problems, in words.
    pub problems: Vec<String>,
    pub verified: bool,
    #[serde(skip)]
    pub result: Option<QueryResult>,
    #[serde(skip)]
    pub balanced_result: Option<QueryResult>,
}

/// A number with this many decimals, exactly: JSON numbers cannot hold so many digits.
pub fn decimal(value: i128, decimals: usize) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let (digits, one) = (value.unsigned_abs(), 10u128.pow(decimals as u32));
    format!("{sign}{}.{:0decimals$}", digits / one, digits % one)
}

/// A row of Q1. Sums in units of the table: quantities, money.
pub fn q1_row(row: &Q1Row) -> Value {
    let row = row.rounded();
    let decimal = |hundredths| decimal(hundredths, 2);
    json!({
        "return_flag": row.return_flag,
        "line_status": row.line_status,
        "sum_quantity": decimal(row.sum_qty),
        "sum_base_price": decimal(row.sum_base_price),
        "sum_discounted_price": decimal(row.sum_disc_price),
        "sum_charge": decimal(row.sum_charge),
        "average_quantity": decimal(row.avg_qty),
        "average_price": decimal(row.avg_price),
        "average_discount": decimal(row.avg_disc),
        "count": row.count,
    })
}

/// A row of the join.
fn join(row: &JoinRow) -> Value {
    json!({
        "order_priority": row.priority.to_string(),
        "lines": row.lines,
        "revenue": decimal(row.revenue, 4),
    })
}

impl DemoReport {
    pub fn new(plan: &DemoPlan, mode: &'static str) -> Self {
        Self {
            mode,
            seed: plan.config.seed,
            scale_factor: plan.scale.get(),
            item_size: plan.item_size,
            ..Self::default()
        }
    }

    /// Counts the rows that reached the compute nodes.
    pub fn fill_rows(&mut self, found: &Found) {
        if let Ok(parts) = found {
            for part in parts {
                self.rows_orders += part.rows.orders;
                self.rows_lineitem += part.rows.lineitem;
                self.bytes += part.rows.bytes();
            }
        }
        self.gigabytes_per_second = self.bytes as f64 / 1e9 / self.shuffle_seconds.max(1e-9);
    }

    /// Reports the activity of each node; `pushed` has the rows of each storage worker, `more` adds
    /// what only some racks know about a node.
    pub fn fill_nodes(
        &mut self,
        plan: &DemoPlan,
        pushed: impl IntoIterator<Item = RowCounts>,
        found: &Found,
        more: impl Fn(NodeId) -> Map<String, Value>,
    ) {
        let pushed: Vec<u64> = pushed.into_iter().map(RowCounts::total).collect();
        let taken: Vec<u64> = match found {
            Ok(parts) => parts.iter().map(|part| part.rows.total()).collect(),
            Err(_) => vec![0; plan.compute.len() * plan.workers],
        };
        let sums = |rows: &[u64]| {
            rows.chunks(plan.workers)
                .map(|c| c.iter().sum())
                .collect::<Vec<u64>>()
        };
        let work = [
            (&plan.storage, sums(&pushed), "scanned and partitioned"),
            (&plan.compute, sums(&taken), "answered Q1 and the join over"),
        ];
        for (nodes, rows, did) in work {
            for (&node, &rows) in nodes.iter().zip(&rows) {
                let config = &plan.config.node[usize::from(node.0)];
                let mut report = object(json!({
                    "name": config.name,
                    "role": match config.role {
                        Role::Storage => "storage",
                        _ => "compute",
                    },
                    "link": null,
                    "did": format!("{did} {rows} rows"),
                    "rows": rows,
                    "to_switch": null,
                    "from_switch": null,
                    "cpu_compute_seconds": null,
                    "cpu_communication_seconds": null,
                }));
                report.extend(more(node));
                self.nodes.push(report.into());
            }
        }
    }

    pub fn conclude(&mut self, found: Found) {
        match found {
            Err(error) => self.problems.push(format!("compute: {error}")),
            Ok(parts) => {
                let result = QueryResult::merge(parts);
                self.result_checksum = Some(format!("{:016x}", result.checksum()));
                self.q1 = result.q1.iter().map(q1_row).collect();
                self.join = result.join.iter().map(join).collect();
                self.result = Some(result);
            }
        }
    }

    /// Records the counters of switch 0 that are not zero.
    pub fn fill_counters(&mut self, before: &BTreeMap<String, u64>, now: BTreeMap<String, u64>) {
        let since = |(name, count): (String, u64)| {
            let count = count.saturating_sub(before.get(&name).copied().unwrap_or(0));
            (count > 0).then_some((name, count))
        };
        self.switch_counters = now.into_iter().filter_map(since).collect();
    }

    /// Adds a system that has ended. Its problems become the demo's; those of flows already are.
    pub fn enter(&mut self, system: SystemReport) {
        for problem in &system.problems {
            let named = format!("{}: {problem}", system.name.name());
            if !self.problems.contains(problem) {
                self.problems.push(named);
            }
        }
        self.systems.push(system);
    }

    /// The verdict on all of `chosen` systems.
    pub fn conclude_systems(&mut self, chosen: usize) {
        let all = self.systems.len() == chosen && self.systems.iter().all(|one| one.verified);
        self.verified = all && self.problems.is_empty() && !self.interrupted;
    }

    /// Records that a capture was made.
    pub fn note_capture(&mut self, CaptureReport { packets, bytes, .. }: CaptureReport) {
        self.capture = Some(json!({"packets": packets, "bytes": bytes}));
    }

    /// Compares with the direct computation, and with the specification where it has an answer.
    pub fn judge(&mut self, reference: &QueryResult, scale: ScaleFactor) {
        let Some(result) = &self.result else { return };
        if result != reference {
            self.problems
                .push("the answers differ from the direct computation".into());
        }
        #[expect(
            clippy::float_cmp,
            reason = "only exactly scale factor 1 has a published answer"
        )]
        if scale.get() == 1.0 {
            let matches = result.matches_published_q1();
            self.matches_published_q1 = Some(matches);
            if !matches {
                self.problems
                    .push("Q1 differs from what the TPC-H specification publishes".into());
            }
        }
        self.verified = self.problems.is_empty();
    }
}

impl fmt::Display for DemoReport {
    /// If several systems ran, the results of flows were already printed when they ended.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.mode == SIMULATED {
            return write!(f, "{}verified: {}", self.flows(), self.verified);
        }
        f.write_str("\n")?;
        if let Some(capture) = &self.capture {
            f.write_str(&text(object(json!({ "capture": capture }))))?;
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
    /// The results of flows. The answers are narrow enough for a terminal; the JSON form has every
    /// column.
    pub fn flows(&self) -> String {
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
        text(found)
    }
}
