//! The source lanes of a node that carry a transfer, in one cell, by *epoch*.
//!
//! A node may reuse a buffer frame only when no transfer reads it any more. It cannot see
//! transfers, so the switch separates those that began before the last change of epoch from those
//! after it: bits 0 to 30 for one parity of epochs, 31 to 61 for the other, bit 63 the current
//! parity. An epoch can end when no transfer of the previous one is left. After two ends, every
//! transfer that had begun before the first is over, as with epochs in memory reclamation.
//!
//! Bit 62 says whether the node's lane for lease words is in use. It reads no buffer frame, and
//! belongs to no epoch.

use super::SOURCES;

const MASK: u64 = (1 << SOURCES) - 1;
const PARITY: u64 = 1 << 63;
const LEASE: u64 = 1 << 62;

const fn half(cell: u64, parity: bool) -> u64 {
    cell >> if parity { SOURCES as u32 } else { 0 } & MASK
}

/// Bytes of the transfers out of a node at a time, unless two pages are more: 23 pages of 64 KiB.
///
/// Three such transfers fill a link of 100 Gbit/s; the rest queues at the port of the node that
/// they go to, where a queue of 1 MiB is assumed. 31 lanes lost so many packets there that a deep
/// queue got 155,000 pages/s of 187,000; 15 never overflow it and get 183,000. But NICs control
/// the rate of each queue pair (DCQCN), and after a congestion 15 slow ones together left the link
/// idle: figure 3 with leases fell by a third. 23 get 169,000, and figure 3 is as with 31.
const BYTES_MAX: u32 = 1472 << 10;

/// How many pages of this many bytes are moved out of a node's memory at a time.
pub const fn transfers_at_a_time(page_size: u32) -> u8 {
    match BYTES_MAX / page_size {
        0 | 1 => 2,
        lanes if lanes < SOURCES as u32 => lanes as u8,
        _ => SOURCES,
    }
}

/// Takes a free lane of the first `lanes` for a transfer and returns its number: the first from
/// lane `turn` modulo `lanes` on. Lanes take turns because NICs control the rate of each queue
/// pair: one that carries every transfer would stay slow after a congestion, and the others unused.
pub(super) fn take(cell: &mut u64, turn: u32, lanes: u8) -> Option<u8> {
    let free = !(half(*cell, false) | half(*cell, true)) & ((1 << lanes) - 1);
    if free == 0 {
        return None;
    }
    let first = turn % u32::from(lanes);
    let later = free >> first << first;
    let bit = if later == 0 { free } else { later }.trailing_zeros() as u8;
    let parity = *cell & PARITY != 0;
    let shift = if parity { SOURCES } else { 0 };
    *cell |= 1 << (bit + shift);
    Some(bit)
}

/// Takes the lane for lease words. Returns false if it is in use.
pub(super) fn take_lease(cell: &mut u64) -> bool {
    let is_free = *cell & LEASE == 0;
    *cell |= LEASE;
    is_free
}

/// Ends the transfer on lane `bit`, which may be [`SOURCES`]: the lane for lease words.
pub(super) fn release(cell: &mut u64, bit: u8) {
    *cell &= match bit {
        SOURCES => !LEASE,
        _ => !(1 << bit | 1 << (bit + SOURCES)),
    };
}

/// Ends the epoch if that is possible.
pub(super) fn end_epoch(cell: &mut u64) -> bool {
    let parity = *cell & PARITY != 0;
    let ends = half(*cell, !parity) == 0;
    if ends {
        *cell ^= PARITY;
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lanes_are_taken_and_no_more() {
        let mut cell = 0;
        for bit in 0..SOURCES {
            assert_eq!(take(&mut cell, 0, SOURCES), Some(bit));
            if bit == 7 {
                assert!(end_epoch(&mut cell));
            }
        }
        assert_eq!(take(&mut cell, 0, SOURCES), None);
        release(&mut cell, 3);
        release(&mut cell, 20);
        assert_eq!(take(&mut cell, 0, SOURCES), Some(3));
        assert_eq!(take(&mut cell, 0, SOURCES), Some(20));
        for bit in 0..SOURCES {
            release(&mut cell, bit);
        }
        assert!(take_lease(&mut cell) && !take_lease(&mut cell));
        assert_eq!(
            take(&mut cell, 0, SOURCES),
            Some(0),
            "the lane for lease words is none of them"
        );
        release(&mut cell, 0);
        release(&mut cell, SOURCES);
        assert_eq!(cell & !PARITY, 0);
    }

    #[test]
    fn lanes_take_turns() {
        let mut cell = 0;
        let mut taken = |turn| take(&mut cell, turn, SOURCES);
        assert_eq!(taken(29), Some(29));
        assert_eq!(taken(u32::from(SOURCES) + 29), Some(30));
        assert_eq!(taken(29), Some(0), "the lanes before are free");
    }

    #[test]
    fn large_pages_have_fewer_lanes() {
        let few =
            [4 << 10, 16 << 10, 32 << 10, 64 << 10, 512 << 10, 1 << 20].map(transfers_at_a_time);
        assert_eq!(few, [31, 31, 31, 23, 2, 2]);
        let mut cell = 0;
        let taken: Vec<_> = (0..4).map(|_| take(&mut cell, 2, 3)).collect();
        assert_eq!(taken, [Some(2), Some(0), Some(1), None]);
        // Smaller pages have others.
        assert_eq!(take(&mut cell, 0, SOURCES), Some(3));
    }

    #[test]
    fn two_ends_of_epochs_outlast_every_transfer_from_before() {
        let mut cell = 0;
        let before = take(&mut cell, 0, SOURCES).unwrap();
        assert!(end_epoch(&mut cell), "nothing was there before");
        let after = take(&mut cell, 0, SOURCES).unwrap();
        assert!(!end_epoch(&mut cell), "one from before is under way");
        release(&mut cell, after);
        assert!(!end_epoch(&mut cell));
        release(&mut cell, before);
        assert!(end_epoch(&mut cell));
        assert!(end_epoch(&mut cell));
    }
}
