//! The search for free pages across the groups of a store: which groups and pages an allocator
//! skips, and what it reports if none is left.

use super::{Allocator, Reserved, Then};
use crate::page_store::FixError;
use crate::page_store::store::map::PageState;
use crate::page_store::store::{AllocateError, MapError};
use rackweave_wire::fabric::page::PageId;

/// A group is skipped after this many of its free pages were unavailable.
const FAILURES_MAX: u32 = 256;

/// Maximum number of lost pages that are remembered.
const AVOIDED_MAX: usize = 4096;

/// Status code type "media and data integrity errors" (NVMe Base 2.0, 3.3.3.2.1).
const MEDIA_ERRORS: u16 = 2;

/// The search across groups.
#[derive(Debug)]
pub(super) struct Search {
    pub(super) groups_left: u64,
    faulty: u64,
    first: Option<(PageId, MapError)>,
    failures: u32,
}

impl Allocator {
    /// A free page was unavailable.
    pub(super) fn pass_over(&mut self, mut reserved: Reserved, error: FixError) -> Then {
        match error {
            FixError::Corrupt { .. } | FixError::WrongPage { .. } | FixError::NoSuchPage(_) => {
                reserved.state = PageState::Bad;
            }
            FixError::Storage { status } if status >> 8 & 7 == MEDIA_ERRORS => {
                reserved.state = PageState::Bad;
            }
            FixError::Lost(_)
            | FixError::Storage { .. }
            | FixError::Conflict(_)
            | FixError::NotLogged(_) => {
                if self.avoided.len() >= AVOIDED_MAX {
                    self.avoided.clear();
                }
                self.avoided.insert(reserved.index);
            }
            // The next call takes another one.
            FixError::TimedOut(_) => {
                self.extent.push_back(reserved);
                return Then::End(Err(error.into()));
            }
            _ => {
                self.extent.push_front(reserved);
                return Then::End(Err(error.into()));
            }
        }
        self.note_lost(error);
        self.owe(reserved);
        let search = self.search();
        search.failures += 1;
        if search.failures >= FAILURES_MAX {
            search.failures = 0;
            for reserved in core::mem::take(&mut self.extent) {
                self.owe(reserved);
            }
            self.next_group(Some(MapError::Fix(error)));
        }
        Then::Again
    }

    pub(super) fn next_group(&mut self, fault: Option<MapError>) {
        let map = self.layout.map(self.group);
        if let Some(MapError::Fix(error)) = fault {
            self.note_lost(error);
        }
        let search = self.search();
        search.groups_left = search.groups_left.saturating_sub(1);
        if let Some(fault) = fault {
            search.faulty += 1;
            search.first.get_or_insert((map, fault));
        }
        self.group = (self.group + 1) % self.layout.groups().max(1);
    }

    fn note_lost(&mut self, error: FixError) {
        if let FixError::Lost(page) = error
            && self.lost.len() < AVOIDED_MAX
            && !self.lost.contains(&page)
        {
            self.lost.push(page);
        }
    }

    pub(super) fn search(&mut self) -> &mut Search {
        let groups_left = self.layout.groups();
        self.search.get_or_insert(Search {
            groups_left,
            faulty: 0,
            first: None,
            failures: 0,
        })
    }

    pub(super) fn nothing_left(&self) -> AllocateError {
        let search = self.search.as_ref();
        match search.and_then(|search| Some((search.faulty, search.first?))) {
            Some((faulty, (map, source))) => AllocateError::Maps {
                faulty,
                groups: self.layout.groups(),
                map,
                source,
            },
            None => AllocateError::StoreFull {
                capacity: self.layout.capacity,
            },
        }
    }
}
