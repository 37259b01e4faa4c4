//! The storage node's side of one connection.

mod lent;
mod request;

use super::{Catalogue, ColumnError, RefusalCode};
use crate::messaging::{Arrived, CloseReason, Closed, Receiver, SendError, Sender};
use lent::Lendings;
use rackweave_base::{Instant, counters};
use rackweave_verbs::{Region, Verbs};
use rackweave_wire::fabric::message::column::{
    COLUMN, LIST, MESSAGE_MIN, REFUSED, Refused, UNCHANGED, Unchanged,
};
use request::{REQUEST_MAX, Request, Trouble, parse};
use std::collections::VecDeque;
use std::sync::Arc;

/// The configuration of a [`ColumnServer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnServerConfig {
    /// Requests that are accepted before the current one has been answered, at least one. More wait
    /// in the receive buffers, and then at the client.
    pub queue_max: u16,
    /// Columns that stay registered for the connection while they are not being sent.
    pub lent_max: u16,
}

impl Default for ColumnServerConfig {
    fn default() -> Self {
        Self {
            queue_max: 64,
            lent_max: 256,
        }
    }
}

counters! {
    /// Counters of a server since it was created.
    ServerCounters {
        /// Requests accepted.
        requests,
        /// Columns sent.
        columns,
        /// Bytes of their buffers, including the zeros behind them.
        bytes,
        /// Answers that a column has not changed.
        unchanged,
        /// Lists sent.
        lists,
        /// Requests refused.
        refused,
        /// Columns registered for the connection.
        registrations,
        /// Messages that were not valid requests; the first one closed the connection.
        malformed,
    }
}

/// Receives requests on one channel and answers them, in order, on another.
#[derive(Debug)]
pub struct ColumnServer {
    catalogue: Arc<Catalogue>,
    config: ColumnServerConfig,
    /// The start of a request that arrives in several pieces.
    partial: Vec<u8>,
    queue: VecDeque<Request>,
    sending: Option<Sending>,
    lent: Lendings,
    /// Whether the client has declared that no more requests follow.
    ended: bool,
    /// Whether the client has been told that everything is answered.
    end_sent: bool,
    stopping: bool,
    malformed: Option<ColumnError>,
    counters: ServerCounters,
}

/// An answer in progress.
#[derive(Debug)]
struct Sending {
    /// The part that is copied: a short answer, or a column's header.
    head: Vec<u8>,
    head_sent: usize,
    /// The part that is sent in place: region, start, bytes left.
    body: Option<(Region, u64, u64)>,
}

impl ColumnServer {
    /// Creates a server for the columns in `catalogue`.
    pub fn new(catalogue: Arc<Catalogue>, config: ColumnServerConfig) -> Self {
        Self {
            catalogue,
            config,
            partial: Vec::new(),
            queue: VecDeque::new(),
            sending: None,
            lent: Lendings::default(),
            ended: false,
            end_sent: false,
            stopping: false,
            malformed: None,
            counters: ServerCounters::default(),
        }
    }

    /// The server's counters.
    pub fn counters(&self) -> &ServerCounters {
        &self.counters
    }

    /// Requests accepted and not answered.
    pub fn waiting(&self) -> usize {
        self.queue.len() + usize::from(self.sending.is_some())
    }

    /// What was wrong with the message because of which the connection was closed, if so.
    pub fn malformed(&self) -> Option<ColumnError> {
        self.malformed
    }

    /// Whether the client has finished, and all answers have arrived.
    pub fn is_finished(&self, sender: &Sender) -> bool {
        self.ended && self.waiting() == 0 && sender.is_delivered()
    }

