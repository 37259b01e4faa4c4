//! The runs after the shuffle on the same rack: line items balanced over consumers, one of which is
//! slow, and orders replicated to all of them.
//!
//! The rows are those that the storage workers have pushed before. `run` runs the workers; this
//! module evaluates their results.

use super::DemoPlan;
use super::report::DemoReport;
use rackweave_base::NodeId;
use rackweave_controller::{FlowError, FlowShape};
use rackweave_rack::{Flow, Rack};
use rackweave_workload::tpch::{ComputeResult, QueryResult, RowsDigest, StorageWorker};
use serde_json::json;

/// Items of a ring, so that queued items are few compared with the flow; a ring holds fewer large
/// items.
const ITEMS: u32 = 16;

/// Bytes of a ring beyond which it holds only four items.
const RING_MAX: u32 = 4 << 20;

/// Encoded rows, by the worker that pushes them.
pub type Rows = Vec<Vec<u8>>;

/// The results of the workers at one end of a run.
pub type FoundBy<T> = Result<Vec<T>, String>;

/// The rows that the storage workers pushed: orders and line items of each.
pub fn rows_of<'a>(
    storage: impl IntoIterator<Item = &'a mut StorageWorker>,
) -> Option<(Rows, Rows)> {
    let parts = storage.into_iter().map(StorageWorker::take_prepared);
    let parts: Option<Vec<[_; 2]>> = parts.collect();
    Some(parts?.into_iter().map(<(_, _)>::from).unzip())
}

impl DemoPlan {
    /// The consumers of both runs: one on each compute node, but at least two.
    pub(super) fn fan_out_consumers(&self) -> Vec<NodeId> {
        let times = if self.compute.len() == 1 { 2 } else { 1 };
        self.compute.repeat(times)
    }

    pub(super) fn fan_out_flow(&self, rack: &Rack, shape: FlowShape) -> Result<Flow, FlowError> {
        let (from, to) = (self.places(&self.storage), self.fan_out_consumers());
        let item = self.item_size;
        let ring = (item * ITEMS).min(RING_MAX.max(item * 4));
        let flow = rack.flow(&from, &to).shape(shape);
        flow.item_bytes(item).ring_bytes(ring).build()
    }

    fn consumer_names(&self) -> Vec<String> {
        let names = self.fan_out_consumers().into_iter();
        names
            .map(|node| self.config.node[usize::from(node.0)].name.clone())
            .collect()
    }
}

impl DemoReport {
    /// Reports the load-balanced run, which took `seconds`.
    pub(super) fn note_balanced(
        &mut self,
        plan: &DemoPlan,
        found: FoundBy<ComputeResult>,
        seconds: f64,
    ) {
        let parts = match found {
            Ok(parts) => parts,
            Err(error) => return self.problems.push(format!("balanced: {error}")),
        };
        let rows: Vec<u64> = parts.iter().map(|part| part.rows.lineitem).collect();
        let bytes: u64 = parts.iter().map(|part| part.rows.bytes()).sum();
        let all: u64 = rows.iter().sum();
        let shares = plan.consumer_names().into_iter().zip(rows).enumerate();
        let share = |(at, (node, rows)): (usize, (String, u64))| {
            let share = rows as f64 / all.max(1) as f64;
            json!({"node": node, "rows": rows, "share": share, "slowed": at == 0})
        };
        self.balanced = Some(json!({
            "seconds": seconds,
            "gigabytes_per_second": bytes as f64 / 1e9 / seconds.max(1e-9),
            "consumers": shares.map(share).collect::<Vec<_>>(),
            // Whether the parts equal the Q1 of the direct computation; none if that was not made.
            "verified": null,
        }));
        self.balanced_result = Some(QueryResult::merge(parts));
    }

    /// Reports the replicated run, which took `seconds`.
    pub(super) fn note_replicated(
        &mut self,
        plan: &DemoPlan,
        (found, pushed): (FoundBy<RowsDigest>, RowsDigest),
        seconds: f64,
    ) {
        let seen = match found {
            Ok(seen) => seen,
            Err(error) => return self.problems.push(format!("replicated: {error}")),
        };
        let is_whole = |seen: &RowsDigest| (seen.rows, seen.sum) == (pushed.rows, pushed.sum);
        let are_whole = seen.iter().all(is_whole);
        let is_one_order = seen.windows(2).all(|two| two[0].order == two[1].order);
        if !are_whole {
            let problem = "replicated: a replica did not see the rows that were pushed";
            self.problems.push(problem.into());
        }
        if !is_one_order {
            let problem = "replicated: the replicas saw different orders";
            self.problems.push(problem.into());
        }
        let bytes = pushed.rows * rackweave_workload::tpch::OrderRow::BYTES as u64;
        let replicas = plan.consumer_names().into_iter().zip(&seen);
        let replica = |(node, seen): (String, &RowsDigest)| {
            // Equal for the same rows in the same order.
            let checksum = format!("{:016x}", seen.order);
            json!({"node": node, "rows": seen.rows, "checksum": checksum})
        };
        self.replicated = Some(json!({
            "rows": pushed.rows,
            "seconds": seconds,
            // The rate of each replica.
            "gigabytes_per_second": bytes as f64 / 1e9 / seconds.max(1e-9),
            "replicas": replicas.map(replica).collect::<Vec<_>>(),
            "verified": are_whole && is_one_order,
        }));
    }

    /// Compares the parts of the balanced run with the direct computation.
    pub(super) fn judge_balanced(&mut self, reference: &QueryResult) {
        let (Some(balanced), Some(result)) = (&mut self.balanced, &self.balanced_result) else {
            return;
        };
        let is_right = result.q1 == reference.q1 && result.rows.lineitem == reference.rows.lineitem;
        balanced["verified"] = is_right.into();
        if !is_right {
            let problem = "balanced: Q1 differs from the direct computation";
            self.problems.push(problem.into());
        }
    }
}
