//! The node under test: its two connections, and its invariants for whatever the peer writes.

use super::hostile::Hostile;
use super::network::{Network, VICTIM};
use rackweave_base::Duration;
use rackweave_endpoint::messaging::{
    Arrived, CloseReason, Closed, ClosedBy, Connection, MessagingConfig, Piece, SendError,
};
use rackweave_wire::fabric::message::{PieceHeader, piece_span};
use zerocopy::FromBytes as _;

/// Bytes by which a vector's capacity may exceed what has arrived: 1 MiB ahead, doubled.
const AHEAD: usize = 4 << 20;

/// Close reasons for a misbehaving peer.
const LIES: [CloseReason; 5] = [
    CloseReason::ForeignState,
    CloseReason::BadSequence,
    CloseReason::BadLength,
    CloseReason::BadHeader,
    CloseReason::MessageTooLong,
];

/// The configuration of the nodes: bits 0 and 1 the receive buffers, bit 2 two channels each way,
/// bit 3 short messages only, bit 4 no keepalive, bit 6 small packages with their words.
pub fn config(setup: u8) -> MessagingConfig {
    let receive_buffers = [1, 2, 3, 7][usize::from(setup & 3)];
    let channels = 1 + u8::from(setup & 4 != 0 && receive_buffers > 1);
    MessagingConfig {
        receive_buffers,
        receive_bytes: 1024,
        message_max: if setup & 8 == 0 { 1 << 40 } else { 3_000 },
        channels_up: channels,
        channels_down: channels,
        keepalive: Duration::from_millis(u64::from(setup & 16 == 0)),
        timeout: Duration::from_micros(200),
        retries: 3,
        word_last: setup & 64 != 0,
        ..MessagingConfig::default()
    }
}

/// What a receiver has taken, as the harness tracks it.
#[derive(Default)]
struct Reading {
    /// The package last looked at, and where it may have started in an inline buffer then.
    package: Option<u64>,
    inline_start: Option<usize>,
    /// How many bytes of the package are released.
    read: usize,
    /// Messages taken.
    number: u32,
    /// Opcode, length and progress of the message that has begun.
    begun: Option<(u32, u64, u64)>,
    /// The piece last peeked at: its length, and whether it ends the message.
    peeked: Option<(usize, bool)>,
    /// The end that it has reported.
    ended: Option<Closed>,
    /// Packages taken at the last poll.
    polled: u64,
    /// What has been copied out of the message that has begun.
    copied: Vec<u8>,
}

pub struct Victim {
    pub connection: Connection,
    readings: Vec<Reading>,
    /// Its user copies messages out, and does not read them in place.
    copies: bool,
    /// Why it is closed, as first reported.
    closed: Option<Closed>,
    /// Its own user has closed it.
    has_closed: bool,
}

impl Victim {
    pub fn new(connection: Connection, copies: bool) -> Self {
        let readings = connection
            .receivers
            .iter()
            .map(|_| Reading::default())
            .collect();
        Self {
            connection,
            readings,
            copies,
            closed: None,
            has_closed: false,
        }
    }

    pub fn channels(&self) -> usize {
        self.readings.len()
    }

    /// Looks at the next piece of a channel, or copies it out.
    pub fn peek(&mut self, hostile: &Hostile, channel: usize) {
        if self.copies {
            return self.copy_out(channel);
        }
        let reading = &mut self.readings[channel];
        let receiver = &mut self.connection.receivers[channel];
        let package = receiver.counters().packages;
        match receiver.peek() {
            Ok(Arrived::Piece(piece)) => {
                assert_eq!(reading.ended, None, "a piece after the end");
                let buffer = hostile.buffer_of(channel, package);
                if reading.package != Some(package) {
                    reading.package = Some(package);
                    reading.inline_start = hostile.inline_start(buffer, package);
                }
                let places = hostile.places(buffer, reading.inline_start);
                reading.check(&piece, places, hostile.agreed.message_max);
            }
            Ok(Arrived::Empty) => assert_eq!(reading.ended, None, "it ended before"),
            Ok(Arrived::Finished) => assert_eq!(reading.begun, None, "within a message"),
            Err(closed) => {
                reading.peeked = None;
                let ended = *reading.ended.get_or_insert(closed);
                assert_eq!(ended, closed, "the reason has changed");
            }
        }
    }

    /// Releases the piece last peeked at, if there is one.
    pub fn release(&mut self, channel: usize) {
        let reading = &mut self.readings[channel];
        if reading.ended.is_some() {
            return;
        }
        if let Some((length, is_last)) = reading.peeked.take() {
            let receiver = &mut self.connection.receivers[channel];
            let package = receiver.counters().packages;
            receiver.release();
            reading.released(length, is_last);
            if receiver.counters().packages > package {
                reading.read = 0;
            }
            assert_eq!(receiver.is_within_message(), reading.begun.is_some());
            assert_eq!(receiver.counters().messages as u32, reading.number);
        }
    }

    /// Takes what has arrived on a channel, piece by piece.
    pub fn drain(&mut self, hostile: &Hostile, channel: usize) {
        loop {
            self.peek(hostile, channel);
            if self.readings[channel].peeked.is_none() {
                return;
            }
            self.release(channel);
        }
    }

