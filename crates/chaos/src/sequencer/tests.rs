//! A short campaign.

use crate::short::{more_than, repeats, sound};
use crate::{Options, System};

#[test]
fn a_hundred_seeds_without_a_violation() {
    let reports = sound(System::Sequencer, Options::default(), 0..100);
    more_than(
        &reports,
        [
            ("ranges", 10000, |seed| seed.ranges),
            ("packets disturbed", 1000, |seed| seed.packets_disturbed),
            ("restarts", 20, |seed| seed.restarts),
            ("crashes", 20, |seed| seed.crashes),
            ("calls failed", 100, |seed| seed.calls_failed),
        ],
    );
}

#[test]
fn a_seed_repeats_its_run() {
    repeats(System::Sequencer, [3, 17, 99]);
}
