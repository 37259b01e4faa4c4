//! Further connections of a node that has joined.

use super::messages::{MemberReply, MemberRequest, PURPOSE_MEMBER};
use super::{CONNECT_LIMIT, HostedError, connect};
use crate::ProcessError;
use crate::config::RackConfig;
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::NodeId;
use rackweave_control::{Connection, ControlError};
use rackweave_controller::Named;
use rackweave_controller::ask::{Ask, AskError, ShareName};
use std::time::Duration as Time;

/// Interval between two attempts to connect.
const RETRY_AFTER: Time = Time::from_millis(20);

/// Connects a node that has joined to the controller once more, unless `stop` is set.
///
/// # Errors
/// If the node is not in the rack, or the controller does not answer.
pub(super) fn dial(
    config: &RackConfig,
    node: &str,
    purpose: &str,
    stop: &AtomicBool,
) -> Result<Connection, HostedError> {
    let deadline = std::time::Instant::now() + CONNECT_LIMIT;
    loop {
        match connect(config, node, purpose, std::process::id().into()) {
            // It joins again soon, if it has lost the controller.
            Err(
                HostedError::Control(ControlError::Refused { .. }) | HostedError::NotRunning { .. },
            ) if std::time::Instant::now() < deadline && !stop.load(Ordering::Relaxed) => {
                std::thread::sleep(RETRY_AFTER);
            }
            other => return other,
        }
    }
}

/// Gives a name to a service of a node, over a connection for this alone: the thread of services
/// does so, too, when the controller was lost.
pub(super) fn share(
    config: &RackConfig,
    node: (&str, NodeId),
    name: &str,
    stop: &AtomicBool,
) -> Result<(), ProcessError> {
    let (of, node) = node;
    let (name, what) = (name.to_owned(), Named::Service(node));
    let request = ShareName { name, what }.into_request();
    let mut connection = dial(config, of, PURPOSE_MEMBER, stop).map_err(|_| AskError::NoAnswer)?;
    let reply = connection.request(&MemberRequest::Ask(Box::new(request)), CONNECT_LIMIT);
    match reply.map_err(|_| AskError::NoAnswer)? {
        MemberReply::Answer(reply) => {
            ShareName::answer_of(*reply?).ok_or(AskError::NoAnswer)??;
            Ok(())
        }
        _ => Err(AskError::NoAnswer.into()),
    }
}
