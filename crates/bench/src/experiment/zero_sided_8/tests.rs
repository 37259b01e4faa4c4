//! Few items, moved by both systems.

use super::*;

#[test]
fn both_deliver_and_neither_beats_the_link() {
    let mut run = Run::quick(3);
    let plan = PutPlan {
        item_bytes: ITEM_BYTES,
        items_per_destination: 2,
        fill_time: fill_time(),
    };
    for (system, _) in SYSTEMS {
        let rate = measure(&mut run, system, 2, plan).unwrap().rate;
        assert!((1.0..12.5).contains(&rate), "{rate} GB/s");
    }
}
