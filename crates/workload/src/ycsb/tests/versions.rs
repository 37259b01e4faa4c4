//! Valid versions are never called stale, and stale ones always are.

use super::super::{Expectations, Floor, StaleRead, UpdateError};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

fn update(expectations: &Expectations, key: u64, version: u64) {
    expectations.begin_update(key).unwrap();
    expectations.commit_update(key, version).unwrap();
}

#[test]
fn a_read_sees_what_was_committed_before_it() {
    let expectations = Expectations::new(4, 4);
    let early = expectations.before_read(2);
    update(&expectations, 2, 1);
    update(&expectations, 2, 2);
    // A read that began before them may see any of the three versions, later reads may not.
    expectations.after_read(2, 0, early).unwrap();
    let floor = expectations.before_read(2);
    assert_eq!(
        expectations.after_read(2, 1, floor),
        Err(StaleRead::Old {
            key: 2,
            version: 1,
            floor: 2,
        })
    );
    expectations.after_read(2, 2, floor).unwrap();
    assert_eq!(
        expectations.after_read(2, 3, floor),
        Err(StaleRead::Unborn {
            key: 2,
            version: 3,
            limit: 2,
        })
    );
    expectations.settled().unwrap();
}

#[test]
fn a_read_may_see_an_update_under_way_and_then_all_must() {
    let expectations = Expectations::new(1, 1);
    let early = expectations.before_read(0);
    expectations.begin_update(0).unwrap();
    expectations.after_read(0, 0, early).unwrap();
    expectations.after_read(0, 1, early).unwrap();
    // It is not committed yet, but a worker has seen it.
    let floor = expectations.before_read(0);
    assert!(expectations.after_read(0, 0, floor).is_err());
    // Nor can the one pending update have made two versions.
    assert!(expectations.after_read(0, 2, early).is_err());
    expectations.commit_update(0, 1).unwrap();
    expectations.settled().unwrap();
}

#[test]
fn updates_may_commit_in_any_order_and_each_only_once() {
    let expectations = Expectations::new(1, 1);
    for _ in 0..3 {
        expectations.begin_update(0).unwrap();
    }
    for version in [3, 1, 2] {
        expectations.commit_update(0, version).unwrap();
    }
    expectations.settled().unwrap();
    for (version, expected) in [
        (
            3,
            UpdateError::Lost {
                key: 0,
                version: 3,
                newest: 3,
            },
        ),
        (
            0,
            UpdateError::Lost {
                key: 0,
                version: 0,
                newest: 3,
            },
        ),
        (
            5,
            UpdateError::Unborn {
                key: 0,
                version: 5,
                limit: 4,
            },
        ),
    ] {
        expectations.begin_update(0).unwrap();
        assert_eq!(expectations.commit_update(0, version), Err(expected));
        expectations.cancel_update(0).unwrap();
    }
    let not_begun = Err(UpdateError::NotBegun { key: 0 });
    assert_eq!(expectations.commit_update(0, 4), not_begun);
    assert_eq!(expectations.cancel_update(0), not_begun);
}

#[test]
fn a_lost_update_is_found_whoever_commits_first() {
    // Two concurrent updates read version 1 and both write version 2; a third makes version 3.
    for order in [[2, 2, 3], [2, 3, 2], [3, 2, 2]] {
        let expectations = Expectations::new(1, 1);
        update(&expectations, 0, 1);
        for _ in order {
            expectations.begin_update(0).unwrap();
        }
        let commits = order.map(|version| expectations.commit_update(0, version));
        assert!(
            commits
                .iter()
                .any(|commit| matches!(commit, Err(UpdateError::Lost { .. }))),
            "{order:?}: {commits:?}"
        );
    }
}

#[test]
fn an_update_that_nobody_knows_of_stays_possible() {
    let expectations = Expectations::new(1, 1);
    expectations.begin_update(0).unwrap();
    // Its worker crashed. Others continue with or without its update.
    let floor = expectations.before_read(0);
    expectations.after_read(0, 0, floor).unwrap();
    expectations.begin_update(0).unwrap();
    expectations.commit_update(0, 2).unwrap();
    let error = expectations.settled().unwrap_err();
    let expected = UpdateError::Unsettled {
        key: 0,
        under_way: 1,
        newest: 2,
        missing: 1,
    };
    assert_eq!(error, expected);
    // It was seen, so it cannot be cancelled; the record can be reset.
    assert!(expectations.cancel_update(0).is_err());
    expectations.reset(0, 7);
    expectations.settled().unwrap();
    let floor = expectations.before_read(0);
    expectations.after_read(0, 7, floor).unwrap();
}

#[test]
fn counts_have_an_end_and_say_so() {
    let expectations = Expectations::new(1, 1);
    for _ in 0..4095 {
        expectations.begin_update(0).unwrap();
    }
    let error = UpdateError::TooMany { key: 0 };
    assert_eq!(expectations.begin_update(0), Err(error));
    expectations.commit_update(0, 4095).unwrap();
    for version in 1..4095 {
        expectations.commit_update(0, version).unwrap();
    }
    expectations.settled().unwrap();
    // The last version that fits, and none beyond.
    expectations.reset(0, u64::MAX);
    expectations.begin_update(0).unwrap();
    assert!(expectations.commit_update(0, 1 << 40).is_err());
    let floor = expectations.before_read(0);
    assert!(expectations.after_read(0, 1 << 40, floor).is_err());
    expectations.after_read(0, (1 << 40) - 1, floor).unwrap();
}

