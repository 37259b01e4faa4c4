//! Giving a range to a neighbour, and taking one, with operations going on.
//!
//! | step | who gives | who takes |
//! |---|---|---|
//! | mark | writes to the range are busy from now on | |
//! | stage | | the tree's bounds take the range in |
//! | export, install | entries are read | entries are added |
//! | seal | | all entries are there |
//! | commit | owns less; the tree's bounds and its tree nodes are cut back | |
//! | adopt | | owns more |
//!
//! Until the commit either side can go back. The commit decides: after it the range is with the
//! taker, who owns it from the adoption on. In between nobody owns it, and requests for it wait.
//! If the giver dies after the seal, the taker may own the range, whether or not it was committed
//! ([`Shard::salvage`]): there is no other copy.
//!
//! Each step may be repeated. A step with another [`MoveId`] than that of the move under way is
//! refused, so that a coordinator that was given up for dead does no harm.

use super::{Control, Shard, Span, span_of};
use crate::btree::{Direction, TreeError};
use crate::index::map::{EndpointId, Part, PartitionMap};
use core::sync::atomic::Ordering;
use std::sync::Arc;

/// A move of a range, as its coordinator names it: different for every move.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MoveId(pub u64);

/// A range that is leaving.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Giving {
    pub id: MoveId,
    pub to: EndpointId,
    pub range: Span,
}

/// A range that is coming.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Getting {
    pub id: MoveId,
    pub range: Span,
    /// The tree's bounds before.
    pub before: (u64, u64),
    pub entries: u64,
    /// That is all.
    pub sealed: bool,
}

/// What is to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Marked {
    /// The least key.
    pub low: u64,
    /// The greatest key.
    pub last: u64,
}

/// Where a shard stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShardState {
    /// The version of its map.
    pub version: u64,
    /// What it owns.
    pub part: Option<Part>,
    /// The move in which it gives keys.
    pub giving: Option<(MoveId, Marked)>,
    /// The move in which it gets keys, and how many entries have come.
    pub getting: Option<(MoveId, Marked, u64)>,
}

impl ShardState {
    /// The state as words: version, then for each of part, giving and getting whether there is one,
    /// and three words of it.
    pub fn encode(&self) -> Vec<u8> {
        let part = self.part.map(|part| [0, part.low, part.last, 0]);
        let giving = self.giving.map(|(id, keys)| [id.0, keys.low, keys.last, 0]);
        let getting = self.getting;
        let getting = getting.map(|(id, keys, entries)| [id.0, keys.low, keys.last, entries]);
        let words = [part, giving, getting].into_iter().flat_map(|words| {
            let there = u64::from(words.is_some());
            core::iter::once(there).chain(words.unwrap_or_default())
        });
        let words = core::iter::once(self.version).chain(words);
        words.flat_map(u64::to_le_bytes).collect()
    }

    /// The state of `endpoint` in these bytes.
    pub fn decode(bytes: &[u8], endpoint: EndpointId) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let words: [u64; 16] = words
            .iter()
            .map(|&w| u64::from_le_bytes(w))
            .collect::<Vec<_>>()
            .try_into()
            .ok()
            .filter(|_| rest.is_empty())?;
        let group = |at: usize| {
            (words[at] != 0).then(|| {
                (
                    MoveId(words[at + 1]),
                    Marked {
                        low: words[at + 2],
                        last: words[at + 3],
                    },
                    words[at + 4],
                )
            })
        };
        Some(Self {
            version: words[0],
            part: group(1).map(|(_, keys, _)| Part {
                low: keys.low,
                last: keys.last,
                endpoint,
            }),
            giving: group(6).map(|(id, keys, _)| (id, keys)),
            getting: group(11),
        })
    }
}

