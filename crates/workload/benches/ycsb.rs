//! The cost of the workload itself: drawing operations, writing and verifying records.
//!
//! Compare within one run: drawing a uniform number and copying a record are measured too.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rackweave_base::Rng;
use rackweave_workload::ycsb::{
    Expectations, Generator, Scatter, Stamp, Workload, YcsbOptions, Zipf, verify_record,
    write_record,
};
use std::hint::black_box;

const RECORDS: u64 = 10_000_000;

fn draws(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("draw");
    group.throughput(Throughput::Elements(1));
    for theta in [0.0, 0.5, 0.99, 1.0, 1.3] {
        let zipf = Zipf::new(RECORDS, theta).expect("in range");
        let mut rng = Rng::new(1);
        group.bench_function(format!("zipf {theta}"), |bencher| {
            bencher.iter(|| zipf.sample(&mut rng));
        });
    }
    let scatter = Scatter::new(RECORDS, 1);
    let mut rng = Rng::new(1);
    group.bench_function("scatter", |bencher| {
        bencher.iter(|| scatter.apply(rng.below(RECORDS)));
    });
    for workload in [Workload::A, Workload::C, Workload::D, Workload::E] {
        let options = YcsbOptions {
            workload,
            records: RECORDS,
            ..YcsbOptions::default()
        };
        let mut generator = Generator::new(&options, 0).expect("valid");
        group.bench_function(format!("workload {workload}"), |bencher| {
            bencher.iter(|| generator.next(black_box(RECORDS)));
        });
    }
    group.finish();
}

fn records(criterion: &mut Criterion) {
    for size in [128, 1000, 4096] {
        let mut group = criterion.benchmark_group(format!("record of {size}"));
        group.throughput(Throughput::Bytes(size as u64));
        let (mut record, mut copy) = (vec![0; size], vec![0; size]);
        let mut version = 0;
        group.bench_function("write", |bencher| {
            bencher.iter(|| {
                version += 1;
                write_record(black_box(&mut record), 7, version, Stamp::default())
            });
        });
        group.bench_function("verify", |bencher| {
            bencher.iter(|| verify_record(black_box(&record), 7).expect("whole"));
        });
        group.bench_function("copy", |bencher| {
            bencher.iter(|| black_box(&mut copy).copy_from_slice(black_box(&record)));
        });
        group.finish();
    }
}

fn expectations(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("expectations");
    let expectations = Expectations::new(RECORDS, RECORDS);
    let mut rng = Rng::new(1);
    group.bench_function("read", |bencher| {
        bencher.iter(|| {
            let key = rng.below(RECORDS);
            let floor = expectations.before_read(key);
            expectations.after_read(key, 0, floor)
        });
    });
    group.finish();
}

criterion_group!(benches, draws, records, expectations);
criterion_main!(benches);
