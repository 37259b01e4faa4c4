//! Short runs of some movers.

use super::*;
use crate::harness::{ExperimentError, Scale};

#[test]
fn a_switch_moves_items_of_several_flows() {
    let mut run = Run::quick(1);
    let length = (Duration::from_millis(1), 4);
    let mut goodput =
        |mover: Mover, count| mover.goodput(&mut run, (count, 4 * KIB), Words::Device, length);
    let one = goodput(SWITCH, 1).unwrap();
    let four = goodput(SWITCH, 4).unwrap();
    let batching = goodput(mover(None, true), 1).unwrap();
    let share = batching / one_to_one::line_rate();
    assert!((3.5..4.5).contains(&(four / one)), "{one} and {four}");
    assert!((0.9..1.002).contains(&share), "{share} of line rate");
}

#[test]
fn whoever_wishes_to_stop_is_heard() {
    let mut progress = |share: f64| share < 0.01;
    let mut run = Run::new(Scale::Quick, 1, &mut progress);
    assert_eq!(super::run(&mut run), Err(ExperimentError::Interrupted));
}
