//! A short campaign; the long one is `rackweave chaos`.

use crate::{System, replay_command, run};

#[test]
fn a_hundred_seeds_without_a_violation() {
    let (mut popped, mut disturbed, mut restarts, mut crashes, mut changes) = (0, 0, 0, 0, 0);
    for seed in 0..100 {
        let report = run(System::Flows, seed);
        assert!(
            report.violations.is_empty(),
            "{:#?}\n{}\nrepeat with: {}",
            report.violations,
            report.plan,
            replay_command(System::Flows, seed)
        );
        popped += report.popped;
        disturbed += report.packets_disturbed;
        restarts += report.restarts;
        crashes += report.crashes;
        changes += report.changes;
    }
    assert!(
        popped > 1000 && disturbed > 1000 && restarts > 5 && crashes > 5 && changes > 50,
        "it must hurt"
    );
}

#[test]
fn a_seed_repeats_its_run() {
    for seed in [3, 17, 99] {
        assert_eq!(run(System::Flows, seed), run(System::Flows, seed));
    }
    assert_ne!(
        run(System::Flows, 3).trace_hash,
        run(System::Flows, 17).trace_hash
    );
}
