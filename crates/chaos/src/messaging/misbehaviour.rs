//! The misbehaviour of rogues: invalid handshakes, and false data once they have a connection.

use core::mem::discriminant;
use rackweave_base::{MacAddr, Rng};
use rackweave_endpoint::messaging::handshake::RefusalCode;
use rackweave_sim::checkers::messages::Peer;
use rackweave_wire::fabric::message::handshake::{Keys, Message, Refusal, Terms, VERSION};
use rackweave_wire::fabric::message::{
    CloseReason, FLAG_FINISHED, PIECE_HEADER_LEN, PieceHeader, Sequence, Word,
};
use zerocopy::IntoBytes;

/// The kind of a rogue's misbehaviour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Misbehaviour {
    /// It sends an invalid handshake.
    Nonsense(Nonsense),
    /// It connects, behaves correctly for a while, and then lies on one of its channels.
    Lie(Lie, u64),
}

/// The error in a handshake. Errors in keys are in a node's second message, others in its first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Nonsense {
    /// Random bytes.
    Noise(u64),
    /// Another protocol.
    Http,
    /// A length beyond all limits.
    Endless,
    /// A message that is not due.
    NotDue,
    /// Two messages at once.
    TwoAtOnce,
    NoBuffers,
    EightBuffers,
    OddBuffers,
    HugeBuffers,
    NoChannel,
    EightChannels,
    NoMessages,
    Multicast,
    ForeignRack,
    /// An unknown version. Only in a Hello.
    Version,
    /// The first bytes, and then nothing.
    Silence(usize),
    /// The first bytes, and then the end of the stream.
    EarlyEnd(usize),
    /// A refusal.
    Busy,
    TooManyPairs,
    PairTwice,
    KeysBeyond,
    KeysUnaligned,
    /// No keys where a node waits for them.
    NoKeys,
}

/// Every kind, and the code with which the honest node refuses it.
const NONSENSE: [(Nonsense, RefusalCode); 23] = [
    (Nonsense::Noise(0), RefusalCode::NotSpoken),
    (Nonsense::Http, RefusalCode::NotSpoken),
    (Nonsense::Endless, RefusalCode::Malformed),
    (Nonsense::NotDue, RefusalCode::OutOfOrder),
    (Nonsense::TwoAtOnce, RefusalCode::OutOfOrder),
    (Nonsense::NoBuffers, RefusalCode::ReceiveBuffers),
    (Nonsense::EightBuffers, RefusalCode::ReceiveBuffers),
    (Nonsense::OddBuffers, RefusalCode::BufferSize),
    (Nonsense::HugeBuffers, RefusalCode::BufferSize),
    (Nonsense::NoChannel, RefusalCode::Channels),
    (Nonsense::EightChannels, RefusalCode::Channels),
    (Nonsense::NoMessages, RefusalCode::MessageMax),
    (Nonsense::Multicast, RefusalCode::Address),
    (Nonsense::ForeignRack, RefusalCode::ForeignRack),
    (Nonsense::Version, RefusalCode::Version),
    (Nonsense::Silence(0), RefusalCode::TooLate),
    (Nonsense::EarlyEnd(0), RefusalCode::Stopping),
    (Nonsense::Busy, RefusalCode::Busy),
    (Nonsense::TooManyPairs, RefusalCode::BadKeys),
    (Nonsense::PairTwice, RefusalCode::BadKeys),
    (Nonsense::KeysBeyond, RefusalCode::BadKeys),
    (Nonsense::KeysUnaligned, RefusalCode::BadKeys),
    (Nonsense::NoKeys, RefusalCode::TooLate),
];

impl Nonsense {
    /// Draws a kind that a node can send.
    pub fn draw(rng: &mut Rng, peer: Peer) -> Self {
        match rng.pick(&NONSENSE).0 {
            Self::Noise(_) => Self::Noise(rng.next_u64()),
            Self::Silence(_) => Self::Silence(rng.below(50) as usize),
            Self::EarlyEnd(_) => Self::EarlyEnd(rng.below(50) as usize),
            // A storage node does not choose the version.
            Self::Version if peer == Peer::Storage => Self::Endless,
            other => other,
        }
    }

    /// The code with which the honest node refuses it.
    pub fn code(self) -> RefusalCode {
        let is_it = |(other, _): &&(Self, _)| discriminant(other) == discriminant(&self);
        let found = NONSENSE.iter().find(is_it);
        found.expect("every kind is in the table").1
    }