    /// Copies out what has arrived of the next message of a channel.
    fn copy_out(&mut self, channel: usize) {
        let reading = &mut self.readings[channel];
        let receiver = &mut self.connection.receivers[channel];
        let (before, bytes) = (reading.copied.len(), receiver.counters().bytes);
        let received = receiver.receive_into(&mut reading.copied);
        let copied = reading.copied.len();
        let released = receiver.counters().bytes - bytes;
        assert_eq!((copied - before) as u64, released, "copied is released");
        assert!(copied as u64 <= receiver.message_max());
        assert!(reading.copied.capacity() <= 2 * copied + AHEAD);
        match received {
            Ok(Some(info)) => {
                assert_eq!(reading.ended, None, "a message after the end");
                assert_eq!(info.message, reading.number, "messages come in order");
                assert_eq!(info.length, copied as u64);
                reading.copied = Vec::new();
                reading.number = reading.number.wrapping_add(1);
            }
            Ok(None) => assert_eq!(reading.ended, None, "it ended before"),
            Err(closed) => {
                let ended = *reading.ended.get_or_insert(closed);
                assert_eq!(ended, closed, "the reason has changed");
            }
        }
    }

    /// Sends on a channel what fits into free buffers.
    pub fn send(&mut self, channel: usize, length: usize) {
        let sender = &mut self.connection.senders[channel];
        let rest = sender.remaining();
        let sent = if rest > 0 {
            let length = length.min(rest as usize);
            assert!(sender.write(&vec![rest as u8; length]) <= length);
            Ok(())
        } else if length <= sender.piece_max() {
            sender.try_send(7, &vec![7; length]).map(drop)
        } else {
            sender.begin(8, length as u64)
        };
        match sent {
            Err(SendError::Closed(closed)) => assert_eq!(Some(closed), sender.closed()),
            Err(SendError::TooLong { bytes, max }) => assert!(bytes > max),
            Err(SendError::NotInOnePiece { .. }) => panic!("{length} bytes fit one piece"),
            Err(SendError::Unfinished { .. } | SendError::Finished) | Ok(()) => {}
        }
    }

    /// Marks the end of a channel.
    pub fn finish(&mut self, channel: usize) {
        let sender = &mut self.connection.senders[channel];
        if let Err(SendError::Closed(closed)) = sender.finish() {
            assert_eq!(Some(closed), sender.closed());
        }
    }

    pub fn close(&mut self, network: &mut Network) {
        let nic = &mut network.nics[VICTIM];
        self.connection
            .close(network.now, nic, CloseReason::BadMessage);
        self.has_closed = true;
        network.settle();
    }

    pub fn poll(&mut self, network: &mut Network) {
        let polled = self.connection.poll(network.now, &mut network.nics[VICTIM]);
        match polled {
            // Its peer may have been notified of all buffers.
            Ok(_) => {
                for (reading, receiver) in self.readings.iter_mut().zip(&self.connection.receivers)
                {
                    reading.polled = receiver.counters().packages;
                }
            }
            Err(closed) => assert_eq!(self.connection.closed(), Some(closed)),
        }
        network.settle();
    }

    /// Checks the invariants.
    pub fn check(&mut self, hostile: &Hostile) {
        let closed = self.connection.closed();
        match (self.closed, closed) {
            (Some(before), now) => assert_eq!(now, Some(before), "it is closed for one reason"),
            (None, Some(closed)) => {
                let legal = match closed.by {
                    ClosedBy::Local => {
                        LIES.contains(&closed.reason)
                            || (self.has_closed && closed.reason == CloseReason::BadMessage)
                    }
                    ClosedBy::Peer => true,
                    ClosedBy::Transport => closed.reason == CloseReason::TransportBroken,
                };
                assert!(legal, "{closed}");
                let innocent = !hostile.has_lied && !self.has_closed;
                assert!(!innocent, "{closed}, and the peer kept to the protocol");
            }
            (None, None) => {}
        }
        self.closed = closed;
        let channels = self
            .readings
            .iter()
            .zip(&self.connection.receivers)
            .enumerate();
        for (channel, (reading, receiver)) in channels {
            let taken = receiver.counters().packages - reading.polled;
            assert!(
                taken <= hostile.count(channel),
                "a package without a buffer"
            );
        }
        for sender in &self.connection.senders {
            let packages = sender.counters().packages;
            let most = u64::from(hostile.agreed.mine.receive_buffers) + hostile.frees;
            assert!(packages <= most, "a package without a buffer");
        }
    }
}

impl Reading {
    /// Checks that a piece is what the peer has written there, as far as it is known.
    fn check<'a>(
        &mut self,
        piece: &Piece<'_>,
        mut places: impl Iterator<Item = &'a [u8]>,
        message_max: u64,
    ) {
        let (length, bytes) = (piece.bytes.len(), piece.bytes.to_vec());
        let (opcode, total, offset) = (piece.opcode, piece.total, piece.offset);
        let is_written = places.any(|package| {
            let piece = package.get(self.read..).unwrap_or_default();
            let Ok((header, rest)) = PieceHeader::read_from_prefix(piece) else {
                return false;
            };
            let said = (header.opcode.get(), header.total.get(), header.offset.get());
            header.length.get() as usize == length
                && rest.get(..length) == Some(&bytes[..])
                && said == (opcode, total, offset)
        });
        assert!(
            is_written,
            "a piece of {length} bytes that nobody has written"
        );
        let expected = self.begun.unwrap_or((opcode, total, 0));
        assert_eq!((opcode, total, offset), expected, "it changes its mind");
        assert_eq!(piece.message, self.number, "messages come in order");
        assert!(total <= message_max);
        assert!(offset + length as u64 <= total);
        self.begun = Some((opcode, total, offset));
        self.peeked = Some((length, piece.is_last()));
    }

    fn released(&mut self, length: usize, is_last: bool) {
        self.read += piece_span(length);
        if is_last {
            self.begun = None;
            self.number = self.number.wrapping_add(1);
        } else if let Some((_, _, offset)) = &mut self.begun {
            *offset += length as u64;
        }
    }
}
