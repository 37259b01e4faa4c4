//! Rows per second of each part: generating, encoding into rings, answering, and the reference.
//!
//! Rings hold a whole table here, so that no switch is needed. Compare within one run: copying
//! the encoded rows is measured too.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rackweave_base::{Block, Memory};
use rackweave_endpoint::flow::{Consumer, Partitioner, Producer, RingLayout};
use rackweave_wire::fabric::ring::{
    self, ByteOrder, NODE_WORD, NodeState, NodeWord, SWITCH_WORD, SwitchState, SwitchWord, Word,
};
use rackweave_workload::tpch::{
    ComputeWorker, LineitemRow, OrderRow, ScaleFactor, StorageWorker, WorkerStep, reference,
};
use std::hint::black_box;

const LAYOUT: RingLayout = RingLayout {
    item_size: 1 << 16,
    slots: 1 << 10,
    order: ByteOrder::Little,
};
const ROWS_PER_STEP: usize = 1 << 14;

/// Rings of 64 MiB that take a table each at scale factor 0.1, together 41 MiB.
struct Rings {
    orders: Block,
    lineitem: Block,
}

impl Rings {
    fn new() -> Self {
        let memory = Memory::new(1 << 28);
        let len = ring::region_bytes(LAYOUT.item_size, LAYOUT.slots) as usize;
        let block = || memory.allocate(len).expect("the arena is large enough");
        Self {
            orders: block(),
            lineitem: block(),
        }
    }

    fn storage(&self) -> StorageWorker {
        let partitioner = |block: &Block, row_bytes| {
            say(block, 0, SwitchState::Open);
            let vacant = NodeWord::default();
            block.write(NODE_WORD as usize, &u64::from(vacant).to_le_bytes());
            let producer = Producer::new(block, LAYOUT).expect("the block fits the ring");
            Partitioner::new(vec![producer], row_bytes)
        };
        let orders = partitioner(&self.orders, OrderRow::BYTES);
        let lineitem = partitioner(&self.lineitem, LineitemRow::BYTES);
        StorageWorker::new(scale(), 0, 1, orders, lineitem).expect("part 0 of 1")
    }

    /// Turns filled rings into delivered rings.
    fn deliver(&self) {
        for block in [&self.orders, &self.lineitem] {
            let mut bytes = [0; 8];
            block.read(NODE_WORD as usize, &mut bytes);
            let head = NodeWord::try_from(u64::from_le_bytes(bytes)).expect("a producer's word");
            say(block, head.counter, SwitchState::Ended);
        }
    }

    fn compute(&self) -> ComputeWorker {
        let consumer = |block: &Block| {
            let start = Word {
                counter: 0,
                state: NodeState::Open,
            };
            block.write(NODE_WORD as usize, &u64::from(start).to_le_bytes());
            Consumer::new(block, LAYOUT).expect("the block fits the ring")
        };
        ComputeWorker::new(consumer(&self.orders), consumer(&self.lineitem))
    }
}

fn say(block: &Block, counter: u32, state: SwitchState) {
    let word = SwitchWord { counter, state };
    block.write(SWITCH_WORD as usize, &u64::from(word).to_le_bytes());
}

fn scale() -> ScaleFactor {
    ScaleFactor::new(0.1).expect("in range")
}

/// Returns the worker, so that freeing its memory is not measured.
fn push(mut worker: StorageWorker) -> StorageWorker {
    while let WorkerStep::Worked { .. } = worker.step(ROWS_PER_STEP) {}
    assert_eq!(worker.step(1), WorkerStep::Done);
    worker
}

fn tpch(criterion: &mut Criterion) {
    let rings = Rings::new();
    let rows = push(rings.storage()).pushed();
    let mut group = criterion.benchmark_group("tpch");
    group.sample_size(10);
    group.throughput(Throughput::Elements(rows.total()));
    group.bench_function("generate", |bencher| {
        let prepare = |mut worker: StorageWorker| {
            worker.prepare();
            worker
        };
        bencher.iter_batched(|| rings.storage(), prepare, BatchSize::PerIteration);
    });
    group.bench_function("push_prepared", |bencher| {
        let prepared = || {
            let mut worker = rings.storage();
            worker.prepare();
            worker
        };
        bencher.iter_batched(prepared, push, BatchSize::PerIteration);
    });
    push(rings.storage());
    rings.deliver();
    group.bench_function("compute", |bencher| {
        bencher.iter(|| {
            let mut worker = rings.compute();
            while let WorkerStep::Worked { .. } = worker.step(ROWS_PER_STEP) {}
            worker.into_result().expect("the rings hold whole tables")
        });
    });
    group.bench_function("reference", |bencher| bencher.iter(|| reference(scale())));
    let source = vec![1u8; rows.bytes() as usize];
    let mut target = vec![0u8; source.len()];
    group.bench_function("copy_as_many_bytes", |bencher| {
        bencher.iter(|| target.copy_from_slice(black_box(&source)));
    });
    group.finish();
}

criterion_group!(benches, tpch);
criterion_main!(benches);