    /// Whether it replaces the keys, after a valid first message.
    pub fn is_second(self) -> bool {
        matches!(
            self,
            Self::TooManyPairs
                | Self::PairTwice
                | Self::KeysBeyond
                | Self::KeysUnaligned
                | Self::NoKeys
        )
    }

    /// Whether the stream ends after it.
    pub fn ends(self) -> bool {
        matches!(self, Self::EarlyEnd(_))
    }

    /// The bytes in place of a first message, which would be `first(terms)`.
    pub fn first(self, terms: Terms, first: fn(Terms) -> Message) -> Vec<u8> {
        let sound = first(terms).emit();
        let with = |change: fn(&mut Terms)| {
            let mut terms = terms;
            change(&mut terms);
            first(terms).emit()
        };
        match self {
            Self::Noise(seed) => {
                let mut rng = Rng::new(seed);
                (0..rng.between(12, 300))
                    .map(|_| rng.next_u64() as u8)
                    .collect()
            }
            Self::Http => b"GET / HTTP/1.1\r\nHost: unit\r\n\r\n".to_vec(),
            Self::Endless => {
                let mut bytes = sound;
                bytes[..4].copy_from_slice(&u32::MAX.to_le_bytes());
                bytes
            }
            Self::NotDue => Message::Accept(some_keys()).emit(),
            Self::TwoAtOnce => [sound.clone(), sound].concat(),
            Self::NoBuffers => with(|terms| terms.receive_buffers = 0),
            Self::EightBuffers => with(|terms| terms.receive_buffers = 8),
            Self::OddBuffers => with(|terms| terms.receive_bytes += 1),
            Self::HugeBuffers => with(|terms| terms.receive_bytes = 1 << 31),
            Self::NoChannel => with(|terms| terms.channels_up = 0),
            Self::EightChannels => with(|terms| terms.channels_down = 8),
            Self::NoMessages => with(|terms| terms.message_max = 0),
            Self::Multicast => with(|terms| terms.mac = MacAddr([1, 0, 0x5e, 0, 0, 1])),
            Self::ForeignRack => with(|terms| terms.fabric = !terms.fabric),
            Self::Version => Message::Hello {
                oldest: VERSION + 1,
                newest: VERSION + 2,
                terms,
            }
            .emit(),
            Self::Silence(len) | Self::EarlyEnd(len) => sound[..len].to_vec(),
            Self::Busy => Message::refuse(Refusal::new(RefusalCode::Busy, "later")).emit(),
            _ => sound,
        }
    }

    /// The bytes in place of keys, which would be `second(keys)`.
    pub fn second(self, mut keys: Keys, second: fn(Keys) -> Message) -> Vec<u8> {
        match self {
            Self::TooManyPairs => {
                let mut more = keys.queue_pairs[0];
                more.qpn.0 += 1000;
                keys.queue_pairs.push(more);
            }
            Self::PairTwice => keys.queue_pairs[1] = keys.queue_pairs[0],
            Self::KeysBeyond => keys.receive.address = u64::MAX - 63,
            Self::KeysUnaligned => keys.buffer_info.address += 8,
            Self::NoKeys => return Vec::new(),
            _ => {}
        }
        second(keys).emit()
    }
}

fn some_keys() -> Keys {
    use rackweave_base::{Psn, Qpn, Rkey};
    use rackweave_wire::fabric::message::handshake::{QueuePair, WriteTarget};
    let pair = |qpn| QueuePair {
        qpn: Qpn(qpn),
        psn: Psn::new(1),
    };
    let place = WriteTarget {
        address: 1 << 32,
        rkey: Rkey(5),
    };
    Keys {
        queue_pairs: vec![pair(2), pair(3)],
        buffer_info: place,
        receive: place,
    }
}

/// What a rogue writes to its peer's memory. Up to `Tail` it acts as a sender, in place of its next
/// package; the next two as a receiver, in place of the word that marks a buffer as free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lie {
    /// A state that is not valid in the word of a package.
    ForeignFilled,
    /// An undefined state.
    NoState,
    /// A package other than the next one.
    BadSequence,
    /// A package that is shorter than a header.
    TooShort,
    /// A package that is longer than the buffer.
    TooLong,
    /// A piece that is longer than its package.
    LongPiece,
    /// A piece that ends beyond the end of its message.
    BeyondTotal,
    /// A piece of another message.
    BadNumber,
    /// A piece from the middle of a message that has not begun.
    BadOffset,
    /// Undefined flags.
    BadFlags,
    /// An empty piece of a message that is not empty.
    EmptyPiece,
    /// A message longer than agreed.
    MessageTooLong,
    /// A package after the end.
    Tail,
    /// A state that is not valid in the word of a free buffer.
    ForeignFree,
    /// A buffer is marked as free for a package that is not the next.
    BadFree,
    /// The connection word has a state that is not valid there.
    ForeignConnection,
    /// A WRITE beyond the peer's buffers.
    OutOfBounds,
}

