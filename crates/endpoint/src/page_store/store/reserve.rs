//! Reserving and returning pages of a group: the operations of [`super::allocate`] on a map.

use super::layout::StoreLayout;
use super::map::{Map, MapMut, PageState};
use super::persist::Change;
use crate::page_store::PageGuard;
use std::collections::BTreeSet;

/// A worker reserves at most this fraction (one in `SHARE`) of the available pages of a group, so
/// that other workers find some too.
const SHARE: u64 = 8;
/// But at least this many, if available.
const EXTENT_MIN: u64 = 8;
/// Maximum number of pending returns; further ones are forgotten, which leaks their pages.
const DEBTS_MAX: usize = 64;

/// Pages of a group that are being reserved.
#[derive(Debug)]
pub(super) struct Reservation {
    pub group: u64,
    /// The stamp left in the map, if the pages have been marked.
    stamp: Option<u64>,
    pub pages: Vec<(u64, PageState)>,
    /// The page that should be the map is not one.
    pub is_damaged: bool,
}

/// Pages that are marked as in use and must be returned.
#[derive(Debug, Default)]
pub(super) struct Owed(Vec<Debt>);

#[derive(Debug)]
struct Debt {
    group: u64,
    /// They belong to this worker only if the map has this stamp.
    stamp: Option<u64>,
    pages: Vec<(u64, PageState)>,
}

impl Reservation {
    pub fn new(group: u64) -> Self {
        Self {
            group,
            stamp: None,
            pages: Vec::new(),
            is_damaged: false,
        }
    }
}

/// A reservation, with the state it needs of its allocator.
pub(super) struct Reserving<'a> {
    pub layout: StoreLayout,
    /// A number that is unique among allocators.
    pub who: u64,
    /// Pages wanted.
    pub size: u64,
    pub reservation: &'a mut Reservation,
    pub owed: &'a mut Owed,
    /// Pages that must not be chosen, by index.
    pub avoided: &'a BTreeSet<u64>,
}

impl Change for Reserving<'_> {
    fn make(&mut self, guard: &mut PageGuard) -> bool {
        let (layout, reservation) = (&self.layout, &mut *self.reservation);
        let group = reservation.group;
        let bytes = guard.data().to_vec();
        let Ok(map) = Map::parse(&bytes, layout, group) else {
            reservation.is_damaged = true;
            return false;
        };
        if let Some(stamp) = reservation.stamp {
            if map.has(stamp) {
                // All that is needed is a new version.
                guard.data_mut();
                return true;
            }
            reservation.stamp = None;
            reservation.pages.clear();
        }
        self.owed.repay(layout, group, guard);
        let bytes = guard.data().to_vec();
        let Ok(map) = Map::parse(&bytes, layout, group) else {
            return false;
        };
        let share = map.available(self.size * SHARE) / SHARE;
        let count = self.size.min(share.max(EXTENT_MIN));
        let avoid = |at| self.avoided.contains(&layout.index(group, at));
        reservation.pages = map.choose(count, avoid);
        if reservation.pages.is_empty() {
            return false;
        }
        reservation.stamp = Some(guard.update(0..guard.data().len(), |bytes| {
            let mut map = MapMut::new(bytes, layout, group);
            for (at, _) in &reservation.pages {
                map.set(*at, PageState::InUse);
            }
            map.stamp(self.who)
        }));
        true
    }

    fn is_in(&self, bytes: &[u8]) -> bool {
        let map = Map::parse(bytes, &self.layout, self.reservation.group);
        map.is_ok_and(|map| self.reservation.stamp.is_some_and(|stamp| map.has(stamp)))
    }
}

impl Owed {
    /// Adds a page that is known to belong to this worker.
    pub fn add(&mut self, group: u64, at: u64, state: PageState) {
        let known = self
            .0
            .iter_mut()
            .find(|debt| debt.group == group && debt.stamp.is_none());
        match known {
            Some(debt) => debt.pages.push((at, state)),
            None => self.push(Debt {
                group,
                stamp: None,
                pages: vec![(at, state)],
            }),
        }
    }

    /// Adds pages that belong to this worker if the map has their stamp.
    pub fn add_reservation(&mut self, reservation: Reservation) {
        if reservation.stamp.is_some() {
            self.push(Debt {
                group: reservation.group,
                stamp: reservation.stamp,
                pages: reservation.pages,
            });
        }
    }

    /// A group to which pages are owed.
    pub fn first_group(&self) -> Option<u64> {
        self.0.first().map(|debt| debt.group)
    }

    /// Leaks the pages owed to a group.
    pub fn forget(&mut self, group: u64) {
        self.0.retain(|debt| debt.group != group);
    }

    fn push(&mut self, debt: Debt) {
        if self.0.len() >= DEBTS_MAX {
            self.0.remove(0);
        }
        self.0.push(debt);
    }

    /// Returns the pages owed to a group.
    pub fn repay(&mut self, layout: &StoreLayout, group: u64, guard: &mut PageGuard) {
        let mut back = Vec::new();
        if let Ok(map) = Map::parse(&guard.data().to_vec(), layout, group) {
            for debt in self.0.iter().filter(|debt| debt.group == group) {
                if debt.stamp.is_none_or(|stamp| map.has(stamp)) {
                    back.extend_from_slice(&debt.pages);
                }
            }
            back.retain(|(at, _)| map.state(*at) == PageState::InUse);
        }
        self.forget(group);
        if back.is_empty() {
            return;
        }
        guard.update(0..guard.data().len(), |bytes| {
            let mut map = MapMut::new(bytes, layout, group);
            for (at, state) in back {
                map.set(at, state);
            }
        });
    }
}
