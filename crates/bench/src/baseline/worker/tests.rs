//! Rates of arrivals in bursts.

use super::*;

#[test]
fn bursts_do_not_tilt_a_rate() {
    // A burst of a hundred arrivals every 1000 ns, of a byte each: 0.1 bytes per ns.
    let ledger = Ledger::new(0, 10_000);
    let mut ledger = ledger.borrow_mut();
    for at in 0..10_000_u64 {
        ledger.add(Instant::from_nanos(at / 100 * 1000), 1);
    }
    let rate = ledger.bytes_per_second();
    assert!((rate / 1e8 - 1.0).abs() < 0.01, "{rate}");
}
