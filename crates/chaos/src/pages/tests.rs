//! A short campaign; the long one is `rackweave chaos`.

use crate::{System, replay_command, run};

#[test]
fn a_hundred_seeds_without_a_violation() {
    let (mut reads, mut writes, mut disturbed, mut restarts) = (0, 0, 0, 0);
    let (mut crashes, mut changes, mut losses) = (0, 0, 0);
    for seed in 0..100 {
        let report = run(System::Pages, seed);
        assert!(
            report.violations.is_empty(),
            "{:#?}\n{}\nrepeat with: {}",
            report.violations,
            report.plan,
            replay_command(System::Pages, seed)
        );
        reads += report.reads;
        writes += report.writes;
        disturbed += report.packets_disturbed;
        restarts += report.restarts;
        crashes += report.crashes;
        changes += report.changes;
        losses += report.losses;
    }
    assert!(
        reads > 1000 && writes > 1000 && disturbed > 1000 && restarts > 5 && crashes > 5,
        "it must hurt"
    );
    assert!(changes > 50 && losses > 5, "it must hurt");
}

#[test]
fn a_seed_repeats_its_run() {
    for seed in [3, 17, 99] {
        assert_eq!(run(System::Pages, seed), run(System::Pages, seed));
    }
    assert_ne!(
        run(System::Pages, 3).trace_hash,
        run(System::Pages, 17).trace_hash
    );
}
