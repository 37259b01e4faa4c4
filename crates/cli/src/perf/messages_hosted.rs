//! Messages between two nodes of a hosted rack: both ends are jobs.

use super::messages::{Measured, MessagePlan};
use super::test_run::TestRun;
use crate::hosted::jobs::verbs::{FAR, NEAR, NearArguments, SideArguments, SideNames};
use crate::hosted::runner::JobRunner;
use crate::outcome::CliError;
use crate::verbs::{FarFound, NearFound};
use rackweave_rack::RackConfig;
use rackweave_verbs::Mtu;
use serde_json::Value;
use std::time::Instant;

/// Runs the test on the hosted rack of `rack`.
///
/// # Errors
/// Why it could not be completed.
pub fn run(
    rack: &RackConfig,
    plan: &MessagePlan,
    test: &mut TestRun<'_>,
) -> Result<Measured, CliError> {
    let mut runner = JobRunner::gather(rack, test.globals)?;
    let (config, progress) = (&test.config, &mut test.progress);
    let (near, far) = plan.nodes;
    let side = |meeting| SideArguments {
        kind: plan.kind,
        shape: plan.shape,
        seed: config.seed,
        meeting,
    };
    let (near_meeting, far_meeting) = (JobRunner::meeting(), JobRunner::meeting());
    let far_task = runner.start(far, FAR, &side(far_meeting))?;
    runner.spare(&[far_task]);
    let far_names: SideNames = runner.ask(far, far_meeting, |_| {})?;
    let arguments = NearArguments {
        side: side(near_meeting),
        amount: plan.amount,
        remote: (far_names.address, far_names.rkey),
    };
    let near_task = runner.start(near, NEAR, &arguments)?;
    let near_names: SideNames = runner.ask(near, near_meeting, |_| {})?;
    let mtu = Mtu::from_bytes(config.nic.mtu).unwrap_or_default();
    runner.connect((near, &near_names.qpns), (far, &far_names.qpns), mtu)?;
    runner.tell(far, far_meeting, &Value::Null)?;
    runner.ask::<Value>(far, far_meeting, |_| {})?;
    runner.tell(near, near_meeting, &Value::Null)?;
    let start = Instant::now();
    let queue_pairs = u64::from(plan.shape.queue_pairs);
    runner.wait(&[near_task], |runner| {
        let now = start.elapsed().as_nanos() as u64;
        let completed = runner.done(near_task) / queue_pairs;
        progress.set(|| plan.amount.fraction(completed, now));
    })?;
    let near_found: NearFound = runner.result(near_task)?;
    runner.tell(far, far_meeting, &near_found.completed)?;
    let far_found: FarFound = runner.result(far_task)?;
    Ok(Measured {
        near: near_found,
        far: far_found,
        link_utilisation: None,
    })
}
