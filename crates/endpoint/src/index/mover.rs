//! Moves one range from an endpoint to its neighbour, step by step, by requests to both.
//!
//! | phase | asks | next phase |
//! |---|---|---|
//! | marking | the giver, to mark entries | staging |
//! | staging | the taker, to stage the range | copying |
//! | copying | the giver for a page, then the taker to install it | copying, sealing |
//! | sealing | the taker, whether all entries have arrived | committing |
//! | committing | the giver, to give the range away | adopting |
//! | adopting | the taker, to own it | the end |
//! | aborting | the giver, to refuse a commit that is still in flight | discarding |
//! | discarding, releasing | the taker, then the giver, to return to the state before | the end |
//!
//! A refusal before the commit returns both to the state before the move. After the commit the move
//! cannot be undone. A mover that loses a connection ends in between; [`Mover::resume`] makes
//! another one that resumes the pending move which the shards report. It cannot know whether the
//! former mover has sent the commit, so it aborts the move first. The giver is released last: a
//! taker that has received all entries may own the range if the giver dies, so no writes to it are
//! allowed before the taker has discarded it.

use super::map::{EndpointId, PartitionMap};
use super::message::{Entries, Numbers, Outcome, Page, Request, reply};
use super::shard::{Marked, MoveId, ShardState};

/// The receiver of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The endpoint that owns the range.
    Giver,
    /// The endpoint that should get it.
    Taker,
}

/// A range to be moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// The endpoint that owns it.
    pub from: EndpointId,
    /// The endpoint that should get it.
    pub to: EndpointId,
    /// The least key.
    pub low: u64,
    /// The greatest key.
    pub last: u64,
    /// Approximate maximum number of entries to move, from the end next to the taker.
    pub entries_max: u32,
}

/// The result of a move.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moved {
    /// The keys that have been moved.
    pub keys: Marked,
    /// Number of entries moved.
    pub entries: u64,
    /// The map after the move.
    pub map: PartitionMap,
}

/// Why a range was not moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MoveError {
    /// One endpoint refused. Both are in the state before the move.
    #[error("{endpoint} refused the move ({outcome:?}); both are as they were")]
    Refused {
        /// The endpoint that refused.
        endpoint: EndpointId,
        /// The reason.
        outcome: Outcome,
    },
    /// One endpoint does not answer. Nothing was decided: both are in the state before the move, or
    /// will be when the move is resumed.
    #[error("{0} does not answer; resume the move when it does")]
    Interrupted(EndpointId),
    /// One endpoint does not answer, and it is not known here whether the range has been moved.
    #[error(
        "{0} does not answer, and the keys may have changed hands; resume the move when it does, \
         or start {0} anew if it is dead"
    )]
    Undecided(EndpointId),
    /// A reply is invalid, or a step failed that cannot fail.
    #[error("{endpoint} is in a state that no move leads to ({outcome:?})")]
    Broken {
        /// The endpoint.
        endpoint: EndpointId,
        /// Its reply.
        outcome: Option<Outcome>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Marking,
    Staging,
    Exporting { from: u64 },
    Installing { next: Option<u64> },
    Sealing,
    Committing,
    Adopting,
    Aborting(MoveError),
    Discarding(MoveError),
    Releasing(MoveError),
    Ended,
}

/// One move.
#[derive(Clone, Debug)]
pub struct Mover {
    id: MoveId,
    what: Move,
    map: PartitionMap,
    keys: Marked,
    next: Option<PartitionMap>,
    phase: Phase,
    entries: u64,
    /// The page that is being installed.
    page: Vec<u8>,
}

/// What to do after a reply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Send the next request: [`Mover::request`].
    Ask,
    /// The move has ended.
    End(Result<Moved, MoveError>),
}

impl Mover {
    /// A move under this map, which must be the newest.
    pub fn new(id: MoveId, what: Move, map: PartitionMap) -> Self {
        Self {
            id,
            keys: Marked {
                low: what.low,
                last: what.last,
            },
            what,
            map,
            next: None,
            phase: Phase::Marking,
            entries: 0,
            page: Vec::new(),
        }
    }

    /// Resumes a move that another mover has left, from the states that both shards report and the
    /// newest map. `None` if there is nothing to resume. A move that was not committed is undone.
    pub fn resume(
        (from, giver): (EndpointId, &ShardState),
        (to, taker): (EndpointId, &ShardState),
        map: &PartitionMap,
    ) -> Option<Self> {
        let interrupted = MoveError::Interrupted(from);
        // Only the commit makes a map in which the taker owns the range.
        let decided = |(_, keys, _): &(_, Marked, _)| map.owner(keys.low) == to;
        let ((id, keys, entries), phase) = match (taker.getting, giver.giving) {
            (Some(got), _) if decided(&got) => (got, Phase::Adopting),
            (_, Some((id, keys))) => ((id, keys, 0), Phase::Aborting(interrupted)),
            (Some(got), None) => (got, Phase::Discarding(interrupted)),
            (None, None) => return None,
        };
        let what = Move {
            from,
            to,
            low: keys.low,
            last: keys.last,
            entries_max: u32::MAX,
        };
        Some(Self {
            entries,
            next: (phase == Phase::Adopting).then(|| map.clone()),
            phase,
            ..Self::new(id, what, map.clone())
        })
    }

    /// The endpoint of a side.
    pub fn endpoint(&self, side: Side) -> EndpointId {
        match side {
            Side::Giver => self.what.from,
            Side::Taker => self.what.to,
        }
    }

