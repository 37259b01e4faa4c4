//! An endpoint that begins anew, among others that were moving keys to it or from it.

use super::{Control, HandoverError};
use crate::index::map::{EndpointId, PartitionMap};
use crate::index::shard::Shard;
use crate::index::shard::ownership::Span;
use std::sync::{Arc, MutexGuard};

impl Shard {
    /// Ends at all others what `dead` took part in, and makes the map in which it begins anew, with
    /// what it has then: nobody shall start it with another one. What it was to get stays where it
    /// is, unless that was decided. What it was giving is with the taker, if all has come there.
    /// A move among others that was decided comes to its end; one that was not is refused later,
    /// and both stay as they were.
    ///
    /// `others` are the shards of all endpoints that are up. `known` is the newest map that is
    /// known of otherwise: that with which an endpoint that is down has stopped.
    ///
    /// # Errors
    /// If a tree refuses, or if others are missing of a move that was decided.
    pub fn begin_anew(
        others: &[Arc<Self>],
        known: &PartitionMap,
        dead: EndpointId,
    ) -> Result<PartitionMap, HandoverError> {
        let mut others: Vec<&Self> = others.iter().map(|shard| &**shard).collect();
        // Nobody else holds two of these locks; whoever does takes them in this order.
        others.sort_by_key(|shard| shard.me);
        others.dedup_by_key(|shard| shard.me);
        // All at a time: a commit in between would make another map of the same version.
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

    /// Ends a move in which `dead` takes part, which will not come back with what it had.
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
        // If that cannot be it comes from another.
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

    /// Takes note of the newest map. If its own keys have changed in it, that is because what is
    /// coming here was committed.
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
