//! Picoseconds, for serialisation times: a byte at 100 Gbit/s takes 80 of them, and a clock of
//! whole nanoseconds would lose bandwidth at every packet.

use rackweave_base::{Duration, Instant};

/// Picoseconds from the start of the run to `instant`.
#[inline]
pub fn since_start(instant: Instant) -> u64 {
    instant.as_nanos().saturating_mul(1000)
}

/// Picoseconds in `duration`.
#[inline]
pub fn of(duration: Duration) -> u64 {
    duration.as_nanos().saturating_mul(1000)
}

/// The first whole nanosecond not before `picos`.
#[inline]
pub fn instant(picos: u64) -> Instant {
    Instant::from_nanos(picos.div_ceil(1000))
}

/// Picoseconds that `bytes` take at a rate.
#[inline]
pub fn transfer(bytes: u64, bits_per_second: u64) -> u64 {
    // `bytes` is at most one packet or flash page, far below the 2.3 MB at which this overflows.
    bytes * 8_000_000_000_000 / bits_per_second
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_at_100_gigabits_takes_80_picoseconds() {
        assert_eq!(transfer(1, 100_000_000_000), 80);
        assert_eq!(transfer(4178, 100_000_000_000), 334_240);
        assert_eq!(instant(334_240), Instant::from_nanos(335));
        assert_eq!(since_start(Instant::from_nanos(3)), 3000);
    }
}
