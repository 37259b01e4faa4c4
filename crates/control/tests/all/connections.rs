//! Two correct sides: messages in both directions, their limits, and the end.

use crate::common::*;
use rackweave_control::{
    CONTROLLER_NAME, Connection, ControlError, HELLO_LEN_MAX, Listener, MESSAGE_LEN_MAX,
    PROTOCOL_VERSION, Security,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::time::{Duration, Instant};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Question {
    Join { node: u32 },
    Text(String),
}

/// Security for a server and a client, with keys and without.
fn both_ways(test: &str) -> [(Security, Security); 2] {
    let dir = keys(test);
    [
        (tls(&dir, CONTROLLER_NAME), tls(&dir, "N_1")),
        (plain(CONTROLLER_NAME), plain("N_1")),
    ]
}

#[test]
fn hello_welcome_and_messages() {
    for (server, client) in both_ways("round") {
        let (listener, addr) = listen(server);
        let server = serve_one(listener, LONG);
        let hello_body = json!({"nics": [1, 2]});
        let (mut client, welcome) = Connection::connect(
            addr.to_string(),
            &client,
            introduction(hello_body.clone()),
            LONG,
        )
        .expect("the client is let in");
        let (hello, mut server) = server.join().unwrap().expect("the handshake succeeds");
        assert_eq!(welcome, json!({"hi": true}));
        assert_eq!(hello.name, "N_1");
        assert_eq!(hello.purpose, "join");
        assert_eq!(hello.rack, "r");
        assert_eq!(hello.body, hello_body);
        assert_eq!(client.peer_name(), CONTROLLER_NAME);
        assert_eq!(client.peer_addr(), addr);
        assert_eq!(server.peer_name(), "N_1");
        assert!(server.peer_addr().ip().is_loopback());
        assert_eq!(
            (client.version(), server.version()),
            (PROTOCOL_VERSION, PROTOCOL_VERSION)
        );

        // Both directions, several at once, the largest, in order.
        let large = "x".repeat(MESSAGE_LEN_MAX - 100);
        let questions = || {
            [
                Question::Join { node: 7 },
                Question::Text(String::new()),
                Question::Text(large.clone()),
                Question::Text("zweiundzwanzig 𝄞\n\0".to_string()),
            ]
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for question in questions() {
                    client.send(&question).expect("sent");
                }
                for question in questions() {
                    assert_eq!(client.receive(LONG).expect("received"), Some(question));
                }
            });
            for question in questions() {
                assert_eq!(server.receive(LONG).expect("received"), Some(question));
            }
            for question in questions() {
                server.send(&question).expect("sent");
            }
        });
    }
}

#[test]
fn requests_are_answered() {
    for (server, client) in both_ways("requests") {
        let (mut client, mut server) = pair(server, &client);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while let Ok(number) = server.receive::<u64>(LONG) {
                    server.send(&(number.expect("in time") * 2)).expect("sent");
                }
            });
            for number in 0..100u64 {
                let answer: u64 = client.request(&number, LONG).expect("answered");
                assert_eq!(answer, number * 2);
            }
            client.close();
        });
    }
}

#[test]
fn nothing_to_receive_is_no_error() {
    for (server, client) in both_ways("nothing") {
        let (mut client, mut server) = pair(server, &client);
        for limit in [Duration::ZERO, Duration::from_millis(20)] {
            assert_eq!(client.receive::<Value>(limit).expect("nothing"), None);
        }
        server.send(&5).expect("sent");
        assert_eq!(client.receive(Duration::MAX).expect("received"), Some(5));
        // A limit of zero receives what has arrived, sooner or later.
        server.send(&6).expect("sent");
        loop {
            match client.receive::<u8>(Duration::ZERO).expect("no error") {
                Some(number) => break assert_eq!(number, 6),
                None => std::thread::yield_now(),
            }
        }
    }
}

#[test]
fn a_message_of_the_wrong_kind_leaves_the_next() {
    for (server, client) in both_ways("kind") {
        let (mut client, mut server) = pair(server, &client);
        client.send(&json!({"Leave": 1})).expect("sent");
        client.send(&Question::Join { node: 1 }).expect("sent");
        let error = server
            .receive::<Question>(LONG)
            .expect_err("no question of ours");
        assert!(matches!(error, ControlError::Malformed { .. }), "{error}");
        assert!(error.to_string().contains("N_1"), "{error}");
        let next = server.receive(LONG).expect("received");
        assert_eq!(next, Some(Question::Join { node: 1 }));
    }
}

