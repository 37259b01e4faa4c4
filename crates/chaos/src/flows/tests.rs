//! A short campaign.

use crate::short::{more_than, repeats, sound};
use crate::{Options, System};

#[test]
fn a_hundred_seeds_without_a_violation() {
    let reports = sound(System::Flows, Options::default(), 0..100);
    more_than(
        &reports,
        [
            ("items popped", 1000, |seed| seed.popped),
            ("packets disturbed", 1000, |seed| seed.packets_disturbed),
            ("restarts", 5, |seed| seed.restarts),
            ("crashes", 5, |seed| seed.crashes),
            ("changes", 50, |seed| seed.changes),
        ],
    );
}

#[test]
fn a_seed_repeats_its_run() {
    repeats(System::Flows, [3, 17, 99]);
}