#[test]
fn of_too_many_records_some_are_remembered() {
    let expectations = Expectations::new(1000, 300);
    assert_eq!(expectations.stride(), 4);
    for key in [1, 2, 1002, u64::MAX] {
        expectations.begin_update(key).unwrap();
        expectations.commit_update(key, 77).unwrap();
        let floor = expectations.before_read(key);
        expectations.after_read(key, 3, floor).unwrap();
    }
    update(&expectations, 996, 1);
    let floor = expectations.before_read(996);
    assert!(expectations.after_read(996, 0, floor).is_err());
    assert_eq!(Expectations::new(1000, 1000).stride(), 1);
    assert_eq!(Expectations::new(1000, 0).stride(), 1000);
    expectations.settled().unwrap();
}

#[test]
fn workers_under_a_latch_are_never_blamed() {
    const KEYS: u64 = 3;
    const EACH: u64 = 20_000;
    let expectations = Expectations::new(KEYS, KEYS);
    let records: Vec<_> = (0..KEYS).map(|_| Mutex::new(0_u64)).collect();
    thread::scope(|scope| {
        for worker in 0..4 {
            let (expectations, records) = (&expectations, &records);
            scope.spawn(move || {
                for at in 0..EACH {
                    let key = (at + worker) % KEYS;
                    let record = &records[key as usize];
                    if (at / KEYS + worker).is_multiple_of(2) {
                        let floor = expectations.before_read(key);
                        let version = *record.lock().unwrap();
                        expectations.after_read(key, version, floor).unwrap();
                    } else {
                        expectations.begin_update(key).unwrap();
                        let version = {
                            let mut version = record.lock().unwrap();
                            *version += 1;
                            *version
                        };
                        expectations.commit_update(key, version).unwrap();
                    }
                }
            });
        }
    });
    expectations.settled().unwrap();
    let versions: u64 = records.iter().map(|record| *record.lock().unwrap()).sum();
    assert_eq!(versions, 2 * EACH);
}

#[test]
fn workers_without_a_latch_are_blamed() {
    // Read, let the other thread run, and write: updates are lost.
    let expectations = Expectations::new(1, 1);
    let record = AtomicU64::new(0);
    let blamed = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..1000 {
                    expectations.begin_update(0).unwrap();
                    let version = record.load(Ordering::SeqCst);
                    thread::yield_now();
                    record.store(version + 1, Ordering::SeqCst);
                    if expectations.commit_update(0, version + 1).is_err() {
                        blamed.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                }
            });
        }
    });
    // Either nothing was lost (the scheduler never interleaved them), or an error was reported.
    let lost = record.load(Ordering::SeqCst) < 2000;
    assert_eq!(lost, blamed.load(Ordering::SeqCst) > 0);
}

/// One step of the model below; steps that cannot be applied are skipped.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin,
    Apply,
    Commit(usize),
    Cancel,
    StartRead,
    LookAt(usize),
    EndRead(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => Just(Step::Begin),
        3 => Just(Step::Apply),
        3 => any::<usize>().prop_map(Step::Commit),
        1 => Just(Step::Cancel),
        3 => Just(Step::StartRead),
        3 => any::<usize>().prop_map(Step::LookAt),
        3 => any::<usize>().prop_map(Step::EndRead),
    ]
}

fn remove<T>(items: &mut VecDeque<T>, at: usize) -> Option<T> {
    let len = items.len();
    if len == 0 {
        None
    } else {
        items.remove(at % len)
    }
}

proptest! {
    /// A record whose updates and reads each take effect at one moment between start and end: no
    /// order of starts, moments and ends is ever reported as an error, and a read that is one
    /// version behind the version known when it started, or one ahead of all updates, always is.
    #[test]
    fn histories_in_one_order_are_never_blamed(steps in prop::collection::vec(step(), 1..300)) {
        let expectations = Expectations::new(1, 1);
        let (mut version, mut begun, mut seen) = (0, 0, 0);
        let mut waiting = 0;
        let mut applied = VecDeque::new();
        let mut reads: VecDeque<(Floor, u64)> = VecDeque::new();
        let mut looked: VecDeque<(Floor, u64, u64)> = VecDeque::new();
        for step in steps {
            match step {
                Step::Begin => {
                    expectations.begin_update(0).unwrap();
                    (waiting, begun) = (waiting + 1, begun + 1);
                }
                Step::Apply if waiting > 0 => {
                    (waiting, version) = (waiting - 1, version + 1);
                    applied.push_back(version);
                }
                Step::Commit(at) => if let Some(made) = remove(&mut applied, at) {
                    expectations.commit_update(0, made).unwrap();
                    seen = seen.max(made);
                },
                Step::Cancel if waiting > 0 => {
                    expectations.cancel_update(0).unwrap();
                    (waiting, begun) = (waiting - 1, begun - 1);
                }
                Step::StartRead => reads.push_back((expectations.before_read(0), seen)),
                Step::LookAt(at) => if let Some((floor, known)) = remove(&mut reads, at) {
                    looked.push_back((floor, known, version));
                },
                Step::EndRead(at) => if let Some((floor, known, found)) = remove(&mut looked, at) {
                    if known > 0 {
                        prop_assert!(expectations.after_read(0, known - 1, floor).is_err());
                    }
                    prop_assert!(expectations.after_read(0, begun + 1, floor).is_err());
                    expectations.after_read(0, found, floor).unwrap();
                    seen = seen.max(found);
                },
                Step::Apply | Step::Cancel => {}
            }
        }
    }
}
