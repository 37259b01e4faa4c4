//! Overlapping requests keep their order over a backend that completes them in any order.

use super::*;
use crate::backend::shuffling::Shuffling;
use crate::{MemoryBackend, RegionRange};
use rackweave_base::{Memory, Rng};

const SIZE: u32 = 512;
const BLOCKS: u64 = 24;

/// A request's effect on the model, and the expected result of a read.
struct Run {
    namespace: Namespace,
    disk: MemoryBackend,
    rng: Rng,
    memory: Memory,
    model: Vec<u8>,
    reads: Vec<(u64, RegionRange, Vec<u8>)>,
    done: Vec<IoDone>,
    waits: [u32; 2],
}

impl Run {
    fn new(seed: u64, depth: usize) -> Self {
        let mut rng = Rng::new(seed);
        let disk = MemoryBackend::new(SIZE, BLOCKS);
        let shuffling = Shuffling::new(disk.clone(), rng.fork("backend"), depth);
        Self {
            namespace: Namespace::new(Box::new(shuffling)),
            disk,
            rng,
            memory: Memory::new(16 << 20),
            model: vec![0; (BLOCKS * u64::from(SIZE)) as usize],
            reads: Vec::new(),
            done: Vec::new(),
            waits: [0; 2],
        }
    }

    /// Submits a random request whose effect is defined by its submission order, whenever it runs.
    fn submit(&mut self, tag: u64) {
        let block = self.rng.below(BLOCKS - 8);
        let blocks = 1 + self.rng.below(8) as u32;
        let len = (blocks * SIZE) as usize;
        let at = (block * u64::from(SIZE)) as usize;
        let place = RegionRange {
            block: self.memory.allocate(len).unwrap(),
            offset: 0,
        };
        let (kind, buffer) = match self.rng.below(8) {
            0..=3 => {
                let byte = self.rng.next_u32() as u8;
                place.block.write(0, &vec![byte; len]);
                self.model[at..at + len].fill(byte);
                (IoKind::Write, Some(place))
            }
            4 => {
                self.model[at..at + len].fill(0);
                (IoKind::WriteZeroes, None)
            }
            5 => (IoKind::Flush, None),
            _ => {
                let expect = self.model[at..at + len].to_vec();
                self.reads.push((tag, place.clone(), expect));
                (IoKind::Read, Some(place))
            }
        };
        let range = (kind != IoKind::Flush).then_some((block, blocks));
        let (block, blocks) = range.unwrap_or_default();
        let io = Io {
            tag,
            kind,
            block,
            blocks,
            buffer,
        };
        if let Some(wait) = self.namespace.hand_over(Instant::ZERO, io) {
            self.waits[usize::from(wait == Wait::Order)] += 1;
        }
    }

    fn drive(&mut self) {
        self.namespace.drive(Instant::ZERO, &mut self.done);
        for done in self.done.drain(..) {
            assert_eq!(done.result, Ok(()));
            if let Some(at) = self.reads.iter().position(|(tag, ..)| *tag == done.tag) {
                let (_, place, expect) = self.reads.swap_remove(at);
                let mut found = vec![0; expect.len()];
                place.block.read(0, &mut found);
                assert!(found == expect, "a read saw another moment");
            }
        }
    }

    fn finish(&mut self) {
        while self.namespace.poll_timeout().is_some() {
            self.drive();
        }
        assert!(self.namespace.waiting.is_empty(), "something was forgotten");
        assert!(self.namespace.running.is_empty());
        assert_eq!(self.namespace.changes, 0);
        for block in 0..BLOCKS {
            let at = (block * u64::from(SIZE)) as usize;
            assert!(self.disk.bytes(block) == self.model[at..at + SIZE as usize]);
        }
    }
}

#[test]
fn what_overlaps_acts_in_the_order_of_its_coming() {
    let mut waits = [0; 2];
    for seed in 0..200 {
        let depth = [2, 5, 100][seed as usize % 3];
        let mut run = Run::new(seed, depth);
        for tag in 0..150 {
            run.submit(tag);
            if run.rng.chance(0.6) {
                run.drive();
            }
        }
        run.finish();
        assert!(run.reads.is_empty());
        waits = [waits[0] + run.waits[0], waits[1] + run.waits[1]];
    }
    assert!(waits.into_iter().all(|count| count > 1000), "{waits:?}");
}

#[test]
fn what_was_recalled_holds_nobody_back() {
    let mut run = Run::new(1, 100);
    let memory = run.memory.allocate(4096).unwrap();
    let mut write = |tag, block, blocks| {
        let io = Io {
            tag,
            kind: IoKind::Write,
            block,
            blocks,
            buffer: Some(RegionRange {
                block: memory.clone(),
                offset: 0,
            }),
        };
        run.namespace.hand_over(Instant::ZERO, io)
    };
    assert_eq!(write(1, 0, 2), None);
    assert_eq!(write(2, 1, 2), Some(Wait::Order));
    // Held back by one that itself waits.
    assert_eq!(write(3, 2, 2), Some(Wait::Order));
    assert_eq!(write(4, 4, 1), None);
    let mut recalled = Vec::new();
    run.namespace
        .recall(|tag| tag == 2, |tag| recalled.push(tag));
    assert_eq!(recalled, [2]);
    assert_eq!(run.namespace.changes, 3);
    run.namespace.start(Instant::ZERO);
    assert!(run.namespace.waiting.is_empty());
    while run.namespace.poll_timeout().is_some() {
        run.drive();
    }
    assert_eq!(run.namespace.changes, 0);
}

/// Not a test: measures the cost of the search. `cargo test --release -- --ignored --nocapture`.
#[test]
#[ignore = "prints a measurement"]
fn cost_of_the_search() {
    let memory = Memory::new(1 << 20).allocate(4096).unwrap();
    for (depth, kind) in [
        (1, IoKind::Read),
        (64, IoKind::Read),
        (1, IoKind::Write),
        (16, IoKind::Write),
        (64, IoKind::Write),
        (256, IoKind::Write),
    ] {
        let mut namespace = Namespace::new(Box::new(MemoryBackend::new(512, 1 << 20)));
        let io = |tag: u64| Io {
            tag,
            kind,
            block: tag % 1024 * 8,
            blocks: 1,
            buffer: Some(RegionRange {
                block: memory.clone(),
                offset: 0,
            }),
        };
        let rounds = 200_000 / depth;
        let mut tags = 0..;
        let mut done = Vec::new();
        let mut handing = std::time::Duration::ZERO;
        for _ in 0..rounds {
            let ios: Vec<Io> = tags.by_ref().take(depth as usize).map(io).collect();
            let begin = std::time::Instant::now();
            for io in ios {
                assert_eq!(namespace.hand_over(Instant::ZERO, io), None);
            }
            handing += begin.elapsed();
            namespace.drive(Instant::ZERO, &mut done);
            done.clear();
        }
        let each = handing.as_nanos() as f64 / f64::from(rounds * depth);
        println!("{kind:?}, {depth} in flight: {each:.0} ns to hand over");
    }
}
