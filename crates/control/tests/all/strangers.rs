//! Sides that are malicious, or of another rack: each gets one clear error, and no other connection
//! is affected.

use crate::common::*;
use rackweave_control::{
    CONTROLLER_NAME, Connection, ControlError, HALF_OPEN_MAX, Listener, MESSAGE_LEN_MAX, Security,
};
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

/// The two sides' errors when `client` connects to `server`.
fn both_errors(server: Security, client: &Security) -> (ControlError, ControlError) {
    let (listener, addr) = listen(server);
    let server = serve_one(listener, LONG);
    let client = connect(addr, client).expect_err("the client fails");
    let server = server.join().unwrap().expect_err("the server fails");
    for error in [&client, &server] {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
    (client, server)
}

/// The other side's end of a plain connection whose client is the returned bare socket.
fn bare_client() -> (TcpStream, Connection) {
    let (listener, addr) = listen(plain(CONTROLLER_NAME));
    let server = serve_one(listener, LONG);
    let mut socket = TcpStream::connect(addr).expect("it listens");
    socket.write_all(&message(&hello(1, 1))).expect("sent");
    let welcome = read_message(&mut socket);
    assert_eq!(
        welcome,
        json!({"welcome": {"version": 1, "body": {"hi": true}}})
    );
    let (hello, server) = server.join().unwrap().expect("a good hello");
    assert_eq!(hello.name, "n0");
    (socket, server)
}

fn hello(version_min: u16, version_max: u16) -> Value {
    json!({
        "magic": "rackweave-control", "version_min": version_min, "version_max": version_max,
        "name": "n0", "purpose": "join", "rack": "r", "body": null,
    })
}

fn message(body: &Value) -> Vec<u8> {
    let body = body.to_string().into_bytes();
    let len = u32::try_from(body.len()).expect("short");
    [&len.to_be_bytes()[..], &body].concat()
}

fn read_message(socket: &mut TcpStream) -> Value {
    let mut len = [0; 4];
    socket.read_exact(&mut len).expect("a length");
    let mut body = vec![0; u32::from_be_bytes(len) as usize];
    socket.read_exact(&mut body).expect("a body");
    serde_json::from_slice(&body).expect("JSON")
}

/// A server that accepts every connection, each on a thread, until `expected` handshakes have
/// ended.
fn serve(
    listener: Listener,
    expected: usize,
    limit: Duration,
) -> std::thread::JoinHandle<Vec<Result<String, ControlError>>> {
    std::thread::spawn(move || {
        let handshakes: Vec<_> = (0..expected)
            .map(|_| {
                let incoming = listener.accept(LONG).unwrap().expect("somebody connects");
                std::thread::spawn(move || {
                    let (hello, pending) = incoming.handshake(Instant::now() + limit)?;
                    let mut connection = pending.welcome(json!(null))?;
                    let number: u32 = connection.receive(LONG)?.expect("in time");
                    connection.send(&(number + 1))?;
                    Ok(hello.name)
                })
            })
            .collect();
        let join = |handshake: std::thread::JoinHandle<_>| handshake.join().unwrap();
        handshakes.into_iter().map(join).collect()
    })
}

#[test]
fn wrong_authority() {
    let (ours, theirs) = (keys("ours"), keys("theirs"));
    // The client detects it first: it gets the server's certificate before it presents its own.
    let (client, server) = both_errors(tls(&ours, CONTROLLER_NAME), &tls(&theirs, "n0"));
    assert!(matches!(client, ControlError::WrongKey { .. }), "{client}");
    assert!(
        client.to_string().contains("not of this rack's authority"),
        "{client}"
    );
    assert!(matches!(server, ControlError::WrongKey { .. }), "{server}");
    assert!(
        server.to_string().contains("refused this side's key"),
        "{server}"
    );
}

#[test]
fn a_node_cannot_pose_as_the_controller() {
    let dir = keys("pose");
    let (client, server) = both_errors(tls(&dir, "N_1"), &tls(&dir, "n0"));
    assert!(matches!(client, ControlError::WrongKey { .. }), "{client}");
    assert!(
        client.to_string().contains("certificate of somebody else"),
        "{client}"
    );
    assert!(matches!(server, ControlError::WrongKey { .. }), "{server}");
}

#[test]
fn keys_on_one_side_only() {
    let dir = keys("one-side");
    for (server, client) in [
        (tls(&dir, CONTROLLER_NAME), plain("n0")),
        (plain(CONTROLLER_NAME), tls(&dir, "n0")),
    ] {
        for error in <[_; 2]>::from(both_errors(server, &client)) {
            assert!(
                matches!(error, ControlError::NotOurProtocol { .. }),
                "{error}"
            );
            let text = error.to_string();
            assert!(text.contains("both sides or neither use keys"), "{text}");
        }
    }
}

/// Garbage from a seed: splitmix64.
fn garbage(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    std::iter::repeat_with(|| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 56) as u8
    })
    .take(len)
    .collect()
}

