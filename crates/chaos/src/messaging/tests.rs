//! A short campaign; the long one is `rackweave chaos`.

use crate::{System, replay_command, run};

#[test]
fn sixty_seeds_without_a_violation() {
    let (mut messages, mut connections, mut broken, mut closed, mut failed) = (0, 0, 0, 0, 0);
    let (mut disturbed, mut crashes, mut rogues) = (0, 0, 0);
    for seed in 0..60 {
        let report = run(System::Messaging, seed);
        assert!(
            report.violations.is_empty(),
            "{:#?}\n{}\nrepeat with: {}",
            report.violations,
            report.plan,
            replay_command(System::Messaging, seed)
        );
        messages += report.messages;
        connections += report.connections;
        broken += report.connections_broken;
        closed += report.connections_closed;
        failed += report.handshakes_failed;
        disturbed += report.packets_disturbed;
        crashes += report.crashes;
        rogues += report.rogues.values().sum::<u64>();
    }
    assert!(
        messages > 3000 && connections > 150 && broken > 10 && closed > 10 && failed > 5,
        "too little: {messages} {connections} {broken} {closed} {failed}"
    );
    assert!(
        disturbed > 500 && crashes > 10 && rogues > 20,
        "it must hurt: {disturbed} {crashes} {rogues}"
    );
}

#[test]
fn a_seed_repeats_its_run() {
    for seed in [3, 17, 42] {
        assert_eq!(run(System::Messaging, seed), run(System::Messaging, seed));
    }
    assert_ne!(
        run(System::Messaging, 3).trace_hash,
        run(System::Messaging, 17).trace_hash
    );
}
