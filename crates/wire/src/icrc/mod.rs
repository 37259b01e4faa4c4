//! The invariant CRC: the check value at the end of every RoCEv2 packet (InfiniBand specification
//! 1.4, annex A17.3.3), and how to keep it correct when a header changes.
//!
//! It is the CRC-32 of zlib over eight 0xff bytes and the IP packet up to the ICRC, with ones in
//! place of the fields that change on the path: type of service, time to live and header checksum
//! of IPv4, the UDP checksum, and byte 4 of the BTH. It is stored with its least significant byte
//! first.
//!
//! [`compute`], [`seal`] and [`verify`] hash the whole packet. [`update`] and [`Rewrite`] are for
//! switches: their cost does not depend on the payload, they never read it, and corruption of the
//! payload before the rewrite is still detected after it.

mod balance;
mod head;
mod lane;
mod polynomial;
#[cfg(test)]
mod tests;

pub use balance::Rewrite;
pub use lane::LaneCorrection;

use head::Head;
use rackweave_base::packet::PAYLOAD_MAX;
use rackweave_base::{BlockRef, Memory, Packet, Payload};

/// The result of checking a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// There is no check value: every link on the path guarantees integrity.
    Absent,
    /// The check value is right.
    Right,
    /// The check value is wrong, or cannot be computed because the payload is in a block that no
    /// longer exists.
    Wrong,
}

/// Computes the check value of the whole `packet`. Returns `None` if the payload is in a block that
/// no longer exists.
pub fn compute(packet: &Packet, memory: &Memory) -> Option<[u8; 4]> {
    let mut hasher = Head::of(packet.header()).hasher();
    match &packet.payload {
        Payload::Empty => {}
        Payload::Inline(payload) => hasher.update(payload.as_slice()),
        Payload::Pooled(payload) => hasher.update(payload.as_slice()),
        Payload::Region(region) => hash_region(&mut hasher, *region, memory)?,
    }
    hasher.update(packet.pad());
    Some(hasher.finalize().to_le_bytes())
}

/// Sets the check value of `packet`. Returns false, and sets nothing, if its payload is in a block
/// that no longer exists.
#[must_use]
pub fn seal(packet: &mut Packet, memory: &Memory) -> bool {
    let check = compute(packet, memory);
    if check.is_some() {
        packet.check = check;
    }
    check.is_some()
}

/// Whether the check value of `packet` is right.
pub fn verify(packet: &Packet, memory: &Memory) -> Verdict {
    match packet.check {
        None => Verdict::Absent,
        check if check == compute(packet, memory) => Verdict::Right,
        Some(_) => Verdict::Wrong,
    }
}

/// The check value after `old_header` was replaced by `new_header`, in constant time. `tail_len` is
/// the number of bytes between header and check value: payload and pad, both unchanged.
///
/// CRC-32 is affine, so old and new check values differ by the contribution of the headers, shifted
/// past the tail: by the difference of the headers' CRCs times x^(8 `tail_len`).
///
/// # Panics
/// If a header is longer than [`rackweave_base::packet::HEADER_MAX`].
#[inline]
pub fn update(check: [u8; 4], old_header: &[u8], new_header: &[u8], tail_len: usize) -> [u8; 4] {
    changed(
        check,
        polynomial::shift(Head::of(old_header).difference(new_header), tail_len),
    )
}

/// The check value after its CRC has changed.
#[inline]
fn changed(check: [u8; 4], change: u32) -> [u8; 4] {
    (u32::from_le_bytes(check) ^ change).to_le_bytes()
}

/// Hashes bytes of a region, which can only be read by copying: in one piece, unless the region
/// exceeds what a packet may carry.
fn hash_region(hasher: &mut crc32fast::Hasher, region: BlockRef, memory: &Memory) -> Option<()> {
    const PIECE: u32 = PAYLOAD_MAX as u32;
    let mut bytes = [0; PAYLOAD_MAX];
    let mut at = 0;
    while at < region.len() {
        let len = PIECE.min(region.len() - at);
        let piece = &mut bytes[..len as usize];
        if !memory.read(region.part(at, len), piece) {
            return None;
        }
        hasher.update(piece);
        at += len;
    }
    Some(())
}
