//! Parts of data, with and without a wrong byte.

use super::*;

#[test]
fn a_part_is_what_it_is_and_nothing_else() {
    let none = Data::none(1);
    let (first, second) = (none.series(0, 5 << 20), none.series(1, 5 << 20));
    for (offset, len) in [(0, 8), (ROW as u64 - 3, 11), (17, 3 * ROW), (5 << 20, 0)] {
        let pieces = first.pieces(offset, len);
        let mut bytes: Vec<u8> = pieces.flatten().copied().collect();
        assert!(first.is(offset, &bytes), "{len} bytes at {offset}");
        if len > 0 {
            assert!(!second.is(offset, &bytes) && !first.is(offset + 1, &bytes));
            bytes[len - 1] ^= 1;
            assert!(!first.is(offset, &bytes));
        }
    }
    assert!(!none.is(0, b"x"), "there is none");
    let whole = Data::whole(b"abc");
    assert!(whole.is(1, b"bc") && !whole.is(0, b"bc") && !whole.is(2, b"ca"));
}
