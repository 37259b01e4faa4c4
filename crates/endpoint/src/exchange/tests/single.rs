//! One stream from its start to its end.

use super::*;

#[test]
fn messages_go_both_ways_and_end() {
    let mut pair = Pair::new(small(), 1000);
    let stream = pair.stream();
    pair.push(DIALER, stream, b"there");
    pair.push(ACCEPTOR, stream, b"back");
    pair.push(ACCEPTOR, stream, b"");
    pair.ends[DIALER].finish(stream);
    pair.settle();
    let (messages, end) = pair.messages(ACCEPTOR, stream);
    assert_eq!(messages, [b"there"]);
    assert!(matches!(end, Received::Finished));
    let (messages, end) = pair.messages(DIALER, stream);
    assert_eq!(messages, [&b"back"[..], b""]);
    assert!(matches!(end, Received::Empty));
    pair.ends[ACCEPTOR].fail(stream, b"no more".to_vec());
    pair.ends[ACCEPTOR].drop_receiver(stream);
    pair.settle();
    match pair.messages(DIALER, stream).1 {
        Received::Ended(StreamError::Failed(text)) => assert_eq!(text, b"no more"),
        other => panic!("{other:?}"),
    }
    pair.ends[DIALER].drop_receiver(stream);
    pair.assert_nothing_left();
}

#[test]
fn an_end_that_is_dropped_shows_at_the_peer() {
    let mut pair = Pair::new(small(), 1000);
    let stream = pair.stream();
    pair.push(ACCEPTOR, stream, b"lost");
    pair.ends[DIALER].drop_sender(stream);
    pair.ends[DIALER].drop_receiver(stream);
    pair.settle();
    let (messages, end) = pair.messages(ACCEPTOR, stream);
    assert!(messages.is_empty());
    assert!(
        matches!(end, Received::Ended(StreamError::Dropped { .. })),
        "{end:?}"
    );
    match pair.ends[ACCEPTOR].try_send(stream, b"more".to_vec()) {
        Err(NotSent::Ended(StreamError::Cancelled { peer })) => assert_eq!(&*peer, "dialer"),
        other => panic!("{other:?}"),
    }
    pair.ends[ACCEPTOR].drop_sender(stream);
    pair.ends[ACCEPTOR].drop_receiver(stream);
    pair.settle();
    pair.assert_nothing_left();
}

#[test]
fn credit_limits_what_is_sent_and_a_window_grows_within_the_budget() {
    // 16 + 16 + 32 bytes reach the largest window; the budget has space for the first step.
    let mut pair = Pair::new(small(), 40);
    let stream = pair.stream();
    let sent = |pair: &mut Pair| {
        let mut sent = 0;
        while pair.ends[DIALER].try_send(stream, vec![sent; 4]).is_ok() {
            sent += 1;
        }
        pair.settle();
        sent
    };
    assert_eq!(sent(&mut pair), 4);
    let (messages, _) = pair.messages(ACCEPTOR, stream);
    assert_eq!(messages.len(), 4);
    pair.settle();
    assert_eq!(
        sent(&mut pair),
        8,
        "all were taken at once: the window has doubled"
    );
    assert_eq!(pair.budgets[ACCEPTOR].used(), 32);
    let held = pair
        .ends
        .each_ref()
        .map(|end| (end.bytes_queued(), end.bytes_waiting()));
    assert_eq!(held, [(0, 0), (0, 32)]);
    pair.messages(ACCEPTOR, stream);
    pair.settle();
    assert_eq!(sent(&mut pair), 8, "the budget allows no more");
    assert_eq!(pair.budgets[ACCEPTOR].peak(), 32);
    // One message may exceed the credit, and only one.
    pair.messages(ACCEPTOR, stream);
    pair.settle();
    pair.push(DIALER, stream, &[0; 100]);
    assert_eq!(pair.ends[DIALER].bytes_queued(), 100);
    let more = pair.ends[DIALER].try_send(stream, vec![1]);
    assert!(matches!(more, Err(NotSent::Full(message)) if message == [1]));
}

