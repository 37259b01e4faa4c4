//! Many small flows, and the state of their switch.

use super::*;

#[test]
fn all_items_of_many_flows_arrive_and_state_grows_with_the_flows() {
    let mut run = Run::quick(3);
    assert!(goodput(&mut run, 40, 20).unwrap() > 0.);
    let (registers, tables) = state_of_one(40).unwrap();
    assert!(registers > 50. && tables > 100.);
}