    /// Refuses requests whose answers have not started, and all later ones.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Receives requests and sends answers. True if anything happened. Call it when the sender's or
    /// the receiver's `poll_timeout` is due.
    ///
    /// # Errors
    /// If the connection is closed, possibly because of a message that is not a valid request
    /// ([`Self::malformed`]). Continue to poll until both ends are settled, then call
    /// [`Self::destroy`].
    pub fn poll(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        sender: &mut Sender,
        receiver: &mut Receiver,
    ) -> Result<bool, Closed> {
        let result = self.advance(now, verbs, sender, receiver);
        match &result {
            // Nothing more is sent, but the NIC may still be reading what was posted.
            Err(_) if sender.is_settled() => self.lent.take_back(verbs, |_| true),
            Err(_) => {}
            Ok(_) if sender.is_delivered() => {
                let mut spare = self.lent.len().saturating_sub(self.config.lent_max.into());
                self.lent.take_back(verbs, |column| {
                    let goes = column.is_removed() || spare > 0;
                    spare = spare.saturating_sub(1);
                    goes
                });
            }
            Ok(_) => {}
        }
        result
    }

    /// Deregisters the columns that were registered for the connection. Its queue pairs have been
    /// destroyed, or are about to be.
    pub fn destroy(mut self, verbs: &mut dyn Verbs) {
        self.lent.take_back(verbs, |_| true);
    }

    fn advance(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        sender: &mut Sender,
        receiver: &mut Receiver,
    ) -> Result<bool, Closed> {
        if sender.message_max() < MESSAGE_MIN {
            sender.close(now, verbs, CloseReason::MessageTooLong);
        }
        let mut happened = sender.poll(now, verbs)?;
        match self.receive(receiver) {
            Ok(any) => happened |= any,
            Err(Trouble::Closed(closed)) => return Err(closed),
            Err(Trouble::Malformed(error)) => {
                self.counters.malformed += 1;
                self.malformed = Some(error);
                sender.close(now, verbs, CloseReason::BadMessage);
            }
        }
        happened |= receiver.poll(now, verbs)?;
        if self.send(verbs, sender)? {
            happened = true;
            sender.poll(now, verbs)?;
        }
        Ok(happened)
    }

    /// Accepts requests while the queue has space.
    fn receive(&mut self, receiver: &mut Receiver) -> Result<bool, Trouble> {
        let mut happened = false;
        while !self.ended && self.queue.len() < usize::from(self.config.queue_max.max(1)) {
            let piece = match receiver.peek()? {
                Arrived::Piece(piece) => piece,
                Arrived::Empty => break,
                Arrived::Finished => {
                    self.ended = true;
                    return Ok(true);
                }
            };
            happened = true;
            if piece.total > REQUEST_MAX {
                return Err(Trouble::Malformed(ColumnError::Length {
                    expected: REQUEST_MAX,
                    found: piece.total,
                }));
            }
            piece.bytes.append_to(&mut self.partial);
            if piece.is_last() {
                let request = parse(piece.opcode, &self.partial)?;
                self.partial.clear();
                self.queue.push_back(request);
                self.counters.requests += 1;
            }
            receiver.release();
        }
        Ok(happened)
    }

    /// Writes answers while there is space for them.
    fn send(&mut self, verbs: &mut dyn Verbs, sender: &mut Sender) -> Result<bool, Closed> {
        let mut happened = false;
        loop {
            if let Some(sending) = &mut self.sending {
                happened |= sending.write(sender);
                if sender.is_writing() {
                    return Ok(happened);
                }
                self.sending = None;
            }
            // A caller that removes a column waits until no connection sends it. As arrival is only
            // known for everything together, no new answer is started until then.
            let drains = self.lent.are_wanted();
            if drains && !sender.is_delivered() {
                break;
            }
            let Some(request) = self.queue.pop_front() else {
                break;
            };
            self.begin(request, verbs, sender)?;
            happened = true;
        }
        if happened {
            sender.flush();
        }
        if self.ended && !self.end_sent && self.waiting() == 0 {
            self.end_sent = true;
            happened = true;
            sender.finish().map_err(not_ours)?;
        }
        Ok(happened)
    }

