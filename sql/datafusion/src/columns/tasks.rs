//! How a column scan is divided among workers.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_distributed::{
    DesiredTaskCountEvent, DesiredTaskCountEventResponse, DistributedConfig, DistributedLeafExec,
    ScaleUpLeafNodeEvent, ScaleUpLeafNodeEventResponse,
};

use super::scan::ColumnScanExec;

/// As many tasks as a scan of files of the same size has, and at most one for each chunk.
///
/// It is a handler of `with_distributed_desired_task_count_handler`.
#[must_use]
pub fn column_scan_task_count(
    event: DesiredTaskCountEvent<'_>,
) -> Option<Result<DesiredTaskCountEventResponse>> {
    let scan = event.plan.downcast_ref::<ColumnScanExec>()?;
    let config = DistributedConfig::from_session_config(event.session_config).ok()?;
    let bytes = usize::try_from(scan.bytes()).unwrap_or(usize::MAX);
    let partitions = bytes.div_ceil(config.file_scan_config_bytes_per_partition.max(1));
    let tasks = partitions.div_ceil(event.session_config.target_partitions().max(1));
    let chunks = scan.partitions().iter().map(Vec::len).sum::<usize>();
    let tasks = tasks.min(chunks).max(1);
    Some(Ok(DesiredTaskCountEventResponse::desired(tasks)))
}

/// Divides the chunks of a scan among tasks.
///
/// It is a handler of `with_distributed_scale_up_leaf_node_handler`.
#[must_use]
pub fn divide_column_scan(
    event: ScaleUpLeafNodeEvent<'_>,
) -> Option<Result<ScaleUpLeafNodeEventResponse>> {
    let scan = event.plan.downcast_ref::<ColumnScanExec>()?;
    let chunks: Vec<_> = scan.partitions().iter().flatten().cloned().collect();
    let tasks = divide(chunks, event.task_count);
    // All tasks of a stage must have the same number of partitions.
    let partitions = scan.partitions().len();
    let task = |chunks| {
        let task = scan.with_partitions(divide(chunks, partitions));
        Arc::new(task) as Arc<dyn ExecutionPlan>
    };
    let leaf = DistributedLeafExec::try_new(Arc::clone(event.plan), tasks.into_iter().map(task));
    Some(leaf.map(|leaf| ScaleUpLeafNodeEventResponse::new(Arc::new(leaf))))
}

/// Deals items out to groups, of which there is at least one.
pub(super) fn divide<T>(items: Vec<T>, groups: usize) -> Vec<Vec<T>> {
    let mut divided: Vec<_> = (0..groups.max(1)).map(|_| Vec::new()).collect();
    let groups = divided.len();
    for (index, item) in items.into_iter().enumerate() {
        divided[index % groups].push(item);
    }
    divided
}

#[cfg(test)]
mod tests {
    use super::divide;

    #[test]
    fn every_item_is_in_one_group() {
        let check = |items: usize, groups: usize, expect: &[&[usize]]| {
            assert_eq!(divide((0..items).collect(), groups), expect);
        };
        check(5, 2, &[&[0, 2, 4], &[1, 3]]);
        check(1, 3, &[&[0], &[], &[]]);
        check(0, 2, &[&[], &[]]);
        check(2, 0, &[&[0, 1]]);
    }
}
