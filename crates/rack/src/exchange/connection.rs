//! A connection of an exchange: its streams, and the channels that carry them.

use super::broadcast::Inlet;
use super::link::Link;
use super::{Incoming, Shared, handles, held};
use core::task::Waker;
use rackweave_base::{Instant, NodeId};
use rackweave_endpoint::exchange::{Disposition, Frame, Misbehaviour};
use rackweave_endpoint::messaging::{Arrived, CloseReason, Connection, Receiver, Sender};
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::exchange::{CREDIT_LEN, FrameKind, StreamNumber, split_credit};
use std::sync::Arc;

/// The longest name of a node in bytes.
const NAME_MAX: u64 = 256;

/// Pieces taken from a connection before the others' turn.
const PIECES_PER_TURN: u32 = 16;

/// Turns without news between two polls of the NIC: events of interest show in memory, only the
/// end of a connection shows at the NIC.
const TURNS_PER_POLL: u32 = 8;

/// A frame that is arriving.
struct Arriving {
    opcode: u32,
    /// `None`: nobody wants it.
    payload: Option<Vec<u8>>,
}

/// The channels of a connection. The thread of the exchange has them.
pub(super) struct Channels {
    /// `None`: the peer has dialed, and has not said its name.
    pub link: Option<Arc<Link>>,
    sender: Sender,
    receiver: Receiver,
    /// The frame to be sent before those of streams.
    first: Option<Frame>,
    /// The frame that is being sent, and how many of its bytes have been written.
    leaving: Option<(Frame, usize)>,
    arriving: Option<Arriving>,
    /// The peer's broadcasts, if this node takes them.
    inlet: Option<Inlet>,
    turns: u32,
}

/// Why a connection has to end.
pub(super) enum End {
    /// It has ended.
    Closed(String),
    /// The peer broke the protocol.
    Misbehaviour(Misbehaviour),
}

impl Channels {
    /// The channels of a connection that this node has dialed.
    pub fn dialed(connection: Connection, link: Arc<Link>, name: &str) -> Self {
        let hello = Frame {
            opcode: FrameKind::Hello.opcode(StreamNumber::CONNECTION),
            payload: name.as_bytes().to_vec(),
        };
        Self {
            first: Some(hello),
            ..Self::new(connection, Some(link))
        }
    }

    /// The channels of a connection that a peer has dialed.
    pub fn accepted(connection: Connection) -> Self {
        Self::new(connection, None)
    }

    fn new(mut connection: Connection, link: Option<Arc<Link>>) -> Self {
        let sender = connection
            .senders
            .pop()
            .expect("a channel each way is configured");
        let receiver = connection
            .receivers
            .pop()
            .expect("a channel each way is configured");
        Self {
            link,
            sender,
            receiver,
            first: None,
            leaving: None,
            arriving: None,
            inlet: None,
            turns: 0,
        }
    }

    /// Moves what can be moved. True if anything happened.
    pub fn advance(&mut self, shared: &Arc<Shared>) -> Result<bool, End> {
        let received = self.receive(shared)? | self.take_broadcasts(shared)?;
        let sent = self.send(shared)?;
        let happened = received || sent;
        self.turns = self.turns.wrapping_add(1);
        let due = self.turns.is_multiple_of(TURNS_PER_POLL);
        if happened || due || self.receiver.owes() || self.sender.could_post() {
            let (sender, receiver) = (&mut self.sender, &mut self.receiver);
            let now = shared.node.now();
            // This thread drives the node, so nobody has to be woken for what is posted.
            let polled = shared.node.poll(|nic| poll(now, nic, sender, receiver));
            // The reason of a close is found by the next receive, behind what arrived before it.
            return Ok(happened | polled.unwrap_or(true));
        }
        Ok(happened)
    }

    fn receive(&mut self, shared: &Arc<Shared>) -> Result<bool, End> {
        let mut pieces = 0;
        while pieces < PIECES_PER_TURN && self.receive_piece(shared)? {
            pieces += 1;
        }
        if pieces > 0
            && let Some(link) = &self.link
        {
            accept(shared, link);
            link.wake_tasks();
        }
        Ok(pieces > 0)
    }