impl Lie {
    /// Every lie, and the reason for which the peer has to close the connection.
    const ALL: [(Self, CloseReason); 17] = [
        (Self::ForeignFilled, CloseReason::ForeignState),
        (Self::NoState, CloseReason::ForeignState),
        (Self::BadSequence, CloseReason::BadSequence),
        (Self::TooShort, CloseReason::BadLength),
        (Self::TooLong, CloseReason::BadLength),
        (Self::LongPiece, CloseReason::BadHeader),
        (Self::BeyondTotal, CloseReason::BadHeader),
        (Self::BadNumber, CloseReason::BadHeader),
        (Self::BadOffset, CloseReason::BadHeader),
        (Self::BadFlags, CloseReason::BadHeader),
        (Self::EmptyPiece, CloseReason::BadHeader),
        (Self::MessageTooLong, CloseReason::MessageTooLong),
        (Self::Tail, CloseReason::BadHeader),
        (Self::ForeignFree, CloseReason::ForeignState),
        (Self::BadFree, CloseReason::BadSequence),
        (Self::ForeignConnection, CloseReason::ForeignState),
        (Self::OutOfBounds, CloseReason::TransportBroken),
    ];

    pub fn draw(rng: &mut Rng) -> Self {
        rng.pick(&Self::ALL).0
    }

    /// Whether a receiver writes it.
    pub fn is_receivers(self) -> bool {
        matches!(self, Self::ForeignFree | Self::BadFree)
    }

    /// The reason for which the peer has to close the connection.
    pub fn reason(self) -> CloseReason {
        Self::ALL[self as usize].1
    }

    /// The bytes written into the next receive buffer, for a package that would be number
    /// `package`, of a message that would be number `message`.
    pub fn package(self, message: u32, message_max: u64) -> Vec<u8> {
        let total = message_max.min(64);
        let mut header = PieceHeader {
            opcode: 1.into(),
            length: (total as u32).into(),
            total: total.into(),
            offset: 0.into(),
            message: message.into(),
            flags: 0.into(),
        };
        let mut payload = vec![0x5a; total as usize];
        match self {
            Self::LongPiece => {
                // Within its message, but not within the package.
                payload.clear();
                header.length = 1.into();
            }
            Self::BeyondTotal => header.length += 1,
            Self::BadNumber => header.message = message.wrapping_add(1).into(),
            Self::BadOffset => header.offset = 1.into(),
            Self::BadFlags => header.flags = 2.into(),
            Self::EmptyPiece => header.length = 0.into(),
            Self::MessageTooLong => header.total = (message_max + 1).into(),
            Self::Tail => {
                header = PieceHeader {
                    flags: FLAG_FINISHED.into(),
                    ..PieceHeader::default()
                };
            }
            _ => {}
        }
        let mut package = header.as_bytes().to_vec();
        package.append(&mut payload);
        if self == Self::BeyondTotal {
            package.push(0x5a);
        }
        package
    }

    /// The word for that package, which has `length` bytes in a buffer of `size`.
    pub fn filled(self, package: u64, length: u32, size: u32) -> u64 {
        let sequence = Sequence::of(package);
        let word = match self {
            Self::ForeignFilled => Word::Free { sequence },
            // This state is undefined.
            Self::NoState => return 0x77 | package << 8 & 0xffff_ff00,
            Self::BadSequence => Word::Filled {
                sequence: Sequence::of(package + 1),
                length,
            },
            Self::TooShort => Word::Filled {
                sequence,
                length: PIECE_HEADER_LEN as u32 - 1,
            },
            Self::TooLong => Word::Filled {
                sequence,
                length: size + 1,
            },
            _ => Word::Filled { sequence, length },
        };
        word.into()
    }

    /// The word in place of the one that marks a buffer as free for `package`.
    pub fn free(self, package: u64) -> u64 {
        let word = match self {
            Self::ForeignFree => Word::Filled {
                sequence: Sequence::of(package),
                length: 64,
            },
            // Far from any number that may come.
            _ => Word::Free {
                sequence: Sequence::of(package + (1 << 20)),
            },
        };
        word.into()
    }
}
