//! Keys with a replica at another node: their writes go there first.
//!
//! An endpoint replicates in an *epoch*, to one replica. Part of its keys is *covered*: the replica
//! has their values. A write to a covered key is *pending* while it is known at the replica and not
//! here. At most one write to a key is pending, so the order of messages on different connections
//! does not matter. Reads see the tree only, and so never a value that the replica does not have.
//!
//! The covered range grows chunk by chunk ([`Shard::mark_copy`], [`Shard::cover`]), by ranges that
//! were taken with the replica's knowledge (`handover`), and ends with the epoch.

use super::handover::{HandoverError, Marked};
use super::ownership::Span;
use super::write::{Write, WriteKind};
use super::{Denied, Shard};
use crate::btree::{Direction, TreeError};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::MutexGuard;

/// What the server threads of a shard know about the replica.
#[derive(Debug, Default)]
pub(super) struct Replication {
    /// The epoch in force; zero: none.
    pub epoch: u64,
    /// The newest epoch so far.
    newest: u64,
    /// Keys with a pending write.
    keys: HashSet<u64>,
    /// Changes of ranges that were sent to the replica and are not acknowledged yet.
    pub ranges: u32,
    /// Maps that were sent to the replica and are not acknowledged yet.
    maps: u32,
    lost: bool,
}

/// How an epoch stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::index) enum Stands {
    NotBegun,
    InForce,
    Over,
}

/// How a write to a covered key began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::index) enum Begun {
    /// It was executed, or changes nothing: as the tree's result.
    Ended(bool),
    /// It is pending: the replica of this epoch has to acknowledge it. Then [`Shard::end_write`].
    Pending(u64),
    /// Another write to the key is pending.
    Later,
}

/// The state of a shard's replication.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ReplicationState {
    /// The epoch in force; zero if there is no replica.
    pub epoch: u64,
    /// The range whose values the replica has.
    pub covered: Option<Marked>,
    /// Whether that is all that the endpoint owns: then its keys survive it.
    pub is_whole: bool,
    /// Whether a server thread has lost its connection to the replica, or the replica refused.
    /// Writes to covered keys wait until [`Shard::uncover`].
    pub is_lost: bool,
    /// Number of writes that the replica has not acknowledged.
    pub pending: usize,
}

/// Why a replication does not begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReplicationError {
    /// There was an epoch that is as new.
    #[error("epoch {epoch} is not newer than {newest}")]
    Epoch {
        /// The epoch.
        epoch: u64,
        /// The newest one so far.
        newest: u64,
    },
    /// An earlier epoch is in force, or writes of it are pending.
    #[error("the epoch before has not ended; uncover the endpoint and try again")]
    InUse,
}

