//! One node's side of a connection, from the start of the dialing on.

use crate::error::Fault;
use crate::rack::Rack;
use crate::status::Status;
use ::rackweave_rack::Node;
use ::rackweave_rack::messaging::{ConnectError, Dialing, MessageConnection};
use rackweave_endpoint::messaging::handshake::HandshakeError;
use rackweave_endpoint::messaging::{MessageReceiver, MessageSender};

enum State {
    Dialing(Box<Dialing>),
    Up {
        senders: Vec<Option<MessageSender>>,
        receivers: Vec<Option<MessageReceiver>>,
    },
    Failed,
}

/// A connection, or one that is being made.
pub(crate) struct Connection {
    state: State,
    node: u16,
    pub rack: Rack,
}

impl Connection {
    /// A connection that is being made.
    pub fn dialing(rack: Rack, node: u16, dialing: Dialing) -> Self {
        Self {
            state: State::Dialing(Box::new(dialing)),
            node,
            rack,
        }
    }

    /// A connection that is made, at one of its nodes.
    pub fn up(rack: Rack, node: u16, connection: MessageConnection) -> Self {
        let mut made = Self {
            state: State::Failed,
            node,
            rack,
        };
        made.rise(connection);
        made
    }

    fn rise(&mut self, connection: MessageConnection) {
        let (senders, receivers) = connection.split();
        self.state = State::Up {
            senders: senders.into_iter().map(Some).collect(),
            receivers: receivers.into_iter().map(Some).collect(),
        };
    }

    /// Advances the dialing. Returns true once it is connected.
    pub fn poll(&mut self) -> Result<bool, Fault> {
        let end = match &mut self.state {
            State::Up { .. } => return Ok(true),
            State::Failed => {
                let detail = "this connection was not made; destroy it and dial anew";
                return Err(Fault::new(Status::Closed, detail));
            }
            State::Dialing(dialing) => dialing.poll(),
        };
        match end {
            None => Ok(false),
            Some(Ok(connection)) => {
                self.rise(connection);
                Ok(true)
            }
            Some(Err(error)) => {
                self.state = State::Failed;
                Err(fault(&self.rack, &error))
            }
        }
    }

    pub fn node(&self) -> u16 {
        self.node
    }

    /// The node itself.
    pub fn place(&self) -> Result<Node, Fault> {
        self.rack.node_in_process(self.rack.node_id(self.node)?)
    }

    /// How many channels lead to the peer, and from it.
    pub fn channels(&self) -> Result<(u32, u32), Fault> {
        match &self.state {
            State::Up { senders, receivers } => Ok((senders.len() as u32, receivers.len() as u32)),
            _ => Err(not_yet()),
        }
    }

    /// Takes the sending end of a channel.
    pub fn take_sender(&mut self, channel: u32) -> Result<MessageSender, Fault> {
        match &mut self.state {
            State::Up { senders, .. } => take(senders, channel),
            _ => Err(not_yet()),
        }
    }

    /// Takes the receiving end of a channel.
    pub fn take_receiver(&mut self, channel: u32) -> Result<MessageReceiver, Fault> {
        match &mut self.state {
            State::Up { receivers, .. } => take(receivers, channel),
            _ => Err(not_yet()),
        }
    }
}

fn not_yet() -> Fault {
    let detail = "the connection is not made yet; poll it until it is";
    Fault::new(Status::Refused, detail)
}

fn take<T>(ends: &mut [Option<T>], channel: u32) -> Result<T, Fault> {
    let has = ends.len();
    let Some(end) = ends.get_mut(channel as usize) else {
        let detail = format!("there is no channel {channel}; this way has {has}, counted from 0");
        return Err(Fault::new(Status::NotFound, detail));
    };
    let taken = || Fault::new(Status::InUse, "this end of the channel was taken before");
    end.take().ok_or_else(taken)
}

/// A connection that cannot be made, as a fault.
pub(crate) fn fault(rack: &Rack, error: &ConnectError) -> Fault {
    let status = match error {
        ConnectError::NoSuchNode { .. } => Status::NotFound,
        ConnectError::Config(_) => Status::BadArgument,
        ConnectError::Bind { .. } => Status::System,
        ConnectError::TimedOut { .. } => Status::TimedOut,
        ConnectError::Connect { error, .. } if error.kind() == std::io::ErrorKind::TimedOut => {
            Status::TimedOut
        }
        ConnectError::Connect { .. } => Status::Gone,
        ConnectError::Handshake { error, .. } => match error {
            HandshakeError::TimedOut { .. } => Status::TimedOut,
            HandshakeError::SetUp { .. } => Status::NoRoom,
            _ => Status::Refused,
        },
    };
    rack.fault(status, error)
}