    /// Starts an answer.
    fn begin(
        &mut self,
        request: Request,
        verbs: &mut dyn Verbs,
        sender: &mut Sender,
    ) -> Result<(), Closed> {
        let number = request.number();
        let answer = if self.stopping {
            Err((RefusalCode::STOPS, "ask another storage node".to_owned()))
        } else {
            match request {
                Request::Column {
                    request,
                    known,
                    name,
                } => self.answer(request, known, &name, verbs, sender),
                Request::List { request } => {
                    let list = self.catalogue.list(request);
                    too_long(list.len() as u64, sender).map(|()| {
                        self.counters.lists += 1;
                        (LIST, list, None)
                    })
                }
            }
        };
        let (opcode, head, body) = answer.unwrap_or_else(|(code, text)| {
            self.counters.refused += 1;
            let mut bytes = Vec::new();
            let refused = Refused {
                request: number,
                code,
                text: &text,
            };
            refused.emit(&mut bytes);
            (REFUSED, bytes, None)
        });
        let body_len = body.as_ref().map_or(0, |&(_, _, len)| len);
        // What is too long was refused before, and a refusal is not too long.
        let total = head.len() as u64 + body_len;
        sender.begin(opcode, total).map_err(not_ours)?;
        self.sending = Some(Sending {
            head,
            head_sent: 0,
            body,
        });
        Ok(())
    }

    #[expect(clippy::type_complexity, reason = "an answer's parts, once")]
    fn answer(
        &mut self,
        request: u32,
        known: Option<u64>,
        name: &str,
        verbs: &mut dyn Verbs,
        sender: &Sender,
    ) -> Result<(u32, Vec<u8>, Option<(Region, u64, u64)>), (RefusalCode, String)> {
        let column = self.catalogue.get(name).ok_or_else(|| {
            let text = format!("there is no column {name:?}; ask for the list");
            (RefusalCode::UNKNOWN_COLUMN, text)
        })?;
        let version = column.version();
        if known == Some(version) {
            self.counters.unchanged += 1;
            let unchanged = Unchanged { request, version };
            return Ok((UNCHANGED, unchanged.emit().to_vec(), None));
        }
        let header = column.header(request);
        too_long(header.total(), sender)?;
        let bytes = header.shape.bytes();
        let offset = column.offset();
        let body = if bytes == 0 {
            None
        } else {
            let lent = self.lent.lend(column, verbs, sender.pd());
            let (region, new) = lent.map_err(|e| (RefusalCode::NO_MEMORY, e.to_string()))?;
            self.counters.registrations += u64::from(new);
            Some((region, offset, bytes))
        };
        self.counters.columns += 1;
        self.counters.bytes += bytes;
        Ok((COLUMN, header.emit().to_vec(), body))
    }
}

impl Sending {
    /// Writes as much as there is space for. True if it was anything.
    fn write(&mut self, sender: &mut Sender) -> bool {
        let mut written = sender.write(&self.head[self.head_sent..]) as u64;
        self.head_sent += written as usize;
        if self.head_sent == self.head.len()
            && let Some((region, at, left)) = &mut self.body
        {
            let taken = sender.write_region(region, *at, *left);
            (*at, *left) = (*at + taken, *left - taken);
            written += taken;
        }
        written > 0
    }
}

/// A sender used only by the server refuses messages only if the connection is closed.
fn not_ours(error: SendError) -> Closed {
    match error {
        SendError::Closed(closed) => closed,
        error => panic!("somebody else uses the server's sender: {error}"),
    }
}

/// Refuses an answer that exceeds the connection's longest message.
fn too_long(bytes: u64, sender: &Sender) -> Result<(), (RefusalCode, String)> {
    let max = sender.message_max();
    if bytes <= max {
        return Ok(());
    }
    let text = format!("an answer of {bytes} bytes; at most {max} were agreed on (message_max)");
    Err((RefusalCode::TOO_LONG, text))
}
