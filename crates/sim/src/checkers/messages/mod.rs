//! The checker of messages between two nodes: each is delivered at most once, whole and in order,
//! none is invented; and where some were not delivered, both nodes know.
//!
//! The programs at both ends of every channel report what they do and see, in the order in which it
//! happens: messages begun, written and finished, pieces looked at and released, the progress
//! reported to a sender, and how each end ended. The bytes of a message follow from its channel and
//! number ([`fill_message`]), so that a byte in the wrong place is detected wherever it came from.
//! The checker knows nothing of buffers, words and packages.
//!
//! Requirements:
//! - pieces come in the order and with the bytes, kind and length with which they were written, and
//!   not before that; looking at a piece twice shows the same;
//! - if a sender is notified that all was consumed, all was released; what was reported as arrived
//!   can be read although the connection is closed;
//! - the end comes after the last message, and only if the sender has announced it;
//! - a channel ends well at both nodes, unless something was done to its connection or the network:
//!   then each end that did not end well gives a reason, and that reason exists: one of the node's
//!   program, a violation by the peer, the end of the peer, or a broken network.

mod content;
mod judge;
#[cfg(test)]
mod tests;
mod violation;

pub use content::{Wrong, check_message, fill_message};
pub use violation::{ChannelFault, MessageViolation};

use super::found::Found;
use core::fmt;
use judge::Judged;
use std::collections::BTreeMap;

/// One of the two nodes of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Peer {
    /// The node that dialled.
    Compute,
    /// The node that listened.
    Storage,
}

impl Peer {
    /// The other one.
    pub const fn other(self) -> Self {
        match self {
            Self::Compute => Self::Storage,
            Self::Storage => Self::Compute,
        }
    }

    const fn at(self) -> usize {
        match self {
            Self::Compute => 0,
            Self::Storage => 1,
        }
    }
}

/// A channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChannelName {
    /// The connection.
    pub connection: u32,
    /// The sending node.
    pub sender: Peer,
    /// Its number among those of that node.
    pub number: u8,
}

impl fmt::Display for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.sender {
            Peer::Compute => "up",
            Peer::Storage => "down",
        };
        write!(f, "connection {} {way} {}", self.connection, self.number)
    }
}

/// An end of a channel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ChannelEnd {
    /// Where messages are sent.
    Sending,
    /// Where they arrive.
    Receiving,
}

impl ChannelName {
    /// The node at this end.
    pub const fn peer(self, end: ChannelEnd) -> Peer {
        match end {
            ChannelEnd::Sending => self.sender,
            ChannelEnd::Receiving => self.sender.other(),
        }
    }
}

/// A piece of a message, as its receiver sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SeenPiece<'a> {
    /// The opcode that it claims for the message.
    pub opcode: u32,
    /// The message's number.
    pub message: u32,
    /// Bytes of the whole message.
    pub total: u64,
    /// Bytes before this piece.
    pub offset: u64,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// How an end of a channel ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// A sender was notified that all was consumed; a receiver has seen the end.
    Well,
    /// The connection is closed, by this node, for the reason with this number.
    ClosedHere(u16),
    /// The connection is closed, by the peer.
    ClosedThere(u16),
    /// The network or the peer is gone.
    Broken,
    /// The node died.
    Died,
}

/// The summary of a history without violations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MessageSummary {
    /// Messages received whole.
    pub messages: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Connections that both nodes opened.
    pub connections: u64,
    /// Of those: closed for a reason of a node's own program.
    pub closed: u64,
    /// Of those: closed because a node violated the protocol.
    pub accused: u64,
    /// Of those: broken, or ended by the death of a node.
    pub broken: u64,
}

/// The history of all connections.
#[derive(Debug)]
pub struct MessageHistory {
    seed: u64,
    /// The reason number for a broken network.
    broken: u16,
    connections: BTreeMap<u32, Connection>,
    channels: BTreeMap<ChannelName, Channel>,
    violations: Found<MessageViolation>,
}

/// The state of a connection. Pairs are by node.
#[derive(Debug, Default)]
struct Connection {
    opened: [bool; 2],
    /// Something may be done to the network or a node.
    may_break: bool,
    /// Reasons for which a node's program closes it.
    wanted: [Vec<u16>; 2],
    /// Reasons for which the other node has to close it because this one violated the protocol.
    lies: [Vec<u16>; 2],
    /// How it ended for the node, if not well.
    ended: [Option<Ended>; 2],
}

#[derive(Debug, Default)]
struct Channel {
    sent: Vec<Sent>,
    /// The sender has announced that nothing follows.
    finished: bool,
    /// What was reported to the sender as arrived.
    arrived: Position,
    /// What has been released.
    read: Position,
    /// The length of the piece looked at last.
    looked: u64,
    seen_finished: bool,
    bytes: u64,
    ended: [Option<Ended>; 2],
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    opcode: u32,
    total: u64,
    written: u64,
}

/// A position in a channel: a message, and bytes of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Position {
    /// Complete messages before it.
    pub message: u64,
    /// Bytes of the next one.
    pub offset: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of message {}", self.offset, self.message)
    }
}

impl Channel {
    /// The position of the sender.
    fn written(&self) -> Position {
        match self.sent.last() {
            Some(last) if last.written < last.total => Position {
                message: self.sent.len() as u64 - 1,
                offset: last.written,
            },
            _ => Position {
                message: self.sent.len() as u64,
                offset: 0,
            },
        }
    }
}

impl MessageHistory {
    /// A history of messages whose bytes follow from `seed`. `broken` is the reason number that a
    /// node gives when its network is broken.
    pub fn new(seed: u64, broken: u16) -> Self {
        Self {
            seed,
            broken,
            connections: BTreeMap::new(),
            channels: BTreeMap::new(),
            violations: Found::default(),
        }
    }

