//! What passing a packet costs: through the ring on one thread and across two.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rackweave_base::{Instant, Memory, Packet, Payload};
use rackweave_link::{Link, in_process};
use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

const CAPACITY: usize = 256;

/// A packet as transfers are made of: 58 header bytes and a reference to a kilobyte.
fn packet(memory: &Memory) -> Packet {
    let block = memory.allocate(1024).expect("the arena is large enough");
    Packet::new(
        &[0x5a; 58],
        Payload::Region(block.reference(0, 1024).expect("in the block")),
    )
}

/// Sends and receives batches of `batch` packets on one thread.
fn one_thread(c: &mut Criterion) {
    let memory = Memory::new(1 << 20);
    let packet = packet(&memory);
    let mut group = c.benchmark_group("one_thread");
    for batch in [1, 32] {
        let (mut a, mut b) = in_process::pair(CAPACITY);
        group.throughput(Throughput::Elements(batch));
        group.bench_function(BenchmarkId::new("batch", batch), |bench| {
            bench.iter(|| {
                for _ in 0..batch {
                    a.send(Instant::ZERO, packet.clone())
                        .expect("there is room");
                }
                for _ in 0..batch {
                    black_box(b.receive(Instant::ZERO).expect("it was sent"));
                }
            });
        });
    }
    group.finish();
}

/// Sends `count` packets from one thread to another; the time until the last one arrived.
fn pass(count: u64, packet: &Packet) -> Duration {
    let (mut a, mut b) = in_process::pair(CAPACITY);
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
    let memory = Memory::new(1 << 20);
    let packet = packet(&memory);
    let mut group = c.benchmark_group("two_threads");
    group.throughput(Throughput::Elements(1));
    group.bench_function("stream", |bench| {
        bench.iter_custom(|count| pass(count, &packet))
    });
    group.finish();
}

criterion_group!(benches, one_thread, two_threads);
criterion_main!(benches);
