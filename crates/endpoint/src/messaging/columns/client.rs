//! The compute node's side of one connection.

mod answer;
mod assembly;
mod pieces;

use super::{AskError, BadAnswer, RequestError};
use crate::messaging::{Arrived, CloseReason, Closed, Receiver, SendError, Sender};
use assembly::Assembly;
use rackweave_base::{Instant, counters};
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::message::column::{ASK, ASK_LIST, Ask, AskList, MESSAGE_MIN};
use std::collections::VecDeque;

pub use answer::{Answer, ListedColumn, Reply, Ticket};
pub use pieces::{ColumnPiece, PieceReader};

/// The configuration of a [`ColumnClient`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnClientConfig {
    /// Maximum number of requests in flight, at least one.
    pub window: u16,
    /// The largest column in bytes that is accepted into memory, including the zeros behind each
    /// buffer; requests for larger ones fail. Columns read in place may have any size.
    pub column_max: u64,
    /// The longest list in bytes that is accepted.
    pub list_max: u64,
    /// Whether the bytes of each column are checked against its version. This takes a pass over
    /// them; the network has checked them already, but not the storage node's memory.
    pub verify: bool,
}

impl Default for ColumnClientConfig {
    fn default() -> Self {
        Self {
            window: 32,
            column_max: 4 << 30,
            list_max: 16 << 20,
            verify: false,
        }
    }
}

counters! {
    /// Counters of a client since it was created.
    ClientCounters {
        /// Requests started.
        requests,
        /// Columns received into memory.
        columns,
        /// Columns shown in place.
        shown,
        /// Bytes of both, including the zeros behind each buffer.
        bytes,
        /// Answers that a column has not changed.
        unchanged,
        /// Lists received.
        lists,
        /// Requests refused by the storage node.
        refused,
        /// Columns that were received and dropped: too large, or no memory for them.
        dropped,
        /// Requests that failed because the connection is closed.
        broken,
        /// Messages that were not valid answers; the first one closed the connection.
        bad_answers,
    }
}

/// Requests columns on one channel and receives the answers on another.
#[derive(Debug)]
pub struct ColumnClient {
    config: ColumnClientConfig,
    number: u32,
    /// Requests that have not been sent.
    outbox: VecDeque<(u32, Vec<u8>)>,
    /// Requests that have not been answered, oldest first.
    pending: VecDeque<Pending>,
    /// The answer that is being received.
    assembly: Option<Assembly>,
    answers: VecDeque<Answer>,
    finishing: bool,
    finished: bool,
    broken: Option<RequestError>,
    counters: ClientCounters,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct Pending {
    request: u32,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Memory { known: Option<u64> },
    InPlace,
    List,
}

impl ColumnClient {
    /// Creates a client without requests.
    pub fn new(config: ColumnClientConfig) -> Self {
        Self {
            config,
            number: 0,
            outbox: VecDeque::new(),
            pending: VecDeque::new(),
            assembly: None,
            answers: VecDeque::new(),
            finishing: false,
            finished: false,
            broken: None,
            counters: ClientCounters::default(),
        }
    }

    /// The configuration.
    pub fn config(&self) -> &ColumnClientConfig {
        &self.config
    }

    /// The client's counters.
    pub fn counters(&self) -> &ClientCounters {
        &self.counters
    }

    /// Requests started whose result has not been taken.
    pub fn under_way(&self) -> usize {
        self.pending.len() + self.answers.len()
    }

    /// Why the client can no longer be used, if so.
    pub fn broken(&self) -> Option<&RequestError> {
        self.broken.as_ref()
    }

    /// Requests a column into memory; if `known` is its version, only a confirmation of that is
    /// sent.
    ///
    /// # Errors
    /// If the window is full, the name is not valid, or the connection is closed.
    pub fn ask(&mut self, name: &str, known: Option<u64>) -> Result<Ticket, AskError> {
        self.ask_column(name, known, Kind::Memory { known })
    }

    /// Requests a column, to be shown piece by piece in place in the receive buffers.
    ///
    /// # Errors
    /// As for [`Self::ask`].
    pub fn ask_in_place(&mut self, name: &str) -> Result<Ticket, AskError> {
        self.ask_column(name, None, Kind::InPlace)
    }

    /// Requests the list of columns that the storage node serves.
    ///
    /// # Errors
    /// If the window is full, or the connection is closed.
    pub fn ask_list(&mut self) -> Result<Ticket, AskError> {
        self.check()?;
        let request = self.number;
        let bytes = AskList { request }.emit().to_vec();
        Ok(self.enter(ASK_LIST, bytes, Kind::List))
    }

    /// Declares that no more requests follow; the storage node is notified once all have been sent.
    pub fn finish(&mut self) {
        self.finishing = true;
    }

