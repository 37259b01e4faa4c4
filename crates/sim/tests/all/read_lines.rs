//! READs whose cache lines are read in any order: what a reader gets during concurrent writes.

use crate::support::{End, Forward, NicSettings, config, rack, run_to_end};
use rackweave_base::{Block, Duration, NodeId};
use rackweave_link::FaultConfig;
use rackweave_sim::{Actor, Context, ReadLines, Step, World};
use rackweave_verbs::{Completion, CompletionStatus, Mtu, Operation, Region, WorkRequest};
use std::cell::RefCell;
use std::rc::Rc;

/// Words of a line.
const LINE: usize = 8;

/// The value that a WRITE puts over what was read.
const WRITTEN: u64 = u64::MAX;

/// Bytes of such a WRITE: few enough to travel in the work request and to arrive closely after the
/// READ.
const WRITE_BYTES: u32 = 128;

/// Bytes that change.
const COUNTED: usize = 8192;

/// Counts up, and periodically writes the count over all its memory at one instant.
struct Counter(Block, u64);

impl Actor for Counter {
    fn step(&mut self, _: &mut Context<'_>) -> Step {
        self.1 += 1;
        let words = self.1.to_le_bytes().repeat(COUNTED / 8);
        self.0.write(0, &words);
        Step::Sleep(Duration::from_nanos(170))
    }
}

/// Issues READs, one at a time, and keeps the results.
struct Reader {
    end: End,
    local: Region,
    remote: Region,
    what: What,
    waits_for: Option<u64>,
    images: Rc<RefCell<Vec<Vec<u64>>>>,
}

#[derive(Clone, Copy)]
struct What {
    read_lines: ReadLines,
    seed: u64,
    /// The source and length of its READs.
    offset: u64,
    bytes: u32,
    count: usize,
    mtu: Mtu,
    /// Whether each READ is followed by a WRITE over the end of what was read, on the same queue
    /// pair.
    writes: bool,
    /// Whether the memory being read is changed concurrently.
    counts: bool,
    faults: FaultConfig,
}

impl Actor for Reader {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let mut completions: Vec<Completion> = Vec::new();
        context.poll_cq(self.end.cq, 16, &mut completions);
        for completion in completions {
            assert_eq!(completion.status, CompletionStatus::Success);
            if completion.id == 1 {
                let mut image = vec![0; self.what.bytes as usize];
                self.local.block.read(0, &mut image);
                let words = image.chunks_exact(8);
                let words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap()));
                self.images.borrow_mut().push(words.collect());
            }
            if self.waits_for == Some(completion.id) {
                self.waits_for = None;
            }
        }
        if self.waits_for.is_some() {
            return Step::WaitForPacket;
        }
        if self.images.borrow().len() == self.what.count {
            return Step::Done;
        }
        let (address, rkey) = (self.remote.address + self.what.offset, self.remote.rkey);
        let mut post = |id, operation, segment| {
            let request = WorkRequest::new(id, operation, &[segment]);
            context.post_send(self.end.qpn, request).unwrap();
            self.waits_for = Some(id);
        };
        let into = self.local.segment(0, self.what.bytes);
        post(1, Operation::Read { address, rkey }, into);
        if self.what.writes {
            let write = Operation::Write {
                address: address + u64::from(self.what.bytes - WRITE_BYTES),
                rkey,
                immediate: None,
            };
            post(2, write, self.local.segment(1 << 20, WRITE_BYTES));
        }
        Step::WaitForPacket
    }
}

impl What {
    fn new(read_lines: ReadLines) -> Self {
        Self {
            read_lines,
            seed: 7,
            offset: 0,
            bytes: 1024,
            count: 200,
            mtu: Mtu::B4096,
            writes: false,
            counts: true,
            faults: FaultConfig::default(),
        }
    }

    fn images(self) -> (Vec<Vec<u64>>, World<Forward>) {
        let mut config = config(self.seed, 2);
        config.faults = self.faults;
        let mut rack = rack(config, NicSettings::default());
        rack.world.set_read_lines(self.read_lines);
        let (a, b) = rack.connect(0, 1, self.mtu);
        let (local, remote) = (rack.regions[0].clone(), rack.regions[1].clone());
        local.block.write(1 << 20, &[0xff; 1 << 16]);
        if self.counts {
            let memory = remote.block.clone();
            rack.world
                .spawn_server(b.node, Box::new(Counter(memory, 0)));
        }
        let images = Rc::default();
        let reader = Reader {
            end: a,
            local,
            remote,
            what: self,
            waits_for: None,
            images: Rc::clone(&images),
        };
        rack.world.spawn(a.node, Box::new(reader));
        run_to_end(&mut rack.world);
        (images.take(), rack.world)
    }
}

/// Whether all words are the same.
fn is_whole(words: &[u64]) -> bool {
    words.iter().all(|word| *word == words[0])
}

