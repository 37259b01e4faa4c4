//! The 64-bit comparison of a pipeline that computes with 32 bits (fat-btree, section 4.2, figure
//! 3).
//!
//! In a first stage both halves of pivot and key are subtracted and combined by exclusive or. In
//! the next one, a small table matches whether the upper halves are equal and whether the halves
//! differ in their top bits, and selects which of four bits is the answer: where two halves differ
//! in the top bit, the key's top bit; otherwise the sign of the difference.

/// Entries of the table that selects the answer: the lower halves matter only where the upper ones
/// are equal.
pub(super) const SELECTIONS: usize = 4;

/// Key bits of that table: the difference of the upper halves, and two bits.
pub(super) const SELECTION_BITS: u8 = 34;

/// Whether `key > pivot`.
#[inline]
pub(super) fn is_greater(key: u64, pivot: u64) -> bool {
    let halves = |number: u64| ((number >> 32) as u32, number as u32);
    let ((key_high, key_low), (pivot_high, pivot_low)) = (halves(key), halves(pivot));
    let sub_high = pivot_high.wrapping_sub(key_high);
    let sub_low = pivot_low.wrapping_sub(key_low);
    let xor_high = pivot_high ^ key_high;
    let xor_low = pivot_low ^ key_low;
    let answer = match (sub_high == 0, top(xor_high), top(xor_low)) {
        (false, true, _) => key_high,
        (false, false, _) => sub_high,
        (true, _, true) => key_low,
        (true, _, false) => sub_low,
    };
    top(answer)
}

const fn top(half: u32) -> bool {
    half >> 31 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::Rng;

    fn check(key: u64, pivot: u64) {
        assert_eq!(is_greater(key, pivot), key > pivot, "{key:#x} > {pivot:#x}");
    }

    #[test]
    fn the_paper_s_example() {
        assert!(!is_greater(0x59A4_7375_82A7_75AB, 0xDDAE_E776_4589_DB15));
    }

    #[test]
    fn every_pair_around_the_boundaries_is_compared_rightly() {
        let mut numbers = vec![];
        for bit in 0..64 {
            for near in 0..5_u64 {
                numbers.push((1_u64 << bit).wrapping_add(near).wrapping_sub(2));
                // The same halves in another order.
                numbers.push((1_u64 << bit).wrapping_add(near << 32).wrapping_sub(2));
            }
        }
        numbers.extend([0x7fff_ffff_8000_0000, 0x8000_0000_7fff_ffff, u64::MAX]);
        for &key in &numbers {
            for &pivot in &numbers {
                check(key, pivot);
            }
        }
    }

    #[test]
    fn random_numbers_and_their_neighbours_are_compared_rightly() {
        let mut rng = Rng::new(7);
        for _ in 0..20_000 {
            let (key, other) = (rng.next_u64(), rng.next_u64() >> rng.below(64));
            check(key, other);
            check(other, key);
            for near in [other.wrapping_sub(1), other, other.wrapping_add(1)] {
                check(other, near);
                check(near, other);
            }
            // Equal upper halves.
            check(key, key & !0xffff_ffff | other & 0xffff_ffff);
        }
    }
}
