//! The attacked end of a link, and a model of what it may do according to the segment's bytes.

use super::arena::{Arena, Reference};
use super::segment::{Content, Described, Ring, Segment, Word};
use crate::fixture::check_line;
use rackweave_base::memory::Origin;
use rackweave_base::packet::{PAYLOAD_MAX, Pool};
use rackweave_base::{Block, Instant, Memory, Packet, Payload};
use rackweave_link::shared_memory::protocol::Nonsense;
use rackweave_link::{Link, SharedMemory, wait};
use std::os::unix::net::UnixDatagram;

/// The name of the victim's arena for other processes.
pub const OWN_NAME: u16 = 1;

const NOW: Instant = Instant::ZERO;
const BLOCK: usize = 4096;
/// Capacity of the honest link each way.
const BESIDE: usize = 2;

pub struct Victim {
    pub memory: Memory,
    pub segment: Segment,
    /// The arena that was imported last.
    pub imported: Option<Arena>,
    own: Block,
    link: SharedMemory,
    makes: bool,
    model: Model,
    /// The honest link: the victim's end and the other.
    beside: [SharedMemory; 2],
    sent_beside: u8,
}

/// The counters that the victim must have, whatever the segment says.
struct Model {
    head: u32,
    tail_seen: u32,
    tail: u32,
    head_seen: u32,
    is_nonsense: bool,
    oversized: u64,
}

impl Victim {
    /// A victim that makes the link.
    pub fn maker(capacity: u32) -> Self {
        let memory = arena();
        let pool = Pool::new(1);
        let (link, handed) = SharedMemory::create(capacity as usize, memory.clone(), pool)
            .expect("the arena is shared");
        let segment = Segment {
            fd: handed.segment,
            capacity,
        };
        Self::new(memory, segment, link, true)
    }

    /// A victim that attaches; `None` if it correctly refuses to.
    pub fn attacher(mut segment: Segment) -> Option<Self> {
        let memory = arena();
        let fd = segment.fd.try_clone().expect("a descriptor is free");
        let (to_maker, to_us) = UnixDatagram::pair().expect("descriptors are free");
        let handover = rackweave_link::shared_memory::Handover {
            segment: fd,
            wake: [to_maker.into(), to_us.into()],
        };
        let sound = segment.sound_capacity();
        let attached = SharedMemory::attach(handover, memory.clone(), Pool::new(1));
        assert_eq!(attached.is_ok(), sound.is_some(), "{attached:?}");
        match attached {
            Ok(link) => {
                segment.capacity = sound?;
                assert_eq!(link.capacity(), segment.capacity as usize);
                Some(Self::new(memory, segment, link, false))
            }
            Err(error) => {
                check_line(&error.to_string());
                None
            }
        }
    }

    fn new(memory: Memory, segment: Segment, link: SharedMemory, makes: bool) -> Self {
        let own = memory.allocate(BLOCK).expect("it has space");
        own.write(0, &content());
        let (a, handed) = SharedMemory::create(BESIDE, memory.clone(), Pool::new(1))
            .expect("the arena is shared");
        let b = SharedMemory::attach(handed, memory.clone(), Pool::new(1)).expect("it is fresh");
        let [ring_in, ring_out] = rings(makes);
        let model = Model {
            head: segment.word(ring_out, Word::Head),
            tail_seen: segment.word(ring_out, Word::Head),
            tail: segment.word(ring_in, Word::Tail),
            head_seen: segment.word(ring_in, Word::Tail),
            is_nonsense: false,
            oversized: 0,
        };
        Self {
            memory,
            segment,
            imported: None,
            own,
            link,
            makes,
            model,
            beside: [a, b],
            sent_beside: 0,
        }
    }

    /// The ring that the victim receives from.
    pub fn ring_in(&self) -> Ring {
        rings(self.makes)[0]
    }

    pub fn ring_out(&self) -> Ring {
        rings(self.makes)[1]
    }

    /// A reference to the victim's whole block.
    pub fn own_reference(&self) -> Reference {
        let reference = self.own.reference(0, 64).expect("it is in the block");
        Reference::decode(&reference.exported(&self.memory).encode())
    }

    /// Receives all waiting packets; this ends, whatever they are.
    pub fn receive_all(&mut self) {
        for _ in 0..=self.segment.capacity {
            self.receive();
        }
    }

