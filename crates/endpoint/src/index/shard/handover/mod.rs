//! Giving a range to a neighbour, and taking one, concurrently with operations.
//!
//! | step | the giver | the taker |
//! |---|---|---|
//! | mark | writes to the range are busy from now on | |
//! | stage | | the tree's bounds are extended by the range |
//! | export, install | entries are read | entries are added |
//! | seal | | all entries are present |
//! | commit | owns less; the tree's bounds and its tree nodes are cut back | |
//! | adopt | | owns more |
//!
//! Until the commit either side can undo the move: the giver aborts the move, if a commit may be in
//! flight; the taker discards the range, and then the giver releases it to writers. The commit
//! decides: from then on the range is with the taker, which owns it from the adoption on. In
//! between no endpoint owns it, and requests for it wait. If the giver dies after the seal, the
//! taker may own the range, whether or not it was committed ([`Shard::begin_restart`]): there is no
//! other copy.
//!
//! Each step may be repeated. A step with a [`MoveId`] other than that of the pending move is
//! refused, so that a coordinator that was presumed dead does no harm.

mod give;
mod restart;
mod state;

use super::{Control, Shard, Span, span_of};
use crate::index::map::PartitionMap;
use core::sync::atomic::Ordering;
use std::sync::Arc;

pub(super) use state::{Getting, Giving};
pub use state::{HandoverError, Marked, MoveId, ShardState};

impl Shard {
    /// The state of the shard.
    pub fn state(&self) -> ShardState {
        let control = self.control();
        let giving = control.giving.as_ref();
        let getting = control.getting.as_ref();
        ShardState {
            version: control.map.version(),
            part: control.map.part_of(self.me),
            giving: giving.map(|giving| (giving.id, giving.range.into())),
            getting: getting.map(|getting| (getting.id, getting.range.into(), getting.entries)),
        }
    }

    /// Begins to take `low..=last`, which must be adjacent to the owned range. Returns the epoch of
    /// the replica, if the replica is to have the range as well: it must remove what it has of the
    /// range, and then the caller calls [`Self::staged`].
    ///
    /// # Errors
    /// If it is not adjacent, another move is pending, or `map` is not the newest.
    pub(in crate::index) fn stage(
        &self,
        id: MoveId,
        (low, last): (u64, u64),
        map: &PartitionMap,
    ) -> Result<Option<u64>, HandoverError> {
        let mut control = self.control();
        if let Some(getting) = &control.getting {
            if getting.id != id || getting.range != (Span { low, last }) {
                return Err(HandoverError::Other);
            }
            let ready = getting.is_cleared || self.epoch_of(getting).is_none();
            return ready.then_some(None).ok_or(HandoverError::Unfinished);
        }
        if control.giving.is_some() || control.copying.is_some() {
            return Err(HandoverError::Other);
        }
        let mut replication = self.replication();
        if replication.ranges > 0 {
            // The replica may receive entries of an earlier move after it has removed the range.
            return Err(HandoverError::Unfinished);
        }
        self.learn(&mut control, map)?;
        if map.with_move(map.owner(low), self.me, low, last).is_err() {
            return Err(HandoverError::Range { low, last });
        }
        let before = self.tree.bounds();
        self.tree.extend(low.min(before.0), last.max(before.1))?;
        if self.owned().keys.is_none() {
            // The bounds of an empty tree are arbitrary.
            self.tree.shrink(low, last)?;
        }
        // If the replica lacks other keys, too, the range will be copied to it with them.
        let replica = match self.is_covered() {
            true => replication.epoch,
            false => 0,
        };
        control.getting = Some(Getting {
            id,
            range: Span { low, last },
            before,
            entries: 0,
            sealed: false,
            replica,
            is_cleared: false,
        });
        let is_replicated = replica != 0;
        replication.ranges += u32::from(is_replicated);
        Ok(is_replicated.then_some(replica))
    }

    /// The replica has removed what it had of the range that is being taken.
    pub(in crate::index) fn staged(&self, id: MoveId) {
        let mut control = self.control();
        if let Ok(getting) = control.getting(id) {
            getting.is_cleared = true;
        }
        self.end_range();
    }

    /// The epoch in which the range that is being taken goes to the replica, if it is in force.
    fn epoch_of(&self, getting: &Getting) -> Option<u64> {
        let epoch = self.replication().epoch;
        (epoch != 0 && epoch == getting.replica).then_some(epoch)
    }

    /// Adds entries of the range that is being taken. Returns how many have been added so far, and
    /// the epoch of the replica, if it is to add them as well; then the caller calls
    /// [`Self::end_range`].
    ///
    /// # Errors
    /// If there is no such move, or the tree returns an error.
    pub(in crate::index) fn install<'a>(
        &self,
        id: MoveId,
        entries: impl Iterator<Item = (u64, &'a [u8])>,
    ) -> Result<(u64, Option<u64>), HandoverError> {
        let mut control = self.control();
        let getting = control.getting(id)?;
        let epoch = self.epoch_of(getting);
        if epoch.is_some() && (!getting.is_cleared || getting.sealed) {
            return Err(HandoverError::Other);
        }
        for (key, value) in entries {
            if !getting.range.contains(key) {
                let (low, last) = (key, key);
                return Err(HandoverError::Range { low, last });
            }
            getting.entries += u64::from(self.tree.put(key, value)?);
        }
        self.replication().ranges += u32::from(epoch.is_some());
        Ok((getting.entries, epoch))
    }

