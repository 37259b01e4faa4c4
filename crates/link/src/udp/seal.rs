//! Authenticated datagrams: after its packet, each has a counter and a code over the packet, under
//! a key that only its sender and its receiver know.
//!
//! The code is GMAC (NIST SP 800-38D), which is AES-128-GCM with an empty plaintext and the packet
//! as additional data, as in RFC 4543 for IPsec: processors have instructions for both of its
//! parts. The counter is the nonce, so each direction has its own key, and a key is used for one
//! link only. The receiver accepts every counter once: it remembers which of the last thousand have
//! arrived (RFC 4303, section 3.4.3), because datagrams may be reordered.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// Bytes of a counter.
const COUNTER_LEN: usize = 8;

/// Bytes after a packet.
pub const SEAL_LEN: usize = COUNTER_LEN + 16;

/// The keys of one end of a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SealKeys {
    /// The key for packets that this end sends.
    pub sending: [u8; 16],
    /// The key for packets that this end receives.
    pub receiving: [u8; 16],
}

impl SealKeys {
    /// The keys of the other end.
    pub fn of_peer(self) -> Self {
        Self {
            sending: self.receiving,
            receiving: self.sending,
        }
    }
}

impl std::fmt::Debug for SealKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealKeys(..)")
    }
}

fn key(bytes: &[u8; 16]) -> LessSafeKey {
    let key = UnboundKey::new(&AES_128_GCM, bytes).expect("a key of AES-128 has 16 bytes");
    LessSafeKey::new(key)
}

fn nonce(counter: [u8; COUNTER_LEN]) -> Nonce {
    let mut nonce = [0; 12];
    nonce[4..].copy_from_slice(&counter);
    Nonce::assume_unique_for_key(nonce)
}

/// Seals the packets that an end sends.
#[derive(Debug)]
pub(super) struct Sealer {
    key: LessSafeKey,
    next: u64,
}

impl Sealer {
    pub fn new(keys: &SealKeys) -> Self {
        Self {
            key: key(&keys.sending),
            next: 0,
        }
    }

    /// The seal to append to a packet.
    pub fn seal(&mut self, packet: &[u8]) -> [u8; SEAL_LEN] {
        let counter = self.next.to_be_bytes();
        self.next += 1;
        let tag = self
            .key
            .seal_in_place_separate_tag(nonce(counter), Aad::from(packet), &mut [])
            .expect("a packet is shorter than what a tag is for");
        let mut seal = [0; SEAL_LEN];
        seal[..COUNTER_LEN].copy_from_slice(&counter);
        seal[COUNTER_LEN..].copy_from_slice(tag.as_ref());
        seal
    }
}

/// Why a datagram is rejected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unsealed {
    /// The sender does not have the key, or the datagram was altered.
    Forged,
    /// The datagram arrived before, or too late.
    Replayed,
}

/// Checks the packets that an end receives.
#[derive(Debug)]
pub(super) struct Opener {
    key: LessSafeKey,
    window: Window,
}

impl Opener {
    pub fn new(keys: &SealKeys) -> Self {
        Self {
            key: key(&keys.receiving),
            window: Window::default(),
        }
    }

    /// The packet in a received datagram, after checking its seal.
    pub fn open<'a>(&mut self, came: &'a [u8]) -> Result<&'a [u8], Unsealed> {
        let at = came.len().checked_sub(SEAL_LEN).ok_or(Unsealed::Forged)?;
        let (packet, seal) = came.split_at(at);
        let (counter, tag) = seal.split_at(COUNTER_LEN);
        let counter: [u8; COUNTER_LEN] = counter.try_into().expect("split there");
        let mut tag: [u8; SEAL_LEN - COUNTER_LEN] = tag.try_into().expect("the rest");
        self.key
            .open_in_place(nonce(counter), Aad::from(packet), &mut tag)
            .map_err(|_| Unsealed::Forged)?;
        match self.window.take(u64::from_be_bytes(counter)) {
            true => Ok(packet),
            false => Err(Unsealed::Replayed),
        }
    }
}

