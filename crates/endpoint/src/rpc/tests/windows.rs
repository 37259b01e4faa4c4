//! Windows, grants and time-outs.

use super::rig::*;
use crate::rpc::{Cause, ClientConfig, RpcError, ServerConfig};
use rackweave_base::Duration;

#[test]
fn a_full_window_takes_no_more_until_ends_are_taken() {
    let config = ClientConfig {
        window: 5,
        ..small_client()
    };
    let mut rig = Rig::pair(config, small_server());
    for _ in 0..5 {
        rig.begin(ECHO, b"x").unwrap();
    }
    let full = Err(RpcError::WindowFull { window: 5 });
    assert_eq!(rig.begin(ECHO, b"x"), full);
    // Replied, but the result is not taken.
    let now = rig.network.now;
    let client = &mut rig.clients[0];
    client.client.advance(now, &mut rig.network.nics[1]);
    let clients = core::mem::take(&mut rig.clients);
    rig.settle();
    rig.clients = clients;
    let now = rig.network.now;
    assert!(rig.clients[0].client.advance(now, &mut rig.network.nics[1]));
    assert_eq!(rig.begin(ECHO, b"x"), full);
    assert!(rig.clients[0].client.take().is_some());
    assert!(rig.begin(ECHO, b"x").is_ok());
    assert_eq!(rig.begin(ECHO, b"x"), full);
    rig.settle();
    assert_eq!(rig.clients[0].ends.len(), 5);
    assert_eq!(rig.clients[0].client.free(), 5);
}

/// No request meets a receiver that is not ready, whatever the sizes.
#[test]
fn grants_keep_the_receiver_ready() {
    for (window, receives, send_buffers) in [(200, 8, 1), (200, 8, 40), (40, 64, 3), (9, 8, 4)] {
        let client = ClientConfig {
            window,
            batch_bytes: 0,
            send_buffers,
            ..small_client()
        };
        let server = ServerConfig {
            receives,
            send_buffers,
            batch_bytes: 0,
            ..small_server()
        };
        let mut rig = Rig::pair(client, server);
        let mut begun = 0;
        for round in 0.. {
            if begun >= 1000 {
                break;
            }
            while rig.begin(ECHO, b"x").is_ok() {
                begun += 1;
            }
            // The server is not polled in every round.
            rig.awake = round % 3 > 0;
            rig.step();
        }
        rig.awake = true;
        rig.settle();
        assert_eq!(rig.clients[0].ends.len(), begun);
        assert!(rig.clients[0].ends.iter().all(|end| end.result.is_ok()));
        for node in [SERVER, 1] {
            assert_eq!(rig.nic_counter(node, "out_of_buffer"), 0);
        }
    }
}

#[test]
fn messages_are_left_lying_while_replies_cannot_be_sent() {
    let client = ClientConfig {
        window: 300,
        ..small_client()
    };
    let server = ServerConfig {
        send_buffers: 1,
        batch_bytes: 0,
        ..small_server()
    };
    let mut rig = Rig::pair(client, server);
    for at in 0..300u16 {
        rig.begin(ECHO, &at.to_be_bytes()).unwrap();
    }
    rig.settle();
    assert!(rig.server().counters().messages_held > 0);
    let ends = rig.clients[0]
        .ends
        .iter()
        .map(|end| end.result.clone().unwrap());
    let expect = (0..300u16).map(|at| at.to_le_bytes().to_vec());
    assert!(ends.eq(expect));
}

fn impatient() -> ClientConfig {
    ClientConfig {
        window: 3,
        timeout: Duration::from_micros(50),
        ..small_client()
    }
}

#[test]
fn a_late_answer_frees_its_slot_and_is_nobody_elses() {
    let mut rig = Rig::pair(impatient(), small_server());
    rig.awake = false;
    for at in 0..3u8 {
        rig.begin(ECHO, &[at]).unwrap();
    }
    let start = rig.network.now;
    rig.step();
    let due = rig.clients[0].client.poll_timeout();
    assert_eq!(due, Some(start + Duration::from_micros(50)));
    rig.run_for(Duration::from_micros(80));
    let ends = core::mem::take(&mut rig.clients[0].ends);
    let timed_out = RpcError::TimedOut(Duration::from_micros(50));
    assert_eq!(ends.len(), 3);
    assert!(ends.iter().all(|end| end.result == Err(timed_out)));
    // The server may still reply: the slots stay in use.
    assert_eq!(
        rig.begin(ECHO, b"x"),
        Err(RpcError::WindowFull { window: 3 })
    );
    let until = rig.clients[0].client.poll_timeout();
    assert_eq!(
        until,
        Some(start + Duration::from_micros(100)),
        "of the question"
    );
    rig.awake = true;
    rig.settle();
    assert_eq!(rig.clients[0].ends, []);
    assert_eq!(rig.recorder.served.len(), 3, "given up, but carried out");
    assert_eq!(rig.call(ECHO, b"ab"), Ok(b"ba".to_vec()));
    let counters = rig.clients[0].client.counters();
    let found = (counters.timed_out, counters.late_replies, counters.probes);
    assert_eq!(found, (3, 3, 1));
    assert_eq!(rig.server().counters().probes, 1);
    assert_eq!(rig.nic_counter(SERVER, "out_of_buffer"), 0);
}

/// The probe of whether the server is alive needs no grant.
#[test]
fn a_client_without_a_grant_still_asks() {
    let client = ClientConfig {
        window: 40,
        batch_bytes: 0,
        send_buffers: 32,
        ..impatient()
    };
    let mut rig = Rig::pair(client, small_server());
    rig.awake = false;
    for _ in 0..40 {
        rig.begin(ECHO, b"").unwrap();
    }
    rig.run_for(Duration::from_micros(80));
    let counters = rig.clients[0].client.counters();
    assert_eq!((counters.messages_sent, counters.probes), (9, 1));
    assert!(counters.grant_waits > 0);
    rig.awake = true;
    rig.settle();
    assert_eq!(rig.clients[0].client.free(), 40);
    assert_eq!(rig.nic_counter(SERVER, "out_of_buffer"), 0);
}

#[test]
fn a_server_that_does_not_even_say_that_it_is_alive_is_given_up() {
    let mut rig = Rig::pair(impatient(), small_server());
    rig.awake = false;
    rig.begin(ECHO, b"x").unwrap();
    rig.run_for(Duration::from_micros(80));
    rig.begin(ECHO, b"y").unwrap();
    rig.settle();
    let results: Vec<_> = rig.clients[0]
        .ends
        .iter()
        .map(|end| end.result.clone())
        .collect();
    let timed_out = RpcError::TimedOut(Duration::from_micros(50));
    let gone = RpcError::Disconnected(Cause::NoAnswer);
    assert_eq!(results, [Err(timed_out), Err(gone)]);
    assert_eq!(rig.clients[0].client.free(), 3);
    assert_eq!(rig.clients[0].client.poll_timeout(), None);
    rig.awake = true;
    rig.settle();
    assert_eq!(rig.clients[0].ends.len(), 2);
    assert_eq!(rig.server().counters().lost, 1, "it can answer nobody");
}
