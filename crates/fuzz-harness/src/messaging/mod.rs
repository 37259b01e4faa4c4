//! A messaging connection with a hostile peer, and another one with an honest peer beside it.
//!
//! The hostile peer has what a compute node gets by the handshake: queue pairs, and keys to the
//! receive buffers and the buffer info of its own connection. It writes arbitrary data there, at
//! any time.

mod honest;
mod hostile;
mod network;
mod seeds;
mod victim;

use crate::fixture;
use crate::input::Input;
use honest::Honest;
use hostile::{Hostile, keyed};
use network::{HOSTILE, Network, VICTIM, terms};
use rackweave_base::{Block, Duration, KeyRng, Rkey, Rng};
use rackweave_endpoint::messaging::{Agreed, KeyedAddress, Prepared, Role};
use rackweave_verbs::{Access, Verbs as _};
use rackweave_wire::fabric::message::{
    CONNECTION_ENTRY, ENTRIES, FLAG_FINISHED, PIECE_HEADER_LEN, PieceHeader, Sequence, Word,
    own_entry, peer_entry,
};
use victim::Victim;
use zerocopy::{FromBytes as _, IntoBytes as _};

pub use seeds::seeds;

/// Bytes of a block whose key no peer has.
const GUARD: usize = 4096;
const GUARD_BYTE: u8 = 0xa5;
/// Maximum steps of the clock until everything in flight must have ended.
const ROUNDS_MAX: usize = 10_000;

/// Maximum stories in one input; a story ends when its connection is closed.
const STORIES_MAX: usize = 16;

/// Stories. The first byte of each: `victim::config`, and in bit 5 whether the victim copies
/// messages out. Then steps, each a byte with its kind in bits 0 to 3, and in bits 4 to 7 a value,
/// of which bit 7 is the channel where that matters.
///
/// # Panics
/// If the victim accepts what it must not accept, or the honest connection is disturbed.
pub fn messaging(data: &[u8]) {
    let mut input = Input::new(data);
    for _ in 0..STORIES_MAX {
        let Some(setup) = input.byte() else {
            return;
        };
        let mut story = Story::new(setup);
        while !story.is_over && story.step(&mut input).is_some() {
            story.victim.check(&story.hostile);
        }
        story.end();
    }
}

struct Story {
    network: Network,
    victim: Victim,
    hostile: Hostile,
    honest: Honest,
    /// Registered at the victim's node; no peer has its key.
    guard: Block,
    guard_key: KeyedAddress,
    /// Bytes of memory that belong to neither connection.
    others: usize,
    /// This story is over, and another one follows.
    is_over: bool,
}