    /// Whether the storage node has confirmed that everything is answered.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// The next request that has ended. Most end in the order in which they were started.
    pub fn take(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Sends requests and receives answers. Columns requested in place are shown to `reader`, piece
    /// by piece; `&mut ()` ignores them. True if anything happened. Call it when the sender's or
    /// the receiver's `poll_timeout` is due.
    ///
    /// # Errors
    /// If the connection is closed, possibly because of a message that is not a valid answer
    /// ([`Self::broken`]); all requests in flight have then ended. Continue to poll until both ends
    /// are settled.
    pub fn poll(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        sender: &mut Sender,
        receiver: &mut Receiver,
        reader: &mut dyn PieceReader,
    ) -> Result<bool, Closed> {
        let result = self.advance(now, verbs, sender, receiver, reader);
        if let Err(closed) = result {
            self.fail_all(RequestError::Closed(closed));
        }
        result
    }

    fn ask_column(
        &mut self,
        name: &str,
        known: Option<u64>,
        kind: Kind,
    ) -> Result<Ticket, AskError> {
        self.check()?;
        let ask = Ask {
            request: self.number,
            known,
            name,
        };
        let mut bytes = Vec::new();
        ask.emit(&mut bytes).map_err(AskError::Name)?;
        Ok(self.enter(ASK, bytes, kind))
    }

    fn check(&self) -> Result<(), AskError> {
        if let Some(error) = &self.broken {
            return Err(AskError::Broken(error.clone()));
        }
        if self.finishing {
            return Err(AskError::Finished);
        }
        let window = self.config.window.max(1);
        if self.under_way() >= usize::from(window) {
            return Err(AskError::WindowFull { window });
        }
        Ok(())
    }

    fn enter(&mut self, opcode: u32, bytes: Vec<u8>, kind: Kind) -> Ticket {
        let request = self.number;
        // It wraps long after the first requests have been answered: a window has at most 65535.
        self.number = self.number.wrapping_add(1);
        self.outbox.push_back((opcode, bytes));
        self.pending.push_back(Pending { request, kind });
        self.counters.requests += 1;
        Ticket(request)
    }

    fn advance(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        sender: &mut Sender,
        receiver: &mut Receiver,
        reader: &mut dyn PieceReader,
    ) -> Result<bool, Closed> {
        if sender.message_max() < MESSAGE_MIN {
            sender.close(now, verbs, CloseReason::MessageTooLong);
        }
        // What arrived before the close still counts.
        let mut happened = match self.receive(receiver, reader) {
            Ok(any) => any,
            Err(Trouble::Closed(closed)) => {
                // This node may have to notify the peer.
                let _ = sender.poll(now, verbs);
                return Err(closed);
            }
            Err(Trouble::BadAnswer(bad)) => {
                self.counters.bad_answers += 1;
                self.fail_all(RequestError::BadAnswer(bad));
                sender.close(now, verbs, CloseReason::BadMessage);
                false
            }
        };
        happened |= sender.poll(now, verbs)?;
        happened |= receiver.poll(now, verbs)?;
        if self.send(sender)? {
            happened = true;
            sender.poll(now, verbs)?;
        }
        Ok(happened)
    }

    fn send(&mut self, sender: &mut Sender) -> Result<bool, Closed> {
        let mut happened = false;
        while let Some((opcode, bytes)) = self.outbox.front() {
            match sender.try_send(*opcode, bytes) {
                Ok(true) => {
                    self.outbox.pop_front();
                    happened = true;
                }
                Ok(false) => break,
                Err(SendError::Closed(closed)) => return Err(closed),
                Err(error) => panic!("somebody else uses the client's sender: {error}"),
            }
        }
        if self.finishing && self.outbox.is_empty() {
            match sender.finish() {
                Ok(()) => {}
                Err(SendError::Closed(closed)) => return Err(closed),
                Err(error) => panic!("somebody else uses the client's sender: {error}"),
            }
        }
        Ok(happened)
    }

    fn receive(
        &mut self,
        receiver: &mut Receiver,
        reader: &mut dyn PieceReader,
    ) -> Result<bool, Trouble> {
        let mut happened = false;
        // After a protocol violation the client processes nothing more.
        while !self.finished && self.broken.is_none() {
            let piece = match receiver.peek()? {
                Arrived::Piece(piece) => piece,
                Arrived::Empty => break,
                Arrived::Finished => {
                    self.finished = true;
                    let missing = self.pending.len();
                    if missing > 0 {
                        return Err(BadAnswer::Ended { missing }.into());
                    }
                    return Ok(true);
                }
            };
            happened = true;
            let mut assembly = match self.assembly.take() {
                Some(assembly) => assembly,
                None => Assembly::begin(piece.opcode, piece.total, &self.config)?,
            };
            let is_last = piece.is_last();
            assembly.piece(piece.bytes, &mut self.pending, &self.config, reader)?;
            if is_last {
                let answer = assembly.finish(&mut self.pending, &self.config)?;
                self.count(&answer);
                self.answers.push_back(answer);
            } else {
                self.assembly = Some(assembly);
            }
            receiver.release();
        }
        Ok(happened)
    }

    fn count(&mut self, answer: &Answer) {
        let counters = &mut self.counters;
        match &answer.result {
            Ok(Reply::Column(column)) => {
                counters.columns += 1;
                counters.bytes += column.shape().bytes();
            }
            Ok(Reply::Shown(header)) => {
                counters.shown += 1;
                counters.bytes += header.shape.bytes();
            }
            Ok(Reply::Unchanged { .. }) => counters.unchanged += 1,
            Ok(Reply::List(_)) => counters.lists += 1,
            Err(RequestError::Refused { .. }) => counters.refused += 1,
            Err(_) => counters.dropped += 1,
        }
    }

    /// Fails all requests in flight.
    fn fail_all(&mut self, error: RequestError) {
        self.outbox.clear();
        self.assembly = None;
        let error = self.broken.get_or_insert(error);
        self.counters.broken += self.pending.len() as u64;
        for pending in self.pending.drain(..) {
            self.answers.push_back(Answer {
                ticket: Ticket(pending.request),
                result: Err(error.clone()),
            });
        }
    }
}

/// Why nothing more is received.
enum Trouble {
    Closed(Closed),
    BadAnswer(BadAnswer),
}

impl From<Closed> for Trouble {
    fn from(closed: Closed) -> Self {
        Self::Closed(closed)
    }
}

impl From<BadAnswer> for Trouble {
    fn from(bad: BadAnswer) -> Self {
        Self::BadAnswer(bad)
    }
}
