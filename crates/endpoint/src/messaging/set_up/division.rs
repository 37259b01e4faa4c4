//! The division of a node's buffers and memory among its channels.

use super::{WORD_SPACING, WORDS_COMMON};
use crate::messaging::config::{Agreed, MessagingConfig};

/// Maximum number of packages into which a channel's part of the send buffer is divided.
const SLOTS_MAX: u64 = 64;

/// A part of the send buffer with space for less than two receive buffers is not halved if the
/// halves would be smaller than this.
const HALVES_MIN: u64 = 64 << 10;

/// A channel's part of the send buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    pub(super) slots: usize,
    pub(super) slot_bytes: usize,
}

/// Receive buffer j belongs to channel j modulo channels.
pub(super) fn buffers_of(channel: u8, channels: u8, buffers: u8) -> impl Iterator<Item = u8> {
    (channel..buffers).step_by(usize::from(channels))
}

pub(super) fn divide(config: &MessagingConfig, agreed: &Agreed) -> Vec<Part> {
    let (channels, theirs) = (agreed.outgoing(), &agreed.theirs);
    let size = u64::from(theirs.receive_bytes);
    let share = |bytes: u64| bytes / u64::from(channels) / 64 * 64;
    let parts = (0..channels).map(|channel| {
        let buffers = buffers_of(channel, channels, theirs.receive_buffers).count() as u64;
        let bytes = match config.send_bytes {
            0 => (buffers * size).min(share(config.send_bytes_auto_max())),
            bytes => share(bytes),
        };
        // Where the limit leaves space for less than two receive buffers, one half is filled while
        // the other is in flight, if halves are not too small.
        let half = bytes / 2 / 64 * 64;
        let limited = config.send_bytes == 0 && buffers > 1 && bytes < 2 * size;
        let slot_bytes = if limited && half >= HALVES_MIN {
            half
        } else {
            bytes.min(size)
        };
        Part {
            slots: (bytes / slot_bytes).clamp(1, SLOTS_MAX) as usize,
            slot_bytes: slot_bytes as usize,
        }
    });
    parts.collect()
}

/// Bytes of the three regions: buffer info, receive buffers, the words with the send buffer.
pub(super) fn sizes(agreed: &Agreed, parts: &[Part]) -> [u64; 3] {
    let mine = &agreed.mine;
    let slots: usize = parts.iter().map(|part| part.slots).sum();
    let words = WORDS_COMMON + usize::from(mine.receive_buffers) + slots;
    let packages = parts.iter();
    let packages = packages.map(|part| part.slots as u64 * part.slot_bytes as u64);
    [
        mine.buffer_info_len(),
        u64::from(mine.receive_buffers) * u64::from(mine.receive_bytes),
        (words * WORD_SPACING) as u64 + packages.sum::<u64>(),
    ]
}
