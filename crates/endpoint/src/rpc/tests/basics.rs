//! Successful calls, and refused requests.

use super::rig::*;
use crate::rpc::{ClientConfig, RpcError, ServerConfig, Status};

#[test]
fn a_call_there_and_back() {
    let mut rig = Rig::pair(small_client(), small_server());
    assert_eq!(rig.call(ECHO, b"hello"), Ok(b"olleh".to_vec()));
    assert_eq!(rig.recorder.served, [(0, b"hello".to_vec())]);
    assert_eq!(rig.clients[0].client.incarnation(), Some(0xabc));
    assert_eq!(
        rig.client_counters(),
        [
            ("requests", 1),
            ("answered", 1),
            ("messages_sent", 1),
            ("messages_inline", 1),
            ("doorbells", 1),
            ("messages_received", 1),
        ]
    );
    assert_eq!(
        rig.server_counters(),
        [
            ("requests", 1),
            ("messages_sent", 1),
            ("messages_inline", 1),
            ("doorbells", 1),
            ("messages_received", 1),
            ("accepted", 1),
        ]
    );
}

#[test]
fn an_empty_call_may_have_an_empty_answer() {
    let mut rig = Rig::pair(small_client(), small_server());
    assert_eq!(rig.call(ECHO, b""), Ok(Vec::new()));
}

#[test]
fn requests_and_replies_up_to_the_limit_pass_and_no_longer_ones() {
    let mut rig = Rig::pair(small_client(), small_server());
    let long: Vec<u8> = (0..3000u32).map(|at| (at % 251) as u8).collect();
    let back: Vec<u8> = long.iter().rev().copied().collect();
    assert_eq!(rig.call(ECHO, &long), Ok(back));
    let too_large = RpcError::TooLarge {
        length: 3001,
        max: 3000,
    };
    assert_eq!(rig.begin(ECHO, &[0; 3001]), Err(too_large));
    assert_eq!(rig.clients[0].client.under_way(), 0);

    let sized = |length: u32| length.to_le_bytes();
    let whole = rig.call(SIZED, &sized(3000)).unwrap();
    assert_eq!(whole, (0..3000u32).map(|at| at as u8).collect::<Vec<_>>());
    let refused = Err(RpcError::Refused(Status::REPLY_TOO_LARGE));
    assert_eq!(rig.call(SIZED, &sized(3001)), refused);
    assert_eq!(rig.call(SIZED, &sized(1 << 20)), refused);
    assert_eq!(rig.call(ECHO, b"ab"), Ok(b"ba".to_vec()), "all is well");
    assert_eq!(rig.server().counters().replies_too_large, 2);
}

#[test]
fn refusals_come_back_with_their_status_and_bytes() {
    let mut rig = Rig::pair(small_client(), small_server());
    let unknown = Err(RpcError::Refused(Status::UNKNOWN_METHOD));
    assert_eq!(rig.call(9, b"x"), unknown);
    let malformed = Err(RpcError::Refused(Status::MALFORMED));
    assert_eq!(rig.call(SIZED, b"abc"), malformed);
    rig.begin(REFUSE, b"").unwrap();
    rig.settle();
    let end = &rig.clients[0].ends[0];
    assert_eq!(end.result, Err(RpcError::Refused(REFUSAL)));
    assert_eq!(end.bytes, b"no");
    assert_eq!(rig.clients[0].client.counters().refused, 3);
    assert_eq!(rig.server().counters().unknown_methods, 1);
}

