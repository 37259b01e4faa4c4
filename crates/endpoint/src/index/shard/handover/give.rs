//! The side that gives a range away.

use super::{Giving, HandoverError, Marked, MoveId};
use crate::btree::Direction;
use crate::index::map::{EndpointId, PartitionMap};
use crate::index::shard::ownership::Span;
use crate::index::shard::{Shard, span_of};

impl Shard {
    /// Begins to give keys of `low..=last` to `to`: as many from the end next to it as there are
    /// about `entries_max` entries in. When this returns no write to what is marked is on its way;
    /// reads go on.
    ///
    /// # Errors
    /// If the range cannot go there, another move is under way, or `map` is not the newest.
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
            return match giving.id == id {
                true => Ok(Marked {
                    low: giving.range.low,
                    last: giving.range.last,
                }),
                false => Err(HandoverError::Other),
            };
        }
        if control.getting.is_some() {
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
        Ok(Marked {
            low: range.low,
            last: range.last,
        })
    }

    /// The part of a range at the end next to its taker in which there are about `most` entries.
    fn cut(&self, map: &PartitionMap, to: EndpointId, range: Span, most: u32) -> Span {
        let own = self.owned().keys;
        // A taker to the right, or one that has nothing yet, takes from the high end.
        let high = match map.part_of(to) {
            Some(part) => part.low > own.low,
            None => range.last == own.last,
        };
        let direction = if high {
            Direction::Backward
        } else {
            Direction::Forward
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

    /// Shows `page` the entries of the range that is leaving, from `from` on, until it says false.
    /// Returns the key of the entry that it refused; nothing if that was all.
    ///
    /// # Errors
    /// If there is no such move.
    pub fn export(
        &self,
        id: MoveId,
        from: u64,
        page: &mut impl FnMut(u64, &[u8]) -> bool,
    ) -> Result<Option<u64>, HandoverError> {
        let range = self.control().giving(id)?.range;
        let mut refused = None;
        // The control lock is not held: nobody changes these entries.
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
        Ok(refused)
    }

    /// Refuses the commit from now on. Writes still wait: until it discards the range, the taker
    /// may own it if this endpoint dies.
    ///
    /// # Errors
    /// If there is no such move: it may have been committed.
    pub fn abort(&self, id: MoveId) -> Result<(), HandoverError> {
        self.control().giving(id)?.aborted = true;
        Ok(())
    }

    /// Does not give the range away: writes go on. Nothing happens if no such move is under way.
    pub fn release(&self, id: MoveId) {
        let mut control = self.control();
        if control.giving(id).is_ok() {
            control.giving = None;
            self.ownership.change(self.owned().keys, Span::NONE);
        }
    }

    /// Gives the range away. When this returns no READ finds it here.
    ///
    /// # Errors
    /// If there is no such move, or `map` is not what it leads to.
    pub fn commit(&self, id: MoveId, map: &PartitionMap) -> Result<(), HandoverError> {
        let mut control = self.control();
        if *control.map == *map && control.giving.is_none() {
            // It was done before.
            return Ok(());
        }
        let giving = *control.giving(id)?;
        if giving.aborted {
            return Err(HandoverError::Aborted);
        }
        let range = giving.range;
        let next = control
            .map
            .with_move(self.me, giving.to, range.low, range.last);
        let fits = next.is_ok_and(|next| next == *map);
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
        // First no request, then no READ. What a READ misses meanwhile it does not believe, since
        // the version is another one already.
        self.ownership.change(keys, Span::NONE);
        self.own(&mut control, map);
        control.giving = None;
        control.counters.ranges_out += 1;
        control.counters.entries_out += entries;
        self.cut_back(keys, range)
    }

    /// Removes what is not in `keys` from the tree. If those are none, one key of `range` stays
    /// within its bounds, without a value.
    pub(super) fn cut_back(&self, keys: Span, range: Span) -> Result<(), HandoverError> {
        if !keys.is_none() {
            return Ok(self.tree.shrink(keys.low, keys.last)?);
        }
        self.tree.shrink(range.low, range.low)?;
        self.tree.remove(range.low)?;
        Ok(())
    }
}
