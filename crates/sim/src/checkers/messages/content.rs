//! The bytes of messages.

use super::super::stamp::scramble;
use super::{ChannelName, Peer};

/// The first wrong byte of a part of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wrong {
    /// Its offset in the message.
    pub at: u64,
    /// The actual byte.
    pub got: u8,
    /// The expected byte.
    pub expect: u8,
}

/// Calls `each` with the bytes from `offset` on, in parts: the offset of a part, and its bytes.
fn parts(
    seed: u64,
    (name, message): (ChannelName, u32),
    offset: u64,
    len: usize,
    mut each: impl FnMut(usize, &[u8]),
) {
    let way = u64::from(name.sender == Peer::Storage);
    let route = u64::from(name.connection) << 16 | way << 8 | u64::from(name.number);
    let key = scramble(scramble(seed ^ route) ^ u64::from(message));
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let word = scramble(key.wrapping_add(at / 8)).to_le_bytes();
        let from = (at % 8) as usize;
        let count = (8 - from).min(len - done);
        each(done, &word[from..from + count]);
        done += count;
    }
}

/// Writes the bytes of a message of this channel, starting at `offset`.
pub fn fill_message(bytes: &mut [u8], seed: u64, name: ChannelName, message: u32, offset: u64) {
    parts(seed, (name, message), offset, bytes.len(), |at, part| {
        bytes[at..at + part.len()].copy_from_slice(part);
    });
}

/// Checks that these are the bytes of the message from `offset` on.
///
/// # Errors
/// The first byte that is not.
pub fn check_message(
    bytes: &[u8],
    seed: u64,
    name: ChannelName,
    message: u32,
    offset: u64,
) -> Result<(), Wrong> {
    let mut wrong = None;
    parts(seed, (name, message), offset, bytes.len(), |at, part| {
        let got = &bytes[at..at + part.len()];
        if wrong.is_none()
            && let Some(which) = got.iter().zip(part).position(|(got, expect)| got != expect)
        {
            wrong = Some(Wrong {
                at: offset + (at + which) as u64,
                got: got[which],
                expect: part[which],
            });
        }
    });
    wrong.map_or(Ok(()), Err)
}
