//! The content of messages and items: bytes that both ends can compute. `guest/node` has the same.

use std::sync::OnceLock;

/// The period of the table: a prime, so that no two pieces of a message that could be confused look
/// alike. Its bytes are 0xD0 to 0xEF: tshark takes two bytes followed by zeros (as of a short
/// message with pad) for an Ethernet type, and there is none among these.
const PERIOD: usize = 65521;

/// The longest pattern.
pub const LEN_MAX: usize = 1 << 20;

/// The first bytes of an item, also chosen so that tshark finds no Ethernet type.
const ITEM_MAGIC: u32 = 0xd0d0_d0d0;

/// The bytes around a range that is about to be written.
pub const GUARD: u8 = 0xA5;

fn table() -> &'static [u8] {
    static TABLE: OnceLock<Vec<u8>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut state = 1u64;
        let mut next = || {
            state = (state * 1_103_515_245 + 12345) & 0x7fff_ffff;
            0xd0 + (state >> 16 & 0x1f) as u8
        };
        let period: Vec<u8> = (0..PERIOD).map(|_| next()).collect();
        period.repeat(LEN_MAX / PERIOD + 2)
    })
}

/// The `len` bytes that follow from `seed`; at most [`LEN_MAX`].
pub fn pattern(seed: u64, len: usize) -> &'static [u8] {
    let start = (seed % PERIOD as u64 * 40503 % PERIOD as u64) as usize;
    &table()[start..start + len]
}

/// Item number `sequence` of `producer`.
pub fn item(producer: u32, sequence: u64, size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size);
    bytes.extend_from_slice(&ITEM_MAGIC.to_le_bytes());
    bytes.extend_from_slice(&producer.to_le_bytes());
    bytes.extend_from_slice(&sequence.to_le_bytes());
    bytes.extend_from_slice(pattern(u64::from(producer) * 9973 + sequence, size - 16));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_window_of_one_table() {
        // 1103527590 >> 16 is 0x41c6, whose low five bits are 6; and so on.

        assert_eq!(pattern(0, 3), [0xd6, 0xee, 0xd1]);
        assert_eq!(pattern(PERIOD as u64, 100), pattern(0, 100));
        assert_ne!(pattern(1, 100), pattern(2, 100));
        assert_eq!(pattern(65520, LEN_MAX).len(), LEN_MAX);
    }

    #[test]
    fn an_item_says_whose_it_is() {
        let bytes = item(3, 7, 64);
        assert_eq!((bytes.len(), bytes[4], bytes[8]), (64, 3, 7));
        assert_ne!(bytes[16..], item(3, 8, 64)[16..]);
    }
}
