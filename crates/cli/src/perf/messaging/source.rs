//! The data to send: random bytes, in plain memory and in a registered region, and their sums.

use rackweave_base::Rng;
use rackweave_verbs::Region;

/// Bytes that messages are taken from, consecutively and repeatedly: far more than the caches hold.
pub const SOURCE_BYTES: usize = 64 << 20;

/// Granularity of the sums: sizes of the sweep are multiples of it.
const GRANULE: usize = 64 << 10;

/// Maximum number of places that messages are taken from.
const PLACES_MAX: usize = 4096;

/// The bytes that messages are taken from, with their sums.
pub struct MessageBytes {
    pub bytes: Vec<u8>,
    /// The same bytes at the node that sends them.
    pub region: Region,
    /// The sum of each granule.
    granules: Vec<u64>,
}

/// Messages of one size, taken from these bytes.
pub struct Messages<'a> {
    pub source: &'a MessageBytes,
    /// Bytes of a message.
    pub size: usize,
    /// The sum of each place that messages are taken from.
    sums: Vec<u64>,
}

/// Random bytes, in the form in which a region holds them.
pub fn random(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed).fork("messages");
    let mut bytes = vec![0; SOURCE_BYTES];
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&rng.next_u64().to_le_bytes());
    }
    bytes
}

impl MessageBytes {
    /// These bytes, which the region also holds.
    pub fn new(bytes: Vec<u8>, region: Region) -> Self {
        let granules = bytes.chunks(GRANULE).map(|granule| sum(granule, 0));
        Self {
            granules: granules.collect(),
            bytes,
            region,
        }
    }
}

impl<'a> Messages<'a> {
    /// Messages of `size` bytes.
    pub fn new(source: &'a MessageBytes, size: usize) -> Self {
        let count = (source.bytes.len() / size).clamp(1, PLACES_MAX);
        let sum_of = |place: usize| match size.is_multiple_of(GRANULE) {
            true => {
                let per = size / GRANULE;
                let granules = source.granules[place * per..(place + 1) * per].iter();
                granules.copied().fold(0, u64::wrapping_add)
            }
            false => sum(&source.bytes[place * size..(place + 1) * size], 0),
        };
        Self {
            source,
            size,
            sums: (0..count).map(sum_of).collect(),
        }
    }

    /// Offset of message `number`.
    pub fn at(&self, number: u64) -> usize {
        (number % self.sums.len() as u64) as usize * self.size
    }

    /// Message `number`.
    pub fn get(&self, number: u64) -> &'a [u8] {
        let at = self.at(number);
        &self.source.bytes[at..at + self.size]
    }

    /// The sum of the words of message `number`.
    pub fn sum_of(&self, number: u64) -> u64 {
        self.sums[(number % self.sums.len() as u64) as usize]
    }
}

/// The contribution of these bytes, at `offset` of a message, to the sum of its words; parts of a
/// word count at their position in it. Reads every byte.
pub fn sum(bytes: &[u8], offset: u64) -> u64 {
    let part = |bytes: &[u8], from: usize| {
        let bytes = bytes.iter().zip(from..);
        bytes.fold(0, |sum: u64, (&byte, at)| {
            sum.wrapping_add(u64::from(byte) << (8 * (at % 8)))
        })
    };
    let within = (offset % 8) as usize;
    let (head, bytes) = bytes.split_at(bytes.len().min((8 - within) % 8));
    let (lines, rest) = bytes.as_chunks::<64>();
    let mut sums = [0u64; 8];
    for line in lines {
        for (sum, word) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    let (words, tail) = rest.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let all = sums.into_iter().chain(words);
    let ends = part(head, within).wrapping_add(part(tail, 0));
    all.fold(ends, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length_add_up_to_the_whole() {
        let mut rng = Rng::new(7);
        let bytes: Vec<u8> = (0..1000).map(|_| rng.next_u64() as u8).collect();
        for len in [0, 1, 7, 8, 9, 63, 64, 65, 1000] {
            let words = bytes[..len].chunks(8).map(|chunk| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                u64::from_le_bytes(word)
            });
            let plain = words.fold(0, u64::wrapping_add);
            assert_eq!(sum(&bytes[..len], 0), plain, "{len} bytes");
            for _ in 0..50 {
                let (mut at, mut parts) = (0, 0u64);
                while at < len {
                    let piece = 1 + rng.below((len - at) as u64) as usize;
                    parts = parts.wrapping_add(sum(&bytes[at..at + piece], at as u64));
                    at += piece;
                }
                assert_eq!(parts, plain, "{len} bytes in pieces");
            }
        }
    }
}
