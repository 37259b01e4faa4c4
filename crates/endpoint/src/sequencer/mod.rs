//! Sequencers: `next(n)` gives a range of `n` numbers that nobody else ever gets (bluefield-dpu,
//! section 4.4).
//!
//! Three kinds stand behind one interface, [`Sequencer`]:
//!
//! - a word in the memory of a node, host or DPU, asked by one-sided fetch-and-adds
//!   ([`AtomicSequencer`]);
//! - a register of the switch, asked in the same way by the same machine: the switch answers a
//!   fetch-and-add as a NIC does;
//! - a counter in a server, asked by RPC ([`RpcSequencer`], [`CounterService`]).
//!
//! What holds for all of them:
//!
//! - No number is given to two calls. Ranges are in real-time order: a call that is begun after
//!   another has ended gets higher numbers.
//! - **Combining**: while requests are under way, further calls wait, and the next request asks for
//!   the sum of theirs and is split among them. So the rate does not end at one round trip per
//!   call.
//! - A call that ends in an error may have used numbers up: nobody gets those any more. The same is
//!   true of the calls of a client that dies. So the numbers have gaps where clients, connections
//!   or servers fail, and nowhere else.
//! - Nothing is retried here: whether a call that failed is to be made again is for its caller to
//!   say. It may be; the numbers of its first try are a gap at worst.
//!
//! docs/sequencer.md says what each kind does when its memory, its server or the switch restarts.
//!
//! Files: `combine` which calls go into one request; `atomic` and `rpc` the two clients; `word` the
//! memory that fetch-and-adds go to, `counter` what a server does.

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

/// A call, by the order in which the client's calls were begun.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// A call that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Done {
    /// Which call.
    pub ticket: Ticket,
    /// Its numbers, as many as it asked for; or why there are none.
    pub result: Result<Range<u64>, SequencerError>,
}

/// Why a call was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BeginError {
    /// None or too many numbers.
    #[error("{0} numbers in one range; 1 to {RANGE_MAX} are possible")]
    BadCount(u64),
    /// Too many calls have not ended.
    #[error("{0} calls are under way already; poll for those that have ended")]
    Full(usize),
    /// The client is not connected.
    #[error("the client is not connected: {0}")]
    Broken(SequencerError),
}

/// Why a call got no numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SequencerError {
    /// The client was not connected yet.
    #[error("connect it first")]
    NotConnected,
    /// The connection broke.
    #[error(
        "the connection to the sequencer broke: {0}; numbers asked for may be used up; connect \
         again, or to another sequencer if its memory is gone"
    )]
    Broken(CompletionStatus),
    /// The queue pair takes no requests.
    #[error("the connection to the sequencer is of no use: {0}; connect again")]
    Post(PostError),
    /// The call to the server failed.
    #[error("{0}")]
    Rpc(RpcError),
    /// The server's answer is no number.
    #[error("the server answered with {0} bytes; a number has 8")]
    BadAnswer(usize),
    /// There is no such sequencer, or not any more.
    #[error("nobody there knows this sequencer: it went with its memory; make a new one")]
    Unknown,
    /// All numbers that there are have been handed out.
    #[error("the sequencer has handed out all its numbers, which end at 2^63; make a new one")]
    Exhausted,
}

/// Why a client was not made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SetUpError {
    /// A size is out of range.
    #[error("{what} is {value}; {least} to {most} is possible")]
    OutOfRange {
        /// Which.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// Memory or NIC have no room.
    #[error(transparent)]
    Resource(#[from] ResourceError),
}

/// Sizes of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SequencerConfig {
    /// Calls that have not ended, at most: 1 to 2^20.
    pub calls_max: u32,
    /// Calls combined in one request at most: 1 to 2^20; 1 combines nothing.
    pub combine_max: u32,
    /// Requests under way at most: 1 to 16, as many atomics as a queue pair may have in flight.
    pub requests_max: u32,
}

impl Default for SequencerConfig {
    /// Two requests under way: one is answered while the other travels. All calls that wait are
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
    /// Asks for a range of `count` numbers. Nothing is sent before the next poll, so calls that
    /// are begun together travel together.
    ///
    /// # Errors
    /// If the count is out of range, too many calls have not ended, or the client is broken.
    fn begin(&mut self, count: u64) -> Result<Ticket, BeginError>;

    /// Sends what is to be sent, takes what has come, and gives the next call that has ended, in
    /// the order in which they were begun. Poll until it gives nothing.
    fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Option<Done>;

    /// When [`Sequencer::poll`] is due even if no completion comes.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Why no call is taken any more, if so: the connection is to be made again.
    fn broken(&self) -> Option<SequencerError>;

    /// Calls that have not ended, or not been polled.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
