//! State shared by all channels of a connection at one node: the regions, and whether it is closed.

use super::{Agreed, KeyedAddress};
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rackweave_base::canary::{Canary, planted};
use rackweave_base::{Instant, Qpn};
use rackweave_verbs::{
    Completion, CompletionStatus, CqId, Operation, PostError, Region, Segment, Verbs, WorkRequest,
};
use rackweave_wire::fabric::message::{
    CONNECTION_ENTRY, CloseReason, ENTRY_LEN, PULSE_ENTRY, Word,
};
use std::sync::Arc;

/// The party that closed a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClosedBy {
    /// This node.
    Local,
    /// The peer.
    Peer,
    /// Neither: a queue pair broke.
    Transport,
}

/// A connection is closed; messages not reported as consumed may or may not have arrived.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub struct Closed {
    /// The party that closed it.
    pub by: ClosedBy,
    /// The reason.
    pub reason: CloseReason,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = match self.by {
            ClosedBy::Local => "this node closed the connection",
            ClosedBy::Peer => "the peer closed the connection",
            ClosedBy::Transport => "the connection broke",
        };
        write!(f, "{who}: {}", self.reason)
    }
}

impl Closed {
    fn pack(self) -> u64 {
        let by = match self.by {
            ClosedBy::Local => 1,
            ClosedBy::Peer => 2,
            ClosedBy::Transport => 3,
        };
        by << 16 | self.reason as u64
    }

    fn unpack(word: u64) -> Option<Self> {
        let by = match word >> 16 {
            1 => ClosedBy::Local,
            2 => ClosedBy::Peer,
            3 => ClosedBy::Transport,
            _ => return None,
        };
        let reason = CloseReason::from_code(word as u16)?;
        Some(Self { by, reason })
    }
}

/// State shared by the channels.
#[derive(Debug)]
pub(super) struct Shared {
    pub agreed: Agreed,
    /// Written by the peer.
    pub buffer_info: Region,
    /// Written by the peer.
    pub receive: Region,
    /// The words that are written to the peer, then the send buffer.
    pub send: Region,
    /// The peer's buffer info.
    pub peer_info: KeyedAddress,
    /// Zero while it is open; the first end that closes it stores the reason.
    closed: AtomicU64,
    /// Whether the peer has been notified.
    close_sent: AtomicBool,
}

impl Shared {
    pub fn new(
        agreed: Agreed,
        buffer_info: Region,
        receive: Region,
        send: Region,
        peer_info: KeyedAddress,
    ) -> Self {
        Self {
            agreed,
            buffer_info,
            receive,
            send,
            peer_info,
            closed: AtomicU64::new(0),
            close_sent: AtomicBool::new(false),
        }
    }

    /// The raw word of an entry of this node's buffer info. Whatever the peer wrote before it on
    /// the same queue pair is present too.
    pub fn entry(&self, entry: usize) -> u64 {
        self.word(entry * ENTRY_LEN as usize)
    }

    /// The raw word at an offset of this node's buffer info. What the peer wrote before it is
    /// present too.
    pub fn word(&self, at: usize) -> u64 {
        u64::from_le(self.buffer_info.block.word(at).load(Ordering::Acquire))
    }

    /// The location of an entry of the peer's buffer info.
    pub fn peer_entry(&self, entry: usize) -> Operation {
        Operation::Write {
            address: self.peer_info.address + entry as u64 * ENTRY_LEN,
            rkey: self.peer_info.rkey,
            immediate: None,
        }
    }

    /// Stores a word to be written to the peer at its own offset, and returns its location.
    pub fn stage(&self, at: usize, word: Word) -> Segment {
        let place = self.send.block.word(at);
        place.store(u64::from(word).to_le(), Ordering::Release);
        self.send.segment(at as u64, 8)
    }

    /// Closes the connection unless it is already closed. Returns the reason that applies.
    pub fn close(&self, closed: Closed) -> Closed {
        let exchanged =
            self.closed
                .compare_exchange(0, closed.pack(), Ordering::AcqRel, Ordering::Acquire);
        match exchanged {
            Ok(_) => closed,
            Err(before) => Closed::unpack(before).expect("only packed ones are stored"),
        }
    }