    /// Cancels taking the range. Has no effect if no such move is pending.
    ///
    /// # Errors
    /// If the tree returns an error.
    pub fn discard(&self, id: MoveId) -> Result<(), HandoverError> {
        let mut control = self.control();
        let Ok(getting) = control.getting(id).copied() else {
            return Ok(());
        };
        control.getting = None;
        self.take_back(getting)
    }

    /// Removes the received entries of a range.
    fn take_back(&self, getting: Getting) -> Result<(), HandoverError> {
        let keys = self.owned().keys;
        if keys.is_none() {
            return self.cut_back(keys, getting.range);
        }
        Ok(self.tree.shrink(getting.before.0, getting.before.1)?)
    }

    /// Declares that all entries of the range have been sent, `entries` of them.
    ///
    /// # Errors
    /// If there is no such move, or the number of entries differs.
    pub fn seal(&self, id: MoveId, entries: u64) -> Result<(), HandoverError> {
        let mut control = self.control();
        let getting = control.getting(id)?;
        if self.replication().ranges > 0 {
            return Err(HandoverError::Unfinished);
        }
        if getting.entries != entries {
            return Err(HandoverError::Entries {
                here: getting.entries,
                there: entries,
            });
        }
        getting.sealed = true;
        Ok(())
    }

    /// Owns the range from now on. Returns as [`Shard::commit`].
    ///
    /// # Errors
    /// If there is no such move, it is not sealed, or its result differs from `map`.
    pub fn adopt(&self, id: MoveId, map: &PartitionMap) -> Result<Option<u64>, HandoverError> {
        let mut control = self.control();
        if control.getting.is_none() && self.has_same(&control.map, map) {
            return Ok(self.begin_map());
        }
        let getting = *control.getting(id)?;
        if !getting.sealed {
            return Err(HandoverError::Unsealed);
        }
        if !self.leads_to(&control, getting, map) {
            return Err(HandoverError::Version {
                here: control.map.version(),
                there: map.version(),
            });
        }
        self.take_over(&mut control, getting, map);
        Ok(self.begin_map())
    }

    /// Whether this endpoint owns what `map` says once it has taken the pending range. Other
    /// endpoints may have restarted since.
    fn leads_to(&self, control: &Control, getting: Getting, map: &PartitionMap) -> bool {
        let (low, last) = (getting.range.low, getting.range.last);
        let owner = control.map.owner(low);
        let next = control.map.with_move(owner, self.me, low, last);
        next.is_ok_and(|next| map.version() >= next.version() && self.has_same(&next, map))
    }

    /// Whether this endpoint has the same range in two maps of one index, since the same version.
    fn has_same(&self, one: &PartitionMap, other: &PartitionMap) -> bool {
        let (me, endpoints) = (self.me, one.endpoints());
        endpoints == other.endpoints()
            && one.part_of(me) == other.part_of(me)
            && one.since(me) == other.since(me)
    }

    fn take_over(&self, control: &mut Control, getting: Getting, map: &PartitionMap) {
        control.getting = None;
        control.counters.ranges_in += 1;
        control.counters.entries_in += getting.entries;
        // The map first: a client that gets the map from here also finds the keys here.
        self.own(control, map);
        let mut covered = self.ownership.covered();
        if self.epoch_of(&getting).is_some() {
            covered = covered.or(getting.range);
        }
        let keys = span_of(map, self.me);
        self.ownership.change_covered(keys, Span::NONE, covered);
    }
}

impl Control {
    fn giving(&mut self, id: MoveId) -> Result<&mut Giving, HandoverError> {
        let giving = self.giving.as_mut().ok_or(HandoverError::Unknown)?;
        let same = giving.id == id;
        same.then_some(giving).ok_or(HandoverError::Other)
    }

    fn getting(&mut self, id: MoveId) -> Result<&mut Getting, HandoverError> {
        let getting = self.getting.as_mut().ok_or(HandoverError::Unknown)?;
        let same = getting.id == id;
        same.then_some(getting).ok_or(HandoverError::Other)
    }
}

impl Shard {
    /// Stores a map in which other endpoints have changed and this one has not.
    fn learn(&self, control: &mut Control, map: &PartitionMap) -> Result<(), HandoverError> {
        let here = &control.map;
        let newer = map.version() > here.version() && self.has_same(here, map);
        if newer {
            self.set_map(control, map);
        } else if **here != *map {
            return Err(HandoverError::Version {
                here: here.version(),
                there: map.version(),
            });
        }
        Ok(())
    }

    fn set_map(&self, control: &mut Control, map: &PartitionMap) {
        control.map = Arc::new(map.clone());
        self.map_version.store(map.version(), Ordering::Release);
    }

    /// Changes what this endpoint owns.
    fn own(&self, control: &mut Control, map: &PartitionMap) {
        self.set_map(control, map);
        let since = map.since(self.me);
        self.version.word(0).store(since, Ordering::Release);
    }
}
