//! Which of the switch processes of a rack leads, and where the controller's state is stored so
//! that the next leader finds it.

mod etcd;
mod file;

pub use etcd::EtcdElector;
pub use file::FileElector;

use crate::config::RackConfig;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Errors of an elector.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ElectorError {
    /// This process no longer leads: it must not act any more.
    #[error("another switch process leads")]
    Lost,
    /// The elector cannot be used.
    #[error("{0}")]
    Failed(String),
}

/// One part of the controller's state.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// A word.
    pub name: &'static str,
    /// One line of text.
    pub text: &'a str,
    /// Whether it is already stored like this.
    pub is_stored: bool,
}

/// Elects one of the switch processes of a rack as the leader, and stores the controller's state.
///
/// Each time that a process begins to lead is a *term* with a number, its *epoch*. Nodes refuse a
/// controller whose epoch is lower than one that they have met.
pub trait Elector: Send + Sync {
    /// How often a process that does not lead calls [`Elector::campaign`].
    fn campaign_every(&self) -> Duration;

    /// Tries to become the leader. Returns the epoch, which is higher than all earlier ones, or
    /// `None` if another process leads.
    ///
    /// # Errors
    /// If the elector cannot be used.
    fn campaign(&self) -> Result<Option<u64>, ElectorError>;

    /// Extends the term of the leader. Returns until when it leads if it does not extend it again;
    /// `None` if that is until its process ends.
    ///
    /// # Errors
    /// [`ElectorError::Lost`] if the term has ended, and if the elector cannot be used at the
    /// moment.
    fn renew(&self) -> Result<Option<Instant>, ElectorError>;

    /// The parts of the state that the last leader has stored, by name.
    ///
    /// # Errors
    /// If they are damaged, or the elector cannot be used.
    fn load(&self) -> Result<BTreeMap<String, String>, ElectorError>;

    /// Stores the state: all parts, or none. Only the leader may do that.
    ///
    /// # Errors
    /// [`ElectorError::Lost`] if this process no longer leads. After any other error, no later
    /// leader finds a state.
    fn store(&self, parts: &[Part<'_>]) -> Result<(), ElectorError>;

    /// Ends the term of the leader, so that another process can lead at once.
    fn resign(&self);
}

/// A term of a switch process.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub(in crate::hosted) struct TermId {
    /// Later terms have higher numbers.
    pub epoch: u64,
    /// A random number of the process: an elector that lost its state may assign an epoch twice.
    pub process: u64,
}

impl TermId {
    /// Whether this term is later than `other`, or the same.
    pub fn is_since(&self, other: &Self) -> bool {
        self.epoch > other.epoch || self == other
    }
}

/// The elector of a rack.
pub(super) fn of(config: &RackConfig) -> Arc<dyn Elector> {
    let hosted = config.hosted();
    if hosted.etcd.is_empty() {
        return Arc::new(FileElector::new(&hosted.directory()));
    }
    // No two racks have one address of the controller.
    let rack = hosted.control.to_string();
    Arc::new(EtcdElector::new(&hosted.etcd, &rack, hosted.lease()))
}
