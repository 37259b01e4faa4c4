//! A member of a flow under test, and what is known of its state.

use super::actors::{Mark, Outcome};
use rackweave_base::NodeId;
use std::rc::Rc;

/// A producer or consumer.
pub(super) struct Member {
    pub node: NodeId,
    pub mark: Rc<Mark>,
    /// It has crashed, has left, or is unreachable: the flow may give it up, or has done so.
    pub lost: bool,
    /// The controller has removed it.
    pub removed: bool,
    /// It has crashed or is unreachable since it was removed.
    pub died_late: bool,
    /// The same, although it may have seen its end: the controller may not know that yet.
    pub died_after_removal: bool,
    /// Of a consumer: how many items it irrevocably owned when the flow was last set up again.
    pub owned: u32,
}

impl Member {
    pub fn new(node: NodeId) -> Self {
        Self {
            node,
            mark: Rc::default(),
            lost: false,
            removed: false,
            died_late: false,
            died_after_removal: false,
            owned: 0,
        }
    }

    /// Whether the flow may have given it up, or may do so.
    pub fn may_be_dead(&self) -> bool {
        self.lost || self.died_late
    }

    /// Whether it was given up while it was being removed. That is no loss of the flow, and its
    /// stream ends as aborted.
    pub fn died_while_removed(&self) -> bool {
        self.may_be_dead() && self.removed && self.mark.outcome.get() == Some(Outcome::Aborted)
    }

    /// Whether it is a consumer that the flow counts and whose stream has not ended.
    pub fn is_waiting(&self) -> bool {
        !self.lost && !self.removed && self.mark.outcome.get().is_none()
    }
}