    /// Records that a node has opened its end of a connection, with these numbers of channels on
    /// which it sends and receives. `may_break`: something may be done to it, its peer or the
    /// network.
    pub fn open(&mut self, connection: u32, peer: Peer, channels: (u8, u8), may_break: bool) {
        let entry = self.connections.entry(connection).or_default();
        entry.opened[peer.at()] = true;
        entry.may_break |= may_break;
        for (sender, count) in [(peer, channels.0), (peer.other(), channels.1)] {
            for number in 0..count {
                let name = ChannelName {
                    connection,
                    sender,
                    number,
                };
                self.channels.entry(name).or_default();
            }
        }
    }

    /// Records that a node's program closes the connection for the reason with this number.
    pub fn wants_close(&mut self, connection: u32, peer: Peer, reason: u16) {
        let entry = self.connections.entry(connection).or_default();
        entry.wanted[peer.at()].push(reason);
    }

    /// Records that a node violates the protocol so that its peer must close the connection, with
    /// this reason.
    pub fn lies(&mut self, connection: u32, peer: Peer, reason: u16) {
        let entry = self.connections.entry(connection).or_default();
        entry.lies[peer.at()].push(reason);
    }

    /// Lets `judge` check an event on a channel.
    fn with(&mut self, name: ChannelName, judge: impl FnOnce(&mut Channel, u64) -> Judged) {
        match self.channels.get_mut(&name) {
            None => self.violations.push(MessageViolation::NoChannel(name)),
            Some(channel) => {
                if let Err(fault) = judge(channel, self.seed) {
                    self.violations.push(MessageViolation::Channel(name, fault));
                }
            }
        }
    }

    // ---- Events of a sender.

    /// The number of the message that it begins next.
    pub fn begun(&self, name: ChannelName) -> u32 {
        let channel = self.channels.get(&name);
        channel.map_or(0, |channel| channel.sent.len() as u32)
    }

    /// Records that it begins a message. Returns its number.
    pub fn begin(&mut self, name: ChannelName, opcode: u32, total: u64) -> u32 {
        let mut number = 0;
        self.with(name, |channel, _| {
            number = channel.sent.len() as u32;
            channel.begin(opcode, total)
        });
        number
    }

    /// Records that it has written this many bytes of the message.
    pub fn wrote(&mut self, name: ChannelName, bytes: u64) {
        self.with(name, |channel, _| channel.wrote(bytes));
    }

    /// Records that it announces that nothing follows.
    pub fn finish_channel(&mut self, name: ChannelName) {
        self.with(name, |channel, _| {
            channel.finished = true;
            Ok(())
        });
    }

    /// Records that it was notified that everything written has arrived.
    pub fn arrived(&mut self, name: ChannelName) {
        self.with(name, |channel, _| {
            channel.arrived = channel.written();
            Ok(())
        });
    }

    /// Records that it was notified that everything written was released.
    pub fn consumed(&mut self, name: ChannelName) {
        self.with(name, |channel, _| channel.consumed());
    }

    // ---- Events of a receiver.

    /// Records that it looks at the next piece, for the first time or again.
    pub fn look(&mut self, name: ChannelName, piece: SeenPiece<'_>) {
        self.with(name, |channel, seed| channel.look(name, seed, piece));
    }

    /// Records that it releases the piece.
    pub fn release(&mut self, name: ChannelName) {
        self.with(name, |channel, _| channel.release());
    }

    /// Records that bytes of the next message were copied out and released.
    pub fn copied(&mut self, name: ChannelName, bytes: &[u8]) {
        self.with(name, |channel, seed| channel.copied(name, seed, bytes));
    }

    /// Records that the message whose bytes were copied out is complete.
    pub fn copied_whole(&mut self, name: ChannelName, opcode: u32, message: u32, length: u64) {
        self.with(name, |channel, _| {
            channel.copied_whole(opcode, message, length)
        });
    }

    /// Records that it sees that nothing follows.
    pub fn saw_finished(&mut self, name: ChannelName) {
        self.with(name, |channel, _| channel.saw_finished());
    }

    /// Records that it was notified that the connection is closed and nothing more can be read.
    pub fn nothing_left(&mut self, name: ChannelName) {
        self.with(name, |channel, _| channel.nothing_left());
    }

    // ---- The end of a channel.

    /// Records how an end of a channel ended. The first report counts.
    pub fn ended(&mut self, name: ChannelName, end: ChannelEnd, how: Ended) {
        let peer = name.peer(end);
        let entry = self.connections.entry(name.connection).or_default();
        if how != Ended::Well {
            let before = *entry.ended[peer.at()].get_or_insert(how);
            if before != how && before != Ended::Died && how != Ended::Died {
                let fault = ChannelFault::TwoReasons { end, before, how };
                self.violations.push(MessageViolation::Channel(name, fault));
            }
        }
        self.with(name, |channel, _| channel.ended(end, how));
    }

    /// Records that a node of a connection has died, which ends everything there that had not
    /// ended.
    pub fn died(&mut self, connection: u32, peer: Peer) {
        let names: Vec<_> = self.names(connection).collect();
        for name in names {
            for end in [ChannelEnd::Sending, ChannelEnd::Receiving] {
                let ended = self.channels[&name].ended[end as usize];
                if name.peer(end) == peer && ended.is_none() {
                    self.ended(name, end, Ended::Died);
                }
            }
        }
    }

    fn names(&self, connection: u32) -> impl Iterator<Item = ChannelName> {
        let all = self.channels.keys().copied();
        all.filter(move |name| name.connection == connection)
    }

    /// Violations so far.
    pub fn violations(&self) -> u64 {
        self.violations.count()
    }
}
