//! All ways with small buffers.

use super::figures::ROWS;
use super::node_pair::NodePair;
use super::sweep;
use super::sweep::{Bytes, Shape, Way};
use crate::harness::{ExperimentError, Run, Scale};
use std::fmt::Write as _;

const SEED: u64 = 5;

fn shape(way: Way, threads: u8, buffers: u8, bytes: u64) -> Shape {
    Shape {
        way,
        threads,
        buffers,
        bytes,
    }
}

fn seconds(shape: Shape, data: &[u64]) -> Vec<f64> {
    let mut pair = NodePair::new(shape, SEED).expect("it is built");
    let mut run = Run::quick(SEED);
    let measure = |&bytes: &u64| pair.measure(&mut run, bytes).map(|took| took[0]);
    let measured = data.iter().map(measure).collect::<Result<_, _>>();
    measured.unwrap_or_else(|error| panic!("{shape:?}: {error}"))
}

/// Six ways, one size of buffers, and some data: the shapes of all figures in virtual time.
#[test]
fn bandwidths_in_virtual_time() {
    let data = [8, 4096, 30_000, 65_536, 131_072, 1 << 20];
    let shapes = [
        shape(Way::Raw, 1, 1, 65_536),
        shape(Way::Single, 1, 1, 65_536),
        shape(Way::Raw, 1, 2, 65_536),
        shape(Way::Raw, 3, 3, 65_536),
        shape(Way::Multi, 1, 1, 65_536),
        shape(Way::Multi, 1, 2, 65_536),
        shape(Way::Multi, 3, 6, 65_536),
    ];
    let mut run = Run::quick(SEED);
    let curves = sweep::measure(&mut run, &shapes, &data).expect("all is measured");
    let mut table = String::from("MiB/s             ");
    for bytes in data {
        let _ = write!(table, "{:>10}", Bytes(bytes).to_string());
    }
    table.push('\n');
    for curve in curves {
        let Shape {
            way,
            threads,
            buffers,
            ..
        } = curve.shape;
        let _ = write!(table, "{:<18}", format!("{way:?} {threads} x {buffers}"));
        for (_, rate) in curve.points {
            let _ = write!(table, "{rate:>10.1}");
        }
        table.push('\n');
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_seed_changes_what_is_sent_and_nothing_else() {
    let shape = shape(Way::Multi, 2, 4, 4096);
    let measure = |seed| {
        let mut pair = NodePair::new(shape, seed).expect("it is built");
        let mut run = Run::quick(seed);
        pair.measure(&mut run, 100_000).expect("it is measured")
    };
    assert_eq!(measure(1), measure(1));
    assert_eq!(measure(1), measure(2));
}

#[test]
fn the_single_buffer_falls_where_a_second_package_is_needed() {
    let half = 64 << 10;
    let last = half - 32;
    let times = seconds(shape(Way::Single, 1, 1, half), &[last, last + 1]);
    // One more byte costs the receiver's notice, at least twice the latency of two NICs.
    assert!(times[1] > times[0] + 1.4e-6, "{times:?}");
    // With two buffers of the same size the second package need not wait for a notice.
    let several = seconds(shape(Way::Multi, 1, 2, half), &[last, last + 1]);
    let (single, several) = (times[1] - times[0], several[1] - several[0]);
    assert!(several < 0.5 * single, "{several} {single}");
}

#[test]
fn more_buffers_overlap_copies_and_the_wire() {
    let data = [1 << 20];
    for way in [Way::Raw, Way::Multi] {
        let one = seconds(shape(way, 1, 1, 64 << 10), &data)[0];
        let two = seconds(shape(way, 1, 2, 64 << 10), &data)[0];
        assert!(two < 0.8 * one, "{way:?}: {two} {one}");
    }
}

#[test]
fn threads_cost_their_start_and_gain_with_more_data() {
    let data = [1000, 8 << 20];
    let one = seconds(shape(Way::Raw, 1, 1, 64 << 10), &data);
    let three = seconds(shape(Way::Raw, 3, 3, 64 << 10), &data);
    // The first thread has all of the data, and the others must also end.
    assert!(three[0] > one[0] + 17e-6, "{three:?} {one:?}");
    assert!(three[1] < 0.6 * one[1], "{three:?} {one:?}");
}

#[test]
fn figures_draw_the_best_and_say_which() {
    let row = &ROWS[4];
    let mut run = Run::quick(SEED);
    let shapes = row.shapes(Scale::Quick, &[1 << 10, 4 << 10, 16 << 10, 64 << 10]);
    let curves = sweep::measure(&mut run, &shapes, &[8, 1 << 12, 1 << 18]);
    let curves = curves.expect("all is measured");
    let drawn = row.drawn(&curves);
    assert_eq!(drawn.len(), 6);
    let papers: Vec<_> = drawn
        .iter()
        .filter(|one| one.panel().0 == "2 receive buffers")
        .collect();
    assert_eq!(papers.len(), 3);
    assert!(
        papers.iter().all(|one| one.name != "2 x 1 KiB"),
        "the smallest is the worst"
    );
}

#[test]
fn who_wishes_to_stop_is_heard() {
    let mut pair = NodePair::new(shape(Way::Single, 1, 1, 1024), SEED).expect("it is built");
    let mut progress = |_| false;
    let stopped = pair.measure(&mut Run::new(Scale::Quick, SEED, &mut progress), 1 << 20);
    assert!(matches!(stopped, Err(ExperimentError::Interrupted)));
}
