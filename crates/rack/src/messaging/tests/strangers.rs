//! Peers that are no units, or units of elsewhere, or too many.

use super::*;
use rackweave_verbs::NodeAccess;

/// The listener works as before: a unit can connect.
fn check_alive(rack: &EmbeddedRack, listener: &mut Listener) {
    let (compute, storage) = connect(rack, listener);
    check_traffic(compute, storage);
}

#[test]
fn units_of_another_rack_are_refused() {
    let (here, elsewhere) = (rack(), rack());
    let mut listener = listener(&here);
    let mut stranger = dialing(&elsewhere, &listener);
    let error = finish(&mut listener, &mut stranger).expect_err("another rack");
    let code = match &error {
        DialError::Handshake { error, .. } => error.code(),
        other => panic!("{other}"),
    };
    assert_eq!(code, RefusalCode::ForeignRack);
    assert!(
        error
            .to_string()
            .contains("the storage unit refused: the units are in different")
    );
    let counters = listener.counters();
    assert_eq!((counters.came, counters.refused), (1, 1));
    assert_eq!(counters.refused_with(RefusalCode::ForeignRack), 1);
    let failure = listener.take_failure().expect("it is kept");
    assert_eq!(failure.error.code(), RefusalCode::ForeignRack);
    assert!(listener.take_failure().is_none());
    check_alive(&here, &mut listener);
}

#[test]
fn clients_of_other_protocols_are_told() {
    let rack = rack();
    let mut listener = listener(&rack);
    let sentences: [&[u8]; 3] = [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        &[22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3],
        &[0xff; 5000],
    ];
    for sentence in sentences {
        let mut stream = TcpStream::connect(listener.local_addr()).expect("it listens");
        stream.write_all(sentence).expect("it takes some bytes");
        let refusal = hear_refusal(&mut listener, &mut stream);
        assert_eq!(refusal.code, RefusalCode::NotSpoken);
    }
    assert_eq!(listener.counters().refused_with(RefusalCode::NotSpoken), 3);
    let first = listener.take_failure().expect("it is kept");
    assert!(
        first.error.to_string().contains("`GET / HTTP/1.1"),
        "{}",
        first.error
    );
    check_alive(&rack, &mut listener);
}

#[test]
fn a_server_of_another_protocol_is_recognised() {
    let rack = rack();
    let web = TcpListener::bind(any_port()).expect("a free port is found");
    let address = web.local_addr().expect("it is bound");
    let mut dialing = Dialing::start(&rack, COMPUTE, address, config(), AMPLE).expect("it begins");
    let (mut client, _) = web.accept().expect("it dials");
    client
        .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        .expect("it is there");
    let error = loop {
        if let Some(end) = dialing.poll() {
            break end.expect_err("no storage unit");
        }
    };
    assert!(error.to_string().contains("`HTTP/1.1 400 Bad`"), "{error}");
}

/// Seventy open a stream and say nothing: 64 are waited for, the others hear that it is busy, and
/// when the first are gone there is room again.
#[test]
fn half_open_streams_hold_up_nobody_for_long() {
    let rack = rack();
    let mut listener = listener(&rack);
    let address = listener.local_addr();
    let open = || TcpStream::connect(address).expect("it listens");
    let mut silent: Vec<_> = (0..PENDING_MAX).map(|_| open()).collect();
    poll_until(&mut listener, |listener| listener.pending() == PENDING_MAX);
    for _ in 0..6 {
        let mut late = open();
        let refusal = hear_refusal(&mut listener, &mut late);
        assert_eq!(refusal.code, RefusalCode::Busy);
    }
    let mut unit = dialing(&rack, &listener);
    let error = finish(&mut listener, &mut unit).expect_err("it is busy");
    assert!(
        error
            .to_string()
            .contains("64 are about to connect already"),
        "{error}"
    );
    let counters = listener.counters();
    assert_eq!((counters.came, counters.busy), (71, 7));
    assert_eq!(counters.refused_with(RefusalCode::Busy), 7);

    silent.truncate(10);
    poll_until(&mut listener, |listener| listener.pending() == 10);
    check_alive(&rack, &mut listener);
    assert_eq!(listener.counters().ended, 54);
    drop(silent);
    poll_until(&mut listener, |listener| listener.pending() == 0);
    assert_eq!(listener.counters().ended, 64);
}

#[test]
fn who_says_nothing_is_told_that_time_is_over() {
    let rack = rack();
    let mut listener = listener(&rack);
    listener.set_patience(Duration::from_millis(20));
    let mut silent = TcpStream::connect(listener.local_addr()).expect("it listens");
    let refusal = hear_refusal(&mut listener, &mut silent);
    assert_eq!(refusal.code, RefusalCode::TooLate);
    assert_eq!(listener.counters().timed_out, 1);
    assert_eq!(listener.counters().refused_with(RefusalCode::TooLate), 1);
    listener.set_patience(AMPLE);
    check_alive(&rack, &mut listener);
}

/// A sound Hello, and then nonsense, nothing or the end.
#[test]
fn who_says_hello_and_no_more_leaves_nothing() {
    let rack = rack();
    let mut listener = listener(&rack);
    let held = rack.memory().bytes_held();
    // As a unit of this rack would say it.
    let unit = Unit::new(&rack, COMPUTE, Role::Compute, config()).expect("a sound unit");
    let now = unit.node.now();
    let hello = || {
        let config = unit.config.clone();
        let mut dialer = rackweave_endpoint::messaging::handshake::Dialer::new(
            now,
            config,
            unit.terms,
            now + AMPLE,
        );
        dialer.poll_send().expect("it begins")
    };
    let greet = |listener: &mut Listener| {
        let mut stream = TcpStream::connect(listener.local_addr()).expect("it listens");
        stream.write_all(&hello()).expect("it is there");
        poll_until(listener, |listener| listener.pending() == 1);
        stream.set_nonblocking(true).expect("a stream");
        let mut offer = [0; 52];
        poll_until(listener, |_| {
            stream.peek(&mut offer).is_ok_and(|len| len == 52)
        });
        stream.read_exact(&mut offer).expect("it is all there");
        assert!(matches!(
            Message::take(&offer),
            Ok(Some((Message::Offer(_), 52)))
        ));
        stream
    };
    let mut stream = greet(&mut listener);
    stream.write_all(&hello()).expect("it is there");
    let refusal = hear_refusal(&mut listener, &mut stream);
    assert_eq!(refusal.code, RefusalCode::OutOfOrder);
    drop(greet(&mut listener));
    poll_until(&mut listener, |listener| listener.pending() == 0);
    assert_eq!(listener.counters().ended, 1);
    assert_eq!(rack.memory().bytes_held(), held);
    check_alive(&rack, &mut listener);
}
