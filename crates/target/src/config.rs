//! The configuration of a target, and the errors of its construction.

use rackweave_base::Qpn;
use rackweave_base::memory::MemoryError;
use rackweave_verbs::{CqError, ModifyError, PostError, QpError, RegisterError};
use serde::{Deserialize, Serialize};

/// Minimum and maximum bytes of a transfer.
const TRANSFER: core::ops::RangeInclusive<u32> = 4096..=1 << 20;
/// Maximum bytes of a qualified name (Base 4.5).
const NQN_BYTES_MAX: usize = 223;
/// Maximum entries of a queue: five requests per entry must fit in a send queue.
const ENTRIES_MAX: u16 = 4096;

/// A target's name and limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TargetConfig {
    /// The NVMe qualified name of the subsystem.
    pub nqn: String,
    /// Maximum number of queues, admin and I/O together: each is a queue pair.
    pub queues_max: u16,
    /// Entries of one queue: commands in flight, plus one. 2 to 4096; hosts that follow the
    /// specification to the letter want 32 for their admin queue.
    pub queue_entries: u16,
    /// Maximum data in a command capsule, in bytes; a multiple of 16.
    pub in_capsule_max: u32,
    /// Maximum data of one command (MDTS), in bytes: a power of two from 4096 to 1 MiB.
    pub transfer_max: u32,
    /// Transfer buffers of `transfer_max` bytes: the number of commands with data outside capsules
    /// that are carried out at a time. Others wait.
    pub buffers: u32,
}

impl Default for TargetConfig {
    fn default() -> Self {
        Self {
            nqn: "nqn.2025-01.io.rackweave:target".to_owned(),
            queues_max: 64,
            queue_entries: 32,
            in_capsule_max: 4096,
            transfer_max: 128 << 10,
            buffers: 64,
        }
    }
}

/// What is wrong with a configuration or a namespace.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum ConfigError {
    /// Not a valid qualified name.
    #[error("{0:?} is no NVMe qualified name: nqn.YYYY-MM.DOMAIN:NAME in at most 223 bytes")]
    Nqn(String),
    /// No queues, or queues without entries.
    #[error(
        "{queues} queues of {entries} entries; a target has at least 1 queue of 2 to 4096 entries"
    )]
    Queues {
        /// `queues_max`.
        queues: u16,
        /// `queue_entries`.
        entries: u16,
    },
    /// In-capsule data is counted in units of 16 bytes.
    #[error("in_capsule_max is {0}; it must be a multiple of 16 up to 1 MiB")]
    InCapsule(u32),
    /// Not a transfer size that NVMe can express.
    #[error("transfer_max is {0}; it must be a power of two from 4096 to 1048576")]
    Transfer(u32),
    /// There are no transfer buffers.
    #[error("a target needs at least one transfer buffer")]
    Buffers,
    /// More namespaces than one list of ids can hold.
    #[error("{0} namespaces; a target has at most 1024")]
    Namespaces(usize),
    /// A backend's sizes do not make a valid namespace.
    #[error(
        "namespace {nsid}: {blocks} blocks of {block_size} bytes; the size of a block is a power \
         of two from 512 to transfer_max, and there is at least one"
    )]
    Namespace {
        /// The namespace's id.
        nsid: u32,
        /// The block size.
        block_size: u32,
        /// The number of blocks.
        blocks: u64,
    },
}

/// Why an operation of the target's owner failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum TargetError {
    /// The configuration is invalid.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// The arena has no space for buffers or capsules.
    #[error("no memory for the target's buffers: {0}")]
    Memory(#[from] MemoryError),
    /// The NIC did not register them.
    #[error("the target's buffers were not registered: {0}")]
    Register(#[from] RegisterError),
    /// The NIC did not create the completion queue.
    #[error("no completion queue for the target: {0}")]
    Cq(#[from] CqError),
    /// The NIC did not create a queue pair.
    #[error("no queue pair for the target: {0}")]
    Qp(#[from] QpError),
    /// All queues are in use, or still wait for their backend.
    #[error("the target has {0} queues already; raise queues_max")]
    TooManyQueues(u16),
    /// Not a queue of the target.
    #[error("queue pair {0} is none of the target's")]
    UnknownQueue(Qpn),
    /// The queue pair did not accept receives.
    #[error("the queue did not start: {0}")]
    Post(#[from] PostError),
    /// The queue pair did not change state.
    #[error("the queue did not end: {0}")]
    Modify(#[from] ModifyError),
}

impl TargetConfig {
    /// Validates the configuration.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        if !self.nqn.starts_with("nqn.") || self.nqn.len() > NQN_BYTES_MAX {
            return Err(ConfigError::Nqn(self.nqn.clone()));
        }
        if self.queues_max == 0 || !(2..=ENTRIES_MAX).contains(&self.queue_entries) {
            return Err(ConfigError::Queues {
                queues: self.queues_max,
                entries: self.queue_entries,
            });
        }
        if !self.in_capsule_max.is_multiple_of(16) || self.in_capsule_max > *TRANSFER.end() {
            return Err(ConfigError::InCapsule(self.in_capsule_max));
        }
        if !self.transfer_max.is_power_of_two() || !TRANSFER.contains(&self.transfer_max) {
            return Err(ConfigError::Transfer(self.transfer_max));
        }
        if self.buffers == 0 {
            return Err(ConfigError::Buffers);
        }
        Ok(())
    }
}
