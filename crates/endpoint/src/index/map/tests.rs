//! Maps: errors, moves, and encoding.

use super::*;
use proptest::prelude::*;

fn part(low: u64, last: u64, endpoint: u16) -> Part {
    Part {
        low,
        last,
        endpoint: EndpointId(endpoint),
    }
}

#[track_caller]
fn check_refused(parts: &[Part], expect: &str) {
    let error = PartitionMap::new(1, 2, parts.to_vec()).unwrap_err();
    assert_eq!(error.to_string(), expect);
}

#[test]
fn what_is_no_partition_is_named() {
    const MAX: u64 = u64::MAX;
    check_refused(&[], "nobody has the keys 0 to 18446744073709551615");
    check_refused(&[part(5, MAX, 0)], "nobody has the keys 0 to 4");
    check_refused(
        &[part(0, 5, 0)],
        "nobody has the keys 6 to 18446744073709551615",
    );
    check_refused(
        &[part(0, 5, 0), part(7, MAX, 1)],
        "nobody has the keys 6 to 6",
    );
    check_refused(
        &[part(0, 5, 0), part(4, MAX, 1)],
        "endpoint 0 and endpoint 1 both have the keys 4 to 5",
    );
    check_refused(
        &[part(6, MAX, 0), part(0, 5, 1)],
        "part 1 begins at key 0, before the part in front of it; sort the parts",
    );
    check_refused(
        &[part(9, 5, 0)],
        "part 0 goes from key 9 to key 5, which is before it",
    );
    check_refused(
        &[part(0, MAX, 2)],
        "part 0 belongs to endpoint 2, but the index has 2 endpoints",
    );
    check_refused(
        &[part(0, 5, 0), part(6, 8, 1), part(9, MAX, 0)],
        "endpoint 0 has more than one range; give it one contiguous range",
    );
    assert_eq!(
        PartitionMap::new(1, 0, Vec::new()),
        Err(MapError::Endpoints(0))
    );
}

#[test]
fn boundaries_make_parts() {
    let parts = |boundaries: &[u64]| PartitionMap::split(boundaries).unwrap().parts().to_vec();
    assert_eq!(parts(&[]), [part(0, u64::MAX, 0)]);
    assert_eq!(parts(&[0]), [part(0, u64::MAX, 1)]);
    assert_eq!(parts(&[10]), [part(0, 9, 0), part(10, u64::MAX, 1)]);
    assert_eq!(parts(&[10, 10]), [part(0, 9, 0), part(10, u64::MAX, 2)]);
    assert!(PartitionMap::split(&[10, 9]).is_err());
}

#[test]
fn ranges_change_hands_at_ends_only() {
    let map = PartitionMap::split(&[100]).unwrap();
    let (host, dpu) = (EndpointId(0), EndpointId(1));
    let moved = map.with_move(host, dpu, 80, 99).unwrap();
    assert_eq!(moved.parts(), [part(0, 79, 0), part(80, u64::MAX, 1)]);
    assert_eq!(moved.version(), map.version() + 1);
    let back = moved.with_move(dpu, host, 80, u64::MAX).unwrap();
    assert_eq!(back.parts(), [part(0, u64::MAX, 0)]);
    assert_eq!(
        back.with_move(host, dpu, 0, 9).unwrap().parts(),
        [part(0, 9, 1), part(10, u64::MAX, 0)]
    );
    for (from, to, low, last) in [
        (host, dpu, 80, 98),
        (host, dpu, 0, 9),
        (dpu, host, 90, 120),
        (host, host, 0, 99),
        (host, EndpointId(2), 0, 99),
        (host, dpu, 99, 80),
    ] {
        assert!(
            map.with_move(from, to, low, last).is_err(),
            "{low}..={last}"
        );
    }
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(map) = PartitionMap::decode(&bytes) {
            prop_assert_eq!(map.encode(), bytes);
        }
    }

    #[test]
    fn a_damaged_map_is_refused_or_still_a_partition(
        boundaries in proptest::collection::btree_set(1u64.., 0..6),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let boundaries: Vec<u64> = boundaries.into_iter().collect();
        let map = PartitionMap::split(&boundaries).unwrap();
        let mut bytes = map.encode();
        prop_assert_eq!(PartitionMap::decode(&bytes), Ok(map));
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if let Ok(map) = PartitionMap::decode(&bytes) {
            prop_assert!(check(map.endpoints(), &map.parts).is_ok());
        }
    }

    #[test]
    fn moves_change_the_owner_of_what_moves_and_of_nothing_else(
        boundaries in proptest::collection::btree_set(1u64..1000, 3),
        keys in (0u64..1100, 0u64..1100),
        ends in (0u16..4, 0u16..4),
        probe in 0u64..1100,
    ) {
        let boundaries: Vec<u64> = boundaries.into_iter().collect();
        let map = PartitionMap::split(&boundaries).unwrap();
        let (from, to) = (EndpointId(ends.0), EndpointId(ends.1));
        if let Ok(next) = map.with_move(from, to, keys.0, keys.1) {
            let moves = (keys.0..=keys.1).contains(&probe);
            prop_assert_eq!(map.owner(keys.0), from);
            prop_assert_eq!(next.owner(probe), if moves { to } else { map.owner(probe) });
            for endpoint in (0..4).map(EndpointId) {
                let same = map.part_of(endpoint) == next.part_of(endpoint);
                prop_assert_eq!(same, map.since(endpoint) == next.since(endpoint));
            }
            prop_assert_eq!(PartitionMap::decode(&next.encode()), Ok(next));
        }
    }
}