impl Story {
    fn new(setup: u8) -> Self {
        let mut network = Network::new();
        let config = victim::config(setup);
        let (mine, theirs) = (terms(VICTIM, &config), terms(HOSTILE, &config));
        let agreed = Agreed::new(Role::Storage, mine, theirs).expect("they are alike");
        let nic = &mut network.nics[VICTIM];
        let mut keys = KeyRng::seeded(Rng::new(2));
        let prepared = Prepared::new(nic, &network.memory, &config, &agreed, &mut keys);
        let prepared = prepared.expect("capacity");
        let before = network.memory.bytes_in_use();
        // Directly after it in memory.
        let pd = nic.create_pd();
        let guard = fixture::region(nic, &network.memory, pd, GUARD, Access::all());
        guard.block.write(0, &[GUARD_BYTE; GUARD]);
        let view = Agreed::new(Role::Compute, theirs, mine).expect("they are alike");
        let mut hostile = Hostile::new(&mut network, &view);
        hostile.connect(&mut network, prepared.keys());
        let others = network.memory.bytes_in_use() - before;
        let now = network.now;
        let connection = prepared.connect(now, &mut network.nics[VICTIM], &hostile.keys());
        Self {
            honest: Honest::new(&mut network),
            victim: Victim::new(connection.expect("sound keys"), setup & 32 != 0),
            hostile,
            guard_key: keyed(&guard),
            guard: guard.block,
            others,
            is_over: false,
            network,
        }
    }

    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        let control = input.byte()?;
        let value = control >> 4;
        let channel = usize::from(value >> 3) % self.victim.channels();
        match control & 15 {
            0 => self.victim.peek(&self.hostile, channel),
            1 => self.victim.release(channel),
            2 => self.victim.drain(&self.hostile, channel),
            3 => self.victim.poll(&mut self.network),
            4 => {
                let length = usize::from(input.half()?);
                self.victim.send(channel, length);
                self.victim.poll(&mut self.network);
            }
            5 => self.send_sound(channel, value, input)?,
            6 => self.hostile.free(&mut self.network, value & 7),
            7 => self.send_altered(channel, value, input)?,
            8..=12 => {
                self.hostile.has_lied = true;
                self.write(control & 15, channel, value, input)?;
            }
            13 => {
                let time = Duration::from_nanos(u64::from(input.half()?) * 64);
                self.pass(time);
            }
            14 => {
                let length = usize::from(input.byte()?) * 4;
                self.honest.send(usize::from(value & 1), length);
                self.honest.poll(&mut self.network);
                if value & 2 != 0 {
                    self.honest.receive();
                }
            }
            _ => self.seldom(channel, value & 7, input)?,
        }
        Some(())
    }

    /// Sends a valid package, if a buffer is free.
    fn send_sound(&mut self, channel: usize, value: u8, input: &mut Input<'_>) -> Option<()> {
        let length = u64::from(input.half()?) % 5_000;
        let length = length.min(self.hostile.agreed.message_max);
        if self.hostile.may_send(channel) {
            let lengths = [length, length / 7, 0, length / 2];
            let package = self
                .hostile
                .package(channel, &lengths[..1 + usize::from(value & 3)]);
            let (network, hostile) = (&mut self.network, &mut self.hostile);
            if value & 4 == 0 || !hostile.send_inline(network, channel, &package) {
                hostile.send(network, channel, &package);
            }
        }
        Some(())
    }

    /// Sends a package with a changed header in one of its pieces, or one that is not due.
    fn send_altered(&mut self, channel: usize, value: u8, input: &mut Input<'_>) -> Option<()> {
        let (at, number) = (input.byte()?, input.signed_half()?);
        self.hostile.has_lied = true;
        let total = number.unsigned_abs();
        let mut package = self.hostile.package(channel, &[total % 400, total % 33, 7]);
        let at = usize::from(at) * 32 % package.len() / 32 * 32;
        let Ok((mut header, _)) = PieceHeader::read_from_prefix(&package[at..]) else {
            return Some(());
        };
        alter(&mut header, value & 7, number);
        package[at..at + PIECE_HEADER_LEN].copy_from_slice(header.as_bytes());
        self.hostile.send(&mut self.network, channel, &package);
        Some(())
    }

    /// Writes something that no node writes.
    fn write(&mut self, kind: u8, channel: usize, value: u8, input: &mut Input<'_>) -> Option<()> {
        let Self {
            network, hostile, ..
        } = self;
        match kind {
            8 => {
                let (offset, len) = (input.half()?, usize::from(input.byte()?));
                hostile.write_buffers(network, offset.into(), input.bytes(len));
            }
            9 => {
                let (offset, len) = (input.half()?, usize::from(input.byte()?));
                hostile.write_info(network, offset.into(), input.bytes(len));
            }
            // A valid word, near the right one.
            10 => {
                let (near, length) = (input.byte()? as i8, input.half()?);
                let package = hostile.channels[channel].package;
                let package = package.saturating_add_signed(near.into());
                let buffer = hostile.buffer_of(channel, package) as u8;
                let sequence = Sequence::of(package);
                let (entry, word) = match value & 3 {
                    0 | 1 => {
                        let length = length.into();
                        (own_entry(buffer), Word::Filled { sequence, length })
                    }
                    2 => (peer_entry(length as u8 % 7), Word::Free { sequence }),
                    _ => (usize::from(length) % ENTRIES, Word::Free { sequence }),
                };
                hostile.write_word(network, entry, word.into());
            }
            // The header of the piece that the victim may be looking at.
            11 => {
                let (package, at) = (input.byte()?, usize::from(input.byte()?) * 32);
                let (field, number) = (value & 7, input.signed_half()?);
                let package = hostile.channels[channel]
                    .package
                    .saturating_sub(package.into());
                let start = hostile.buffer_of(channel, package) * hostile.receive_bytes();
                let start = start + at % hostile.receive_bytes();
                let read = PieceHeader::read_from_prefix(&hostile.mirror[start..]);
                if let Ok((mut header, _)) = read {
                    alter(&mut header, field, number);
                    hostile.write_buffers(network, start, header.as_bytes());
                }
            }
            _ => {
                let bytes = input.bytes(8);
                let entry = match value {
                    15 => CONNECTION_ENTRY,
                    entry => usize::from(entry),
                };
                hostile.write_info(network, entry * 64, bytes);
            }
        }
        Some(())
    }

    /// Rare actions, most of which end a connection.
    fn seldom(&mut self, channel: usize, value: u8, input: &mut Input<'_>) -> Option<()> {
        let number = input.byte()?;
        let Self {
            network, hostile, ..
        } = self;
        hostile.has_lied |= (2..7).contains(&value);
        match value {
            0 => self.victim.finish(channel),
            1 if number == 0xee => self.victim.close(network),
            1 => {}
            2 => network.mute = number & 1 != 0,
            3 => hostile.withdraw(network, usize::from(number & 7)),
            4 => {
                let to = self.elsewhere(number, input.half()?);
                self.hostile.write_elsewhere(&mut self.network, to);
            }
            5 => {
                let mut package = hostile.package(channel, &[]);
                let header = PieceHeader {
                    flags: FLAG_FINISHED.into(),
                    ..PieceHeader::default()
                };
                package.extend_from_slice(header.as_bytes());
                hostile.send(network, channel, &package);
            }
            7 => self.is_over = true,
            _ => {
                let close = u64::from(number) << 32 | 3;
                hostile.write_word(network, CONNECTION_ENTRY, close);
            }
        }
        Some(())
    }

    /// An address for which the hostile peer has no permission: before or after the range of its
    /// keys, or foreign memory with any key that it can know.
    fn elsewhere(&self, number: u8, offset: u16) -> KeyedAddress {
        let mine = &self.hostile.victim;
        let beside = &self.honest.keys;
        let offset = u64::from(offset);
        let receive = self.hostile.mirror.len() as u64;
        let before = (1 + offset).wrapping_neg();
        let with = |place: KeyedAddress, rkey| KeyedAddress { rkey, ..place };
        match number & 7 {
            0 => mine.receive.at(receive - 63 + offset),
            1 => mine.receive.at(before),
            2 => mine
                .buffer_info
                .at(self.hostile.agreed.theirs.buffer_info_len() - 63 + offset),
            3 => mine.buffer_info.at(before),
            4 => beside.receive.at(offset % 512),
            5 => with(beside.buffer_info, mine.receive.rkey),
            6 => self.guard_key.at(offset % 512),
            _ => {
                let rkey = Rkey(mine.receive.rkey.0 ^ (1 << (offset & 31)));
                with(mine.receive, rkey)
            }
        }
    }

    /// Lets time pass in which all nodes do their work.
    fn pass(&mut self, time: Duration) {
        let end = self.network.now + time;
        for _ in 0..ROUNDS_MAX {
            self.victim.poll(&mut self.network);
            self.honest.poll(&mut self.network);
            self.victim.check(&self.hostile);
            let timers = self
                .honest
                .timers()
                .chain(self.victim.connection.poll_timeout());
            let timers: Vec<_> = timers.collect();
            if !self.network.advance(end, timers) {
                self.network.now = self.network.now.max(end);
                self.network.settle();
                return;
            }
            self.network.settle();
        }
        panic!("time does not pass");
    }

    /// Whatever has happened, honest messages arrive, and the connection ends and leaves no
    /// resources.
    fn end(mut self) {
        self.honest.finish(&mut self.network);
        for channel in 0..self.victim.channels() {
            self.victim.drain(&self.hostile, channel);
        }
        self.victim.close(&mut self.network);
        // The NIC gives up within this time, if the peer does not answer.
        self.pass(Duration::from_millis(5));
        assert!(
            self.victim.connection.is_settled(),
            "it does not come to an end"
        );
        let guard = self.guard.bytes(0, GUARD);
        assert!(guard.is_all(GUARD_BYTE), "foreign memory is changed");
        self.victim
            .connection
            .destroy(&mut self.network.nics[VICTIM]);
        self.honest.destroy(&mut self.network);
        let left = self.network.memory.bytes_in_use();
        assert_eq!(left, self.others, "regions are left");
    }
}

/// Changes a field of a header.
fn alter(header: &mut PieceHeader, field: u8, number: i64) {
    let (length, message) = (header.length.get(), header.message.get());
    match field {
        0 => header.opcode = (number as u32).into(),
        1 => header.length = length.wrapping_add_signed(number as i32).into(),
        2 => header.total = header.total.get().wrapping_add_signed(number).into(),
        3 => header.offset = header.offset.get().wrapping_add_signed(number).into(),
        4 => header.message = message.wrapping_add_signed(number as i32).into(),
        5 => header.flags = (number as u32).into(),
        6 => header.total = ((number as u64) << 48).into(),
        _ => header.length = ((number as u32) << 16).into(),
    }
}
