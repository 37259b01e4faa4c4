//! Exchange streams between nodes.

use super::AMPLE;
use core::time::Duration;
use rackweave_endpoint::exchange::{Budget, StreamError};
use rackweave_rack::Rack;
use rackweave_rack::exchange::{Exchange, ExchangeError, ExchangeOptions, Incoming};

fn start(rack: &Rack, name: &str) -> Exchange {
    let node = rack.node(name).expect("it is here");
    let options = ExchangeOptions {
        connect_within: AMPLE,
        ..ExchangeOptions::default()
    };
    Exchange::start(rack, &node, options).expect("the node has none")
}

fn accept(exchange: &Exchange) -> Incoming {
    exchange.accept_within(AMPLE).expect("a stream was opened")
}

fn message(number: usize) -> Vec<u8> {
    let len = [0, 10, 5_000, 300_000][number % 4];
    (0..len).map(|at| (at * 3 + number) as u8).collect()
}

/// Several streams between two nodes, with messages of many lengths both ways.
pub fn each_stream_has_its_messages_in_order(rack: &Rack) {
    const MESSAGES: usize = 40;
    let (client, server) = (start(rack, "compute0"), start(rack, "storage0"));
    let budget = Budget::new(1 << 20);
    std::thread::scope(|scope| {
        for stream in 0..3u8 {
            let (client, budget) = (&client, &budget);
            scope.spawn(move || {
                let opened = client.open("storage0", [stream], budget);
                let (mut sender, mut receiver) = opened.expect("there are few");
                // The peer sends back what it gets, so one thread must not only send.
                scope.spawn(move || {
                    for number in 0..MESSAGES {
                        let sent = sender.send_wait(message(number + usize::from(stream)));
                        assert_eq!(sent, Ok(()));
                    }
                    sender.finish();
                });
                for number in 0..MESSAGES {
                    let came = receiver.next_wait().expect("more is to come");
                    assert!(
                        came == Ok(message(number + usize::from(stream))),
                        "{number}"
                    );
                }
                assert_eq!(receiver.next_wait(), None);
            });
        }
        for _ in 0..3 {
            let mut incoming = accept(&server);
            assert_eq!(&*incoming.peer, "compute0");
            scope.spawn(move || {
                // What comes goes back: neither end waits until it has all.
                while let Some(came) = incoming.receiver.next_wait() {
                    let came = came.expect("the client is there");
                    assert_eq!(incoming.sender.send_wait(came), Ok(()));
                }
                incoming.sender.finish();
            });
        }
    });
    assert_eq!(budget.used(), 0);
    let counters = client.counters();
    assert_eq!(
        (counters.messages_sent, counters.messages_received),
        (120, 120)
    );
    assert_eq!(counters.bytes_sent, counters.bytes_received);
}

/// A consumer reads one stream to its end before it reads another, which has more than any window.
pub fn streams_do_not_wait_for_each_other(rack: &Rack) {
    let (client, server) = (start(rack, "compute0"), start(rack, "storage0"));
    let budget = Budget::new(0);
    let open = || client.open("storage0", [], &budget).expect("there are few");
    let (mut streams, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..2 {
        streams.push(open());
        ends.push(accept(&server));
    }
    std::thread::scope(|scope| {
        for mut end in ends {
            scope.spawn(move || {
                for _ in 0..50 {
                    assert_eq!(end.sender.send_wait(vec![1; 100_000]), Ok(()));
                }
                end.sender.finish();
            });
        }
        for (sender, mut receiver) in streams.into_iter().rev() {
            sender.finish();
            let all = core::iter::from_fn(|| receiver.next_wait());
            assert_eq!(
                all.map(|came| came.map(|it| it.len()))
                    .filter(|it| *it == Ok(100_000))
                    .count(),
                50
            );
        }
    });
    assert!(
        budget.peak() <= 2 * (64 << 10) + 2 * 100_000,
        "{} bytes waited",
        budget.peak()
    );
}

/// A receiver that is dropped stops the sender; an error arrives behind what was sent before it.
pub fn an_end_is_seen_by_the_peer(rack: &Rack) {
    let (client, server) = (start(rack, "compute0"), start(rack, "storage0"));
    let budget = Budget::new(1 << 20);
    let open = || client.open("storage0", [], &budget).expect("there are few");
    let (_sender, receiver) = open();
    let mut incoming = accept(&server);
    drop(receiver);
    let error = core::iter::from_fn(|| Some(incoming.sender.send_wait([7; 1000])));
    let error = error
        .take(1_000_000)
        .find_map(Result::err)
        .expect("it is cancelled");
    assert_eq!(error.to_string(), "compute0 has cancelled the stream");
    drop(incoming);

    let (_sender, mut receiver) = open();
    let mut incoming = accept(&server);
    assert_eq!(incoming.sender.send_wait(*b"before"), Ok(()));
    incoming.sender.fail(*b"no such table");
    assert_eq!(receiver.next_wait(), Some(Ok(b"before".to_vec())));
    let failed = StreamError::Failed(b"no such table".to_vec());
    assert_eq!(receiver.next_wait(), Some(Err(failed)));

    let (_sender, mut receiver) = open();
    let incoming = accept(&server);
    server.close();
    assert!(matches!(
        receiver.next_wait(),
        Some(Err(StreamError::Gone { .. }))
    ));
    assert!(server.accept_wait().is_none());
    drop(incoming);
    drop(receiver);
    let left = || {
        let counters = client.counters();
        let held = counters.streams + counters.bytes_waiting + counters.bytes_queued;
        held + budget.used() + budget.windows()
    };
    let waits = (0..1000).take_while(|_| left() > 0);
    waits.for_each(|_| std::thread::sleep(Duration::from_millis(2)));
    assert_eq!(left(), 0, "nothing is kept of them");
}

/// A node without an exchange, and one that accepts nothing.
pub fn a_node_that_accepts_none_says_so(rack: &Rack) {
    let client = start(rack, "compute0");
    let budget = Budget::new(1 << 20);
    let refused = |peer: &str| {
        let opened = client.open(peer, [], &budget);
        let (_sender, mut receiver) = opened.expect("there are few");
        let end = receiver.next_wait().expect("it does not finish");
        end.expect_err("nothing comes").to_string()
    };
    let absent = refused("nowhere");
    assert_eq!(
        absent,
        "no connection to nowhere: the rack has no such node"
    );
    let absent = refused("storage1");
    assert_eq!(
        absent,
        "no connection to storage1: the node has no exchange"
    );
    let node = rack.node("storage0").expect("it is here");
    let options = || ExchangeOptions {
        accepts: false,
        ..ExchangeOptions::default()
    };
    let _closed = Exchange::start(rack, &node, options()).expect("the node has none");
    let twice = Exchange::start(rack, &node, options());
    assert!(matches!(twice, Err(ExchangeError::Exists(_))));
    assert_eq!(refused("storage0"), "storage0 accepts no streams");
}

/// Virtual time has no thread of its own.
pub fn there_is_none_in_virtual_time(rack: &Rack) {
    let node = rack.node("compute0").expect("it is here");
    let started = Exchange::start(rack, &node, ExchangeOptions::default());
    assert!(matches!(started, Err(ExchangeError::Simulated)));
}
