//! Corrections of the check values of packets that take the same way through a switch.

use super::head::{PLAIN_WORDS, plain};
use super::polynomial::{remainder, shift, word_remainder};
use super::{Rewrite, changed};
use crate::{Extension, Headers, pad_len};
use rackweave_base::Packet;

/// The last correction of a check value on one lane.
///
/// Fragments of a transfer have headers that differ in the PSN alone, and so have the packets that
/// they become. The part of the difference that does not contain the PSN is hashed once. Different
/// packets that alternate on one lane are corrected no worse than by [`Rewrite::replace`].
#[derive(Clone, Copy, Default, Debug)]
pub struct LaneCorrection {
    /// The difference of the headers, without the last four bytes: acknowledge request and PSN.
    difference: [u64; PLAIN_WORDS],
    tail_len: usize,
    /// What it adds to the check value.
    change: u32,
}

impl LaneCorrection {
    /// As [`Rewrite::replace`].
    ///
    /// # Panics
    /// As [`Headers::emit`].
    #[inline(always)]
    pub fn replace(&mut self, method: Rewrite, packet: &mut Packet, headers: Headers) {
        let payload_len = packet.fragment_len();
        let is_plain = headers.ethernet.vlan.is_none() && headers.extension == Extension::None;
        if method != Rewrite::Update || !is_plain || packet.pad().len() != pad_len(payload_len) {
            return replace_any(method, packet, headers);
        }
        let before = match (packet.check, plain(packet.header())) {
            (None, _) => None,
            (Some(check), Some(old)) => Some((check, old)),
            (Some(_), None) => return replace_any(method, packet, headers),
        };
        packet.emit_header(|bytes| headers.emit_inlined(bytes, payload_len));
        let Some((check, old)) = before else { return };
        let new = plain(packet.header()).expect("neither VLAN tag nor extension");
        let mut difference = [0; PLAIN_WORDS];
        for (at, word) in difference.iter_mut().enumerate() {
            *word = old[at] ^ new[at];
        }
        let tail_len = packet.payload.len() + packet.pad().len();
        packet.check = Some(changed(check, self.change(difference, tail_len)));
    }

    /// What a difference of headers adds to the check value.
    #[inline]
    fn change(&mut self, mut difference: [u64; PLAIN_WORDS], tail_len: usize) -> u32 {
        let last = &mut difference[PLAIN_WORDS - 1];
        let psn = (*last >> 32) as u32;
        *last &= u64::from(u32::MAX);
        let mut bits = 0;
        for (at, word) in difference.iter().enumerate() {
            bits |= word ^ self.difference[at];
        }
        if bits != 0 || tail_len != self.tail_len {
            *self = Self {
                difference,
                tail_len,
                change: shift(remainder(difference.into_iter()), tail_len),
            };
        }
        self.change ^ shift(word_remainder(psn), tail_len)
    }
}

/// For headers of other forms: they are passed by value, so that those above need not be in memory.
#[inline(never)]
fn replace_any(method: Rewrite, packet: &mut Packet, headers: Headers) {
    method.replace(packet, &headers);
}
