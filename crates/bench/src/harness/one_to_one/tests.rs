//! What Ethernet leaves of a link.

use super::*;

#[test]
fn the_line_rate_is_what_ethernet_leaves() {
    // Per 1024 bytes: 1082 of packet, 8 of preamble, 4 of check sequence, 12 of interpacket
    // gap.
    let expect = 12.5e9 * 1024.0 / 1106.0;
    assert!((line_rate() / expect - 1.0).abs() < 1e-6, "{}", line_rate());
}
