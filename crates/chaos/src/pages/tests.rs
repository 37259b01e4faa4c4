//! A short campaign.

use crate::short::{more_than, repeats, sound};
use crate::{Options, System};

#[test]
fn a_hundred_seeds_without_a_violation() {
    let reports = sound(System::Pages, Options::default(), 0..100);
    more_than(
        &reports,
        [
            ("pages read", 1000, |seed| seed.reads),
            ("pages changed", 1000, |seed| seed.writes),
            ("packets disturbed", 1000, |seed| seed.packets_disturbed),
            ("restarts", 5, |seed| seed.restarts),
            ("crashes", 5, |seed| seed.crashes),
            ("changes of the index", 50, |seed| seed.changes),
            ("losses", 5, |seed| seed.losses),
            ("pages found damaged", 5, |seed| seed.damaged),
        ],
    );
}

#[test]
fn a_seed_repeats_its_run() {
    repeats(System::Pages, [3, 17, 99]);
}
