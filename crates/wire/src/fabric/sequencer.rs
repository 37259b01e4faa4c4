//! Sequencers: the format of a request for numbers, to the switch and to a server.
//!
//! A request to the switch is an RC fetch-and-add (InfiniBand specification 1.4, 9.4.5). Its
//! address selects the sequencer, its key proves that the client may use it, and the added value is
//! the count of numbers requested; the answer is the first of them. A word in a node's memory is
//! used in the same way, by its own address and key.
//!
//! A request to a server is an RPC: sequencer and count, 64 bits each, little-endian; the answer is
//! the first number.

use rackweave_base::Rkey;
use serde::{Deserialize, Serialize};

/// Maximum count of numbers in one request.
pub const RANGE_MAX: u64 = 1 << 32;

/// Numbers are below this. A word that counts beyond it would eventually wrap to zero.
pub const NUMBERS_END: u64 = 1 << 63;

/// The RPC method that takes a range of numbers.
pub const NEXT: u16 = 0x5e01;

/// Bytes of the RPC's request.
pub const REQUEST_LEN: usize = 16;

/// Bytes of the RPC's answer.
pub const ANSWER_LEN: usize = 8;

/// The address by which a fetch-and-add selects a sequencer of the switch.
pub const fn address_of(index: u16) -> u64 {
    (index as u64) << 3
}

/// The sequencer of the switch that an address selects, if there is one.
pub const fn index_of(address: u64) -> Option<u16> {
    if address & 7 == 0 && address >> 3 <= u16::MAX as u64 {
        Some((address >> 3) as u16)
    } else {
        None
    }
}

/// The target of a fetch-and-add: a word in a node's memory, or a sequencer of the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SequencerPlace {
    /// Its address, a multiple of eight.
    pub address: u64,
    /// Its key.
    pub rkey: Rkey,
}

/// A request to a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The sequencer: a random number that no other sequencer has ever had.
    pub sequencer: u64,
    /// The count of numbers requested.
    pub count: u64,
}

impl Request {
    /// The bytes of an RPC's request.
    pub fn emit(&self) -> [u8; REQUEST_LEN] {
        let mut bytes = [0; REQUEST_LEN];
        bytes[..8].copy_from_slice(&self.sequencer.to_le_bytes());
        bytes[8..].copy_from_slice(&self.count.to_le_bytes());
        bytes
    }

    /// Decodes a request; `None` if the number of bytes is wrong.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; REQUEST_LEN] = bytes.try_into().ok()?;
        let (sequencer, count) = bytes.split_first_chunk::<8>()?;
        Some(Self {
            sequencer: u64::from_le_bytes(*sequencer),
            count: u64::from_le_bytes(*count.first_chunk()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_one_sequencer() {
        for index in [0, 1, 77, u16::MAX] {
            assert_eq!(index_of(address_of(index)), Some(index));
        }
        assert_eq!(index_of(4), None, "no multiple of eight");
        assert_eq!(index_of(8 << 16), None, "beyond all");
        assert_eq!(index_of(u64::MAX), None);
    }

    #[test]
    fn a_request_has_its_bytes_in_order() {
        let request = Request {
            sequencer: 0x0102_0304_0506_0708,
            count: 0x1112,
        };
        let bytes = [8, 7, 6, 5, 4, 3, 2, 1, 0x12, 0x11, 0, 0, 0, 0, 0, 0];
        assert_eq!(request.emit(), bytes);
        assert_eq!(Request::parse(&bytes), Some(request));
        assert_eq!(Request::parse(&bytes[..15]), None);
        assert_eq!(Request::parse(&[0; 17]), None);
    }
}
