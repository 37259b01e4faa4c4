//! The hostile peer: it has the keys that a compute node gets by the handshake, and WRITEs
//! arbitrary data.

use super::network::{HOSTILE, Network};
use crate::fixture;
use core::sync::atomic::Ordering;
use rackweave_base::{Duration, Psn, Qpn};
use rackweave_endpoint::messaging::{Agreed, KeyedAddress, NodeKeys, QueuePairName};
use rackweave_verbs::{
    Access, Completion, CompletionStatus, CqId, Mtu, Operation, Peer, QpCapabilities, QpModify,
    ReceiveSide, Region, SendSide, Verbs, WorkRequest,
};
use rackweave_wire::fabric::message::{
    ENTRY_LEN, INLINE_MAX, PIECE_ALIGN, PIECE_HEADER_LEN, PieceHeader, Sequence, Word,
    buffer_info_len, inline_at, own_entry, peer_entry, piece_span,
};
use zerocopy::IntoBytes as _;

/// Maximum bytes of a WRITE.
const PAGE: usize = 4096;

/// One of the channels on which it sends.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outgoing {
    /// The next package.
    pub package: u64,
    /// The next message.
    number: u32,
    /// Length and bytes sent of a message that has begun.
    begun: Option<(u64, u64)>,
}

pub fn keyed(region: &Region) -> KeyedAddress {
    KeyedAddress {
        address: region.address,
        rkey: region.rkey,
    }
}

pub struct Hostile {
    queue_pairs: Vec<QueuePairName>,
    /// Queue pairs that are broken.
    dead: Vec<bool>,
    cq: CqId,
    buffer_info: Region,
    receive: Region,
    source: Region,
    /// The keys that the victim has sent.
    pub victim: NodeKeys,
    pub agreed: Agreed,
    /// What it has written into the victim's receive buffers.
    pub mirror: Vec<u8>,
    /// What it has written into the victim's buffer info.
    mirror_info: Vec<u8>,
    pub channels: Vec<Outgoing>,
    /// WRITEs that it has posted.
    written: u64,
    /// Number of words written where the victim's sender looks for free buffers.
    pub frees: u64,
    /// It has closed the connection, or violated the protocol.
    pub has_lied: bool,
}

impl Hostile {
    /// Creates the resources of a node. `agreed` is its own view.
    pub fn new(network: &mut Network, agreed: &Agreed) -> Self {
        let (memory, nic) = (network.memory.clone(), &mut network.nics[HOSTILE]);
        let pd = nic.create_pd();
        let cq = nic.create_cq(256).expect("capacity");
        let mine = &agreed.mine;
        let receive_bytes = usize::from(mine.receive_buffers) * mine.receive_bytes as usize;
        let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let info_bytes = buffer_info_len(mine.receive_buffers) as usize;
        let [buffer_info, receive, source] = [info_bytes, receive_bytes, PAGE]
            .map(|len| fixture::region(nic, &memory, pd, len, access));
        let channels = usize::from(agreed.channels_up + agreed.channels_down);
        let queue_pairs = (0..channels).map(|at| {
            let capabilities = QpCapabilities::default();
            let qpn = nic.create_qp(pd, cq, cq, capabilities).expect("capacity");
            let psn = Psn::new(Psn::SPACE - 3 + at as u32);
            QueuePairName { qpn, psn }
        });
        let queue_pairs: Vec<_> = queue_pairs.collect();
        let theirs = &agreed.theirs;
        let mirror = usize::from(theirs.receive_buffers) * theirs.receive_bytes as usize;
        let nothing = KeyedAddress {
            address: 0,
            rkey: source.rkey,
        };
        Self {
            dead: vec![false; queue_pairs.len()],
            queue_pairs,
            cq,
            buffer_info,
            receive,
            source,
            victim: NodeKeys {
                queue_pairs: Vec::new(),
                buffer_info: nothing,
                receive: nothing,
            },
            agreed: *agreed,
            mirror: vec![0; mirror],
            mirror_info: vec![0; buffer_info_len(theirs.receive_buffers) as usize],
            channels: vec![Outgoing::default(); usize::from(agreed.outgoing())],
            written: 0,
            frees: 0,
            has_lied: false,
        }
    }

    /// The keys that it sends to the victim.
    pub fn keys(&self) -> NodeKeys {
        NodeKeys {
            queue_pairs: self.queue_pairs.clone(),
            buffer_info: keyed(&self.buffer_info),
            receive: keyed(&self.receive),
        }
    }

    /// Connects its queue pairs with the victim's.
    pub fn connect(&mut self, network: &mut Network, victim: NodeKeys) {
        let theirs = self.agreed.theirs;
        for (mine, their) in self.queue_pairs.iter().zip(&victim.queue_pairs) {
            let receive = ReceiveSide {
                peer: Peer {
                    mac: theirs.mac,
                    ip: theirs.ip,
                    qpn: their.qpn,
                },
                psn: their.psn,
                mtu: Mtu::B1024,
                access: Access::REMOTE_WRITE,
                reads_in_flight_max: 1,
                rnr_wait: Duration::ZERO,
            };
            let send = SendSide {
                psn: mine.psn,
                timeout: Duration::from_micros(200),
                retries: 7,
                rnr_retries: 0,
                reads_in_flight_max: 1,
            };
            fixture::connect(&mut network.nics[HOSTILE], mine.qpn, receive, send);
        }
        self.victim = victim;
    }

