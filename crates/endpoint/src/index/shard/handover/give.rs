//! The giver's side of a move.

use super::{Giving, HandoverError, Marked, MoveId};
use crate::btree::Direction;
use crate::index::map::{EndpointId, PartitionMap};
use crate::index::shard::ownership::Span;
use crate::index::shard::{Shard, span_of};

impl Shard {
    /// Begins to give keys of `low..=last` to `to`: the part next to the taker that has about
    /// `entries_max` entries. When this returns no write to the marked keys is in progress; reads
    /// continue.
    ///
    /// # Errors
    /// If the range cannot go there, another move is pending, or `map` is not the newest. With
    /// [`HandoverError::Unfinished`] the keys are marked, and writes that the replica has not
    /// acknowledged are in progress: repeat the step until they have ended.
    pub fn mark(
        &self,
        id: MoveId,
        to: EndpointId,
        (low, last): (u64, u64),
        entries_max: u32,
        map: &PartitionMap,
    ) -> Result<Marked, HandoverError> {
        let mut control = self.control();
        if let Some(giving) = &control.giving {
            let range = giving.range;
            return match giving.id == id {
                true => self.check_drained(range).map(|()| range.into()),
                false => Err(HandoverError::Other),
            };
        }
        if control.getting.is_some() || control.copying.is_some() {
            return Err(HandoverError::Other);
        }
        self.learn(&mut control, map)?;
        if map.with_move(self.me, to, low, last).is_err() {
            return Err(HandoverError::Range { low, last });
        }
        let range = self.cut(map, to, Span { low, last }, entries_max);
        if map.with_move(self.me, to, range.low, range.last).is_err() {
            return Err(HandoverError::Range { low, last });
        }
        control.giving = Some(Giving {
            id,
            to,
            range,
            aborted: false,
        });
        self.ownership.change(self.owned().keys, range);
        self.check_drained(range).map(|()| range.into())
    }

    /// The part of a range, at the end next to its taker, that has about `most` entries.
    fn cut(&self, map: &PartitionMap, to: EndpointId, range: Span, most: u32) -> Span {
        let own = self.owned().keys;
        // A taker to the right, or one that owns nothing yet, takes from the high end.
        let high = match map.part_of(to) {
            Some(part) => part.low > own.low,
            None => range.last == own.last,
        };
        self.part_of_range(range, high, most)
    }

    /// Passes the entries of the range that is leaving, from `from` on, to `page` until it returns
    /// false. Returns the key of the refused entry; `None` if no entries are left.
    ///
    /// # Errors
    /// If there is no such move, or writes to the range have not ended.
    pub fn export(
        &self,
        id: MoveId,
        from: u64,
        page: &mut impl FnMut(u64, &[u8]) -> bool,
    ) -> Result<Option<u64>, HandoverError> {
        let range = self.control().giving(id)?.range;
        self.check_drained(range)?;
        Ok(self.export_range(range, from, page))
    }

    /// Passes entries of a range that is not written to `page`, from `from` on. The control lock is
    /// not held: these entries do not change.
    pub(in crate::index::shard) fn export_range(
        &self,
        range: Span,
        from: u64,
        page: &mut impl FnMut(u64, &[u8]) -> bool,
    ) -> Option<u64> {
        let mut refused = None;
        if from <= range.last {
            self.tree.scan(
                from.max(range.low)..=range.last,
                Direction::Forward,
                &mut |key, value| {
                    let goes_on = page(key, value);
                    refused = (!goes_on).then_some(key);
                    goes_on
                },
            );
        }
        refused
    }

    /// Refuses the commit from now on. Writes still wait: until the taker discards the range, it
    /// may own the range if this endpoint dies.
    ///
    /// # Errors
    /// If there is no such move: it may have been committed.
    pub fn abort(&self, id: MoveId) -> Result<(), HandoverError> {
        self.control().giving(id)?.aborted = true;
        Ok(())
    }

    /// Cancels giving the range away: writes continue. Has no effect if no such move is pending.
    pub fn release(&self, id: MoveId) {
        let mut control = self.control();
        if control.giving(id).is_ok() {
            control.giving = None;
            self.ownership.change(self.owned().keys, Span::NONE);
        }
    }

    /// Gives the range away. When this returns no READ finds it here. If there
    /// is a replica, returns its epoch: it has to store the map before the result is sent.
    ///
    /// # Errors
    /// If there is no such move, its result differs from `map`, writes to the range have not ended,
    /// or another endpoint is being restarted.
    pub fn commit(&self, id: MoveId, map: &PartitionMap) -> Result<Option<u64>, HandoverError> {
        let mut control = self.control();
        if *control.map == *map && control.giving.is_none() {
            // It was committed before.
            return Ok(self.begin_map());
        }
        let giving = *control.giving(id)?;
        if giving.aborted {
            return Err(HandoverError::Aborted);
        }
        let range = giving.range;
        self.check_drained(range)?;
        let next = control
            .map
            .with_move(self.me, giving.to, range.low, range.last);
        let fits = next.is_ok_and(|next| next == *map) && !control.commits_nothing;
        if !fits {
            return Err(HandoverError::Version {
                here: control.map.version(),
                there: map.version(),
            });
        }
        let keys = span_of(map, self.me);
        let mut entries = 0;
        self.tree
            .scan(range.low..=range.last, Direction::Forward, &mut |_, _| {
                entries += 1;
                true
            });
        // Ownership ends for requests first, then for READs. A READ that misses a key meanwhile
        // does not accept the absence, since the version differs already.
        self.ownership.change(keys, Span::NONE);
        self.own(&mut control, map);
        control.giving = None;
        control.counters.ranges_out += 1;
        control.counters.entries_out += entries;
        self.cut_back(keys, range)?;
        Ok(self.begin_map())
    }

    /// Removes the keys outside `keys` from the tree. If `keys` is empty, the bounds keep one key
    /// of `range`, without a value.
    pub(super) fn cut_back(&self, keys: Span, range: Span) -> Result<(), HandoverError> {
        if !keys.is_none() {
            return Ok(self.tree.shrink(keys.low, keys.last)?);
        }
        self.tree.shrink(range.low, range.low)?;
        self.tree.remove(range.low)?;
        Ok(())
    }
}
