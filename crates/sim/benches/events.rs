//! Events per second of real time: two nodes stream WRITEs through a forwarding switch.

#[path = "../tests/all/support.rs"]
mod support;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rackweave_sim::Stop;
use rackweave_verbs::Mtu;
use support::{Kind, LONG, NicSettings, Rack, What, config, rack};

/// Two nodes that stream to each other.
fn streaming(len: u32, check: bool) -> Rack {
    let mut rack = rack(
        config(1, 2),
        NicSettings {
            check,
            ..NicSettings::default()
        },
    );
    for (from, to) in [(0, 1), (1, 0)] {
        let (a, b) = rack.connect(from, to, Mtu::B1024);
        rack.stream(
            a,
            b,
            What {
                kind: Kind::Write,
                len,
                depth: 32,
                count: 2000,
            },
        );
    }
    rack
}

fn run(mut rack: Rack) -> u64 {
    assert_eq!(rack.world.run(LONG), Stop::Done);
    rack.world.events()
}

fn events(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("events");
    for (name, len, check) in [
        ("write_64", 64, false),
        ("write_1024", 1024, false),
        ("write_8192", 8192, false),
        ("write_1024_icrc", 1024, true),
    ] {
        group.throughput(Throughput::Elements(run(streaming(len, check))));
        group.bench_function(name, |bencher| {
            bencher.iter_batched(|| streaming(len, check), run, BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, events);
criterion_main!(benches);