/// Why a step of a move is refused. Nothing has changed then, unless the tree is damaged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HandoverError {
    /// Another move is under way.
    #[error("the shard is taking part in another move")]
    Other,
    /// There is no such move.
    #[error("the shard is not taking part in this move")]
    Unknown,
    /// The range cannot go from here, or come here.
    #[error("keys {low} to {last} are not at an end of what the shard has, next to the taker's")]
    Range {
        /// The least key.
        low: u64,
        /// The greatest key.
        last: u64,
    },
    /// The shard's map is another.
    #[error("the shard has map version {here}, not {there}")]
    Version {
        /// The version here.
        here: u64,
        /// The version of who asks.
        there: u64,
    },
    /// Not all entries have come.
    #[error("{here} entries have come, {there} were sent")]
    Entries {
        /// Entries here.
        here: u64,
        /// Entries sent.
        there: u64,
    },
    /// It is not known whether all entries have come.
    #[error("the range is not sealed")]
    Unsealed,
    /// The tree refused.
    #[error(transparent)]
    Tree(#[from] TreeError),
}

impl Shard {
    /// Where it stands.
    pub fn state(&self) -> ShardState {
        let control = self.control();
        let marked = |range: Span| Marked {
            low: range.low,
            last: range.last,
        };
        let giving = control.giving.as_ref();
        let getting = control.getting.as_ref();
        ShardState {
            version: control.map.version(),
            part: control.map.part_of(self.me),
            giving: giving.map(|giving| (giving.id, marked(giving.range))),
            getting: getting.map(|getting| (getting.id, marked(getting.range), getting.entries)),
        }
    }

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
        control.giving = Some(Giving { id, to, range });
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
    fn cut_back(&self, keys: Span, range: Span) -> Result<(), HandoverError> {
        if !keys.is_none() {
            return Ok(self.tree.shrink(keys.low, keys.last)?);
        }
        self.tree.shrink(range.low, range.low)?;
        self.tree.remove(range.low)?;
        Ok(())
    }

    /// Begins to take `low..=last`, which must be next to what is owned.
    ///
    /// # Errors
    /// If it is not, another move is under way, or `map` is not the newest.
    pub fn stage(
        &self,
        id: MoveId,
        (low, last): (u64, u64),
        map: &PartitionMap,
    ) -> Result<(), HandoverError> {
        let mut control = self.control();
        if let Some(getting) = &control.getting {
            let same = getting.id == id && getting.range == Span { low, last };
            return same.then_some(()).ok_or(HandoverError::Other);
        }
        if control.giving.is_some() {
            return Err(HandoverError::Other);
        }
        self.learn(&mut control, map)?;
        if map.with_move(map.owner(low), self.me, low, last).is_err() {
            return Err(HandoverError::Range { low, last });
        }
        let before = self.tree.bounds();
        self.tree.extend(low.min(before.0), last.max(before.1))?;
        if self.owned().keys.is_none() {
            // The bounds of an empty tree are anywhere.
            self.tree.shrink(low, last)?;
        }
        control.getting = Some(Getting {
            id,
            range: Span { low, last },
            before,
            entries: 0,
            sealed: false,
        });
        Ok(())
    }

    /// Adds entries of the range that is coming. Returns how many have come so far.
    ///
    /// # Errors
    /// If there is no such move, or the tree refuses.
    pub fn install<'a>(
        &self,
        id: MoveId,
        entries: impl Iterator<Item = (u64, &'a [u8])>,
    ) -> Result<u64, HandoverError> {
        let mut control = self.control();
        let getting = control.getting(id)?;
        for (key, value) in entries {
            if !getting.range.contains(key) {
                let (low, last) = (key, key);
                return Err(HandoverError::Range { low, last });
            }
            getting.entries += u64::from(self.tree.put(key, value)?);
        }
        Ok(getting.entries)
    }

    /// Does not take the range. Nothing happens if no such move is under way.
    ///
    /// # Errors
    /// If the tree refuses.
    pub fn discard(&self, id: MoveId) -> Result<(), HandoverError> {
        let mut control = self.control();
        let Ok(getting) = control.getting(id).copied() else {
            return Ok(());
        };
        control.getting = None;
        self.take_back(getting)
    }

