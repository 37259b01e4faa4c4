//! Keys and turns of few records.

use super::*;

#[test]
fn a_key_tells_its_record() {
    for records in [1, 2, 1000, (1 << 40) + 1] {
        let keys = Keys::new(records);
        for record in [0, 1, records / 2, records - 1] {
            let key = keys.key(record);
            assert_eq!(keys.record(key), Some(record), "{record} of {records}");
            if key > 0 && keys.step > 1 {
                assert_eq!(keys.record(key - 1), None);
            }
        }
        assert!(keys.key(records) > u64::MAX - records);
    }
}

#[test]
fn one_has_the_turn_at_a_time() {
    let turns = Turns::new(2);
    assert_eq!(turns.take(1), Some(0));
    assert_eq!((turns.take(1), turns.version(1)), (None, Some((0, false))));
    assert_eq!(turns.take(0), Some(0));
    turns.give_back(1, 1);
    assert_eq!(
        (turns.version(1), turns.take(1)),
        (Some((1, true)), Some(1))
    );
    assert_eq!((turns.take(2), turns.version(2)), (None, None));
}
