//! Exchange streams between nodes.

use super::AMPLE;
use core::time::Duration;
use rackweave_endpoint::exchange::{Budget, StreamError};
use rackweave_rack::Rack;
use rackweave_rack::exchange::{
    BroadcastSender, Exchange, ExchangeError, ExchangeOptions, Incoming, StreamReceiver,
    StreamSender, wait_for,
};
use std::time::Instant;

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

const NODES: [&str; 3] = ["compute0", "compute1", "storage1"];

/// A stream from each node to the server, at both ends.
fn streams_of_all(
    clients: &[Exchange],
    server: &Exchange,
    budget: &Budget,
) -> (Vec<StreamReceiver>, Vec<StreamSender>) {
    let mut receivers = Vec::new();
    for client in clients {
        let (sender, receiver) = client.open("storage0", [], budget).expect("there are few");
        sender.finish();
        receivers.push(receiver);
    }
    let accepted = clients.iter().map(|_| accept(server).sender);
    (receivers, accepted.collect())
}

/// Broadcasts nothing until all nodes take broadcasts.
fn join_all(clients: &[Exchange], server: &Exchange) {
    let budget = Budget::new(1 << 20);
    let until = Instant::now() + AMPLE;
    loop {
        let (mut receivers, mut senders) = streams_of_all(clients, server, &budget);
        let joined = server.broadcast(&mut senders);
        let is_complete = joined
            .as_ref()
            .is_some_and(|it| it.members() == clients.len());
        joined.into_iter().for_each(BroadcastSender::finish);
        senders.into_iter().for_each(StreamSender::finish);
        for receiver in &mut receivers {
            assert_eq!(receiver.next_wait(), None);
        }
        if is_complete {
            return;
        }
        assert!(Instant::now() < until, "a node does not join");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn assert_idle(clients: &[Exchange], server: &Exchange, budget: &Budget) {
    let all = || clients.iter().chain([server]);
    let left = || all().map(|it| it.counters().streams).sum::<u64>() + budget.used();
    let waits = (0..1000).take_while(|_| left() > 0);
    waits.for_each(|_| std::thread::sleep(Duration::from_millis(2)));
    assert_eq!(left(), 0, "nothing is kept of them");
}

/// Two broadcasts at a time to three nodes, each message sent once; one node cancels.
pub fn a_broadcast_is_sent_once(rack: &Rack) {
    const MESSAGES: usize = 60;
    let server = start(rack, "storage0");
    let clients = NODES.map(|name| start(rack, name));
    join_all(&clients, &server);
    let before = (server.counters(), clients[0].counters());
    let budget = Budget::new(1 << 20);
    std::thread::scope(|scope| {
        for broadcast in 0..2 {
            let (receivers, mut senders) = streams_of_all(&clients, &server, &budget);
            let mut sender = server.broadcast(&mut senders).expect("all have joined");
            assert_eq!((sender.members(), senders.len()), (NODES.len(), 0));
            scope.spawn(move || {
                for number in 0..MESSAGES {
                    assert_eq!(sender.send_wait(message(number + broadcast)), Ok(()));
                }
                match broadcast {
                    0 => sender.finish(),
                    _ => sender.fail(*b"at the end"),
                }
            });
            for (node, mut receiver) in receivers.into_iter().enumerate() {
                scope.spawn(move || {
                    for number in 0..MESSAGES {
                        if broadcast == 1 && node == 1 && number == 20 {
                            return;
                        }
                        let came = receiver.next_wait().expect("more is to come");
                        assert!(came == Ok(message(number + broadcast)), "{number}");
                    }
                    let end = match broadcast {
                        0 => None,
                        _ => Some(Err(StreamError::Failed(b"at the end".to_vec()))),
                    };
                    assert_eq!(receiver.next_wait(), end);
                });
            }
        }
    });
    let sent = server.counters();
    assert_eq!(
        sent.broadcasts_sent - before.0.broadcasts_sent,
        2 * MESSAGES as u64
    );
    assert_eq!(
        sent.messages_sent - before.0.messages_sent,
        2 * MESSAGES as u64
    );
    let received = clients[0].counters().messages_received - before.1.messages_received;
    assert_eq!(received, 2 * MESSAGES as u64);

    // Of two streams of a node, one takes part.
    let (first, mut senders) = streams_of_all(&clients, &server, &budget);
    let (second, more) = streams_of_all(&clients, &server, &budget);
    senders.extend(more);
    let sender = server.broadcast(&mut senders).expect("all have joined");
    assert_eq!(
        (sender.members(), senders.len()),
        (NODES.len(), NODES.len())
    );
    drop((sender, senders, first, second));
    assert_idle(&clients, &server, &budget);
}

/// One of three nodes does not read, and is sent the rest alone.
pub fn a_stream_that_is_not_read_is_left_behind(rack: &Rack) {
    let server = start(rack, "storage0");
    let clients = NODES.map(|name| start(rack, name));
    join_all(&clients, &server);
    let budget = Budget::new(1 << 20);
    let (mut receivers, mut senders) = streams_of_all(&clients, &server, &budget);
    let mut sender = server.broadcast(&mut senders).expect("all have joined");
    let mut idle = receivers.pop().expect("there are three");
    std::thread::scope(|scope| {
        for mut receiver in receivers {
            scope.spawn(move || {
                let all = core::iter::from_fn(|| receiver.next_wait());
                let all = all.map(|came| came.expect("the server is there").len());
                assert_eq!(all.collect::<Vec<_>>(), vec![50_000; 10]);
            });
        }
        let mut left = Vec::new();
        for number in 0..10 {
            let mut next = Some(vec![number; 50_000]);
            let limit = Duration::from_millis(50);
            let poll = |sender: &mut BroadcastSender, next: &mut Option<Vec<u8>>| {
                wait_for(limit, |context| sender.poll_send(context, next))
            };
            while poll(&mut sender, &mut next).is_none() {
                left.extend(sender.take_blocked().into_iter().map(|it| (it, number)));
            }
        }
        sender.finish();
        // On a busy machine, one that reads may look as if it did not.
        assert!(!left.is_empty(), "one does not read");
        for (mut alone, from) in left {
            scope.spawn(move || {
                for number in from..10 {
                    assert_eq!(alone.send_wait(vec![number; 50_000]), Ok(()));
                }
                alone.finish();
            });
        }
        for number in 0..10 {
            assert_eq!(idle.next_wait(), Some(Ok(vec![number; 50_000])));
        }
        assert_eq!(idle.next_wait(), None);
    });
    drop(idle);
    assert_idle(&clients, &server, &budget);
}

/// A node whose exchange is closed leaves the broadcasts; the others get them all.
pub fn a_broadcast_goes_on_without_those_that_leave(rack: &Rack) {
    let server = start(rack, "storage0");
    let clients = NODES.map(|name| start(rack, name));
    join_all(&clients, &server);
    let budget = Budget::new(1 << 20);
    let (mut receivers, mut senders) = streams_of_all(&clients, &server, &budget);
    let mut sender = server.broadcast(&mut senders).expect("all have joined");
    for number in 0..100 {
        if number == 20 {
            clients[1].close();
        }
        assert_eq!(sender.send_wait(message(number)), Ok(()));
        for node in [0, 2] {
            assert_eq!(receivers[node].next_wait(), Some(Ok(message(number))));
        }
        if number < 20 {
            assert_eq!(receivers[1].next_wait(), Some(Ok(message(number))));
        }
    }
    sender.finish();
    for node in [0, 2] {
        assert_eq!(receivers[node].next_wait(), None);
    }
    let error = receivers[1].next_wait();
    assert!(
        matches!(error, Some(Err(StreamError::Gone { .. }))),
        "{error:?}"
    );
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
