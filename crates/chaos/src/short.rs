//! Short campaigns for tests; the long ones are `rackweave chaos`.

use crate::{Options, SeedReport, System, replay_command, run, run_with};
use core::ops::Range;

/// Runs these seeds. The first unsound seed fails the test, with the command that repeats it.
#[track_caller]
pub fn sound(system: System, options: Options, seeds: Range<u64>) -> Vec<SeedReport> {
    let judged = |seed| {
        let report = run_with(system, seed, &options);
        assert!(
            report.is_sound(),
            "{:#?}\nstuck: {:#?}\n{}\nrepeat with: {}",
            report.violations,
            report.stuck,
            report.plan,
            replay_command(system, seed, &options)
        );
        report
    };
    seeds.map(judged).collect()
}

/// The name of a count, the number that it must exceed, and how to read it from a report.
type Count<'a> = (&'a str, u64, fn(&SeedReport) -> u64);

/// Every sum over the reports must exceed its minimum: a campaign without faults shows nothing.
#[track_caller]
pub fn more_than<const N: usize>(reports: &[SeedReport], counts: [Count<'_>; N]) {
    for (what, least, count) in counts {
        let sum: u64 = reports.iter().map(count).sum();
        assert!(sum > least, "{sum} {what}; more than {least} were expected");
    }
}

/// A seed gives the same report each time, trace hash included; another seed gives another report.
#[track_caller]
pub fn repeats(system: System, seeds: [u64; 3]) {
    let reports = seeds.map(|seed| {
        let report = run(system, seed);
        assert_eq!(report, run(system, seed), "seed {seed} of {system}");
        report
    });
    assert_ne!(reports[0].trace_hash, reports[1].trace_hash);
}
