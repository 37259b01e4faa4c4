//! Hash tables, and results of small joins.

use super::*;

#[test]
fn a_hash_table_finds_what_was_put_in_and_nothing_else() {
    let mut table = HashTable::default();
    for number in 0..1000 {
        table.insert(tuples::key_of(number), number);
    }
    for number in 0..1000 {
        assert_eq!(table.get(&tuples::key_of(number)), Some(&number));
    }
    assert_eq!(table.get(&tuples::key_of(1000)), None);
}

#[test]
fn the_expected_result_depends_on_every_pair() {
    let tables = Tables {
        build: 10,
        probe: 1000,
    };
    let expected = tables.expected();
    assert_eq!(expected.matches, 1000);
    let mut swapped = Joined::default();
    for number in 0..1000 {
        swapped.add((tables.partner(number) + 1) % 10, number);
    }
    assert_ne!(swapped.sum, expected.sum);
}
