//! Scans that are divided into ranges, which are read concurrently.
//!
//! The parts are disjoint and complete, and a scan gives no guarantee about keys at different
//! moments. So the concatenated results of the parts are a valid result of the whole scan.

use crate::btree::Direction;
use crate::index::reader::{Found, Query};

/// Number of parts of a query, if `wanted` are requested and at most `room` are possible.
pub(super) fn parts_of(query: Query, wanted: u16, room: usize) -> u16 {
    let Query::Scan { low, last, .. } = query else {
        return 1;
    };
    let keys = u128::from(last - low) + 1;
    let most = keys.min(room as u128).min(u128::from(wanted));
    (most as u16).max(1)
}

/// Part `part` of `parts`, counted in the direction of the scan.
pub(super) fn part_of(query: Query, parts: u16, part: u16) -> Query {
    let Query::Scan {
        low,
        last,
        direction,
        limit,
    } = query
    else {
        return query;
    };
    let place = match direction {
        Direction::Forward => part,
        Direction::Backward => parts - 1 - part,
    };
    let keys = u128::from(last - low) + 1;
    // Below 2^64 in each case: the divisor is greater than the factor.
    let begin = |place: u16| keys * u128::from(place) / u128::from(parts);
    Query::Scan {
        low: low + begin(place) as u64,
        last: low + (begin(place + 1) - 1) as u64,
        direction,
        limit,
    }
}

/// Joins the results of the parts of a scan, in order, with at most `limit` entries; or returns the
/// worst failure among them.
pub(super) fn joined(parts: impl Iterator<Item = Found>, limit: u32) -> Found {
    let mut all = Vec::new();
    let mut beyond = None;
    let mut failed: Option<Found> = None;
    for part in parts {
        match part {
            Found::Entries(entries, next) => {
                let room = limit as usize - all.len();
                all.extend(entries.into_iter().take(room));
                beyond = next;
            }
            other => {
                let worse = failed
                    .as_ref()
                    .is_none_or(|failed| rank(&other) > rank(failed));
                failed = if worse { Some(other) } else { failed };
            }
        }
    }
    failed.unwrap_or(Found::Entries(all, beyond))
}

/// The severity of a failure: an unreachable endpoint is worse than keys that belong elsewhere.
fn rank(found: &Found) -> u8 {
    match found {
        Found::Entries(..) | Found::Value(_) => 0,
        Found::GivenUp => 1,
        Found::Moved => 2,
        Found::Corrupt => 3,
        Found::Gone => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scan(low: u64, last: u64, direction: Direction) -> Query {
        Query::Scan {
            low,
            last,
            direction,
            limit: 7,
        }
    }

    fn bounds(query: Query) -> (u64, u64) {
        match query {
            Query::Scan { low, last, .. } => (low, last),
            Query::Get { key } => (key, key),
        }
    }

    proptest! {
        #[test]
        fn parts_cover_the_range_once_and_in_order(
            a in prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0..20_u64],
            b in prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0..20_u64],
            wanted in 0..40_u16,
            room in 0..40_usize,
            forward in any::<bool>(),
        ) {
            let (low, last) = (a.min(b), a.max(b));
            let direction = if forward { Direction::Forward } else { Direction::Backward };
            let query = scan(low, last, direction);
            let count = parts_of(query, wanted, room);
            prop_assert!(count >= 1 && (count == 1 || count <= wanted));
            let part = |at| bounds(part_of(query, count, at));
            let mut parts: Vec<_> = (0..count).map(part).collect();
            if !forward {
                parts.reverse();
            }
            prop_assert_eq!((parts[0].0, parts[parts.len() - 1].1), (low, last));
            prop_assert!(parts.iter().all(|(low, last)| low <= last));
            prop_assert!(parts.windows(2).all(|two| two[0].1 + 1 == two[1].0));
        }
    }

    #[test]
    fn what_parts_find_is_joined() {
        let entries = |keys: core::ops::Range<u64>, next| {
            let entries = keys.map(|key| (key, (&b"value"[..]).into()));
            Found::Entries(entries.collect(), next)
        };
        let parts = || [entries(0..3, Some(10)), entries(10..14, Some(20))].into_iter();
        let keys = |found: &Found| match found {
            Found::Entries(entries, next) => (
                entries.iter().map(|(key, _)| *key).collect::<Vec<_>>(),
                *next,
            ),
            other => panic!("{other:?}"),
        };
        let (all, few) = (joined(parts(), 100), joined(parts(), 5));
        assert_eq!(keys(&all), (vec![0, 1, 2, 10, 11, 12, 13], Some(20)));
        assert_eq!(keys(&few), (vec![0, 1, 2, 10, 11], Some(20)));
        let moved = parts().chain([Found::GivenUp, Found::Moved, Found::GivenUp]);
        assert_eq!(joined(moved.chain(parts()), 100), Found::Moved);
    }
}