/// The number of messages each way for `requests` echoes of 10 bytes begun at once.
fn messages(requests: usize, client: ClientConfig, server: ServerConfig) -> (u64, u64) {
    let mut rig = Rig::pair(client, server);
    assert_eq!(rig.call(ECHO, b""), Ok(Vec::new()), "grants are known now");
    let before = *rig.clients[0].client.counters();
    let tickets: Vec<_> = (0..requests)
        .map(|at| rig.begin(ECHO, &[at as u8; 10]).unwrap())
        .collect();
    rig.settle();
    let ends = &rig.clients[0].ends;
    assert_eq!(ends.len(), requests);
    for (at, (ticket, end)) in tickets.iter().zip(ends).enumerate() {
        assert_eq!(
            end.ticket, *ticket,
            "one client's answers come in its order"
        );
        assert_eq!(end.result, Ok(vec![at as u8; 10]));
    }
    assert_eq!(rig.nic_counter(SERVER, "out_of_buffer"), 0);
    let after = rig.clients[0].client.counters();
    (
        after.messages_sent - before.messages_sent,
        after.messages_received - before.messages_received,
    )
}

#[test]
fn what_is_begun_together_travels_together() {
    let client = |batch_bytes| ClientConfig {
        batch_bytes,
        send_buffers: 16,
        ..small_client()
    };
    let server = |batch_bytes| ServerConfig {
        batch_bytes,
        send_buffers: 16,
        ..small_server()
    };
    // A call takes 18 bytes after the header's 16.
    assert_eq!(messages(32, client(1024), server(1024)), (1, 1));
    assert_eq!(messages(32, client(16 + 4 * 18), server(1024)), (8, 1));
    assert_eq!(messages(32, client(1024), server(16 + 8 * 18)), (1, 4));
    assert_eq!(messages(8, client(0), server(0)), (8, 8));
    // The grants suffice for eight messages at a time.
    let (sent, received) = messages(32, client(0), server(0));
    assert_eq!((sent, received), (32, 32));
}

#[test]
fn one_doorbell_is_for_all_messages_of_a_round() {
    let config = ClientConfig {
        batch_bytes: 0,
        ..small_client()
    };
    let mut rig = Rig::pair(config, small_server());
    for _ in 0..8 {
        rig.begin(ECHO, b"").unwrap();
    }
    rig.settle();
    let counters = rig.clients[0].client.counters();
    assert_eq!((counters.messages_sent, counters.doorbells), (8, 1));
}

#[test]
fn an_answer_that_outgrows_its_message_travels_alone() {
    let mut rig = Rig::pair(small_client(), small_server());
    rig.begin(ECHO, b"small").unwrap();
    rig.begin(SIZED, &2000u32.to_le_bytes()).unwrap();
    rig.begin(ECHO, b"other").unwrap();
    rig.settle();
    let ends: Vec<_> = rig.clients[0]
        .ends
        .iter()
        .map(|end| end.result.as_ref().unwrap().len())
        .collect();
    assert_eq!(ends, [5, 2000, 5]);
    assert_eq!(rig.server().counters().messages_sent, 3);
}

#[test]
fn many_clients_share_a_server_and_get_their_own_answers() {
    let config = ServerConfig {
        clients_max: 20,
        ..small_server()
    };
    let mut rig = Rig::new(4, 3, config);
    for at in 0..20 {
        rig.join(1 + at % 4, small_client());
    }
    let nic = &mut rig.network.nics[SERVER];
    let full = rig.server.as_mut().unwrap().accept(nic);
    assert_eq!(full, Err(RpcError::ClientsFull { max: 20 }));
    for round in 0..10u8 {
        for (at, client) in rig.clients.iter_mut().enumerate() {
            for number in 0..at % 7 {
                let request = [at as u8, round, number as u8];
                client.client.begin_with(ECHO, &request).unwrap();
            }
        }
        rig.step();
    }
    rig.settle();
    for (at, client) in rig.clients.iter().enumerate() {
        let expect = (0..10)
            .flat_map(|round| (0..at % 7).map(move |number| vec![number as u8, round, at as u8]));
        let found: Vec<_> = client
            .ends
            .iter()
            .map(|end| end.result.clone().unwrap())
            .collect();
        assert_eq!(found, expect.collect::<Vec<_>>(), "client {at}");
    }
    assert_eq!(rig.nic_counter(SERVER, "out_of_buffer"), 0);
}
