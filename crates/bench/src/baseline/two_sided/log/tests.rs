//! Orders and rates in a log.

use super::*;
use rackweave_base::Duration;

fn log(stamps: &[(u16, u64)]) -> Log {
    let mut log = Log::default();
    for (at, &(producer, sequence)) in stamps.iter().enumerate() {
        let at = Instant::ZERO + Duration::from_micros(at as u64);
        let stamp = Stamp {
            producer,
            destination: 0,
            sequence,
        };
        log.note(at, stamp);
    }
    log
}

#[test]
fn orders_are_compared_as_a_whole_and_per_producer() {
    let (a, b) = (
        log(&[(0, 0), (1, 0), (0, 1)]),
        log(&[(1, 0), (0, 0), (0, 1)]),
    );
    assert!(a.is_in_order_per_producer() && b.is_in_order_per_producer());
    assert!(!same_order(&[a.clone(), b]));
    assert!(same_order(&[a.clone(), a.clone()]));
    assert!(!same_order(&[a, log(&[(0, 0), (1, 0)])]));
    assert!(!log(&[(0, 0), (0, 2)]).is_in_order_per_producer());
    assert!(!log(&[(0, 0), (0, 0)]).is_in_order_per_producer());
}

#[test]
fn shares_are_taken_while_all_send() {
    let mut stamps: Vec<_> = (0..100)
        .flat_map(|n| [(0, 2 * n), (1, n), (0, 2 * n + 1)])
        .collect();
    // The second producer has ended; what the first sends alone does not count.
    stamps.extend((200..500).map(|number| (0, number)));
    let shares = log(&stamps).shares(1000, 2);
    let ratio = shares[0] / shares[1];
    assert!((1.8..2.2).contains(&ratio), "{shares:?}");
    assert_eq!(log(&[]).shares(1000, 2), [0.0, 0.0]);
    assert_eq!(log(&stamps).shares(1000, 3)[2], 0.0, "one that never sent");
}

#[test]
fn goodput_is_that_of_the_steady_part() {
    let all = log(&(0..10).map(|number| (0, number)).collect::<Vec<_>>());
    // One message of 1000 bytes per microsecond.
    assert_eq!(all.goodput(1000).round(), 1e9);
    let odd = log(&(0..9).map(|number| (0, number)).collect::<Vec<_>>());
    assert_eq!(odd.goodput(1000).round(), 1e9);
    assert_eq!(log(&[(0, 0)]).goodput(1000), 0.0);
}
