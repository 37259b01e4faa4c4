//! Numbers as the tables show them.

use super::grouped;

#[test]
fn digits_stand_in_threes() {
    for (value, expect) in [
        ("7", "7"),
        ("4096", "4096"),
        ("25000", "25\u{202f}000"),
        ("100000000000", "100\u{202f}000\u{202f}000\u{202f}000"),
        ("0.6931", "0.6931"),
        ("[32, 1024]", "[32, 1024]"),
    ] {
        assert_eq!(grouped(value), expect);
    }
}