impl Shard {
    pub(super) fn replication(&self) -> MutexGuard<'_, Replication> {
        self.replication
            .lock()
            .expect("no holder of this lock panics")
    }

    /// Begins an epoch: from now on the server threads copy the keys to the replica, and send it
    /// the writes. All of them must be connected to it ([`IndexServer::attach_replica`]), since
    /// writes to covered keys wait in threads that are not.
    ///
    /// [`IndexServer::attach_replica`]: crate::index::IndexServer::attach_replica
    ///
    /// # Errors
    /// If the epoch is not newer than all before, or the one before has not ended.
    pub fn replicate(&self, epoch: u64) -> Result<(), ReplicationError> {
        let _changes = self.control();
        let mut replication = self.replication();
        let newest = replication.newest;
        if epoch <= newest {
            return Err(ReplicationError::Epoch { epoch, newest });
        }
        let in_use = replication.epoch != 0
            || replication.ranges + replication.maps > 0
            || !self.ownership.covered().is_none();
        if in_use {
            return Err(ReplicationError::InUse);
        }
        (replication.epoch, replication.newest) = (epoch, epoch);
        replication.lost = false;
        Ok(())
    }

    /// Goes on without the replica of this epoch. Pending writes are executed and answered by their
    /// threads. Has no effect if another epoch is in force.
    ///
    /// Only the owner of the index may decide this, when the replica cannot be promoted any more:
    /// from now on it lacks values.
    pub fn uncover(&self, epoch: u64) {
        let mut control = self.control();
        let mut replication = self.replication();
        replication.newest = replication.newest.max(epoch);
        if replication.epoch != epoch || epoch == 0 {
            return;
        }
        replication.epoch = 0;
        drop(replication);
        if control.copying.take().is_some() {
            self.ownership.change(self.owned().keys, Span::NONE);
        }
        drop(control);
        self.settle();
    }

    /// Ends the coverage when the last pending write of an epoch that is over has ended. Called by
    /// every thread when it has ended its own.
    pub(in crate::index) fn settle(&self) {
        let _changes = self.control();
        let replication = self.replication();
        // Without an epoch no write becomes pending any more.
        let ended = replication.epoch == 0 && replication.keys.is_empty();
        drop(replication);
        if ended && !self.ownership.covered().is_none() {
            let owned = self.owned();
            let (keys, leaving) = (owned.keys, owned.leaving);
            self.ownership.change_covered(keys, leaving, Span::NONE);
        }
    }

    /// How an epoch stands.
    pub(in crate::index) fn stands(&self, epoch: u64) -> Stands {
        let replication = self.replication();
        if replication.epoch == epoch {
            Stands::InForce
        } else if replication.newest < epoch {
            Stands::NotBegun
        } else {
            Stands::Over
        }
    }

    /// The state of the replication.
    pub fn replication_state(&self) -> ReplicationState {
        let control = self.control();
        let (keys, covered) = (self.owned().keys, self.ownership.covered());
        let replication = self.replication();
        // A range that is being taken may be committed by now.
        let getting = control.getting.as_ref();
        let is_missing = getting.is_some_and(|getting| getting.replica != replication.epoch);
        ReplicationState {
            epoch: replication.epoch,
            covered: (!covered.is_none()).then_some(covered.into()),
            is_whole: replication.epoch != 0 && is_whole(keys, covered) && !is_missing,
            is_lost: replication.lost,
            pending: replication.keys.len(),
        }
    }

    /// Records that the replica does not answer as it should.
    pub(in crate::index) fn lose_replica(&self, epoch: u64) {
        let mut replication = self.replication();
        replication.lost |= replication.epoch == epoch;
    }

    /// Begins a write that [`Shard::write`] did not execute because the key is covered.
    pub(in crate::index) fn begin_write(
        &self,
        write: &Write<'_>,
        scratch: &mut Vec<u8>,
    ) -> Result<Begun, Denied> {
        let key = write.key;
        let _stays = self.ownership.write(key);
        self.check_writable(key)?;
        let mut replication = self.replication();
        if replication.keys.contains(&key) {
            return Ok(Begun::Later);
        }
        if replication.epoch == 0 || !self.ownership.covered().contains(key) {
            // The lock is held, so no write to the key becomes pending meanwhile.
            return Ok(Begun::Ended(write.apply(&self.tree)?));
        }
        let (length, limit) = (write.value.len(), self.tree.superblock().value_max);
        if length > limit as usize {
            return Err(TreeError::ValueTooLarge { length, limit }.into());
        }
        let epoch = replication.epoch;
        replication.keys.insert(key);
        drop(replication);
        // No other write changes the key while this one is pending.
        let changes = match write.kind {
            WriteKind::Put => true,
            WriteKind::Insert => !self.tree.lookup(key, scratch),
            WriteKind::Update | WriteKind::Remove => self.tree.lookup(key, scratch),
        };
        if !changes {
            self.release_key(key);
            return Ok(Begun::Ended(false));
        }
        Ok(Begun::Pending(epoch))
    }

    /// Executes a pending write that the replica has, and ends it.
    ///
    /// # Errors
    /// If the tree returns an error; then the write is still pending.
    pub(in crate::index) fn end_write(&self, write: &Write<'_>) -> Result<bool, TreeError> {
        let result = write.apply(&self.tree)?;
        self.release_key(write.key);
        Ok(result)
    }

    /// Ends a pending write without executing it.
    pub(in crate::index) fn release_key(&self, key: u64) {
        let was_pending = self.replication().keys.remove(&key);
        debug_assert!(was_pending, "a write ends once");
    }

    /// Ends a change of a range that was sent to the replica.
    pub(in crate::index) fn end_range(&self) {
        self.replication().ranges -= 1;
    }

    /// The map has changed: the replica of the returned epoch is to have it, then
    /// [`Shard::end_map`]. The lock of the control state is held.
    pub(super) fn begin_map(&self) -> Option<u64> {
        let mut replication = self.replication();
        let epoch = Some(replication.epoch).filter(|epoch| *epoch != 0)?;
        replication.maps += 1;
        Some(epoch)
    }

    /// The replica has a map, or is none any more.
    pub(in crate::index) fn end_map(&self) {
        self.replication().maps -= 1;
    }

    /// Whether the replica does not have the newest map yet. Until then nobody may complete the
    /// move that it results from: the taker would change values, while this endpoint's replica
    /// would still take them for its own.
    pub(in crate::index) fn has_pending_map(&self) -> bool {
        self.replication().maps > 0
    }

    /// Whether no write to the range is pending.
    pub(super) fn check_drained(&self, range: Span) -> Result<(), HandoverError> {
        let replication = self.replication();
        let pending = replication.keys.iter().any(|key| range.contains(*key));
        if pending {
            return Err(HandoverError::Unfinished);
        }
        Ok(())
    }

    /// Whether everything owned is covered, so that a range that is being taken must be, too.
    pub(in crate::index) fn is_covered(&self) -> bool {
        is_whole(self.owned().keys, self.ownership.covered())
    }

    /// Marks the next chunk to be copied to the replica, of about `entries_max` entries: writes to
    /// it are busy until [`Shard::cover`]. `None` if everything is covered, or a chunk or a range
    /// is on its way. The caller clears the chunk at the replica and sends the entries.
    pub(in crate::index) fn mark_copy(&self, epoch: u64, entries_max: u32) -> Option<Marked> {
        if self.is_covered() {
            return None;
        }
        let mut control = self.control();
        let idle =
            control.giving.is_none() && control.getting.is_none() && control.copying.is_none();
        let mut replication = self.replication();
        if !idle || replication.epoch != epoch || replication.ranges > 0 {
            return None;
        }
        let (keys, covered) = (self.owned().keys, self.ownership.covered());
        // The next chunk is adjacent to what is covered.
        let (rest, high) = if covered.is_none() {
            (keys, false)
        } else if covered.last < keys.last {
            let low = covered.last + 1;
            (Span { low, ..keys }, false)
        } else if covered.low > keys.low {
            let last = covered.low - 1;
            (Span { last, ..keys }, true)
        } else {
            return None;
        };
        let range = self.part_of_range(rest, high, entries_max);
        control.copying = Some((epoch, range));
        replication.ranges += 1;
        drop(replication);
        // Keys that are not covered have no pending writes.
        self.ownership.change(keys, range);
        Some(range.into())
    }

    /// Passes the entries of the chunk that is being copied, from `from` on, to `page` until it
    /// returns false. Returns the key of the refused entry; `None` if no entries are left.
    pub(in crate::index) fn export_copy(
        &self,
        chunk: Marked,
        from: u64,
        page: &mut impl FnMut(u64, &[u8]) -> bool,
    ) -> Option<u64> {
        let Marked { low, last } = chunk;
        self.export_range(Span { low, last }, from, page)
    }

    /// The replica has the chunk: writes to it continue, and go to the replica first.
    pub(in crate::index) fn cover(&self, epoch: u64) {
        let mut control = self.control();
        if control.copying.is_some_and(|(of, _)| of == epoch)
            && let Some((_, range)) = control.copying.take()
        {
            let covered = self.ownership.covered().or(range);
            let keys = self.owned().keys;
            self.ownership.change_covered(keys, Span::NONE, covered);
        }
    }

    /// The part of a range, at its low or high end, that has about `most` entries.
    pub(super) fn part_of_range(&self, range: Span, high: bool, most: u32) -> Span {
        let direction = match high {
            true => Direction::Backward,
            false => Direction::Forward,
        };
        let (mut left, mut end) = (most.max(1), None);
        self.tree
            .scan(range.low..=range.last, direction, &mut |key, _| {
                left -= 1;
                end = (left == 0).then_some(key);
                left > 0
            });
        match (end, high) {
            (None, _) => range,
            (Some(low), true) => Span { low, ..range },
            (Some(last), false) => Span { last, ..range },
        }
    }
}

/// Whether `covered`, a part of `keys`, is all of it.
fn is_whole(keys: Span, covered: Span) -> bool {
    keys == covered || keys.is_none()
}
