//! A link in shared memory with a hostile process at the other end, and another one with an honest
//! process beside it.

mod arena;
mod handover;
mod segment;
mod victim;

use crate::fixture::{Seeds, check_line, hex, named};
use crate::input::Input;
use arena::{Arena, Reference};
use rackweave_base::memory::Origin;
use rustix::fs::SealFlags;
use segment::{Segment, WORDS, Word};
use victim::{OWN_NAME, Victim};

use handover::handover;

/// The victim's name for the hostile process's arena.
const PEER_NAME: u16 = 2;

/// Bit 0 of the first byte: the rest goes to `handover`. Bit 1: the victim attaches to a segment
/// that the hostile process made, instead of making one. Bits 2 and 3: the logarithm of its
/// capacity. Then steps, each a byte with its kind in bits 0 to 3.
///
/// # Panics
/// If the link delivers anything else than what the segment says, or the other link is disturbed.
pub fn shared_memory(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(choice) = input.byte() else {
        return;
    };
    if choice & 1 != 0 {
        handover(input.bytes(usize::MAX));
        return;
    }
    let capacity = 1 << (choice >> 2 & 3);
    let victim = match choice & 2 {
        0 => Some(Victim::maker(capacity)),
        _ => hostile_segment(capacity, &mut input).and_then(Victim::attacher),
    };
    let Some(victim) = victim else {
        return;
    };
    let mut story = Story {
        pushed: victim.segment.word(victim.ring_in(), Word::Head),
        arena: Arena::new(0, SealFlags::SHRINK | SealFlags::GROW),
        victim,
    };
    story.import();
    while story.step(&mut input).is_some() {}
    story.victim.receive_all();
    story.victim.check_beside();
}

/// A segment that deviates from a valid one as the next byte says.
fn hostile_segment(capacity: u32, input: &mut Input<'_>) -> Option<Segment> {
    let wrong = input.byte()?;
    let seals = match wrong & 1 {
        0 => SealFlags::SHRINK | SealFlags::GROW,
        _ => SealFlags::GROW,
    };
    let beyond = match wrong & 2 {
        0 => 0,
        _ => u64::from(input.half()?),
    };
    let segment = Segment::make(capacity, beyond, seals);
    if wrong & 4 != 0 {
        let (at, byte) = (input.byte()?, input.byte()?);
        segment.write(usize::from(at % 40), &[byte]);
    }
    for ring in [segment::Ring::Out, segment::Ring::Back] {
        if wrong & 8 != 0 {
            let start = input.word()?;
            segment.set_word(ring, Word::Head, start);
            segment.set_word(ring, Word::Tail, start);
        }
        if wrong & 16 != 0 {
            let word = WORDS[input.below(WORDS.len())?];
            segment.set_word(ring, word, input.word()?);
        }
    }
    Some(segment)
}

struct Story {
    victim: Victim,
    arena: Arena,
    /// What the hostile process has pushed, by its own count.
    pushed: u32,
}