    /// WRITEs on the first intact queue pair. Returns whether the victim's NIC has executed it.
    fn write_at(&mut self, network: &mut Network, to: KeyedAddress, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            return false;
        }
        self.source.block.write(0, bytes);
        let operation = Operation::Write {
            address: to.address,
            rkey: to.rkey,
            immediate: None,
        };
        self.written += 1;
        let segment = self.source.segment(0, bytes.len() as u32);
        let request = WorkRequest::new(self.written, operation, &[segment]);
        for at in 0..self.queue_pairs.len() {
            if self.dead[at] {
                continue;
            }
            let qpn = self.queue_pairs[at].qpn;
            let posted = network.nics[HOSTILE].post_send(qpn, request).is_ok();
            network.settle();
            let mut completions = Vec::new();
            network.nics[HOSTILE].poll_cq(self.cq, 64, &mut completions);
            let done = |completion: &Completion| {
                completion.id == self.written && completion.status == CompletionStatus::Success
            };
            if posted && completions.iter().any(done) {
                return true;
            }
            self.dead[at] = true;
        }
        false
    }

    /// Writes arbitrary bytes into the receive buffers, up to their end.
    pub fn write_buffers(&mut self, network: &mut Network, offset: usize, bytes: &[u8]) {
        let offset = offset % self.mirror.len();
        let bytes = &bytes[..bytes.len().min(self.mirror.len() - offset)];
        let to = self.victim.receive.at(offset as u64);
        if self.write_at(network, to, bytes) {
            self.mirror[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Writes arbitrary bytes into the buffer info, up to its end.
    pub fn write_info(&mut self, network: &mut Network, offset: usize, bytes: &[u8]) {
        let len = self.agreed.theirs.buffer_info_len() as usize;
        let offset = offset % len;
        let bytes = &bytes[..bytes.len().min(len - offset)];
        // A WRITE may touch one word more than it has bytes for.
        self.frees += bytes.len() as u64 / 8 + 2;
        self.write_mirrored(network, offset, bytes);
    }

    fn write_mirrored(&mut self, network: &mut Network, offset: usize, bytes: &[u8]) {
        let to = self.victim.buffer_info.at(offset as u64);
        if self.write_at(network, to, bytes) {
            self.mirror_info[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Where a package starts in the inline buffer that belongs to a receive buffer, if the word
    /// there names it.
    pub fn inline_start(&self, buffer: usize, package: u64) -> Option<usize> {
        let at = inline_at(buffer as u8) as usize + INLINE_MAX;
        let word = self.mirror_info[at..].first_chunk()?;
        match Word::try_from(u64::from_le_bytes(*word)) {
            Ok(Word::Filled { sequence, length }) if sequence == Sequence::of(package) => {
                INLINE_MAX.checked_sub(length as usize)
            }
            _ => None,
        }
    }

    /// Where a package may be that the victim has accepted for a buffer: in the receive buffer, or
    /// from a byte of the inline buffer on.
    pub fn places(&self, buffer: usize, start: Option<usize>) -> impl Iterator<Item = &[u8]> {
        let size = self.receive_bytes();
        let in_buffer = &self.mirror[buffer * size..][..size];
        let inline = &self.mirror_info[inline_at(buffer as u8) as usize..][..INLINE_MAX];
        let inline = start.map(|start| &inline[start..]);
        [Some(in_buffer), inline].into_iter().flatten()
    }

    pub fn write_word(&mut self, network: &mut Network, entry: usize, word: u64) {
        self.write_info(network, entry * ENTRY_LEN as usize, &word.to_le_bytes());
    }

    /// A WRITE without permission.
    ///
    /// # Panics
    /// If it is executed.
    pub fn write_elsewhere(&mut self, network: &mut Network, to: KeyedAddress) {
        let done = self.write_at(network, to, &[0xee; 64]);
        assert!(!done, "a WRITE to {to:?} is executed");
    }

    /// The receive buffer of a package of a channel.
    pub fn buffer_of(&self, channel: usize, package: u64) -> usize {
        let (channels, count) = (self.channels.len(), self.count(channel));
        channel + channels * (package % count) as usize
    }

    /// Number of receive buffers of a channel.
    pub fn count(&self, channel: usize) -> u64 {
        let buffers = usize::from(self.agreed.theirs.receive_buffers);
        (channel..buffers).step_by(self.channels.len()).count() as u64
    }

    pub fn receive_bytes(&self) -> usize {
        self.agreed.theirs.receive_bytes as usize
    }

    /// Whether the victim has marked the buffer of the next package as free.
    pub fn may_send(&self, channel: usize) -> bool {
        let package = self.channels[channel].package;
        let buffer = self.buffer_of(channel, package) as u8;
        let word = self.reported(peer_entry(buffer));
        let sequence = Sequence::of(package);
        package < self.count(channel) || word == u64::from(Word::Free { sequence })
    }

    /// What the victim has written into an entry of its buffer info.
    fn reported(&self, entry: usize) -> u64 {
        self.word(entry * ENTRY_LEN as usize)
    }

    fn word(&self, at: usize) -> u64 {
        u64::from_le(self.buffer_info.block.word(at).load(Ordering::Acquire))
    }

    /// The next piece of a message, of which `total` bytes are new if none has begun.
    pub fn piece(&mut self, channel: usize, total: u64, space: usize) -> Vec<u8> {
        let of = &mut self.channels[channel];
        let (total, offset) = of.begun.unwrap_or((total, 0));
        let length = (total - offset).min((space - PIECE_HEADER_LEN) as u64);
        let header = PieceHeader {
            opcode: of.number.into(),
            length: (length as u32).into(),
            total: total.into(),
            offset: offset.into(),
            message: of.number.into(),
            flags: 0.into(),
        };
        let bytes = (0..length).map(|at| (offset + at) as u8 ^ of.number as u8);
        let bytes = header.as_bytes().iter().copied().chain(bytes).collect();
        of.begun = (offset + length < total).then_some((total, offset + length));
        of.number = of.number.wrapping_add(u32::from(of.begun.is_none()));
        bytes
    }

    /// A package of as many pieces as fit, of messages with these lengths.
    pub fn package(&mut self, channel: usize, lengths: &[u64]) -> Vec<u8> {
        let space = self.receive_bytes();
        let mut package = Vec::new();
        for &length in lengths {
            let least = PIECE_HEADER_LEN + usize::from(length > 0);
            if package.len() + least > space {
                break;
            }
            let piece = self.piece(channel, length, space - package.len());
            let span = piece_span(piece.len() - PIECE_HEADER_LEN);
            let end = (package.len() + span).min(space);
            package.extend_from_slice(&piece);
            package.resize(end, 0);
        }
        package
    }

    /// Writes a package together with its word into an inline buffer. False: it is too long, or
    /// the victim takes none there.
    pub fn send_inline(&mut self, network: &mut Network, channel: usize, package: &[u8]) -> bool {
        let len = package.len().next_multiple_of(PIECE_ALIGN);
        if len > INLINE_MAX || !self.agreed.theirs.word_last {
            return false;
        }
        let number = self.channels[channel].package;
        let at = inline_at(self.buffer_of(channel, number) as u8) as usize + INLINE_MAX - len;
        let word = Word::Filled {
            sequence: Sequence::of(number),
            length: len as u32,
        };
        let mut bytes = package.to_vec();
        bytes.resize(len, 0);
        bytes.extend(u64::from(word).to_le_bytes());
        self.write_mirrored(network, at, &bytes);
        self.channels[channel].package += 1;
        true
    }

    /// Writes a package and the word that announces it.
    pub fn send(&mut self, network: &mut Network, channel: usize, package: &[u8]) {
        let number = self.channels[channel].package;
        let buffer = self.buffer_of(channel, number);
        self.write_buffers(network, buffer * self.receive_bytes(), package);
        let word = Word::Filled {
            sequence: Sequence::of(number),
            length: package.len() as u32,
        };
        self.write_word(network, own_entry(buffer as u8), word.into());
        self.channels[channel].package += 1;
    }

    /// Marks a buffer that holds a package, if one does, as free for the victim's sender.
    pub fn free(&mut self, network: &mut Network, buffer: u8) {
        let buffer = buffer % self.agreed.mine.receive_buffers;
        let inline = inline_at(buffer) as usize + INLINE_MAX;
        let words = [own_entry(buffer) * ENTRY_LEN as usize, inline];
        let filled = words.map(|at| match Word::try_from(self.word(at)) {
            Ok(Word::Filled { sequence, .. }) => Some(sequence.get()),
            _ => None,
        });
        // The later one of both.
        if let Some(sequence) = filled.into_iter().max().flatten() {
            let (channels, buffers) = (self.agreed.incoming(), self.agreed.mine.receive_buffers);
            let of_channel = (buffer % channels..buffers)
                .step_by(channels.into())
                .count();
            let sequence = Sequence::of(u64::from(sequence) + of_channel as u64);
            self.write_word(network, peer_entry(buffer), Word::Free { sequence }.into());
        }
    }

    /// Breaks a queue pair, or deregisters a region.
    pub fn withdraw(&mut self, network: &mut Network, what: usize) {
        let nic = &mut network.nics[HOSTILE];
        match what {
            0 => drop(nic.deregister(&self.buffer_info)),
            1 => drop(nic.deregister(&self.receive)),
            _ => {
                let at = what % self.queue_pairs.len();
                let qpn: Qpn = self.queue_pairs[at].qpn;
                // It may be in error already.
                let _ = nic.modify_qp(qpn, QpModify::Error);
                self.dead[at] = true;
            }
        }
    }
}
