//! Bytes per second of the partitioner, through the caches and past them, against copying items
//! that are ready.
//!
//! Whenever a ring is full, a fake switch copies its items to a ring of a consumer, as the NIC of
//! one does in an embedded rack. Compare within one run and one group.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rackweave_base::{Block, Memory, Rng};
use rackweave_endpoint::flow::{Partitioner, Producer, PushError, RingLayout, Stores};
use rackweave_wire::fabric::ring::{
    self, ByteOrder, ITEMS, NODE_WORD, NodeState, NodeWord, SWITCH_WORD, SwitchState, SwitchWord,
};
use std::time::Duration;

/// Bytes of rows that one iteration pushes.
const BYTES: usize = 16 << 20;
/// Rows that are pushed over and over.
const ROWS: usize = 1 << 12;

/// Producer rings, and consumer rings of the same shape.
struct Rings {
    memory: Memory,
    layout: RingLayout,
    pairs: Vec<(Block, Block)>,
    tails: Vec<u32>,
}

impl Rings {
    fn new(destinations: usize, item_size: u32, slots: u32) -> Self {
        let layout = RingLayout {
            item_size,
            slots,
            order: ByteOrder::Little,
        };
        let memory = Memory::new(1 << 30);
        let len = ring::region_bytes(item_size, slots) as usize;
        let block = || memory.allocate(len).expect("the arena is large enough");
        let pairs = (0..destinations).map(|_| (block(), block())).collect();
        Self {
            layout,
            pairs,
            tails: vec![0; destinations],
            memory,
        }
    }

    fn producers(&mut self) -> Vec<Producer> {
        self.tails.fill(0);
        let producer = |(ring, _): &(Block, Block)| {
            let state = NodeState::Open;
            let word = NodeWord { counter: 0, state };
            ring.write(NODE_WORD as usize, &u64::from(word).to_le_bytes());
            say(ring, 0);
            Producer::new(ring, self.layout).expect("the block fits the ring")
        };
        self.pairs.iter().map(producer).collect()
    }

    /// Delivers all items that were committed.
    fn deliver(&mut self) {
        let (item_size, slots) = (self.layout.item_size, self.layout.slots);
        for ((ring, target), tail) in self.pairs.iter().zip(&mut self.tails) {
            let mut word = [0; 8];
            ring.read(NODE_WORD as usize, &mut word);
            let word = NodeWord::try_from(u64::from_le_bytes(word)).expect("a producer's word");
            while *tail != word.counter {
                let at = ITEMS + u64::from(*tail & (slots - 1)) * u64::from(item_size);
                let item = |block: &Block| block.reference(at, item_size).expect("in the ring");
                assert!(self.memory.copy(item(ring), item(target)));
                *tail = tail.wrapping_add(1);
            }
            say(ring, word.counter);
        }
    }

    /// Makes `push` succeed `count` times, with the numbers of the rows or items.
    fn drive(&mut self, count: usize, mut push: impl FnMut(usize) -> Result<(), PushError>) {
        let mut done = 0;
        while done < count {
            match push(done) {
                Ok(()) => done += 1,
                Err(_) => self.deliver(),
            }
        }
    }
}

fn say(ring: &Block, counter: u32) {
    let state = SwitchState::Open;
    let word = SwitchWord { counter, state };
    ring.write(SWITCH_WORD as usize, &u64::from(word).to_le_bytes());
}

fn rows_of<const ROW: usize>(criterion: &mut Criterion) {
    let mut rng = Rng::new(7);
    let mut row = |_| {
        let mut row = [7; ROW];
        row[..8].copy_from_slice(&rng.next_u64().to_le_bytes());
        row
    };
    let rows: Vec<[u8; ROW]> = (0..ROWS).map(&mut row).collect();
    for destinations in [4, 64] {
        for (item_size, slots) in [
            (4 << 10, 16),
            (4 << 10, 256),
            (64 << 10, 16),
            (64 << 10, 64),
        ] {
            let mut rings = Rings::new(destinations, item_size, slots);
            let name = format!("rows of {ROW} to {destinations} rings of {slots} x {item_size}");
            let mut group = criterion.benchmark_group(name);
            group.throughput(Throughput::Bytes(BYTES as u64));
            for stores in [Stores::Cached, Stores::Streaming] {
                group.bench_function(
                    BenchmarkId::from_parameter(format!("{stores:?}")),
                    |bench| {
                        bench.iter(|| {
                            let producers = rings.producers();
                            let mut target = Partitioner::with_stores(producers, ROW, stores);
                            rings.drive(BYTES / ROW, |at| {
                                let row = &rows[at % ROWS];
                                let key =
                                    row.first_chunk().map_or(0, |key| u64::from_le_bytes(*key));
                                target.push(key, |slot| slot.copy_from_slice(row))
                            });
                        });
                    },
                );
            }
            let item = vec![7; item_size as usize];
            group.bench_function("copied items", |bench| {
                bench.iter(|| {
                    let mut producers = rings.producers();
                    rings.drive(BYTES / item.len(), |at| {
                        producers[at % destinations].push(&item)
                    });
                });
            });
            group.finish();
        }
    }
}

/// There are many shapes, and what matters are the ratios within a group.
fn short() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_secs(1))
}

criterion_group! {
    name = benches;
    config = short();
    targets = rows_of::<16>, rows_of::<64>
}
criterion_main!(benches);
