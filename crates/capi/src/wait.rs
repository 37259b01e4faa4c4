//! Waiting: a waiting call drives the rack.

use crate::error::Fault;
use crate::status::Status;
use ::rackweave_rack::services::{FOREVER, wait_within};
use rackweave_verbs::NodeAccess;
use std::time::Duration;

/// As a time limit: none. The call waits for as long as it takes.
pub const RACKWEAVE_FOREVER: u64 = u64::MAX;

/// Calls `ready` until it returns a value, driving the rack in between, or until the time limit. It
/// is called at least twice.
pub(crate) fn wait<T>(
    node: &dyn NodeAccess,
    timeout_ns: u64,
    mut ready: impl FnMut() -> Result<Option<T>, Fault>,
) -> Result<T, Fault> {
    let limit = match timeout_ns {
        RACKWEAVE_FOREVER => FOREVER,
        given => Duration::from_nanos(given),
    };
    let ended = wait_within(node, limit, || ready().transpose());
    ended.unwrap_or_else(|| Err(Fault::quiet(Status::TimedOut)))
}
