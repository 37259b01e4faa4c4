//! Restart of an endpoint while other endpoints were moving keys to it or from it.

use super::{Control, HandoverError};
use crate::index::map::{EndpointId, PartitionMap};
use crate::index::shard::Shard;
use crate::index::shard::ownership::Span;
use std::sync::{Arc, MutexGuard};

impl Shard {
    /// Ends the moves of `dead` at all other endpoints, and makes the map in which `dead` restarts,
    /// with the range that it has then. It must not be started with any other map. A range that
    /// `dead` was taking stays where it is, unless the move was committed. A range that `dead` was
    /// giving belongs to the taker, if all entries have arrived there. A committed move between
    /// other endpoints is completed; one that was not committed is refused later, and both return
    /// to the state before the move.
    ///
    /// `others` are the shards of all endpoints that are up. `known` is the newest map from any
    /// other source, such as the map with which an endpoint that is down has stopped.
    ///
    /// # Errors
    /// If a tree returns an error, or if the shards of a committed move are not all present.
    pub fn begin_anew(
        others: &[Arc<Self>],
        known: &PartitionMap,
        dead: EndpointId,
    ) -> Result<PartitionMap, HandoverError> {
        let mut others: Vec<&Self> = others.iter().map(|shard| &**shard).collect();
        // No other code holds two of these locks; any that does must acquire them in this order.
        others.sort_by_key(|shard| shard.me);
        others.dedup_by_key(|shard| shard.me);
        // All at once: a commit in between would make another map of the same version.
        let mut all: Vec<(&Self, MutexGuard<'_, Control>)> = others
            .into_iter()
            .map(|shard| (shard, shard.control()))
            .collect();
        for (shard, control) in &mut all {
            shard.salvage(control, dead)?;
        }
        let maps = all.iter().map(|(_, control)| &*control.map);
        let newest = maps.chain([known]).max_by_key(|map| map.version());
        let map = newest.unwrap_or(known).clone().with_restart(dead);
        for (shard, control) in &mut all {
            shard.catch_up(control, &map)?;
        }
        Ok(map)
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
