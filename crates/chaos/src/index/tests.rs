//! A short campaign.

use crate::short::{more_than, repeats, sound};
use crate::{IndexAccess, Options, System};

#[test]
fn a_hundred_seeds_without_a_violation() {
    let reports = sound(System::Index, Options::default(), 0..100);
    more_than(
        &reports,
        [
            ("keys read", 10000, |seed| seed.reads),
            ("keys changed", 10000, |seed| seed.writes),
            ("scans", 1000, |seed| seed.scans),
            ("packets disturbed", 1000, |seed| seed.packets_disturbed),
            ("restarts", 5, |seed| seed.restarts),
            ("endpoints replaced", 20, |seed| seed.replaced),
            ("crashes", 5, |seed| seed.crashes),
            ("ranges moved", 50, |seed| seed.changes),
            ("torn READs", 50, |seed| seed.torn),
            ("stale READs", 50, |seed| seed.stale),
        ],
    );
}

#[test]
fn a_seed_repeats_its_run() {
    repeats(System::Index, [3, 17, 99]);
}

/// All clients read in one way.
fn by(access: IndexAccess) -> Options {
    let access = Some(access);
    Options { access }
}

#[test]
fn all_clients_read_as_they_are_told() {
    for access in IndexAccess::ALL {
        for report in sound(System::Index, by(access), 200..210) {
            let (seed, plan) = (report.seed, &report.plan);
            for other in IndexAccess::ALL
                .into_iter()
                .filter(|&other| other != access)
            {
                assert!(!plan.contains(&format!("by {}", other.name())), "{plan}");
            }
            let is_led = report.queries > 0 && report.loads > 0;
            assert_eq!(is_led, access == IndexAccess::InNetwork, "seed {seed}");
        }
    }
}

#[test]
fn forty_seeds_in_the_network_without_a_violation() {
    let reports = sound(System::Index, by(IndexAccess::InNetwork), 0..40);
    more_than(
        &reports,
        [
            ("queries", 1000, |seed| seed.queries),
            ("led to leaves", 500, |seed| seed.led[0]),
            ("loads", 100, |seed| seed.loads),
            ("restarts of switches", 10, |seed| seed.switch_restarts),
            ("calm runs", 19, |seed| seed.plan.contains(", calm").into()),
        ],
    );
}

/// A bit of a query flipped before the switch that led it, and once more after it: the packet that
/// arrived looked valid and was not, or had not passed the switch as a query.
#[test]
fn a_query_that_is_damaged_does_not_break_its_way() {
    let access = Some(IndexAccess::InNetwork);
    for seed in [2385, 7_001_673, 33_010_940, 43_005_219] {
        sound(System::Index, Options { access }, seed..seed + 1);
    }
}