#[test]
fn strangers_disturb_nobody() {
    let dir = keys("strangers");
    let now = std::time::SystemTime::now();
    let since_epoch = now
        .duration_since(std::time::UNIX_EPOCH)
        .expect("the clock is set");
    let seed = since_epoch.as_nanos() as u64;
    println!("seed {seed}");
    let mut first_lines = vec![
        b"GET / HTTP/1.1\r\nHost: rack\r\n\r\n".to_vec(),
        b"\0\0\0\x02{}".to_vec(),
        message(&json!({"magic": "other", "version_min": 1, "version_max": 1})),
        vec![0xff; 100_000],
        // The start of a TLS handshake, without an end.
        [
            &[0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..],
            &[0; 100_000],
        ]
        .concat(),
    ];
    // A first byte that is not that of a TLS record, and gives a length that is not that of a
    // hello.
    first_lines.extend((0..8).map(|n| [vec![0x80], garbage(seed + n, 3000)].concat()));
    for (server, client) in [
        (tls(&dir, CONTROLLER_NAME), tls(&dir, "n0")),
        (plain(CONTROLLER_NAME), plain("n0")),
    ] {
        let (listener, addr) = listen(server);
        // One sends nothing and stays; one closes at once; the others send data and stay.
        let strangers = first_lines.len() + 2;
        let server = serve(listener, strangers + 1, LONG);
        let mut sockets = Vec::new();
        for line in &first_lines {
            let mut socket = TcpStream::connect(addr).expect("it listens");
            // Possibly disconnected while it still sends.
            let _ = socket.write_all(line);
            sockets.push(socket);
        }
        drop(TcpStream::connect(addr).expect("it listens"));
        let silent = TcpStream::connect(addr).expect("it listens");
        let (mut good, _) = connect(addr, &client).expect("a good client comes in");
        assert_eq!(good.request::<_, u32>(&1, LONG).expect("answered"), 2);
        // Each sender is disconnected although it has not closed.
        for socket in &mut sockets {
            let _ = socket.read_to_end(&mut Vec::new());
        }
        silent.shutdown(Shutdown::Both).expect("it was still there");
        let results = server.join().unwrap();
        assert_eq!(
            results.last().unwrap().as_ref().expect("the good one"),
            "n0"
        );
        for (index, result) in results[..strangers].iter().enumerate() {
            let error = result.as_ref().expect_err("a stranger");
            let is_named = if index < first_lines.len() {
                matches!(error, ControlError::NotOurProtocol { .. })
            } else {
                matches!(error, ControlError::Closed { .. })
            };
            assert!(is_named, "stranger {index}: {error}");
        }
    }
}

#[test]
fn who_dribbles_is_cut_off_at_the_deadline() {
    let dir = keys("dribble");
    // A client hello of TLS that has no end, and a hello of this protocol: each byte would reset a
    // time limit per read.
    let endless_tls = [
        &[0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc, 3, 3][..],
        &[0; 9000],
    ]
    .concat();
    let mut endless_hello = vec![0, 0, 0x3f, 0xff];
    endless_hello.resize(9000, b' ');
    for (server, bytes) in [
        (tls(&dir, CONTROLLER_NAME), endless_tls),
        (plain(CONTROLLER_NAME), endless_hello),
    ] {
        let (listener, addr) = listen(server);
        let server = serve_one(listener, SHORT);
        let mut socket = TcpStream::connect(addr).expect("it listens");
        socket.set_nodelay(true).expect("a socket");
        let was_cut = bytes.iter().any(|byte| {
            std::thread::sleep(Duration::from_millis(5));
            socket.write_all(&[*byte]).is_err()
        });
        assert!(was_cut);
        let error = server.join().unwrap().expect_err("not in time");
        assert!(matches!(error, ControlError::TimedOut { .. }), "{error}");
    }
}

/// Like a server with one thread per connection.
fn serve_all<'scope>(
    scope: &'scope std::thread::Scope<'scope, '_>,
    listener: &'scope Listener,
    stop: &'scope AtomicBool,
    welcomed: &'scope AtomicUsize,
) {
    scope.spawn(move || {
        while !stop.load(Relaxed) {
            let Some(incoming) = listener.accept(SHORT).expect("works") else {
                continue;
            };
            scope.spawn(move || {
                if let Ok((_, pending)) = incoming.handshake(Instant::now() + LONG) {
                    pending.welcome(json!(null)).expect("it is there");
                    welcomed.fetch_add(1, Relaxed);
                }
            });
        }
    });
}