    /// Why it is closed, if it is; the peer may have closed it.
    pub fn closed(&self) -> Option<Closed> {
        if let Some(closed) = Closed::unpack(self.closed.load(Ordering::Acquire)) {
            return Some(closed);
        }
        match self.entry(CONNECTION_ENTRY) {
            0 => None,
            word => Some(match Word::try_from(word) {
                Ok(Word::Closed { reason }) => self.close(Closed {
                    by: ClosedBy::Peer,
                    reason,
                }),
                _ => self.lied(CloseReason::ForeignState),
            }),
        }
    }

    /// Closes the connection because the peer broke the protocol.
    pub fn lied(&self, reason: CloseReason) -> Closed {
        self.close(Closed {
            by: ClosedBy::Local,
            reason,
        })
    }
}

/// Work requests that an end reserves for the pulse and the closing word.
pub(super) const SPARE_REQUESTS: u32 = 4;

/// Kinds of completions: the low bits of ids.
const ID_KIND: u64 = 3;
/// A package or its word.
pub(super) const ID_PACKAGE: u64 = 0;
const ID_PULSE: u64 = 1;
const ID_CLOSE: u64 = 2;

/// The offset in the send region of the word that closes the connection.
pub(super) const CLOSE_WORD: usize = 0;
/// The offset of the bytes that a pulse carries.
pub(super) const PULSE_WORD: usize = 64;

/// One end of a channel's queue pair.
#[derive(Debug)]
pub(super) struct End {
    pub shared: Arc<Shared>,
    pub qpn: Qpn,
    pub cq: CqId,
    /// When the peer last showed a sign of life.
    heard: Instant,
    /// Requests whose completion has been requested and has not come.
    pending: u32,
    pulsing: bool,
    /// Whether the queue pair is in error.
    broken: bool,
    /// Nothing more is received or sent on this channel.
    over: bool,
    keepalive: rackweave_base::Duration,
    pub pulses: u64,
    completions: Vec<Completion>,
}

impl End {
    pub fn new(
        shared: Arc<Shared>,
        qpn: Qpn,
        cq: CqId,
        now: Instant,
        keepalive: rackweave_base::Duration,
    ) -> Self {
        Self {
            shared,
            qpn,
            cq,
            heard: now,
            pending: 0,
            pulsing: false,
            broken: false,
            over: false,
            keepalive,
            pulses: 0,
            completions: Vec::with_capacity(16),
        }
    }

    /// Posts requests. A partial post leaves nothing that the peer would accept: the last request
    /// is the one that notifies it.
    pub fn post(&mut self, verbs: &mut dyn Verbs, requests: &[WorkRequest]) -> Result<(), Closed> {
        let signaled = requests.iter().filter(|request| request.signaled).count();
        match verbs.post_sends(self.qpn, requests) {
            Ok(()) => {
                self.pending += signaled as u32;
                Ok(())
            }
            Err((_, error)) => self.refused(error),
        }
    }

    fn refused(&mut self, error: PostError) -> Result<(), Closed> {
        debug_assert!(
            !matches!(error, PostError::Full(_)),
            "an end posts no more than its queue holds: {error}"
        );
        (self.broken, self.pending) = (true, 0);
        self.check()
    }

    /// Checks the queue pair. If it is broken, so is the connection, unless the channel is over:
    /// the other end may then have been destroyed.
    fn check(&self) -> Result<(), Closed> {
        if !self.broken || self.over {
            return Ok(());
        }
        // The peer may have sent the reason.
        Err(self.shared.closed().unwrap_or_else(|| {
            self.shared.close(Closed {
                by: ClosedBy::Transport,
                reason: CloseReason::TransportBroken,
            })
        }))
    }

    /// All that was sent on the channel has been released, and nothing follows.
    pub fn set_over(&mut self) {
        self.over = true;
    }

    /// Requests in flight whose completion is awaited.
    pub fn pending(&self) -> u32 {
        self.pending
    }

    /// Whether no request is in flight whose completion is awaited, and this end need not notify
    /// the peer that the connection is closed. `owes` as for [`Self::mind`].
    pub fn is_settled(&self, owes: bool) -> bool {
        let tells = self.shared.closed().is_some_and(|it| self.tells(it, owes));
        self.pending == 0 && !tells
    }

