//! Restart of an endpoint while other endpoints were moving keys to it or from it.

use super::{Control, HandoverError};
use crate::index::map::{EndpointId, PartitionMap};
use crate::index::shard::Shard;
use crate::index::shard::ownership::Span;

impl Shard {
    /// The first step of the restart of another endpoint, at all endpoints that are up: ends a move
    /// with `dead`, and commits no move until [`Shard::end_restart`]. A range that `dead` was
    /// taking stays here, unless the move was committed. A range that `dead` was giving belongs to
    /// the taker, if all entries have arrived there. Returns the map as this endpoint knows it.
    ///
    /// The caller takes the newest of these maps and of those known from other sources, such as the
    /// map with which an endpoint that is down has stopped. With that map
    /// ([`PartitionMap::with_restart`]), and no other, it ends the restart at all endpoints and
    /// starts `dead` again. No endpoint commits a move in between, which would make another map of
    /// the same version.
    ///
    /// # Errors
    /// If the tree returns an error.
    pub fn begin_restart(&self, dead: EndpointId) -> Result<PartitionMap, HandoverError> {
        let mut control = self.control();
        self.salvage(&mut control, dead)?;
        control.commits_nothing = true;
        Ok((*control.map).clone())
    }

    /// The second step: stores the map of the restart; `None` if there is no restart after all. A
    /// committed move between other endpoints is completed; one that was not committed is refused
    /// later, and both return to the state before the move.
    ///
    /// # Errors
    /// If the map is not newer, or gives this endpoint keys that it does not have: the shards of a
    /// committed move were not all present.
    pub fn end_restart(&self, map: Option<&PartitionMap>) -> Result<(), HandoverError> {
        let mut control = self.control();
        control.commits_nothing = false;
        map.map_or(Ok(()), |map| self.catch_up(&mut control, map))
    }

    /// Ends a move in which `dead` takes part; `dead` will not return with its entries.
    fn salvage(&self, control: &mut Control, dead: EndpointId) -> Result<(), HandoverError> {
        let giving = control.giving.as_ref();
        if giving.is_some_and(|giving| giving.to == dead) {
            control.giving = None;
            self.ownership.change(self.owned().keys, Span::NONE);
        }
        let Some(getting) = control.getting else {
            return Ok(());
        };
        let range = getting.range;
        let next = control.map.with_move(dead, self.me, range.low, range.last);
        // If this map is impossible, the range comes from another endpoint.
        if let Ok(next) = next {
            if getting.sealed {
                self.take_over(control, getting, &next);
            } else {
                control.getting = None;
                self.take_back(getting)?;
            }
        }
        Ok(())
    }

    /// Stores the newest map. If this endpoint's own keys have changed in it, the range that it is
    /// taking was committed.
    fn catch_up(&self, control: &mut Control, map: &PartitionMap) -> Result<(), HandoverError> {
        match control.getting.filter(|getting| getting.sealed) {
            Some(getting) if self.leads_to(control, getting, map) => {
                self.take_over(control, getting, map);
                Ok(())
            }
            _ => self.learn(control, map),
        }
    }
}
