//! A hash over all deliveries: two runs are the same if their hashes are.

/// A running 64-bit hash. It distinguishes runs; it is no defence against an adversary. Its value
/// depends only on what is added, so it is the same in every build.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceHash(u64);

impl Default for TraceHash {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl TraceHash {
    /// Adds a number.
    #[inline]
    pub fn word(&mut self, word: u64) {
        // Multiplying by an odd constant and folding the upper half down is a bijection, so no
        // single word is ever lost.
        let mixed = (self.0 ^ word).wrapping_mul(0xd6e8_feb8_6659_fd93);
        self.0 = mixed ^ (mixed >> 32);
    }

    /// Adds bytes and their number.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
        self.word(bytes.len() as u64);
    }

    /// The hash of all that was added.
    pub fn value(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(parts: &[&[u8]]) -> u64 {
        let mut hash = TraceHash::default();
        parts.iter().for_each(|part| hash.bytes(part));
        hash.value()
    }

    #[test]
    fn order_length_and_content_all_count() {
        let hashes = [
            hash(&[]),
            hash(&[b""]),
            hash(&[b"\0"]),
            hash(&[b"ab", b"c"]),
            hash(&[b"a", b"bc"]),
            hash(&[b"c", b"ab"]),
            hash(&[b"abc"]),
            hash(&[b"0123456789"]),
            hash(&[b"0123456788"]),
        ];
        for (at, one) in hashes.iter().enumerate() {
            assert!(!hashes[..at].contains(one), "{at}");
        }
    }

    #[test]
    fn the_value_never_changes_between_builds() {
        insta::assert_snapshot!(format!("{:#018x}", hash(&[b"rackweave", b"trace"])));
    }
}