fn torn(images: &[Vec<u64>]) -> usize {
    images.iter().filter(|image| !is_whole(image)).count()
}

#[test]
fn at_once_nothing_is_torn_and_in_any_order_nearly_everything() {
    let (images, _) = What::new(ReadLines::AtOnce).images();
    assert_eq!(torn(&images), 0);
    let (images, _) = What::new(ReadLines::AnyOrder).images();
    assert!(torn(&images) > images.len() * 9 / 10, "{}", torn(&images));
    // Either of two lines may be newer.
    let lines = |image: &Vec<u64>| -> Vec<u64> { image.iter().step_by(LINE).copied().collect() };
    let all: Vec<_> = images.iter().map(lines).collect();
    let rises = all.iter().filter(|lines| lines[0] < lines[15]).count();
    let falls = all.iter().filter(|lines| lines[0] > lines[15]).count();
    assert!(rises > 40 && falls > 40, "{rises} {falls}");
    // A read of 547 ns overlaps at most four changes 170 ns apart.
    for lines in &all {
        let (least, most) = (lines.iter().min().unwrap(), lines.iter().max().unwrap());
        assert!(most - least <= 4, "{lines:?}");
    }
}

#[test]
fn a_line_comes_whole_wherever_the_read_begins() {
    for offset in [0, 8, 40, 64] {
        let what = What {
            offset,
            bytes: 512,
            ..What::new(ReadLines::AnyOrder)
        };
        let (images, _) = what.images();
        let (head, mut inside) = (((64 - offset % 64) / 8) as usize, 0);
        for image in &images {
            let (first, rest) = image.split_at(head);
            assert!(is_whole(first), "{image:?}");
            assert!(rest.chunks(LINE).all(is_whole), "{image:?}");
            inside += usize::from(first[0] != rest[0]);
        }
        assert!(
            inside > 50,
            "the first line and the second differ {inside} times"
        );
    }
}

#[test]
fn packets_of_one_read_are_torn_too_and_faults_change_nothing() {
    let what = What {
        bytes: 4096,
        mtu: Mtu::B1024,
        faults: FaultConfig {
            loss: 0.02,
            corrupt: 0.02,
            ..FaultConfig::default()
        },
        ..What::new(ReadLines::AnyOrder)
    };
    let (images, _) = what.images();
    assert!(torn(&images) > 150);
    for image in &images {
        assert!(image.chunks(LINE).all(is_whole), "{image:?}");
    }
}

/// The responder takes a READ's bytes before it executes a subsequent WRITE.
#[test]
fn a_write_behind_a_read_is_not_seen_by_it() {
    for bytes in [512, 4096] {
        let what = What {
            bytes,
            writes: true,
            mtu: Mtu::B1024,
            ..What::new(ReadLines::AnyOrder)
        };
        let (images, _) = what.images();
        // Not even the previous WRITE is seen, which the counter has overwritten since: a round
        // trip takes longer than its period.
        let seen = images.iter().flatten().filter(|word| **word == WRITTEN);
        assert_eq!(seen.count(), 0, "{bytes} bytes");
    }
}

#[test]
fn the_same_seed_reads_the_same() {
    let of_seed = |seed| {
        let what = What {
            seed,
            ..What::new(ReadLines::AnyOrder)
        };
        let (images, world) = what.images();
        (images, world.trace_hash())
    };
    assert_eq!(of_seed(3), of_seed(3));
    assert_ne!(of_seed(3).0, of_seed(4).0);
}

#[test]
fn a_node_that_crashes_while_it_reads_is_quiet() {
    let mut rack = rack(config(1, 2), NicSettings::default());
    rack.world.set_read_lines(ReadLines::AnyOrder);
    let (a, _) = rack.connect(0, 1, Mtu::B4096);
    let reader = Reader {
        end: a,
        local: rack.regions[0].clone(),
        remote: rack.regions[1].clone(),
        what: What::new(ReadLines::AnyOrder),
        waits_for: None,
        images: Rc::default(),
    };
    rack.world.spawn(a.node, Box::new(reader));
    let sent = |rack: &crate::support::Rack| {
        let report = rack.world.link_report(NodeId(1));
        report.unwrap().to_switch.link.packets
    };
    // The request is answered some 2 us after it was posted.
    while sent(&rack) == 0 && rack.world.nic(NodeId(1)).unwrap().counters().sent_pkts == 0 {
        let next = rack.world.now() + Duration::from_nanos(10);
        rack.world.run(next);
    }
    assert_eq!(sent(&rack), 0, "its lines are still being read");
    assert!(rack.world.crash(NodeId(1)));
    let next = rack.world.now() + Duration::from_micros(100);
    rack.world.run(next);
    assert_eq!(sent(&rack), 0);
}
