//! The choice of tree nodes that the fat root replaces (fat-btree, section III-B).
//!
//! Taking a tree node replaces its own range by those of its children. The tree node with the
//! greatest weight goes first; since no tree node has more weight than its parent, and each costs
//! the same if all are full, that saves as many steps of walks as the capacity allows. One whose
//! children do not fit any more is left out, and lighter ones with fewer children are still tried,
//! to use the remaining capacity; with tree nodes that are not full the choice is not optimal in
//! general.
//!
//! The start is the roots of the servers' trees and the gaps between them: the children of a
//! super-root that is always taken.

use super::outline::{Forest, Spot};
use super::plan::PlanError;
use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// The fat root's ranges.
pub(super) struct Choice {
    /// Together all keys, ascending.
    pub spots: Vec<Spot>,
    /// Tree nodes whose children did not fit.
    pub left_out: usize,
}

/// A tree node that may be taken; the greatest goes first.
struct Candidate {
    /// Its spot.
    at: usize,
    spot: Spot,
}

impl Candidate {
    /// The order among equal weights: upper levels go first, and then lower keys.
    fn rank(&self) -> (u8, Reverse<u64>) {
        (self.spot.level, Reverse(self.spot.low))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_weight = self.spot.weight.total_cmp(&other.spot.weight);
        by_weight.then_with(|| self.rank().cmp(&other.rank()))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate {}

/// Chooses the contents of the fat root, which has at most `most` ranges.
pub(super) fn choose(forest: &Forest<'_>, most: usize) -> Result<Choice, PlanError> {
    let mut spots = forest.roots()?;
    if spots.len() > most {
        return Err(PlanError::TooFewRanges {
            needs: spots.len(),
            has: most,
        });
    }
    let candidates = spots.iter().enumerate();
    let mut heap: BinaryHeap<_> = candidates
        .map(|(at, &spot)| Candidate { at, spot })
        .collect();
    let mut left_out = 0;
    while let Some(Candidate { at, spot }) = heap.pop() {
        let children = forest.children(&spot);
        let Some((&first, others)) = children.split_first() else {
            continue;
        };
        if spots.len() + others.len() > most {
            left_out += 1;
            continue;
        }
        let behind = (spots.len()..).zip(others);
        let all = [(at, &first)].into_iter().chain(behind);
        heap.extend(all.map(|(at, &spot)| Candidate { at, spot }));
        spots[at] = first;
        spots.extend(others);
    }
    spots.sort_unstable_by_key(|spot| spot.low);
    Ok(Choice { spots, left_out })
}