    /// The next request and its receiver; `None` after the end.
    pub fn request(&self) -> Option<(Side, Request<'_>)> {
        let (id, keys) = (self.id, self.keys);
        let map = self.map.clone();
        Some(match self.phase {
            Phase::Marking => {
                let what = self.what;
                let mark = Request::Mark {
                    id,
                    to: what.to,
                    low: what.low,
                    last: what.last,
                    entries_max: what.entries_max,
                    map,
                };
                (Side::Giver, mark)
            }
            Phase::Staging => {
                let (low, last) = (keys.low, keys.last);
                (Side::Taker, Request::Stage { id, low, last, map })
            }
            Phase::Exporting { from } => (Side::Giver, Request::Export { id, from }),
            Phase::Installing { .. } => {
                let entries = Entries::new(&self.page)?;
                (Side::Taker, Request::Install { id, entries })
            }
            Phase::Sealing => {
                let entries = self.entries;
                (Side::Taker, Request::Seal { id, entries })
            }
            Phase::Committing => {
                let map = self.next.clone()?;
                (Side::Giver, Request::Commit { id, map })
            }
            Phase::Adopting => {
                let map = self.next.clone()?;
                (Side::Taker, Request::Adopt { id, map })
            }
            Phase::Aborting(_) => (Side::Giver, Request::Abort { id }),
            Phase::Discarding(_) => (Side::Taker, Request::Discard { id }),
            Phase::Releasing(_) => (Side::Giver, Request::Release { id }),
            Phase::Ended => return None,
        })
    }

    /// Handles the reply to the request, or `None` if no reply will come.
    pub fn handle_reply(&mut self, answer: Option<&[u8]>) -> Progress {
        let Some((side, _)) = self.request() else {
            return self.broken(Side::Giver, None);
        };
        let Some(bytes) = answer else {
            return self.interrupted(side);
        };
        match reply(bytes) {
            Some((Outcome::Done, rest)) => match self.done(rest) {
                Some(progress) => progress,
                None => self.broken(side, Some(Outcome::Done)),
            },
            Some((outcome, _)) => self.refused(side, outcome),
            None => self.broken(side, None),
        }
    }

    /// Handles a successful step; `None` if the reply is invalid.
    fn done(&mut self, rest: &[u8]) -> Option<Progress> {
        self.phase = match self.phase {
            Phase::Marking => {
                let mut numbers = Numbers(rest);
                let (low, last) = (numbers.word()?, numbers.word()?);
                self.keys = Marked { low, last };
                let (from, to) = (self.what.from, self.what.to);
                self.next = Some(self.map.with_move(from, to, low, last).ok()?);
                Phase::Staging
            }
            Phase::Staging => Phase::Exporting {
                from: self.keys.low,
            },
            Phase::Exporting { .. } => {
                let page = Page::decode(rest)?;
                self.page.clear();
                self.page.extend(page.entries.bytes());
                self.entries += page.entries.iter().count() as u64;
                match (page.next, self.page.is_empty()) {
                    (None, true) => Phase::Sealing,
                    (next, _) => Phase::Installing { next },
                }
            }
            Phase::Installing { next } => match next {
                Some(from) => Phase::Exporting { from },
                None => Phase::Sealing,
            },
            Phase::Sealing => Phase::Committing,
            Phase::Committing => Phase::Adopting,
            Phase::Adopting => {
                self.phase = Phase::Ended;
                return Some(Progress::End(Ok(Moved {
                    keys: self.keys,
                    entries: self.entries,
                    map: self.next.take()?,
                })));
            }
            Phase::Aborting(error) => Phase::Discarding(error),
            Phase::Discarding(error) => Phase::Releasing(error),
            Phase::Releasing(error) => {
                self.phase = Phase::Ended;
                return Some(Progress::End(Err(error)));
            }
            Phase::Ended => return None,
        };
        Some(Progress::Ask)
    }

    /// Handles a refused step: the move is undone, if it still can be.
    fn refused(&mut self, side: Side, outcome: Outcome) -> Progress {
        let endpoint = self.endpoint(side);
        let error = MoveError::Refused { endpoint, outcome };
        self.phase = match self.phase {
            Phase::Marking => {
                self.phase = Phase::Ended;
                return Progress::End(Err(error));
            }
            // The commit was decided meanwhile.
            Phase::Aborting(error) => {
                self.phase = Phase::Ended;
                return Progress::End(Err(error));
            }
            Phase::Staging => Phase::Releasing(error),
            Phase::Exporting { .. }
            | Phase::Installing { .. }
            | Phase::Sealing
            | Phase::Committing
                if outcome != Outcome::Corrupt =>
            {
                Phase::Discarding(error)
            }
            _ => return self.broken(side, Some(outcome)),
        };
        Progress::Ask
    }

    /// Handles a broken connection.
    fn interrupted(&mut self, side: Side) -> Progress {
        let endpoint = self.endpoint(side);
        let decided = matches!(self.phase, Phase::Committing | Phase::Adopting);
        let error = match decided {
            true => MoveError::Undecided(endpoint),
            false => MoveError::Interrupted(endpoint),
        };
        self.phase = Phase::Ended;
        Progress::End(Err(error))
    }

    fn broken(&mut self, side: Side, outcome: Option<Outcome>) -> Progress {
        let endpoint = self.endpoint(side);
        self.phase = Phase::Ended;
        Progress::End(Err(MoveError::Broken { endpoint, outcome }))
    }
}
