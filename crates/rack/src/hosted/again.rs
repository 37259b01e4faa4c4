//! Further connections of a node that has joined. They end when the node loses the controller: a
//! controller that is stopped would keep requests waiting, and answer them when it continues,
//! although another one leads by then.

use super::messages::{MemberReply, MemberRequest, PURPOSE_MEMBER};
use super::{CONNECT_LIMIT, HostedError, connect};
use crate::ProcessError;
use crate::config::RackConfig;
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::NodeId;
use rackweave_control::{Closer, Connection};
use rackweave_controller::Named;
use rackweave_controller::ask::{Ask, AskError, ShareName};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration as Time;

/// Interval between two attempts to connect.
const RETRY_AFTER: Time = Time::from_millis(20);

/// The further connections of a node.
#[derive(Default)]
pub(super) struct FurtherConnections(Mutex<State>);

#[derive(Default)]
struct State {
    /// How many times they have been closed.
    closed: u64,
    closers: Vec<Closer>,
}

impl FurtherConnections {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no holder panics")
    }

    /// Adds one that was being opened since they had been closed so many times.
    fn add(&self, closed: u64, closer: Closer) {
        let mut state = self.state();
        if state.closed != closed {
            return closer.close();
        }
        state.closers.retain(|closer| !closer.is_gone());
        state.closers.push(closer);
    }

    /// Closes all.
    pub fn close(&self) {
        let mut state = self.state();
        state.closed += 1;
        state.closers.drain(..).for_each(|closer| closer.close());
    }
}

/// Connects a node that has joined to the controller again.
#[derive(Clone)]
pub(super) struct Dialer {
    pub config: RackConfig,
    pub name: String,
    pub node: NodeId,
    /// When it is set, nothing is connected any more.
    pub stop: Arc<AtomicBool>,
    pub further: Arc<FurtherConnections>,
}

impl Dialer {
    /// Connects the node once more, unless it is to stop.
    ///
    /// # Errors
    /// If the node is not in the rack, or the controller does not answer.
    pub fn dial(&self, purpose: &str) -> Result<Connection, HostedError> {
        let deadline = std::time::Instant::now() + CONNECT_LIMIT;
        loop {
            let closed = self.further.state().closed;
            match connect(&self.config, &self.name, purpose, std::process::id().into()) {
                Ok(connection) => {
                    self.further.add(closed, connection.closer());
                    return Ok(connection);
                }
                // It joins again soon, if it has lost the controller.
                Err(error)
                    if error.may_pass()
                        && std::time::Instant::now() < deadline
                        && !self.stop.load(Ordering::Relaxed) =>
                {
                    std::thread::sleep(RETRY_AFTER);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives a name to a service of the node, over a connection for this alone: the thread of
    /// services does so, too, when the controller was lost.
    pub fn share(&self, name: &str) -> Result<(), ProcessError> {
        let (name, what) = (name.to_owned(), Named::Service(self.node));
        let request = ShareName { name, what }.into_request();
        let mut connection = self.dial(PURPOSE_MEMBER).map_err(|_| AskError::NoAnswer)?;
        let reply = connection.request(&MemberRequest::Ask(Box::new(request)), CONNECT_LIMIT);
        match reply.map_err(|_| AskError::NoAnswer)? {
            MemberReply::Answer(reply) => {
                ShareName::answer_of(*reply?).ok_or(AskError::NoAnswer)??;
                Ok(())
            }
            _ => Err(AskError::NoAnswer.into()),
        }
    }
}
