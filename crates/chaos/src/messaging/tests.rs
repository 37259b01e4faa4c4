//! A short campaign.

use crate::short::{more_than, repeats, sound};
use crate::{Options, System};

#[test]
fn sixty_seeds_without_a_violation() {
    let reports = sound(System::Messaging, Options::default(), 0..60);
    more_than(
        &reports,
        [
            ("messages", 3000, |seed| seed.messages),
            ("connections", 150, |seed| seed.connections),
            ("broken", 10, |seed| seed.connections_broken),
            ("closed", 10, |seed| seed.connections_closed),
            ("handshakes failed", 5, |seed| seed.handshakes_failed),
            ("packets disturbed", 500, |seed| seed.packets_disturbed),
            ("crashes", 10, |seed| seed.crashes),
            ("rogues", 20, |seed| seed.rogues.values().sum()),
        ],
    );
}

#[test]
fn a_seed_repeats_its_run() {
    repeats(System::Messaging, [3, 17, 42]);
}

/// The NIC gives up a rogue's lie, and its queue pair breaks. The channel is over, so the
/// connection stays open. The harness expected the peer to find out a lie that had not arrived.
#[test]
fn a_lie_on_a_channel_that_is_over_may_be_lost() {
    sound(
        System::Messaging,
        Options::default(),
        163_010_211..163_010_212,
    );
}
