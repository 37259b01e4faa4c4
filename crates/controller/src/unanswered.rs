//! Requests to the controller that got no answer.

use serde::{Deserialize, Serialize};

/// Why a request got no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum AskError {
    /// The controller's process has ended, or cannot be reached. The request may or may not have
    /// been executed.
    #[error("the controller does not answer; `rackweave info` shows which processes run")]
    NoAnswer,
    /// A process asked for a node that is not its own.
    #[error("the controller refuses it: a process may act for its own nodes only")]
    Forbidden,
}