#[test]
fn a_task_is_woken_by_what_it_waits_for() {
    use core::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::Arc;
    use std::task::Wake;
    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let woken = |pair: &mut Pair, count: &Arc<Count>| {
        for end in &mut pair.ends {
            end.take_wakes()
                .into_iter()
                .for_each(core::task::Waker::wake);
        }
        count.0.swap(0, Ordering::Relaxed)
    };
    let mut pair = Pair::new(small(), 40);
    let stream = pair.stream();
    let count = Arc::new(Count::default());
    let waker = count.clone().into();
    pair.ends[ACCEPTOR].wake_receiver(stream, &waker);
    pair.push(DIALER, stream, &[1; 20]);
    pair.settle();
    assert_eq!(woken(&mut pair, &count), 1);
    pair.ends[DIALER].wake_sender(stream, &waker);
    pair.messages(ACCEPTOR, stream);
    pair.settle();
    assert_eq!(woken(&mut pair, &count), 1);
    pair.ends[DIALER].wake_sender(stream, &waker);
    pair.ends[DIALER].wake_receiver(stream, &waker);
    pair.ends[DIALER].handle_gone("it was switched off");
    assert_eq!(woken(&mut pair, &count), 2);
    let Received::Ended(error) = pair.ends[DIALER].receive(stream) else {
        panic!("it has ended");
    };
    assert_eq!(
        error.to_string(),
        "no connection to acceptor: it was switched off"
    );
}

#[test]
fn a_connection_that_is_gone_ends_all_streams() {
    let mut pair = Pair::new(small(), 1000);
    let stream = pair.stream();
    pair.push(DIALER, stream, b"arrived");
    let not_accepted = pair.open(b"later");
    pair.settle();
    for end in &mut pair.ends {
        end.handle_gone("cut");
    }
    let (messages, end) = pair.messages(ACCEPTOR, stream);
    assert_eq!(messages, [b"arrived"], "what has arrived is not lost");
    assert!(matches!(end, Received::Ended(StreamError::Gone { .. })));
    assert_eq!(pair.ends[ACCEPTOR].accept(), None);
    for (end, number) in [(ACCEPTOR, stream), (DIALER, stream), (DIALER, not_accepted)] {
        pair.ends[end].finish(number);
        pair.ends[end].drop_receiver(number);
    }
    // A stream that is opened now has ended.
    let late = pair.open(b"late");
    let received = pair.ends[DIALER].receive(late);
    assert!(matches!(
        received,
        Received::Ended(StreamError::Gone { .. })
    ));
    let sent = pair.ends[DIALER].try_send(late, vec![1]);
    assert!(matches!(
        sent,
        Err(NotSent::Ended(StreamError::Gone { .. }))
    ));
    pair.ends[DIALER].finish(late);
    pair.ends[DIALER].drop_receiver(late);
    pair.assert_nothing_left();
}

#[test]
fn a_node_may_accept_none() {
    let mut pair = Pair::new(small(), 1000);
    let stream = pair.open(b"please");
    pair.settle();
    let (number, _) = pair.ends[ACCEPTOR].accept().expect("it was opened");
    pair.ends[ACCEPTOR].refuse(number);
    pair.settle();
    let (_, end) = pair.messages(DIALER, stream);
    assert!(matches!(
        end,
        Received::Ended(StreamError::NotAccepted { .. })
    ));
    let sent = pair.ends[DIALER].try_send(stream, b"x".to_vec());
    assert!(matches!(
        sent,
        Err(NotSent::Ended(StreamError::Cancelled { .. }))
    ));
    pair.ends[DIALER].finish(stream);
    pair.ends[DIALER].drop_receiver(stream);
    pair.settle();
    pair.assert_nothing_left();
}

#[test]
fn limits_are_kept_by_the_one_who_opens() {
    let mut pair = Pair::new(small(), 1000);
    for _ in 0..small().streams_max {
        pair.open(b"");
    }
    let budget = pair.budgets[DIALER].clone();
    let error = pair.ends[DIALER].open(Vec::new(), &budget).unwrap_err();
    assert_eq!(
        error.to_string(),
        "8 streams to acceptor are open (streams_max)"
    );
    let error = pair.ends[DIALER].open(vec![0; 33], &budget).unwrap_err();
    assert_eq!(error, OpenError::TooLong { bytes: 33, max: 32 });
}

#[test]
fn a_stream_that_the_opener_has_seen_end_is_not_counted() {
    let mut pair = Pair::new(small(), 1000);
    for _ in 0..3 * small().streams_max {
        // The acceptor's program ends its directions, and holds the receiver for longer.
        let stream = pair.stream();
        pair.ends[DIALER].finish(stream);
        pair.ends[ACCEPTOR].finish(stream);
        pair.settle();
        pair.ends[DIALER].drop_receiver(stream);
    }
    assert_eq!(pair.ends[DIALER].streams(), 0);
    assert_eq!(pair.ends[ACCEPTOR].streams(), 3 * small().streams_max);
}
