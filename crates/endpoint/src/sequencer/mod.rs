//! Sequencers: `next(n)` returns a range of `n` numbers that no other call ever gets
//! (bluefield-dpu, section 4.4).
//!
//! Three kinds implement one interface, [`Sequencer`]:
//!
//! - a word in the memory of a host or a DPU, accessed by one-sided fetch-and-adds
//!   ([`AtomicSequencer`]);
//! - a register of the switch, accessed by the same client code: the switch answers a fetch-and-add
//!   as a NIC does;
//! - a counter in a server, accessed by RPC ([`RpcSequencer`], [`CounterService`]).
//!
//! All three guarantee:
//!
//! - No number is given to two calls. Ranges are in real-time order: a call that begins after
//!   another has ended gets higher numbers.
//! - **Combining**: while requests are in flight, further calls wait. The next request asks for the
//!   sum of their counts, and its range is split among them. So the rate is not limited to one call
//!   per round trip.
//! - A call that ends in an error may have consumed numbers, which no call gets any more. The same
//!   is true of the calls of a client that dies. So the numbers have gaps where clients,
//!   connections or servers fail, and nowhere else.
//! - Nothing is retried here: the caller decides whether to repeat a failed call. Repeating is
//!   safe; the numbers of the first attempt become a gap at worst.
//!
//! docs/sequencer.md describes what each kind does when its memory, its server or the switch
//! restarts.
//!
//! Modules: `combine` puts calls into requests; `atomic` and `rpc` are the two clients; `word` is
//! the memory that fetch-and-adds access; `counter` is the server side.

mod atomic;
mod combine;
mod counter;
mod rpc;
mod word;

use crate::ResourceError;
use crate::rpc::RpcError;
use core::ops::Range;
use rackweave_base::Instant;
use rackweave_verbs::{CompletionStatus, PostError, Verbs};
use rackweave_wire::fabric::sequencer::RANGE_MAX;

pub use atomic::AtomicSequencer;
pub use counter::{CounterError, CounterService, Counters};
pub use rackweave_wire::fabric::sequencer::SequencerPlace;
pub use rpc::RpcSequencer;
pub use word::SequencerWord;

/// A call. Tickets are numbered in the order in which the client's calls began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// A completed call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// The call.
    pub ticket: Ticket,
    /// A range of the requested length, or the reason why there is none.
    pub result: Result<Range<u64>, SequencerError>,
}

/// Why a call was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BeginError {
    /// The count is zero or too large.
    #[error("{0} numbers in one range; 1 to {RANGE_MAX} are possible")]
    BadCount(u64),
    /// Too many calls are pending.
    #[error("{0} calls are under way already; poll for those that have ended")]
    Full(usize),
    /// The client is not connected.
    #[error("the client is not connected: {0}")]
    Broken(SequencerError),
}

/// Why a call got no numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SequencerError {
    /// The client has never been connected.
    #[error("connect it first")]
    NotConnected,
    /// The connection broke.
    #[error(
        "the connection to the sequencer broke: {0}; numbers asked for may be used up; connect \
         again, or to another sequencer if its memory is gone"
    )]
    Broken(CompletionStatus),
    /// The queue pair accepts no work requests.
    #[error("the connection to the sequencer is of no use: {0}; connect again")]
    Post(PostError),
    /// The RPC failed.
    #[error("{0}")]
    Rpc(RpcError),
    /// The server's reply is not a number.
    #[error("the server answered with {0} bytes; a number has 8")]
    BadAnswer(usize),
    /// The sequencer does not exist, or no longer exists.
    #[error("nobody there knows this sequencer: it went with its memory; make a new one")]
    Unknown,
    /// All numbers have been handed out.
    #[error("the sequencer has handed out all its numbers, which end at 2^63; make a new one")]
    Exhausted,
}

/// Why a client could not be created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SetUpError {
    /// A size is out of range.
    #[error("{what} is {value}; {least} to {most} is possible")]
    OutOfRange {
        /// The name of the size.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The minimum.
        least: u64,
        /// The maximum.
        most: u64,
    },
    /// The memory or the NIC has no free resources.
    #[error(transparent)]
    Resource(#[from] ResourceError),
}

/// Sizes of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequencerConfig {
    /// Maximum number of pending calls: 1 to 2^20.
    pub calls_max: u32,
    /// Maximum number of calls combined in one request: 1 to 2^20; 1 disables combining.
    pub combine_max: u32,
    /// Maximum number of requests in flight: 1 to 16, as many atomics as a queue pair may have in
    /// flight.
    pub requests_max: u32,
}

impl Default for SequencerConfig {
    /// Two requests in flight: one is served while the other is on the wire. All waiting calls are
    /// combined.
    fn default() -> Self {
        Self {
            calls_max: 4096,
            combine_max: 4096,
            requests_max: 2,
        }
    }
}

impl SequencerConfig {
    fn check(&self) -> Result<(), SetUpError> {
        for (what, value, most) in [
            ("calls_max", self.calls_max, 1 << 20),
            ("combine_max", self.combine_max, 1 << 20),
            ("requests_max", self.requests_max, 16),
        ] {
            if !(1..=most).contains(&value) {
                return Err(SetUpError::OutOfRange {
                    what,
                    value: value.into(),
                    least: 1,
                    most: most.into(),
                });
            }
        }
        Ok(())
    }

    fn combiner(&self) -> combine::Combiner {
        let calls_max = self.calls_max as usize;
        combine::Combiner::new(self.combine_max, self.requests_max, calls_max)
    }
}

/// A client of a sequencer.
pub trait Sequencer {
    /// Requests a range of `count` numbers. Nothing is sent before the next poll, so calls that
    /// begin between two polls share a request.
    ///
    /// # Errors
    /// If the count is out of range, too many calls are pending, or the client is broken.
    fn begin(&mut self, count: u64) -> Result<Ticket, BeginError>;

    /// Sends pending requests, handles completions, and returns the next completed call, in the
    /// order in which the calls began. Poll until it returns `None`.
    fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Option<Done>;

    /// When [`Sequencer::poll`] is due even if no completion arrives.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Why the client accepts no more calls, if it is broken; the connection has to be made again.
    fn broken(&self) -> Option<SequencerError>;

    /// Calls that are pending, or completed and not yet returned by a poll.
    fn len(&self) -> usize;

    /// Whether there are no such calls.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