    /// Whether this end is responsible for notifying the peer that the connection is closed. The
    /// other end of a channel that is over may have been destroyed, so that nothing sent to it
    /// arrives: an end of another channel is then responsible. If there is none, the peer's ends
    /// are over too.
    fn tells(&self, closed: Closed, owes: bool) -> bool {
        closed.by != ClosedBy::Peer
            && !self.broken
            && (owes || !self.over)
            && !self.shared.close_sent.load(Ordering::Acquire)
    }

    /// Polls completions and calls `done` with the id of each package's. True if there were any.
    /// Failures are handled by [`Self::mind`].
    pub fn complete(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        mut done: impl FnMut(u64),
    ) -> bool {
        if self.pending == 0 {
            return false;
        }
        let mut completions = core::mem::take(&mut self.completions);
        verbs.poll_cq(self.cq, 16, &mut completions);
        let any = !completions.is_empty();
        let mut broken = false;
        for completion in completions.drain(..) {
            if completion.status != CompletionStatus::Success {
                // Requests that asked for no completion have one too, if they fail.
                broken = true;
                continue;
            }
            self.pending -= 1;
            match completion.id & ID_KIND {
                ID_PACKAGE => done(completion.id >> 2),
                ID_PULSE => self.pulsing = false,
                _ => {}
            }
        }
        self.completions = completions;
        if broken {
            (self.broken, self.pending) = (true, 0);
        } else if any {
            self.heard = now;
        }
        any
    }

    /// Requests a sign of life when one is due, and notifies the peer of a close if that has not
    /// been done. Then returns the reason of the close. `owes`: although the channel is over, the
    /// other end waits for something from this one, and therefore exists.
    pub fn mind(&mut self, now: Instant, verbs: &mut dyn Verbs, owes: bool) -> Result<(), Closed> {
        self.check()?;
        let Some(closed) = self.shared.closed() else {
            return self.pulse(now, verbs);
        };
        if self.tells(closed, owes) && !self.shared.close_sent.swap(true, Ordering::AcqRel) {
            let word = Word::Closed {
                reason: closed.reason,
            };
            let segment = self.shared.stage(CLOSE_WORD, word);
            let to = self.shared.peer_entry(CONNECTION_ENTRY);
            self.post(verbs, &[WorkRequest::new(ID_CLOSE, to, &[segment])])?;
        }
        Err(closed)
    }

    fn pulse(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Result<(), Closed> {
        if self.due().is_some_and(|due| due <= now) {
            self.pulsing = true;
            self.pulses += 1;
            let segment = self.shared.send.segment(PULSE_WORD as u64, 8);
            let to = self.shared.peer_entry(PULSE_ENTRY);
            self.post(verbs, &[WorkRequest::new(ID_PULSE, to, &[segment])])?;
        }
        Ok(())
    }

    /// When the peer is next asked for a sign of life, if at all.
    pub fn due(&self) -> Option<Instant> {
        let idle = !self.pulsing && self.pending == 0 && !self.over;
        let open = self.shared.closed.load(Ordering::Acquire) == 0;
        let asks = self.keepalive.as_nanos() > 0 && idle && open;
        let asks = asks && !planted(Canary::MessagingNoPulse);
        asks.then(|| self.heard + self.keepalive)
    }

    /// The id of a request for a package.
    pub fn package_id(number: u64) -> u64 {
        number << 2 | ID_PACKAGE
    }

    /// Destroys the queue pair and completion queue, and releases the regions if this is the last
    /// end.
    pub fn destroy(self, verbs: &mut dyn Verbs) {
        // Both belong to this end and exist; a NIC that has forgotten them has nothing to release.
        let _ = verbs.destroy_qp(self.qpn);
        let _ = verbs.destroy_cq(self.cq);
        if let Some(shared) = Arc::into_inner(self.shared) {
            shared.deregister(verbs);
        }
    }
}

impl Shared {
    pub fn deregister(&self, verbs: &mut dyn Verbs) {
        for region in [&self.buffer_info, &self.receive, &self.send] {
            verbs.deregister(region);
        }
    }
}
