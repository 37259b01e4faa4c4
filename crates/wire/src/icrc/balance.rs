//! Keeps the ICRC correct when a switch rewrites a header: changes it, or balances the header so
//! that the old ICRC stays correct.

use super::changed;
use super::head::Head;
use super::polynomial::{look_up, lookups, shift, times_x};
use crate::extension::LEN_MAX as EXTENSION_LEN_MAX;
use crate::{Headers, bth, ethernet, ipv4, udp};
use rackweave_base::Packet;

/// How a port keeps the ICRC correct when it rewrites headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rewrite {
    /// Change the ICRC by the difference of the headers. For a switch that can access the trailer.
    #[default]
    Update,
    /// Choose IPv4 identification and UDP source port such that the old ICRC stays correct. This
    /// needs the header only. But multi-path networks hash the source port, so use it only where
    /// all packets of a QP take one path anyway. All 32 bits are needed, so the port may be a
    /// well-known one. RoCE is not affected (Linux's stack accepts any), but a capture may show
    /// such a packet as DHCP.
    Balance,
}

impl Rewrite {
    /// Replaces the header of `packet` by `headers`, and keeps the check value right if it was
    /// right. Pad bytes become those of [`Headers::write_to`].
    ///
    /// # Panics
    /// As [`Headers::emit`].
    #[inline]
    pub fn replace(self, packet: &mut Packet, headers: &Headers) {
        if packet.check.is_none() {
            return headers.write_to(packet);
        }
        let old = Head::of(packet.header());
        headers.write_to(packet);
        self.correct(packet, &old);
    }

    /// Corrects the check value of `packet` after its header was replaced: it is right if it was
    /// right with `old_header`. Payload and pad must not have changed since. Without a check value
    /// there is nothing to do.
    ///
    /// [`Rewrite::Balance`] changes the header: identification, source port, IPv4 checksum, and the
    /// UDP checksum, which becomes zero. A header whose length differs from any that
    /// [`crate::Headers`] writes is not balanced; its check value is updated.
    ///
    /// # Panics
    /// If `old_header` is longer than [`rackweave_base::packet::HEADER_MAX`].
    #[inline]
    pub fn apply(self, packet: &mut Packet, old_header: &[u8]) {
        self.correct(packet, &Head::of(old_header));
    }

    #[inline]
    fn correct(self, packet: &mut Packet, old: &Head) {
        let Some(check) = packet.check else { return };
        if self == Self::Balance && balance(packet.header_mut(), old) {
            return;
        }
        let tail_len = packet.payload.len() + packet.pad().len();
        let change = shift(old.difference(packet.header()), tail_len);
        packet.check = Some(changed(check, change));
    }
}

/// Bytes from the IPv4 header on, of a packet without extension.
const LEN_MIN: usize = ipv4::LEN + udp::LEN + bth::LEN;
/// Lengths of headers: without extension, and every multiple of four up to the maximum.
const LAYOUTS: usize = EXTENSION_LEN_MAX / 4 + 1;

/// `SOLUTIONS[(len - LEN_MIN) / 4]`: for a header of `len` bytes from IPv4 on, the number to add to
/// identification (high half) and source port to add each byte of a difference to the CRC.
static SOLUTIONS: [[[u32; 256]; 4]; LAYOUTS] = {
    let mut solutions = [[[0; 256]; 4]; LAYOUTS];
    let mut layout = 0;
    while layout < LAYOUTS {
        solutions[layout] = lookups(inverse(effects(LEN_MIN + 4 * layout)));
        layout += 1;
    }
    solutions
};

/// Changes identification and source port such that the head has the CRC of the old header's.
/// Returns false, and changes nothing, for lengths that no RoCEv2 header has.
fn balance(header: &mut [u8], old: &Head) -> bool {
    let ip_at = ethernet::header_len(header);
    let Some(len) = header.len().checked_sub(ip_at + LEN_MIN) else {
        return false;
    };
    if len % 4 != 0 || len / 4 >= LAYOUTS {
        return false;
    }
    let solution = &SOLUTIONS[len / 4];
    let change = look_up(solution, old.difference(header));
    let ip = &mut header[ip_at..];
    ipv4::change_identification(ip, (change >> 16) as u16);
    udp::change_source_port(&mut ip[ipv4::LEN..], change as u16);
    true
}

/// `effects[k]`: how bit `k` of identification (high half) and source port changes the CRC of a
/// header of `len` bytes.
const fn effects(len: usize) -> [u32; 32] {
    let mut effects = [0; 32];
    let mut k = 0;
    while k < 32 {
        let (field_at, bit) = if k < 16 {
            (ipv4::LEN, k)
        } else {
            (ipv4::IDENTIFICATION_AT, k - 16)
        };
        let at = field_at + if bit < 8 { 1 } else { 0 };
        let mut state = 1 << (bit % 8);
        let mut steps = 8 * (len - at);
        while steps > 0 {
            state = times_x(state);
            steps -= 1;
        }
        effects[k] = state;
        k += 1;
    }
    effects
}

/// The inverse of a 32×32 matrix over GF(2), both given by columns (Gauss and Jordan). Compilation
/// fails if there is none.
const fn inverse(mut columns: [u32; 32]) -> [u32; 32] {
    let mut inverse = [0; 32];
    let mut k = 0;
    while k < 32 {
        inverse[k] = 1 << k;
        k += 1;
    }
    // Column operations that turn `columns` into the identity turn the identity into its inverse.
    let mut row = 0;
    while row < 32 {
        let mut pivot = row;
        while columns[pivot] >> row & 1 == 0 {
            pivot += 1;
        }
        columns.swap(row, pivot);
        inverse.swap(row, pivot);
        let mut other = 0;
        while other < 32 {
            if other != row && columns[other] >> row & 1 == 1 {
                columns[other] ^= columns[row];
                inverse[other] ^= inverse[row];
            }
            other += 1;
        }
        row += 1;
    }
    inverse
}
