//! The two ends of a flow: stamped items, and a consumer's record of them. They read no clock and
//! run as programs in real and in virtual time.
//!
//! Measured ends (`perf`) write and read eight bytes of an item, or every byte, in batches of a
//! given size. Checked ends (`flow`) derive every byte from the stamp, may have a rate limit
//! and ring doorbells. `source` pushes, `sink` takes, `stamps` has
//! the contents of items, `verify` checks what was pushed and seen.

mod sink;
mod source;
pub mod stamps;
pub mod verify;

pub use sink::Sink;
pub use source::ItemSource;

use crate::programs::{Port, Turn};
use rackweave_endpoint::flow::Doorbell;
use stamps::NUMBER_BITS;

/// Maximum number of items of a ring.
pub const ITEMS_MAX: u64 = 1 << NUMBER_BITS;

/// Bytes of items that a checked end pushes or takes at once.
const BATCH_BYTES: u32 = 64 << 10;

/// Nanoseconds of work of a rate-limited end per batch.
const WORK_NANOS: f64 = 100_000.0;

/// How items of a measured flow are written and read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    /// Items per reserve and commit, peek and release.
    pub batch: u32,
    /// Whether every byte is written and read, not only the stamp.
    pub touch: bool,
}

/// How an end processes items, and how fast.
pub struct Style {
    /// How items of a measured flow are written and read. In a checked flow it is every byte.
    measured: Option<Manner>,
    /// Maximum bytes per second.
    rate: Option<f64>,
    /// When it starts, in nanoseconds.
    begun: u64,
    /// Nanoseconds since the start until which it is busy.
    busy_until: f64,
}

impl Style {
    /// That of a measured flow.
    pub fn measured(manner: Manner) -> Self {
        Self {
            measured: Some(manner),
            ..Self::checked(None, 0)
        }
    }

    /// That of a checked flow, with a limit in bytes per second, from now on.
    pub fn checked(rate: Option<f64>, now: u64) -> Self {
        Self {
            measured: None,
            rate,
            begun: now,
            busy_until: now as f64,
        }
    }

    /// The end of its busy period, if it is busy.
    fn is_busy(&self, now: u64) -> Option<Turn> {
        let until = self.busy_until.ceil() as u64;
        (self.rate.is_some() && until > now).then_some(Turn::Sleeps(until))
    }

    /// Number of items that are processed at once.
    fn batch(&self, item_size: u32) -> u32 {
        let bytes = match (self.measured, self.rate) {
            (Some(manner), _) => return manner.batch,
            (None, Some(rate)) => (rate * WORK_NANOS / 1e9).min(f64::from(BATCH_BYTES)) as u32,
            (None, None) => BATCH_BYTES,
        };
        (bytes / item_size).max(1)
    }

    fn work(&mut self, bytes: u64, now: u64) {
        if let Some(rate) = self.rate {
            // Late wake-ups are compensated, idle times are not.
            let since = self.busy_until.max(now as f64 - WORK_NANOS);
            self.busy_until = since + bytes as f64 * 1e9 / rate;
        }
    }
}

/// The state of an end whose flow was aborted.
const ABORTED: &str = "broken off";

/// Rings a doorbell. If the send queue is full it can be dropped: those in the queue have the same
/// effect.
fn ring(port: &mut Port<'_, '_>, bell: &Doorbell) {
    let _ = port.act(|queue| Ok(queue.post_send(bell.qpn(), bell.request())?));
}