    /// Receives one packet, exactly as its slot says, or nothing.
    pub fn receive(&mut self) {
        let expected = self.expect_packet();
        let found = self.link.receive(NOW);
        self.check_state();
        let (Some(found), Some(expected)) = (&found, &expected) else {
            assert!(
                found.is_none() && expected.is_none(),
                "{found:?}, {expected:?}"
            );
            return;
        };
        self.check_packet(found, expected);
    }

    fn expect_packet(&mut self) -> Option<Described> {
        let (ring, capacity) = (self.ring_in(), self.segment.capacity);
        let model = &mut self.model;
        if model.is_nonsense {
            return None;
        }
        if model.tail == model.head_seen {
            let head = self.segment.word(ring, Word::Head);
            model.is_nonsense = head.wrapping_sub(model.tail) > capacity;
            if model.is_nonsense || head == model.tail {
                return None;
            }
            model.head_seen = head;
        }
        let described = self.segment.described(ring, model.tail);
        model.is_nonsense = described.is_none();
        model.tail = model.tail.wrapping_add(described.is_some().into());
        described
    }

    fn check_packet(&self, found: &Packet, expected: &Described) {
        assert_eq!(found.header(), expected.header);
        assert_eq!(found.pad(), expected.pad);
        assert_eq!(found.check, expected.check);
        assert_eq!(found.fragments(), expected.fragments);
        assert!(found.fragment_len() <= PAYLOAD_MAX);
        match &expected.payload {
            Content::Bytes(bytes) => assert_eq!(found.payload.as_slice(), Some(&bytes[..])),
            Content::Reference(reference) => {
                let bytes = self.resolve(reference);
                assert_eq!(found.payload.to_vec(&self.memory), bytes, "{reference:?}");
                // A switch reads only the first word; the others may name no block.
                let first = Reference {
                    len: 8,
                    ..*reference
                };
                let word = self.resolve(&first).filter(|_| reference.len >= 8);
                let word = word.as_ref().and_then(|bytes| bytes.first_chunk());
                let word = word.map(|word| u64::from_le_bytes(*word));
                assert_eq!(found.payload.first_word(&self.memory), word);
            }
        }
    }

    /// The bytes that a reference of the hostile process names, if it names any.
    fn resolve(&self, reference: &Reference) -> Option<Vec<u8>> {
        if reference.origin != OWN_NAME {
            let is_peers = reference.origin == super::PEER_NAME;
            let arena = self.imported.as_ref().filter(|_| is_peers)?;
            return arena.bytes(reference);
        }
        let own = self.own_reference();
        let is_own = (reference.slot, reference.generation) == (own.slot, own.generation);
        let end = reference.offset.checked_add(reference.len.into())?;
        let is_there = is_own && end <= BLOCK as u64;
        is_there.then(|| content()[reference.offset as usize..end as usize].to_vec())
    }

    /// Sends a packet; its slot describes it, and no other slot changes.
    pub fn send(&mut self, kind: u8) {
        let reference = |len| self.own.reference(0, len).expect("it is in the block");
        let payload = match kind % 8 {
            0 => Payload::Empty,
            1 => Payload::inline(&[kind; 32]),
            2 => Payload::copied(&[kind; 33]),
            3 => Payload::copied(&[kind; PAYLOAD_MAX]),
            4 | 5 => Payload::Region(reference(2048)),
            6 => Payload::copied(&[kind; PAYLOAD_MAX + 1]),
            _ => Payload::Region(reference(33 * 64)),
        };
        let mut packet = Packet::new(&[kind; 54], payload);
        match kind % 8 {
            1 => packet.set_pad(&[1, 2, 3]),
            3 => packet.check = Some([kind, 1, 2, 3]),
            5 | 7 => packet.make_train(64),
            _ => {}
        }
        let is_oversized = kind % 8 >= 6;
        let (slot, before) = (self.model.head, self.segment.slots(self.ring_in()));
        let goes = self.expect_room();
        let sent = self.link.send(NOW, packet.clone());
        assert_eq!(sent.is_err(), goes == Some(false), "{goes:?}");
        if goes == Some(true) && is_oversized {
            self.model.oversized += 1;
        } else if goes == Some(true) {
            self.model.head = self.model.head.wrapping_add(1);
            let head = self.segment.word(self.ring_out(), Word::Head);
            assert_eq!(head, self.model.head);
            let described = self.segment.described(self.ring_out(), slot);
            self.check_packet(&packet, &described.expect("what is sent can be"));
        }
        assert!(
            self.segment.slots(self.ring_in()) == before,
            "it writes into the wrong ring"
        );
        self.check_state();
    }