    /// Removes what has come of a range.
    fn take_back(&self, getting: Getting) -> Result<(), HandoverError> {
        let keys = self.owned().keys;
        if keys.is_none() {
            return self.cut_back(keys, getting.range);
        }
        Ok(self.tree.shrink(getting.before.0, getting.before.1)?)
    }

    /// All entries of the range have come, `entries` of them.
    ///
    /// # Errors
    /// If there is no such move, or there are not as many.
    pub fn seal(&self, id: MoveId, entries: u64) -> Result<(), HandoverError> {
        let mut control = self.control();
        let getting = control.getting(id)?;
        if getting.entries != entries {
            return Err(HandoverError::Entries {
                here: getting.entries,
                there: entries,
            });
        }
        getting.sealed = true;
        Ok(())
    }

    /// Owns the range from now on.
    ///
    /// # Errors
    /// If there is no such move, it is not sealed, or `map` is not what it leads to.
    pub fn adopt(&self, id: MoveId, map: &PartitionMap) -> Result<(), HandoverError> {
        let mut control = self.control();
        if *control.map == *map && control.getting.is_none() {
            return Ok(());
        }
        let getting = *control.getting(id)?;
        if !getting.sealed {
            return Err(HandoverError::Unsealed);
        }
        let (low, last) = (getting.range.low, getting.range.last);
        let owner = control.map.owner(low);
        let next = control.map.with_move(owner, self.me, low, last);
        if !next.is_ok_and(|next| next == *map) {
            return Err(HandoverError::Version {
                here: control.map.version(),
                there: map.version(),
            });
        }
        self.take_over(&mut control, getting, map);
        Ok(())
    }

    fn take_over(&self, control: &mut Control, getting: Getting, map: &PartitionMap) {
        control.getting = None;
        control.counters.ranges_in += 1;
        control.counters.entries_in += getting.entries;
        // The map first: whoever learns of it here finds the keys here.
        self.own(control, map);
        self.ownership.change(span_of(map, self.me), Span::NONE);
    }

    /// Ends a move in which `dead` takes part, which will not come back with what it had. Returns
    /// the map as it is afterwards, in which `dead` may still have keys.
    ///
    /// # Errors
    /// If the tree refuses.
    pub fn salvage(&self, dead: EndpointId) -> Result<Arc<PartitionMap>, HandoverError> {
        let mut control = self.control();
        if control
            .giving
            .as_ref()
            .is_some_and(|giving| giving.to == dead)
        {
            control.giving = None;
            self.ownership.change(self.owned().keys, Span::NONE);
        }
        let getting = control.getting.take();
        if let Some(getting) = getting {
            let range = getting.range;
            let next = control
                .map
                .with_move(dead, self.me, range.low, range.last)
                .ok();
            match next {
                Some(next) if getting.sealed => self.take_over(&mut control, getting, &next),
                Some(_) => self.take_back(getting)?,
                // It comes from another.
                None => control.getting = Some(getting),
            }
        }
        Ok(control.map.clone())
    }

    /// Takes note of a map in which others have changed and this endpoint has not.
    ///
    /// # Errors
    /// If it is not newer, or this endpoint has changed in it.
    pub fn note_map(&self, map: &PartitionMap) -> Result<(), HandoverError> {
        self.learn(&mut self.control(), map)
    }
}

impl Control {
    fn giving(&self, id: MoveId) -> Result<&Giving, HandoverError> {
        let giving = self.giving.as_ref().ok_or(HandoverError::Unknown)?;
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
    /// Takes note of a map in which others have changed and this endpoint has not.
    fn learn(&self, control: &mut Control, map: &PartitionMap) -> Result<(), HandoverError> {
        let (here, me) = (&control.map, self.me);
        let newer = map.version() > here.version()
            && map.endpoints() == here.endpoints()
            && map.part_of(me) == here.part_of(me)
            && map.since(me) == here.since(me);
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

    /// What this endpoint has changes.
    fn own(&self, control: &mut Control, map: &PartitionMap) {
        self.set_map(control, map);
        let since = map.since(self.me);
        self.version.word(0).store(since, Ordering::Release);
    }
}