#[test]
fn too_long_to_send() {
    for (server, client) in both_ways("long") {
        let (mut client, mut server) = pair(server, &client);
        let text = "x".repeat(MESSAGE_LEN_MAX - 2);
        let error = client
            .send(&format!("{text}y"))
            .expect_err("a byte too long");
        assert!(
            matches!(error, ControlError::TooLong { len, limit: MESSAGE_LEN_MAX, .. }
                if len == MESSAGE_LEN_MAX + 1),
            "{error}"
        );
        // Nothing was sent, and the longest allowed message passes.
        std::thread::scope(|scope| {
            scope.spawn(|| client.send(&text).expect("sent"));
            assert_eq!(server.receive(LONG).expect("received"), Some(text.clone()));
        });
    }
    let body = json!("x".repeat(HELLO_LEN_MAX));
    let error = Connection::connect("127.0.0.1:1", &plain("n"), introduction(body), LONG)
        .expect_err("too long a hello");
    assert!(
        matches!(
            error,
            ControlError::TooLong {
                limit: HELLO_LEN_MAX,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn an_answer_that_does_not_come_ends_the_connection() {
    for (server, client) in both_ways("silent") {
        let (mut client, mut server) = pair(server, &client);
        let error = client.request::<_, u8>(&1, SHORT).expect_err("no answer");
        assert!(matches!(error, ControlError::TimedOut { .. }), "{error}");
        let error = client
            .request::<_, u8>(&2, LONG)
            .expect_err("the connection is broken");
        assert!(matches!(error, ControlError::Closed { .. }), "{error}");
        // The other side learns of the end, after the sent messages.
        assert_eq!(server.receive(LONG).expect("received"), Some(1));
        let error = server.receive::<u8>(LONG).expect_err("the end");
        assert!(
            matches!(error, ControlError::Closed { midway: false, .. }),
            "{error}"
        );
    }
}

#[test]
fn the_end_comes_after_what_was_sent() {
    for (server, client) in both_ways("end") {
        // For both kinds of end, with unread data at the side that ends it.
        for in_order in [true, false] {
            let (mut client, mut server) = pair(server.clone(), &client);
            client.send(&1).expect("sent");
            if in_order {
                server.send(&2).expect("sent");
                server.close();
                assert_eq!(client.receive(LONG).expect("received"), Some(2));
            } else {
                drop(server);
            }
            let error = client.receive::<u8>(LONG).expect_err("the end");
            assert!(
                matches!(error, ControlError::Closed { midway: false, .. }),
                "{error}"
            );
            let error = client.send(&3).expect_err("the connection is broken");
            assert!(matches!(error, ControlError::Closed { .. }), "{error}");
        }
    }
}

#[test]
fn a_closer_ends_a_wait() {
    for (server, client) in both_ways("closer") {
        let (mut client, mut server) = pair(server, &client);
        let closer = client.closer();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| client.receive::<u8>(LONG));
            closer.clone().close();
            let error = waiting.join().unwrap().expect_err("closed");
            assert!(matches!(error, ControlError::Closed { .. }), "{error}");
        });
        let error = server.receive::<u8>(LONG).expect_err("closed");
        assert!(matches!(error, ControlError::Closed { .. }), "{error}");
        // A closer does not keep a connection open, and has no effect on a dropped one.
        drop(client);
        closer.close();
    }
}

#[test]
fn refused_with_reason_and_remedy() {
    for (server, client) in both_ways("refused") {
        let (listener, addr) = listen(server);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let incoming = listener.accept(LONG).unwrap().expect("somebody connects");
                let (hello, pending) = incoming
                    .handshake(Instant::now() + LONG)
                    .expect("a good hello");
                pending.refuse(
                    &format!("the name `{}`\nis taken", hello.name),
                    "choose another",
                );
            });
            let error = connect(addr, &client).expect_err("refused").to_string();
            assert_eq!(
                error,
                format!(
                    "the controller at {addr} refused: the name `N_1` is taken: choose another"
                )
            );
        });
    }
}

#[test]
fn nobody_there() {
    let (listener, addr) = listen(plain("controller"));
    let error = Listener::bind(addr, plain("controller")).expect_err("the port is taken");
    assert!(matches!(error, ControlError::Listen { .. }), "{error}");
    assert!(listener.accept(Duration::ZERO).expect("works").is_none());
    drop(listener);
    let error = connect(addr, &plain("n0")).expect_err("nobody listens");
    assert!(matches!(error, ControlError::Unreachable { .. }), "{error}");
    assert!(
        error
            .to_string()
            .contains("is `rackweave switch` running there?"),
        "{error}"
    );
    let error = Connection::connect("127.0.0.1", &plain("n0"), introduction(json!(0)), LONG)
        .expect_err("no port");
    assert!(matches!(error, ControlError::Unreachable { .. }), "{error}");
}

#[test]
fn a_server_that_says_nothing() {
    let dir = keys("mute");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = listener.local_addr().expect("bound");
    for security in [plain("n0"), tls(&dir, "n0")] {
        let error = Connection::connect(addr, &security, introduction(json!(0)), SHORT)
            .expect_err("no answer");
        assert!(matches!(error, ControlError::TimedOut { .. }), "{error}");
    }
}

#[test]
fn without_keys_only_loopback() {
    for addr in [
        "0.0.0.0:0",
        "[::]:0",
        "192.0.2.1:7000",
        "[::ffff:192.0.2.1]:7000",
    ] {
        let error = Listener::bind(addr, plain("controller")).expect_err(addr);
        assert!(
            matches!(error, ControlError::PlainNotLoopback { .. }),
            "{error}"
        );
        assert!(error.to_string().contains("rackweave keygen"), "{error}");
        let error =
            Connection::connect(addr, &plain("n0"), introduction(json!(0)), LONG).expect_err(addr);
        assert!(
            matches!(error, ControlError::PlainNotLoopback { .. }),
            "{error}"
        );
    }
    Listener::bind("127.0.0.1:0", plain("controller")).expect("loopback");
}