    /// Whether the ring accepts a packet; `None` if packets are discarded, because no peer is
    /// attached.
    fn expect_room(&mut self) -> Option<bool> {
        let capacity = self.segment.capacity;
        if self.is_gone() {
            return None;
        }
        if !self.looks_full() {
            return Some(true);
        }
        let tail = self.segment.word(self.ring_out(), Word::Tail);
        self.model.is_nonsense = self.model.head.wrapping_sub(tail) > capacity;
        if self.model.is_nonsense {
            return None;
        }
        self.model.tail_seen = tail;
        Some(!self.looks_full())
    }

    fn looks_full(&self) -> bool {
        self.model.head.wrapping_sub(self.model.tail_seen) == self.segment.capacity
    }

    fn is_gone(&self) -> bool {
        self.model.is_nonsense || self.segment.word(self.ring_in(), Word::Closed) != 0
    }

    /// It sleeps only if nothing waits and the peer could wake it.
    pub fn sleep(&mut self) {
        let expected = self.expect_sleep();
        assert_eq!(self.link.prepare_sleep(), expected);
        self.check_state();
        self.link.end_sleep();
        let wake = [self.link.wake_fd().expect("it can be slept on")];
        let is_awake = wait::sleep(&wake, std::time::Duration::ZERO).expect("it can be polled");
        assert!(!is_awake, "awake it has read what woke it");
    }

    fn expect_sleep(&mut self) -> bool {
        if self.model.is_nonsense {
            return true;
        }
        let is_gone = self.is_gone();
        let head = self.segment.word(self.ring_in(), Word::Head);
        self.model.is_nonsense = head.wrapping_sub(self.model.tail) > self.segment.capacity;
        if self.model.is_nonsense || head != self.model.tail {
            return false;
        }
        is_gone || !self.looks_full() || self.expect_room() == Some(false)
    }

    /// The reported state of the link is that of the segment.
    fn check_state(&self) {
        let (model, capacity) = (&self.model, self.segment.capacity);
        assert_eq!(self.link.nonsense().is_some(), model.is_nonsense);
        assert_eq!(self.link.is_peer_gone(), self.is_gone());
        assert_eq!(self.link.oversized(), model.oversized);
        let tail = self.segment.word(self.ring_out(), Word::Tail);
        let used = Some(model.head.wrapping_sub(tail)).filter(|used| *used <= capacity);
        let free = match used {
            Some(used) if !self.is_gone() => capacity - used,
            _ => capacity,
        };
        assert_eq!(self.link.free(), free as usize);
        if let Some(nonsense) = self.link.nonsense() {
            check_line(&nonsense.to_string());
            if let Nonsense::Counter { waiting, capacity } = nonsense {
                assert!(waiting > capacity);
            }
        }
        let _shown = format!("{:?}", self.link);
    }

    /// The honest link carries packets both ways.
    pub fn check_beside(&mut self) {
        for _ in 0..2 {
            let [from, to] = &mut self.beside;
            self.sent_beside = self.sent_beside.wrapping_add(1);
            let reference = self.own.reference(0, 64).expect("it is in the block");
            for payload in [Payload::copied(&[1; 100]), Payload::Region(reference)] {
                let bytes = payload.to_vec(&self.memory);
                let packet = Packet::new(&[self.sent_beside], payload);
                from.send(NOW, packet).expect("there is space");
                let packet = to.receive(NOW).expect("it arrives");
                assert_eq!(packet.header(), [self.sent_beside]);
                assert_eq!(packet.payload.to_vec(&self.memory), bytes);
            }
            self.beside.swap(0, 1);
        }
        assert!(
            self.own.bytes(0, BLOCK).to_vec() == content(),
            "the victim's memory has changed"
        );
    }
}

/// The ring that the victim receives from, and the one it sends into.
fn rings(makes: bool) -> [Ring; 2] {
    match makes {
        true => [Ring::Back, Ring::Out],
        false => [Ring::Out, Ring::Back],
    }
}

fn arena() -> Memory {
    let memory = Memory::shared(BLOCK).expect("the system gives it");
    memory.set_origin(Origin(OWN_NAME));
    memory
}

/// The content of the victim's block.
fn content() -> Vec<u8> {
    (0..BLOCK).map(|at| (at / 3) as u8).collect()
}
