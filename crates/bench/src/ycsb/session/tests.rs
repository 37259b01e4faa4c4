//! Errors and failures of a run.

use super::*;
use rackweave_workload::ycsb::InsertError;

fn run() -> Run {
    Run::new(Load::default(), 1, 2)
}

#[test]
fn all_errors_are_counted_and_the_first_are_kept() {
    let run = run();
    for key in 0..20 {
        run.note(key, None, "wrong");
    }
    let (count, first) = run.errors();
    let keys: Vec<_> = first.iter().map(|error| error.key).collect();
    assert_eq!((count, keys), (20, (0..KEPT as u64).collect()));
    assert!(!run.is_stopped());
}

#[test]
fn the_first_failure_ends_the_run() {
    let run = run();
    assert_eq!(run.failure(), None);
    let failure = |records_max| InsertError::Full { records_max };
    run.fail(failure(3));
    run.fail(failure(4));
    assert_eq!(run.failure(), Some(failure(3).into()));
    assert!(run.is_stopped());
}
