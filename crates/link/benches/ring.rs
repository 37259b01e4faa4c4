//! The cost of passing a packet: through the ring on one thread and across two, by reference, in
//! one process and as between two processes.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rackweave_base::memory::Origin;
use rackweave_base::packet::Pool;
use rackweave_base::{Instant, Memory, Packet, Payload};
use rackweave_link::{Link, SharedMemory, in_process};
use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

const CAPACITY: usize = 256;

/// A packet of a typical transfer: 58 header bytes and a reference to a kilobyte.
fn packet(memory: &Memory) -> Packet {
    let block = memory.allocate(1024).expect("the arena is large enough");
    Packet::new(
        &[0x5a; 58],
        Payload::Region(block.reference(0, 1024).expect("in the block")),
    )
}

/// The arena of one process.
fn arena() -> Memory {
    let memory = Memory::shared(1 << 20).expect("the system shares memory");
    memory.set_origin(Origin(1));
    memory
}

/// A link in shared memory, both ends in this process.
fn shared_memory(memory: &Memory) -> (SharedMemory, SharedMemory) {
    let pool = Pool::new(1);
    let (a, handover) = SharedMemory::create(CAPACITY, memory.clone(), pool.clone())
        .expect("the arena is shared and has a name");
    let b = SharedMemory::attach(handover, memory.clone(), pool).expect("the link is fresh");
    (a, b)
}

/// Sends and receives batches of packets on one thread.
fn one_thread(c: &mut Criterion) {
    let memory = arena();
    one_thread_over(c, "batch", &memory, |_| in_process::pair(CAPACITY));
    one_thread_over(c, "shared_memory", &memory, shared_memory);
}

fn one_thread_over<L: Link>(
    c: &mut Criterion,
    name: &str,
    memory: &Memory,
    make: impl Fn(&Memory) -> (L, L),
) {
    let packet = packet(memory);
    let mut group = c.benchmark_group("one_thread");
    for batch in [1, 32] {
        let (mut a, mut b) = make(memory);
        group.throughput(Throughput::Elements(batch));
        group.bench_function(BenchmarkId::new(name, batch), |bench| {
            bench.iter(|| {
                for _ in 0..batch {
                    a.send(Instant::ZERO, packet.clone())
                        .expect("there is space");
                }
                for _ in 0..batch {
                    black_box(b.receive(Instant::ZERO).expect("it was sent"));
                }
            });
        });
    }
    group.finish();
}

/// Sends `count` packets from one thread to another; returns the time until the last one arrived.
fn pass<L: Link>(count: u64, packet: &Packet, (mut a, mut b): (L, L)) -> Duration {
    std::thread::scope(|scope| {
        let started = Clock::now();
        scope.spawn(move || {
            for _ in 0..count {
                let mut packet = packet.clone();
                while let Err(back) = a.send(Instant::ZERO, packet) {
                    packet = back;
                    std::thread::yield_now();
                }
            }
        });
        let mut left = count;
        while left > 0 {
            match b.receive(Instant::ZERO) {
                Some(packet) => {
                    black_box(packet);
                    left -= 1;
                }
                None => std::thread::yield_now(),
            }
        }
        started.elapsed()
    })
}

/// One sender thread, one receiver thread.
fn two_threads(c: &mut Criterion) {
    let memory = arena();
    let packet = packet(&memory);
    let mut group = c.benchmark_group("two_threads");
    group.throughput(Throughput::Elements(1));
    group.bench_function("stream", |bench| {
        bench.iter_custom(|count| pass(count, &packet, in_process::pair(CAPACITY)))
    });
    group.bench_function("stream_shared_memory", |bench| {
        bench.iter_custom(|count| pass(count, &packet, shared_memory(&memory)))
    });
    group.finish();
}

criterion_group!(benches, one_thread, two_threads);
criterion_main!(benches);
