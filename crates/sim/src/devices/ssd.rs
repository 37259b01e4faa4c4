//! The SSD.

use super::constant::constants;
use super::*;

constants! {
    // ---- SSD: Samsung PM1733 -----------------------------------------------------------------
    group "SSD: Samsung PM1733";

    /// Bytes per second when reading. Source: Samsung PM1733 (U.2), 6400 MB/s.
    #[listed("B/s", Checked, &[Seamless])]
    pub const SSD_READ_BYTES_PER_SECOND: u64 = 6_400_000_000;

    /// Bytes per second when writing. Source: Samsung PM1733, 3800 MB/s.
    #[listed("B/s", Checked, &[Seamless])]
    pub const SSD_WRITE_BYTES_PER_SECOND: u64 = 3_800_000_000;

    /// Reads of 4 KiB per second. Source: Samsung PM1733, 1 450 000.
    #[listed("1/s", Checked, &[Seamless])]
    pub const SSD_READS_PER_SECOND: u64 = 1_450_000;

    /// Writes of 4 KiB per second, sustained. Source: Samsung PM1733, 260 000.
    #[listed("1/s", Checked, &[Seamless])]
    pub const SSD_WRITES_PER_SECOND: u64 = 260_000;

    /// Concurrent accesses in the flash. Source: the two above, by Little's law: reads per second
    /// times 70 us.
    #[listed("", Checked, &[Seamless])]
    pub const SSD_UNITS: usize = 100;

    /// Bytes that one flash unit reads or writes at a time. Assumed: the usual page of 3D flash.
    #[listed("B", Assumed, &[Seamless])]
    pub const SSD_UNIT_BYTES: u32 = 16 * 1024;

    /// Latency of a read in nanoseconds, by rank in ten-thousandths. Source of the median:
    /// seamless, section 1 (70 us). The spread is assumed: 99 % within one and a half, all within
    /// six times the median.
    #[listed("ns", Assumed, &[Seamless])]
    pub const SSD_READ_LATENCY: [(u32, u64); 6] = [
        (0, 55_000),
        (5_000, 70_000),
        (9_000, 82_000),
        (9_900, 105_000),
        (9_990, 180_000),
        (10_000, 420_000),
    ];

    /// Latency of a write, which ends in the drive's protected buffer, in nanoseconds, by rank in
    /// ten-thousandths. Assumed: no source for this drive; the order of magnitude of buffered
    /// writes.
    #[listed("ns", Assumed, &[Seamless])]
    pub const SSD_WRITE_LATENCY: [(u32, u64); 5] = [
        (0, 12_000),
        (5_000, 18_000),
        (9_000, 25_000),
        (9_900, 45_000),
        (10_000, 200_000),
    ];
}
