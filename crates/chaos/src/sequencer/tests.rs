//! A short campaign; the long one is `rackweave chaos`.

use crate::{System, replay_command, run};

#[test]
fn a_hundred_seeds_without_a_violation() {
    let (mut ranges, mut disturbed, mut restarts, mut crashes, mut failed) = (0, 0, 0, 0, 0);
    for seed in 0..100 {
        let report = run(System::Sequencer, seed);
        assert!(
            report.violations.is_empty(),
            "{:#?}\n{}\nrepeat with: {}",
            report.violations,
            report.plan,
            replay_command(System::Sequencer, seed)
        );
        ranges += report.ranges;
        disturbed += report.packets_disturbed;
        restarts += report.restarts;
        crashes += report.crashes;
        failed += report.calls_failed;
    }
    assert!(
        ranges > 10_000 && disturbed > 1000 && restarts > 20 && crashes > 20 && failed > 100,
        "it must hurt: {ranges} {disturbed} {restarts} {crashes} {failed}"
    );
}

#[test]
fn a_seed_repeats_its_run() {
    for seed in [3, 17, 99] {
        assert_eq!(run(System::Sequencer, seed), run(System::Sequencer, seed));
    }
    assert_ne!(
        run(System::Sequencer, 3).trace_hash,
        run(System::Sequencer, 17).trace_hash
    );
}
