//! The format of a packet in a slot of the ring.
//!
//! ```text
//! 0   kind of payload 1, header length 1, pad length 1, has a check value 1
//! 4   fragment length 2 (zero unless a train), payload length 2 (inline and copied)
//! 8   check value 4, pad 3, zero 1
//! 16  payload inline, or a reference (`BlockRef::encode`), 32
//! 48  header bytes 88
//! ```

use super::protocol::Nonsense;
use rackweave_base::packet::{HEADER_MAX, INLINE_MAX, PAYLOAD_MAX, Pool};
use rackweave_base::{BlockRef, Memory, Packet, Payload};

/// Bytes of a descriptor.
pub(super) const DESCRIPTOR_LEN: usize = HEADER_AT + HEADER_MAX;

/// Maximum fragments of a train.
pub const TRAIN_MAX: u32 = 32;

const PAYLOAD_AT: usize = 16;
const HEADER_AT: usize = PAYLOAD_AT + INLINE_MAX;
const _: () = assert!(BlockRef::ENCODED_LEN <= INLINE_MAX && DESCRIPTOR_LEN.is_multiple_of(8));

/// Kinds of payload.
const EMPTY: u8 = 0;
const INLINE: u8 = 1;
const REGION: u8 = 2;
const COPIED: u8 = 3;

/// The bytes of a descriptor, which are not trusted.
pub(super) struct Descriptor(pub(super) [u8; DESCRIPTOR_LEN]);

/// Whether `packet` is of a size that a slot can describe.
#[inline]
pub(super) fn fits(packet: &Packet) -> bool {
    let is_referenced = matches!(packet.payload, Payload::Region(_));
    packet.fragment_len() <= PAYLOAD_MAX
        && packet.fragments() <= TRAIN_MAX
        && (is_referenced || packet.payload.len() <= PAYLOAD_MAX)
}

/// Describes `packet`, which [`fits`]: returns the descriptor and the number of its bytes in use.
#[inline]
pub(super) fn encode(packet: &Packet, memory: &Memory) -> (Descriptor, usize) {
    let mut bytes = [0; DESCRIPTOR_LEN];
    let (header, pad) = (packet.header(), packet.pad());
    let mut payload_len = 0;
    bytes[0] = match &packet.payload {
        Payload::Empty => EMPTY,
        Payload::Region(reference) => {
            let reference = reference.exported(memory).encode();
            bytes[PAYLOAD_AT..PAYLOAD_AT + reference.len()].copy_from_slice(&reference);
            REGION
        }
        owned => {
            let payload = owned.as_slice().unwrap_or_default();
            payload_len = payload.len() as u16;
            if payload.len() <= INLINE_MAX {
                bytes[PAYLOAD_AT..PAYLOAD_AT + payload.len()].copy_from_slice(payload);
                INLINE
            } else {
                COPIED
            }
        }
    };
    bytes[1] = header.len() as u8;
    bytes[2] = pad.len() as u8;
    bytes[3] = u8::from(packet.check.is_some());
    if packet.fragments() > 1 {
        bytes[4..6].copy_from_slice(&(packet.fragment_len() as u16).to_le_bytes());
    }
    bytes[6..8].copy_from_slice(&payload_len.to_le_bytes());
    bytes[8..12].copy_from_slice(&packet.check.unwrap_or_default());
    bytes[12..12 + pad.len()].copy_from_slice(pad);
    bytes[HEADER_AT..HEADER_AT + header.len()].copy_from_slice(header);
    (Descriptor(bytes), HEADER_AT + header.len())
}

/// The bytes of `packet` that are copied next to its descriptor.
#[inline]
pub(super) fn copied(packet: &Packet) -> &[u8] {
    match &packet.payload {
        Payload::Pooled(buffer) if buffer.as_slice().len() > INLINE_MAX => buffer.as_slice(),
        _ => &[],
    }
}

impl Descriptor {
    /// Decodes the packet, with a payload from `pool` that `copy` fills if the payload is next to
    /// the descriptor; `None` if the pool has no free buffer.
    ///
    /// # Errors
    /// If the descriptor is not that of a valid packet.
    #[inline]
    pub(super) fn packet(
        &self,
        memory: &Memory,
        pool: &Pool,
        copy: impl FnOnce(&mut [u8]),
    ) -> Result<Option<Packet>, Nonsense> {
        let bytes = &self.0;
        let header_len = usize::from(bytes[1]);
        let pad_len = usize::from(bytes[2]);
        let fragment_len = u32::from(u16::from_le_bytes([bytes[4], bytes[5]]));
        let payload_len = usize::from(u16::from_le_bytes([bytes[6], bytes[7]]));
        if header_len > HEADER_MAX {
            return Err(Nonsense::Packet("more header bytes than headers have"));
        }
        if pad_len > 3 {
            return Err(Nonsense::Packet("more than three pad bytes"));
        }
        let payload = match bytes[0] {
            EMPTY => Payload::Empty,
            INLINE if payload_len <= INLINE_MAX => {
                Payload::inline(&bytes[PAYLOAD_AT..PAYLOAD_AT + payload_len])
            }
            REGION => {
                let (encoded, _) = bytes[PAYLOAD_AT..]
                    .split_first_chunk()
                    .expect("a reference is shorter than what is left");
                Payload::Region(BlockRef::decode(encoded).imported(memory))
            }
            COPIED if payload_len <= PAYLOAD_MAX => {
                let fill = |target: &mut [u8]| {
                    copy(target);
                    true
                };
                let Some(buffer) = pool.take(payload_len, fill) else {
                    return Ok(None);
                };
                Payload::Pooled(buffer)
            }
            _ => return Err(Nonsense::Packet("a payload of unknown kind or length")),
        };
        let mut packet = Packet::with_payload(payload);
        let len = packet.payload.len();
        // Zero means that the packet is not a train.
        if let Some(count) = (len as u32).checked_div(fragment_len) {
            if !len.is_multiple_of(fragment_len as usize) || !(2..=TRAIN_MAX).contains(&count) {
                return Err(Nonsense::Packet("a train of no whole number of fragments"));
            }
            packet.make_train(fragment_len);
        }
        if packet.fragment_len() > PAYLOAD_MAX {
            return Err(Nonsense::Packet("a payload beyond the largest RDMA MTU"));
        }
        packet.set_header(&bytes[HEADER_AT..HEADER_AT + header_len]);
        packet.set_pad(&bytes[12..12 + pad_len]);
        if bytes[3] != 0 {
            packet.check = Some([bytes[8], bytes[9], bytes[10], bytes[11]]);
        }
        Ok(Some(packet))
    }
}