    fn receive_piece(&mut self, shared: &Arc<Shared>) -> Result<bool, End> {
        let piece = match self.receiver.peek() {
            Ok(Arrived::Empty) => return Ok(false),
            Ok(Arrived::Finished) => return Err(End::Closed("the peer has ended it".to_owned())),
            Ok(Arrived::Piece(piece)) => piece,
            Err(closed) => return Err(End::Closed(closed.to_string())),
        };
        if let (0, Some(inlet), Some(link)) = (piece.offset, &mut self.inlet, &self.link) {
            // A stream that leaves a broadcast relies on it that what had been delivered before
            // this frame was sent is taken before it.
            let taken = inlet.take(shared, link).map_err(End::Misbehaviour)?;
            if taken.is_none() {
                self.inlet = None;
            }
        }
        if piece.offset == 0 {
            let begun = begin(self.link.as_deref(), piece.opcode, piece.total);
            let kept = begun.map_err(End::Misbehaviour)? == Disposition::Keep;
            // As much as was announced, in one piece of memory: a message of a stream has credit.
            let payload = kept.then(|| Vec::with_capacity(piece.total as usize));
            self.arriving = Some(Arriving {
                opcode: piece.opcode,
                payload,
            });
        }
        let arriving = self
            .arriving
            .as_mut()
            .expect("a message begins with its first piece");
        if let Some(payload) = &mut arriving.payload {
            piece.bytes.append_to(payload);
        }
        let is_whole = piece.is_last();
        self.receiver.release();
        if is_whole
            && let Some(Arriving {
                opcode,
                payload: Some(payload),
            }) = self.arriving.take()
        {
            self.handle(shared, opcode, payload)
                .map_err(End::Misbehaviour)?;
        }
        Ok(true)
    }

    fn handle(
        &mut self,
        shared: &Arc<Shared>,
        opcode: u32,
        payload: Vec<u8>,
    ) -> Result<(), Misbehaviour> {
        let Some(link) = &self.link else {
            self.link = Some(shared.greet(opcode, &payload)?);
            return Ok(());
        };
        match FrameKind::of_opcode(opcode) {
            Some((FrameKind::Data, _)) => shared.counts.received(payload.len() as u64),
            Some((FrameKind::Join, _)) => {
                let (number, name) = split_credit(&payload).expect("its length was checked");
                let name = String::from_utf8_lossy(name).into_owned();
                shared.join_broadcasts(link, number, name);
                return Ok(());
            }
            Some((FrameKind::Joined, _)) => {
                shared.handle_joined(link, payload == [1]);
                return Ok(());
            }
            _ => {}
        }
        link.multiplexer()
            .handle_frame(opcode, payload, &shared.accepted)
    }

    fn send(&mut self, shared: &Shared) -> Result<bool, End> {
        let Some(link) = &self.link else {
            return Ok(false);
        };
        let mut happened = false;
        loop {
            if let Some((frame, written)) = &mut self.leaving {
                let more = self.sender.write(&frame.payload[*written..]);
                *written += more;
                happened |= more > 0;
                if self.sender.is_writing() {
                    return Ok(happened);
                }
                count_sent(shared, frame);
                self.leaving = None;
            }
            let Some(frame) = self.first.take().or_else(|| link.poll_frame()) else {
                if happened {
                    self.sender.flush();
                }
                return Ok(happened);
            };
            let bytes = frame.payload.len() as u64;
            let begun = self.sender.begin(frame.opcode, bytes);
            begun.map_err(|error| End::Closed(error.to_string()))?;
            self.leaving = Some((frame, 0));
            happened = true;
        }
    }

    /// Whether a program has left a frame that can be sent. A frame that waits for a receive buffer
    /// of the peer is sent when the peer reports one, which wakes the thread.
    pub fn has_news(&self) -> bool {
        let has_frame = |link: &Arc<Link>| link.has_frame();
        self.leaving.is_none() && self.link.as_ref().is_some_and(has_frame)
    }

    /// Takes the peer's broadcasts from now on, and tells the peer; or that it can't.
    pub fn join_broadcasts(&mut self, link: &Link, inlet: Option<Inlet>) {
        link.send_control(Frame {
            opcode: FrameKind::Joined.opcode(StreamNumber::CONNECTION),
            payload: vec![inlet.is_some().into()],
        });
        if let Some(earlier) = core::mem::replace(&mut self.inlet, inlet) {
            earlier.leave();
        }
    }

    fn take_broadcasts(&mut self, shared: &Shared) -> Result<bool, End> {
        let (Some(inlet), Some(link)) = (&mut self.inlet, &self.link) else {
            return Ok(false);
        };
        let taken = inlet.take(shared, link).map_err(End::Misbehaviour)?;
        if taken.is_none() {
            self.inlet = None;
        }
        Ok(taken.unwrap_or(true))
    }

