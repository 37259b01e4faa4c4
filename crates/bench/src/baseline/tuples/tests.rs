//! Tuples with wrong bytes, and the cost of right ones.

use super::*;

#[test]
fn a_wrong_byte_or_place_shows() {
    let mut bytes = [0; 64];
    write(key_of(7), &mut bytes);
    let own = destination(key_of(7), 5);
    let mut tally = Tally::default();
    assert_eq!(tally.add(&bytes, 64, own, 5), 1);
    assert_eq!((tally.wrong, tally.keys), (0, key_of(7)));
    tally.add(&bytes, 64, (own + 1) % 5, 5);
    assert_eq!(tally.wrong, 1, "another destination's tuple");
    for at in 0..64 {
        bytes[at] ^= 1;
        assert_ne!(read(&bytes), Some(key_of(7)), "byte {at}");
        bytes[at] ^= 1;
    }
    assert_ne!(Tally::expected(2).keys, Tally::expected(3).keys);
}

#[test]
fn a_tuple_costs_cycles_and_memory() {
    let cost = TupleCost::new(&CpuModel::default(), 16);
    // 1000 tuples: 14 000 cycles at 2.2 GHz and 32 000 bytes.
    assert_eq!(cost.partition(1000), Duration::from_nanos(6364 + 2813));
    assert!(cost.consume(1000) < cost.partition(1000));
}
