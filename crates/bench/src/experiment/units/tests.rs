//! Q1 on processing units: right answers, and differences between units.

use super::*;
use crate::harness::ExperimentError;
use rackweave_workload::tpch::Q1Partial;

fn run<R>(seed: u64, act: impl FnOnce(&mut Run<'_>) -> R) -> R {
    act(&mut Run::quick(seed))
}

fn unit(name: &str, bytes_per_second: u64) -> UnitModel {
    UnitModel {
        name: name.into(),
        compute_bytes_per_second: bytes_per_second,
        memory_bytes_per_second: u64::MAX,
        ..UnitModel::gpu_v100()
    }
}

#[test]
fn parts_of_a_range_are_nearly_equal_and_leave_nothing_out() {
    for (len, count) in [(0, 1), (1, 3), (10, 3), (255, 8)] {
        let all = 5..5 + len;
        let parts: Vec<_> = (0..count).map(|at| part(&all, at, count)).collect();
        let rows: Vec<usize> = parts.iter().cloned().flatten().collect();
        assert_eq!(rows, all.collect::<Vec<_>>());
        let lens: Vec<usize> = parts.iter().map(|part| part.len()).collect();
        let (least, most) = (lens.iter().min().unwrap(), lens.iter().max().unwrap());
        assert!(most - least <= 1, "{lens:?}");
    }
}

#[test]
fn the_answer_is_the_references_and_the_slowest_unit_decides() {
    let table = Table::new(0.01).unwrap();
    let fast = 10_000_000_000;
    let units = [unit("slow", fast / 10), unit("a", fast), unit("b", fast)];
    let outcome = run(7, |run| {
        query(run, &table, STORAGE_NODES, &units, FlowShape::Shuffle)
    })
    .unwrap();
    assert!(outcome.is_right, "{}", outcome.answer);
    let bytes: Vec<u64> = outcome.units.iter().map(UnitReport::bytes).collect();
    assert_eq!(bytes.iter().sum::<u64>(), outcome.rows * ROW as u64);
    let even = outcome.rows * ROW as u64 / 3;
    for bytes in &bytes {
        // Eight producers, each of which rounds its three shares.
        assert!(
            bytes.abs_diff(even) <= 8 * ROW as u64,
            "{bytes} is not {even}"
        );
    }
    let finished: Vec<Instant> = outcome.units.iter().map(UnitReport::finished).collect();
    assert!(finished[0] > finished[1].max(finished[2]));
    let alone = bytes[0] as f64 / (fast as f64 / 10.0);
    assert!(
        outcome.seconds >= alone,
        "{} s, {alone} s alone",
        outcome.seconds
    );
    assert!(
        outcome.seconds < 1.5 * alone,
        "{} s, {alone} s alone",
        outcome.seconds
    );
}

#[test]
fn a_wrong_answer_is_noticed() {
    let units = heterogeneous_units(CPU_UNIT_CORES);
    let mut table = Table::new(0.001).unwrap();
    let more = Table::new(0.002).unwrap();
    table.expected = more.expected;
    let outcome = run(1, |run| {
        query(run, &table, STORAGE_NODES, &units, FlowShape::Shuffle)
    })
    .unwrap();
    assert!(!outcome.is_right, "rows are missing");
    table.expected = QueryResult::merge([Q1Partial::default().into_result()]);
    table.expected.rows.lineitem = outcome.rows;
    let outcome = run(1, |run| {
        query(run, &table, STORAGE_NODES, &units, FlowShape::Shuffle)
    })
    .unwrap();
    assert!(!outcome.is_right, "the groups are others");
}

#[test]
fn a_unit_may_come_while_the_flow_runs() {
    // Both rings exist from the start; until the second unit joins its ring only fills.
    let table = Table::new(0.02).unwrap();
    let late = Instant::ZERO + Duration::from_micros(400);
    let mut rack = Rack::new(&table, 1, 2, 5).unwrap();
    let (from, to) = (rack.producers(), [rack.unit_node(0), rack.unit_node(1)]);
    let simulated = &mut rack.rack;
    let flow = simulated
        .flow(&from, &to)
        .item_bytes(ITEM_SIZE)
        .ring_bytes(RING_BYTES)
        .build()
        .unwrap();
    simulated.at(late, 7);
    rack.feed(&flow).unwrap();
    rack.take(&flow, 0, to[0], UnitModel::gpu_v100()).unwrap();
    let mut come = |rack: &mut Rack<'_>, token: u64| {
        assert_eq!(token, 7);
        rack.take(&flow, 1, to[1], UnitModel::gpu_v100())
    };
    let outcome = run(5, |run| rack.run(run, &mut come)).unwrap();
    assert!(outcome.is_right, "{}", outcome.answer);
    assert!(outcome.units[0].batches[0].0 < late);
    assert!(outcome.units[1].batches[0].0 > late);
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let table = Table::new(0.001).unwrap();
    let batches = || -> Vec<_> {
        let units = heterogeneous_units(CPU_UNIT_CORES);
        let outcome = run(3, |run| {
            query(run, &table, STORAGE_NODES, &units, FlowShape::Shuffle)
        })
        .unwrap();
        assert!(outcome.is_right);
        outcome.units.into_iter().map(|unit| unit.batches).collect()
    };
    assert_eq!(batches(), batches());
}

#[test]
fn rates_add_up_to_the_bytes() {
    let at = |nanos| Instant::ZERO + Duration::from_nanos(nanos);
    let report = UnitReport {
        batches: vec![(at(10), 100), (at(100), 50), (at(101), 7), (at(250), 1)],
        ..UnitReport::default()
    };
    let rates = report.rates(Duration::from_nanos(100), at(250));
    let bytes: Vec<f64> = rates
        .iter()
        .map(|(_, rate)| (rate * 1e-7).round())
        .collect();
    assert_eq!(bytes, [150.0, 7.0, 1.0]);
    assert_eq!(rates.len(), 3);
}

#[test]
fn who_wishes_to_stop_is_heard() {
    let table = Table::new(0.01).unwrap();
    let mut progress = |_| false;
    let mut run = Run::new(Scale::Quick, 1, &mut progress);
    let stopped = query(
        &mut run,
        &table,
        2,
        &heterogeneous_units(CPU_UNIT_CORES),
        FlowShape::Shuffle,
    );
    assert!(matches!(stopped, Err(ExperimentError::Interrupted)));
}

#[test]
fn only_what_grows_with_the_table_is_scaled() {
    let table = Table::new(0.001).unwrap();
    let units = heterogeneous_units(CPU_UNIT_CORES);
    let outcome = run(1, |run| {
        query(run, &table, STORAGE_NODES, &units, FlowShape::Shuffle)
    })
    .unwrap();
    let first = outcome.seconds_to_first;
    assert!(first > 0.0 && first <= outcome.seconds);
    assert_eq!(outcome.seconds_at(first, 100.0), first);
    let same = outcome.seconds_at(outcome.seconds, outcome.scale_factor);
    assert!((same - outcome.seconds).abs() < 1e-12);
}