    /// Closes the connection, and returns what is left of it.
    pub fn close(self, shared: &Shared, reason: CloseReason) -> Leaving {
        if let Some(inlet) = self.inlet {
            inlet.leave();
        }
        let (senders, receivers) = (vec![self.sender], vec![self.receiver]);
        let mut connection = Connection { senders, receivers };
        let now = shared.node.now();
        shared.node.with(|nic| connection.close(now, nic, reason));
        let until = now + rackweave_endpoint::messaging::FAREWELL;
        Leaving { connection, until }
    }
}

fn poll(
    now: Instant,
    verbs: &mut dyn Verbs,
    sender: &mut Sender,
    receiver: &mut Receiver,
) -> Result<bool, rackweave_endpoint::messaging::Closed> {
    let sent = sender.poll(now, verbs)?;
    Ok(sent | receiver.poll(now, verbs)?)
}

fn begin(link: Option<&Link>, opcode: u32, bytes: u64) -> Result<Disposition, Misbehaviour> {
    match (link, FrameKind::of_opcode(opcode)) {
        (Some(link), Some((kind @ (FrameKind::Join | FrameKind::Joined), _))) => {
            let (dialed, least, most) = match kind {
                FrameKind::Join => (true, CREDIT_LEN as u64 + 1, CREDIT_LEN as u64 + NAME_MAX),
                _ => (false, 1, 1),
            };
            match (least..=most).contains(&bytes) {
                _ if link.dialed != dialed => Err(Misbehaviour::Opcode(opcode)),
                false => Err(Misbehaviour::Length { opcode, bytes }),
                true => Ok(Disposition::Keep),
            }
        }
        (Some(link), _) => link.multiplexer().begin_frame(opcode, bytes),
        (None, _) if bytes > NAME_MAX => Err(Misbehaviour::Length { opcode, bytes }),
        (None, _) => Ok(Disposition::Keep),
    }
}

fn count_sent(shared: &Shared, frame: &Frame) {
    if matches!(
        FrameKind::of_opcode(frame.opcode),
        Some((FrameKind::Data, _))
    ) {
        shared.counts.sent(frame.payload.len() as u64);
    }
}

/// Hands the streams that the peer has opened to the program, or refuses them.
fn accept(shared: &Arc<Shared>, link: &Arc<Link>) {
    let mut opened = Vec::new();
    let mut multiplexer = link.multiplexer();
    while let Some((stream, request)) = multiplexer.accept() {
        match shared.options.accepts {
            true => opened.push((stream, request)),
            false => multiplexer.refuse(stream),
        }
    }
    let peer = multiplexer.peer().clone();
    drop(multiplexer);
    if opened.is_empty() {
        return;
    }
    let mut arrivals = held(&shared.arrivals);
    for (stream, request) in opened {
        let (sender, receiver) = handles::pair(shared, link, stream);
        let peer = peer.clone();
        arrivals.waiting.push_back(Incoming {
            peer,
            request,
            sender,
            receiver,
        });
    }
    let wakers = core::mem::take(&mut arrivals.wakers);
    drop(arrivals);
    wakers.into_iter().for_each(Waker::wake);
}

impl Shared {
    /// The link of a peer that says its name.
    fn greet(&self, opcode: u32, name: &[u8]) -> Result<Arc<Link>, Misbehaviour> {
        let hello = FrameKind::Hello.opcode(StreamNumber::CONNECTION);
        let name = core::str::from_utf8(name).ok().filter(|_| opcode == hello);
        let is_node = |name: &&str| -> bool {
            let found: Option<NodeId> = self.rack.config().node_named(name);
            found.is_some()
        };
        let name = name.filter(is_node).ok_or(Misbehaviour::Opcode(opcode))?;
        let link = Arc::new(Link::accepting(name, self.options.streams));
        held(&self.links).all.push(link.clone());
        Ok(link)
    }
}

/// A connection that has been closed, until its peer knows.
pub(super) struct Leaving {
    connection: Connection,
    until: Instant,
}

impl Leaving {
    /// Polls it. Returns it as long as something is in flight.
    pub fn advance(mut self, shared: &Shared) -> Option<Self> {
        let now = shared.node.now();
        // That it is closed is known.
        let _closed = shared.node.with(|nic| self.connection.poll(now, nic));
        if !self.connection.is_settled() && now < self.until {
            return Some(self);
        }
        shared.node.with(|nic| self.connection.destroy(nic));
        None
    }
}
