//! Inserts get unique numbers, and no reader meets a gap.

use super::super::{InsertCounter, InsertError};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

#[test]
fn records_count_when_all_before_them_do() {
    let counter = InsertCounter::new(10, 20);
    let keys: Vec<_> = (0..4).map(|_| counter.begin().unwrap()).collect();
    assert_eq!(keys, [10, 11, 12, 13]);
    for (key, inserted) in [(12, 10), (10, 11), (13, 11), (11, 14)] {
        counter.acknowledge(key);
        assert_eq!(counter.inserted(), inserted, "after {key}");
    }
}

#[test]
fn numbers_end_where_the_room_does() {
    let counter = InsertCounter::new(0, 2);
    for key in 0..2 {
        assert_eq!(counter.begin(), Ok(key));
        counter.acknowledge(key);
    }
    assert_eq!(counter.begin(), Err(InsertError::Full { records_max: 2 }));
    assert_eq!(counter.inserted(), 2);
}

#[test]
fn an_insert_that_hangs_is_waited_for() {
    let counter = InsertCounter::new(5, u64::MAX);
    let slow = counter.begin().unwrap();
    for _ in 1..InsertCounter::UNDER_WAY_MAX {
        counter.acknowledge(counter.begin().unwrap());
    }
    assert_eq!(
        counter.begin(),
        Err(InsertError::TooManyUnderWay {
            under_way: InsertCounter::UNDER_WAY_MAX,
            oldest: slow,
        })
    );
    counter.acknowledge(slow);
    assert_eq!(counter.inserted(), 5 + InsertCounter::UNDER_WAY_MAX);
    assert_eq!(counter.begin(), Ok(5 + InsertCounter::UNDER_WAY_MAX));
}

#[test]
fn workers_that_insert_at_once_share_the_numbers() {
    const WORKERS: u64 = 4;
    const EACH: u64 = 20_000;
    let counter = InsertCounter::new(0, WORKERS * EACH);
    let there: Vec<AtomicBool> = (0..WORKERS * EACH)
        .map(|_| AtomicBool::new(false))
        .collect();
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                let mut seen = 0;
                for _ in 0..EACH {
                    // A worker that has a number but no core blocks the others.
                    let key = loop {
                        match counter.begin() {
                            Ok(key) => break key,
                            Err(InsertError::TooManyUnderWay { .. }) => thread::yield_now(),
                            Err(error) => panic!("{error}"),
                        }
                    };
                    let twice = there[key as usize].swap(true, Ordering::Relaxed);
                    assert!(!twice, "{key} was given twice");
                    counter.acknowledge(key);
                    let inserted = counter.inserted();
                    assert!(inserted >= seen, "{inserted} after {seen}");
                    for key in seen..inserted {
                        assert!(
                            there[key as usize].load(Ordering::Relaxed),
                            "a hole at {key}"
                        );
                    }
                    seen = inserted;
                }
            });
        }
    });
    assert_eq!(counter.inserted(), WORKERS * EACH);
}
