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

/// A client without pending calls received no packet that showed that its connection had broken,
/// and waited for ever for its next call.
#[test]
fn a_client_whose_connection_broke_while_it_was_idle_goes_on() {
    sound(System::Sequencer, Options::default(), 7_012_618..7_012_619);
    sound(
        System::Sequencer,
        Options::default(),
        42_001_578..42_001_579,
    );
}

/// A request was lost or damaged eight times in a row while the answers to the one after it
/// arrived: its NIC then breaks the connection, as the specification requires. The harness took
/// that for impossible.
#[test]
fn a_request_may_be_lost_on_every_try() {
    sound(
        System::Sequencer,
        Options::default(),
        32_017_505..32_017_506,
    );
}