#[test]
fn silent_strangers_lose_their_places_and_keep_nobody_out() {
    let (listener, addr) = listen(plain(CONTROLLER_NAME));
    let (stop, welcomed) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        serve_all(scope, &listener, &stop, &welcomed);
        let mut silent = Vec::new();
        for round in 0..20 {
            silent.extend((0..16).map(|_| TcpStream::connect(addr).expect("it listens")));
            // All of these have a minute each: without eviction, no other client would be accepted
            // before.
            let member = connect(addr, &plain("n0"));
            assert!(member.is_ok(), "round {round}: {member:?}");
        }
        let waited = Instant::now();
        let evicted = || listener.evicted() + HALF_OPEN_MAX as u64 >= 20 * 16;
        while !(evicted() && welcomed.load(Relaxed) == 20) && waited.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(1));
        }
        stop.store(true, Relaxed);
        assert!(evicted(), "{}", listener.evicted());
        assert_eq!(welcomed.load(Relaxed), 20);
    });
}

#[test]
fn versions_from_the_future() {
    let (listener, addr) = listen(plain(CONTROLLER_NAME));
    let server = serve_one(listener, LONG);
    let mut socket = TcpStream::connect(addr).expect("it listens");
    socket.write_all(&message(&hello(7, 9))).expect("sent");
    assert_eq!(
        read_message(&mut socket),
        json!({"refused": {
            "reason": "this client speaks version 7 to 9, the controller versions 1 to 1",
            "remedy": "upgrade rackweave on the older side",
        }})
    );
    assert_eq!(socket.read(&mut [0]).expect("closed"), 0);
    drop(socket);
    let error = server.join().unwrap().expect_err("no common version");
    assert!(
        matches!(error, ControlError::Version { min: 7, max: 9, .. }),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("speaks version 7 to 9, this side versions 1 to 1: upgrade"),
        "{text}"
    );
}

/// The error of `connect` with a server that answers a hello with `answer`.
fn answered(answer: Vec<u8>) -> ControlError {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr: SocketAddr = listener.local_addr().expect("bound");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut socket, _) = listener.accept().expect("the client");
            let hello = read_message(&mut socket);
            assert_eq!(hello["magic"], "rackweave-control");
            socket.write_all(&answer).expect("sent");
        });
        connect(addr, &plain("n0")).expect_err("no good answer")
    })
}

#[test]
fn answers_that_are_none() {
    let error = answered(message(&json!({"welcome": {"version": 3, "body": null}})));
    assert!(
        matches!(error, ControlError::Version { min: 3, max: 3, .. }),
        "{error}"
    );
    let error = answered(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec());
    assert!(
        matches!(error, ControlError::NotOurProtocol { .. }),
        "{error}"
    );
    let error = answered(message(&json!({"welcome": 5})));
    assert!(
        matches!(error, ControlError::NotOurProtocol { .. }),
        "{error}"
    );
    let error = answered(b"\0\0\0\x09{".to_vec());
    assert!(
        matches!(error, ControlError::Closed { midway: true, .. }),
        "{error}"
    );
    let error = answered(Vec::new());
    assert!(
        matches!(error, ControlError::Closed { midway: false, .. }),
        "{error}"
    );
    let error = answered(message(
        &json!({"refused": {"reason": "a\u{1b}\nb", "remedy": "c"}}),
    ));
    assert!(error.to_string().ends_with("refused: a  b: c"), "{error}");
}

#[test]
fn a_message_announced_too_long() {
    let (mut socket, mut server) = bare_client();
    let len = MESSAGE_LEN_MAX + 1;
    socket
        .write_all(&u32::try_from(len).unwrap().to_be_bytes())
        .expect("sent");
    let error = server.receive::<Value>(LONG).expect_err("too long");
    assert!(
        matches!(error, ControlError::TooLong { len: reported, limit: MESSAGE_LEN_MAX, .. }
            if reported == len),
        "{error}"
    );
    let error = server
        .receive::<Value>(LONG)
        .expect_err("what follows makes no sense");
    assert!(matches!(error, ControlError::Closed { .. }), "{error}");
    assert_eq!(socket.read(&mut [0]).expect("closed"), 0);
}

#[test]
fn half_a_message() {
    // The other side stops sending.
    let (mut socket, mut server) = bare_client();
    socket.write_all(b"\0\0").expect("sent");
    let error = loop {
        match server.receive::<Value>(SHORT) {
            Ok(None) => {} // The two bytes are still in flight.
            Ok(Some(value)) => panic!("{value}"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, ControlError::TimedOut { .. }), "{error}");

    // The other side closes the connection.
    let (mut socket, mut server) = bare_client();
    socket.write_all(b"\0\0\0\x05123").expect("sent");
    drop(socket);
    let error = server
        .receive::<Value>(LONG)
        .expect_err("the end, too early");
    assert!(
        matches!(error, ControlError::Closed { midway: true, .. }),
        "{error}"
    );

    // The other side continues, after the limit but within the grace: no error, whatever the limit.
    let (mut socket, mut server) = bare_client();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            socket.write_all(b"\0\0\0\x0512").expect("sent");
            std::thread::sleep(Duration::from_millis(20));
            socket.write_all(b"345").expect("sent");
            socket
        });
        let number = loop {
            if let Some(number) = server.receive::<u32>(Duration::ZERO).expect("no error") {
                break number;
            }
        };
        assert_eq!(number, 12345);
    });
}
