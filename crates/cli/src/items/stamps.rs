//! The contents of items, and a consumer's record of them. An item begins with its stamp, followed
//! by its destination; every other byte of a checked item is derived from both.

use rackweave_endpoint::flow::hash_key;

/// Minimum bytes of a checked item: stamp and destination are a word each.
pub const ITEM_MIN: u32 = 16;

/// XORed into the first word, so that an item never looks like an encapsulated packet: Wireshark
/// assumes one if the third and fourth byte of a payload are zero.
const MARK: u64 = 0xa5c3 << 16;

/// A stamp has the producer in the upper bits, the item's number in the lower bits.
pub const NUMBER_BITS: u32 = 40;

pub fn stamp(producer: u32, number: u64) -> u64 {
    u64::from(producer) << NUMBER_BITS | number
}

/// Converts between a stamp and its form in an item.
pub fn marked(stamp: u64) -> u64 {
    stamp ^ MARK
}

pub fn producer_of(stamp: u64) -> u32 {
    (stamp >> NUMBER_BITS) as u32
}

/// The number of an item among its producer's items.
pub fn number_of(stamp: u64) -> u64 {
    stamp & ((1 << NUMBER_BITS) - 1)
}

/// Consecutive items of one producer, as a consumer saw them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The producer's number in the flow.
    pub producer: u32,
    /// The first item's number.
    pub first: u64,
    /// The last item's number plus one.
    pub end: u64,
}

/// Adds an item to the record.
pub fn note(runs: &mut Vec<Run>, producer: u32, number: u64) {
    match runs.last_mut() {
        Some(run) if run.producer == producer && run.end == number => run.end += 1,
        _ => runs.push(Run {
            producer,
            first: number,
            end: number + 1,
        }),
    }
}

/// The seed of the bytes after the stamp of a checked item.
fn seed_of(stamp: u64, destination: u64) -> u64 {
    hash_key(stamp ^ hash_key(destination))
}

/// Fills a checked item.
pub fn fill(item: &mut [u8], producer: u32, destination: u32, number: u64) {
    let (stamp, destination) = (stamp(producer, number), u64::from(destination));
    let seed = seed_of(stamp, destination);
    let (head, rest) = item.split_at_mut(ITEM_MIN as usize);
    head[..8].copy_from_slice(&marked(stamp).to_le_bytes());
    head[8..].copy_from_slice(&destination.to_le_bytes());
    for (at, word) in (0u64..).zip(rest.chunks_exact_mut(8)) {
        word.copy_from_slice(&seed.wrapping_add(at).to_le_bytes());
    }
}

/// Producer, destination and number of an item; none if any byte is wrong.
pub fn read(item: &[u8]) -> Option<(u32, u32, u64)> {
    let (head, rest) = item.split_first_chunk::<{ ITEM_MIN as usize }>()?;
    let word = |at: usize| Some(u64::from_le_bytes(*head[at..].first_chunk()?));
    let (stamp, destination) = (marked(word(0)?), word(8)?);
    let seed = seed_of(stamp, destination);
    let wrong = (0u64..)
        .zip(rest.chunks_exact(8))
        .fold(0, |wrong, (at, word)| {
            let word = u64::from_le_bytes(*word.first_chunk().expect("a word has eight bytes"));
            wrong | (word ^ seed.wrapping_add(at))
        });
    let destination = u32::try_from(destination).ok()?;
    (wrong == 0).then_some((producer_of(stamp), destination, number_of(stamp)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_that_is_wrong_is_noticed() {
        let mut item = [0; 64];
        fill(&mut item, 3, 1, 77);
        assert_eq!(read(&item), Some((3, 1, 77)));
        for at in 0..64 {
            let mut damaged = item;
            damaged[at] ^= 0x10;
            assert_ne!(read(&damaged), Some((3, 1, 77)), "byte {at}");
            assert!(at < 16 || read(&damaged).is_none(), "byte {at}");
        }
    }

    #[test]
    fn runs_are_cut_where_items_do_not_follow_each_other() {
        let mut runs = Vec::new();
        for (producer, number) in [(0, 0), (0, 1), (1, 0), (0, 2), (0, 4), (0, 4)] {
            note(&mut runs, producer, number);
        }
        let ends: Vec<_> = runs
            .iter()
            .map(|run| (run.producer, run.first, run.end))
            .collect();
        assert_eq!(
            ends,
            [(0, 0, 2), (1, 0, 1), (0, 2, 3), (0, 4, 5), (0, 4, 5)]
        );
    }
}