impl Story {
    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        let control = input.byte()?;
        let value = control >> 4;
        let ring = match value & 8 {
            0 => self.victim.ring_in(),
            _ => self.victim.ring_out(),
        };
        match control & 15 {
            0 => self.victim.receive(),
            1 => self.victim.receive_all(),
            2 => self.victim.send(value),
            3 => self.victim.sleep(),
            4 => self.push_sound(value),
            5 => {
                let len = usize::from(input.byte()?);
                let descriptor = input.bytes(len.min(segment::DESCRIPTOR_LEN));
                self.push(descriptor);
            }
            6 | 7 => {
                let reference = self.reference(value, input)?;
                let fragment = input.half()?;
                self.push_reference(&reference, fragment);
            }
            // A counter near its former value, or an arbitrary value in any word.
            8 => {
                let word = WORDS[usize::from(value & 1)];
                let near = input.signed_half()?;
                let was = self.victim.segment.word(ring, word);
                let is = was.wrapping_add_signed(near as i32);
                self.victim.segment.set_word(ring, word, is);
            }
            9 => {
                let word = WORDS[usize::from(value & 7) % WORDS.len()];
                self.victim.segment.set_word(ring, word, input.word()?);
            }
            10 => {
                let (slot, at, byte) = (input.byte()?, input.byte()?, input.byte()?);
                let at = usize::from(at) % segment::DESCRIPTOR_LEN;
                let slot = self.victim.segment.descriptor_at(ring, slot.into());
                self.victim.segment.write(slot + at, &[byte]);
            }
            11 => {
                let (at, bytes) = (input.word()?, input.bytes(8));
                self.victim.segment.write(at as usize & 0xf_ffff, bytes);
            }
            // It takes what the victim has sent.
            12 => {
                let ring = self.victim.ring_out();
                let head = self.victim.segment.word(ring, Word::Head);
                self.victim.segment.set_word(ring, Word::Tail, head);
            }
            13 => self.arena.tamper(value, input)?,
            14 => {
                let shorter = match value & 4 {
                    0 => 0,
                    _ => u64::from(input.half()?),
                };
                let seals = SealFlags::GROW
                    | [SealFlags::SHRINK, SealFlags::empty()][usize::from(value == 15)];
                self.arena = Arena::new(shorter, seals);
                if value & 2 != 0 {
                    self.arena.tamper(8, input)?;
                }
                self.import();
            }
            _ => self.victim.check_beside(),
        }
        Some(())
    }

    fn import(&mut self) {
        let fd = self.arena.fd.try_clone().expect("a descriptor is free");
        let imported = self.victim.memory.import(Origin(PEER_NAME), fd);
        assert_eq!(imported.is_ok(), self.arena.is_sound(), "{imported:?}");
        match imported {
            // It maps the same file, so that later writes are visible too.
            Ok(()) => self.victim.imported = Some(self.arena.again()),
            Err(error) => check_line(&error.to_string()),
        }
    }

    /// Announces a packet with these first bytes of its descriptor; the others are unchanged.
    fn push(&mut self, descriptor: &[u8]) {
        let (ring, segment) = (self.victim.ring_in(), &self.victim.segment);
        segment.write(segment.descriptor_at(ring, self.pushed), descriptor);
        self.pushed = self.pushed.wrapping_add(1);
        segment.set_word(ring, Word::Head, self.pushed);
    }

    /// Announces a valid packet: inline, or copied if its length is above 32.
    fn push_sound(&mut self, value: u8) {
        let len = [0, 1, 32, 33, 1000, 4096][usize::from(value) % 6];
        let (ring, segment) = (self.victim.ring_in(), &self.victim.segment);
        segment.write(segment.payload_at(ring, self.pushed), &vec![value; len]);
        let mut descriptor = [value; segment::DESCRIPTOR_LEN];
        let kind = match len {
            0 => 0,
            1..=32 => 1,
            _ => 3,
        };
        let [low, high] = (len as u16).to_le_bytes();
        descriptor[..8].copy_from_slice(&[kind, 54, value & 3, value & 1, 0, 0, low, high]);
        self.push(&descriptor);
    }

    fn push_reference(&mut self, reference: &Reference, fragment: u16) {
        let mut descriptor = [0; segment::DESCRIPTOR_LEN];
        descriptor[0] = 2;
        descriptor[4..6].copy_from_slice(&fragment.to_le_bytes());
        descriptor[16..40].copy_from_slice(&reference.encode());
        self.push(&descriptor);
    }

    /// A reference into the hostile arena, or to the victim's own block, changed in one field.
    fn reference(&self, value: u8, input: &mut Input<'_>) -> Option<Reference> {
        let mut reference = match value & 1 {
            0 => Reference {
                offset: 0,
                generation: 1,
                len: 64,
                slot: 0,
                origin: PEER_NAME,
            },
            _ => self.victim.own_reference(),
        };
        let number = input.signed_half()?;
        match value >> 1 {
            0 => reference.offset = reference.offset.wrapping_add_signed(number),
            1 => reference.len = number as u32,
            2 => reference.slot = number as u32,
            3 => reference.generation = reference.generation.wrapping_add_signed(number as i32),
            4 => reference.origin = number as u16,
            5 => reference.offset = (number as u64) << 48,
            6 => reference.len = (number as u32) << 8,
            _ => reference.origin = [0, OWN_NAME, PEER_NAME, u16::MAX][number as usize & 3],
        }
        Some(reference)
    }
}

/// The initial inputs of the corpus, in hexadecimal.
pub fn seeds() -> Seeds {
    let mut seeds = handover::seeds();
    let stories = [
        ("sound", "08 04 14 24 34 01 44 54 01"),
        ("sends", "04 02 12 22 0c 32 42 0c 52 62"),
        ("full", "00 02 12 03 0c 12"),
        ("sleeps", "04 03 04 03 00 03"),
        ("attaches", "0a 00 04 14 01 02 12 0c"),
        ("no-seals", "06 01 04 00"),
        ("longer", "06 02 00 10 04 00"),
        ("wrong-header", "06 04 0c 03 04 00"),
        (
            "counters-wrap",
            "06 08 fe ff ff ff fe ff ff ff 04 14 01 02 02 0c 02",
        ),
        ("closed", "06 10 03 01 00 00 00 04 01 00 00 00 04 00 02"),
        ("head-ahead", "04 04 00 08 03 00 00 02 03"),
        ("tail-ahead", "00 02 98 02 00 02 00 02"),
        ("leaves", "04 04 49 01 00 00 00 02 01 03"),
        ("header-too-long", "04 05 04 00 59 00 00 00 04 00"),
        ("damaged-slot", "08 04 14 0a 01 06 c8 01"),
        ("reference", "04 06 10 00 00 00 00 16 00 00 20 00 00"),
        ("reference-beyond", "04 06 ff 0f 00 00 00 a6 00 80 00 00 00"),
        ("table-beyond", "04 1d c0 ff 00 00 01 46 01 00 00 00 00"),
        (
            "other-arena",
            "04 4e 01 00 06 00 00 00 00 00 2e 08 09 fe 00 00",
        ),
        ("train", "04 26 00 08 40 00 00 26 40 08 40 00 00"),
    ];
    seeds.extend(named(&[], stories.map(|(name, bytes)| (name, hex(bytes)))));
    seeds
}
