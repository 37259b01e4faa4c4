//! Basic types that every other crate depends on.
//!
//! It has time as numbers ([`Instant`], [`Duration`]), seeded randomness ([`Rng`]), identifiers
//! ([`ids`]), wrapping sequence numbers ([`Psn`]), deadlines ([`Timers`]), region memory
//! ([`memory`]), the packet that travels between machines ([`packet`]) and the [`checksum`] of data
//! on storage.
//!
//! It knows no protocol: not one header field is read or written here. It reads no clock and owns
//! no thread. Start with [`packet`].

mod bits;
pub mod canary;
pub mod checksum;
mod counters;
pub mod eviction;
pub mod ids;
pub mod memory;
mod named;
pub mod packet;
mod psn;
mod rng;
pub mod text;
mod time;
mod timers;

pub use bits::BitSet;
pub use ids::{Lkey, MacAddr, NodeId, PortId, Qpn, Rkey};
pub use memory::{Block, BlockRef, Memory};
pub use packet::{Packet, Payload};
pub use psn::Psn;
pub use rng::{KeyRng, Rng};
pub use time::{Duration, Instant};
pub use timers::Timers;