/// Words of a window.
const WORDS: u64 = 17;

/// Which of the newest counters have arrived: a bit for each, in a ring of words (RFC 6479).
#[derive(Debug, Default)]
struct Window {
    /// One above the highest counter that has arrived.
    end: u64,
    seen: [u64; WORDS as usize],
}

impl Window {
    /// Number of counters below the newest that are remembered; one word is being filled.
    const LEN: u64 = (WORDS - 1) * 64;

    /// Records a counter and returns whether it was new.
    fn take(&mut self, counter: u64) -> bool {
        let Some(after) = counter.checked_add(1) else {
            return false;
        };
        if after + Self::LEN <= self.end {
            return false;
        }
        let word = counter / 64;
        if after > self.end {
            // Words that are entered now still have bits from the previous round.
            let begun = self.end.div_ceil(64).max((word + 1).saturating_sub(WORDS));
            for word in begun..=word {
                self.seen[(word % WORDS) as usize] = 0;
            }
            self.end = after;
        }
        let (seen, bit) = (&mut self.seen[(word % WORDS) as usize], 1 << (counter % 64));
        let is_new = *seen & bit == 0;
        *seen |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const KEYS: SealKeys = SealKeys {
        sending: [1; 16],
        receiving: [2; 16],
    };

    #[test]
    fn the_code_is_gmac() {
        // AES-128-GCM of nothing under a zero key and nonce: NIST's GCM test case 1.
        let zero = SealKeys {
            sending: [0; 16],
            receiving: [0; 16],
        };
        let seal = Sealer::new(&zero).seal(&[]);
        let tag = [
            0x58, 0xe2, 0xfc, 0xce, 0xfa, 0x7e, 0x30, 0x61, 0x36, 0x7f, 0x1d, 0x57, 0xa4, 0xe7,
            0x45, 0x5a,
        ];
        assert_eq!((&seal[..8], &seal[8..]), (&[0; 8][..], &tag[..]));
    }

    #[test]
    fn only_the_other_end_opens_what_was_sealed_and_only_once() {
        let (mut sealer, mut opener) = (Sealer::new(&KEYS), Opener::new(&KEYS.of_peer()));
        let sealed = [&b"packet"[..], &sealer.seal(b"packet")].concat();
        for at in 0..sealed.len() {
            let mut forged = sealed.clone();
            forged[at] ^= 1;
            assert_eq!(opener.open(&forged), Err(Unsealed::Forged), "byte {at}");
            assert_eq!(opener.open(&sealed[..at]), Err(Unsealed::Forged));
        }
        assert_eq!(Opener::new(&KEYS).open(&sealed), Err(Unsealed::Forged));
        assert_eq!(opener.open(&sealed), Ok(&b"packet"[..]));
        assert_eq!(opener.open(&sealed), Err(Unsealed::Replayed));
    }

    proptest! {
        /// Compared with a set of all counters that arrived.
        #[test]
        fn every_counter_is_taken_once(steps in prop::collection::vec(
            prop_oneof![8 => 0..70u64, 3 => 0..1200u64, 1 => 0..u64::MAX / 100], 1..400,
        ), back in prop::collection::vec(0..1200u64, 400)) {
            let (mut window, mut came, mut newest) = (Window::default(), BTreeSet::new(), 0u64);
            for (step, back) in steps.into_iter().zip(back) {
                let counter = (newest + step).saturating_sub(back);
                let is_old = counter + Window::LEN < newest + u64::from(!came.is_empty());
                let expected = !is_old && !came.contains(&counter);
                prop_assert_eq!(window.take(counter), expected, "{} of {}", counter, newest);
                if expected {
                    came.insert(counter);
                    newest = newest.max(counter);
                }
            }
            prop_assert!(!window.take(u64::MAX));
        }
    }
}
