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
    /// No end was taken.
    Whole(Box<MessageConnection>),
    Split {
        senders: Vec<Option<MessageSender>>,
        receivers: Vec<Option<MessageReceiver>>,
    },
    /// It was taken as a whole.
    Taken {
        channels: (usize, usize),
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
        Self {
            state: State::Whole(Box::new(connection)),
            node,
            rack,
        }
    }

    /// Advances the dialing. Returns true once it is connected.
    pub fn poll(&mut self) -> Result<bool, Fault> {
        let end = match &mut self.state {
            State::Whole(_) | State::Split { .. } | State::Taken { .. } => return Ok(true),
            State::Failed => {
                let detail = "this connection was not made; destroy it and dial anew";
                return Err(Fault::new(Status::Closed, detail));
            }
            State::Dialing(dialing) => dialing.poll(),
        };
        match end {
            None => Ok(false),
            Some(Ok(connection)) => {
                self.state = State::Whole(Box::new(connection));
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
        let (senders, receivers) = match &self.state {
            State::Whole(connection) => connection.channels(),
            State::Split { senders, receivers } => (senders.len(), receivers.len()),
            State::Taken { channels } => *channels,
            State::Dialing(_) | State::Failed => return Err(not_yet()),
        };
        Ok((senders as u32, receivers as u32))
    }

    /// Takes the sending end of a channel.
    pub fn take_sender(&mut self, channel: u32) -> Result<MessageSender, Fault> {
        take(self.ends()?.0, channel)
    }

    /// Takes the receiving end of a channel.
    pub fn take_receiver(&mut self, channel: u32) -> Result<MessageReceiver, Fault> {
        take(self.ends()?.1, channel)
    }

    /// Takes all ends.
    pub fn take_all(&mut self) -> Result<MessageConnection, Fault> {
        let channels = match &self.state {
            State::Whole(connection) => connection.channels(),
            State::Split { .. } | State::Taken { .. } => return Err(taken()),
            State::Dialing(_) | State::Failed => return Err(not_yet()),
        };
        match core::mem::replace(&mut self.state, State::Taken { channels }) {
            State::Whole(connection) => Ok(*connection),
            _ => unreachable!("its state was just seen"),
        }
    }

    /// The ends that were not taken yet, each for itself.
    #[expect(clippy::type_complexity, reason = "it is the only place")]
    fn ends(
        &mut self,
    ) -> Result<(&mut [Option<MessageSender>], &mut [Option<MessageReceiver>]), Fault> {
        if let State::Whole(_) = &self.state {
            let (senders, receivers) = self.take_all()?.split();
            self.state = State::Split {
                senders: senders.into_iter().map(Some).collect(),
                receivers: receivers.into_iter().map(Some).collect(),
            };
        }
        match &mut self.state {
            State::Split { senders, receivers } => Ok((senders, receivers)),
            State::Taken { .. } => Err(taken()),
            _ => Err(not_yet()),
        }
    }
}

fn taken() -> Fault {
    Fault::new(Status::InUse, "this end of the channel was taken before")
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
