//! A short campaign; the long one is `rackweave chaos`.

use crate::{IndexAccess, Options, System, replay_command, replay_command_with, run, run_with};

#[test]
fn a_hundred_seeds_without_a_violation() {
    let (mut reads, mut writes, mut scans, mut disturbed) = (0, 0, 0, 0);
    let (mut restarts, mut crashes, mut moves, mut torn, mut stale) = (0, 0, 0, 0, 0);
    for seed in 0..100 {
        let report = run(System::Index, seed);
        assert!(
            report.violations.is_empty(),
            "{:#?}\n{}\nrepeat with: {}",
            report.violations,
            report.plan,
            replay_command(System::Index, seed)
        );
        reads += report.reads;
        writes += report.writes;
        scans += report.scans;
        disturbed += report.packets_disturbed;
        restarts += report.restarts;
        crashes += report.crashes;
        moves += report.changes;
        torn += report.torn;
        stale += report.stale;
    }
    assert!(
        reads > 10_000 && writes > 10_000 && scans > 1000,
        "it must hurt"
    );
    assert!(
        disturbed > 1000 && restarts > 5 && crashes > 5,
        "it must hurt"
    );
    assert!(
        moves > 50 && torn > 50 && stale > 50,
        "{moves} {torn} {stale}"
    );
}

#[test]
fn a_seed_repeats_its_run() {
    for seed in [3, 17, 99] {
        assert_eq!(run(System::Index, seed), run(System::Index, seed));
    }
    assert_ne!(
        run(System::Index, 3).trace_hash,
        run(System::Index, 17).trace_hash
    );
}

#[test]
fn all_clients_read_as_they_are_told() {
    for access in IndexAccess::ALL {
        let options = Options {
            access: Some(access),
        };
        for seed in 200..210 {
            let report = run_with(System::Index, seed, &options);
            assert_eq!(report.violations, [""; 0], "seed {seed}: {}", report.plan);
            let others = IndexAccess::ALL
                .into_iter()
                .filter(|&other| other != access);
            for other in others {
                let other = format!("by {other}");
                assert!(!report.plan.contains(&other), "{}", report.plan);
            }
            let is_led = access == IndexAccess::InNetwork;
            assert_eq!(
                report.queries > 0 && report.loads > 0,
                is_led,
                "seed {seed}"
            );
        }
    }
}

#[test]
fn forty_seeds_in_the_network_without_a_violation() {
    let options = Options {
        access: Some(IndexAccess::InNetwork),
    };
    let (mut queries, mut leaves, mut loads, mut restarts, mut calm) = (0, 0, 0, 0, 0);
    for seed in 0..40 {
        let report = run_with(System::Index, seed, &options);
        assert!(
            report.violations.is_empty(),
            "{:#?}\n{}\nrepeat with: {}",
            report.violations,
            report.plan,
            replay_command_with(System::Index, seed, &options)
        );
        queries += report.queries;
        leaves += report.led[0];
        loads += report.loads;
        restarts += report.switch_restarts;
        calm += u64::from(report.plan.contains(", calm"));
    }
    assert!(queries > 1000 && leaves > 500, "{queries} {leaves}");
    assert!(loads > 100 && restarts > 10, "{loads} {restarts}");
    assert!(calm >= 20, "{calm}");
}
