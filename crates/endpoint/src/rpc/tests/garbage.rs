//! Peers that send what a correct end never sends.

use super::raw::{NODE, Raw, message, request};
use super::rig::*;
use crate::rpc::{Cause, Client, ClientConfig, ServerConfig, Status};
use proptest::prelude::*;
use rackweave_base::Rng;
use rackweave_verbs::{QpState, Verbs};
use rackweave_wire::fabric::rpc::{
    self, CALL_HEADER_LEN, CallHeader, CallId, MESSAGE_HEADER_LEN, MessageError, MessageKind,
};

/// A server with a correct client on node 2.
fn rig(seed: u64) -> Rig {
    let mut rig = Rig::new(2, seed, small_server());
    rig.join(2, small_client());
    rig
}

#[test]
fn every_bad_message_is_answered_and_counted() {
    let mut rig = rig(1);
    let mut raw = Raw::client(&mut rig);
    let calls = [request(1, ECHO, b"abc"), request(2, ECHO, b"defgh")];
    let good = message(MessageKind::Request, 0, &calls);
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let cut = good.len() - 1;
    let longer = [&good[..], &[0]].concat();
    let reply = message(MessageKind::Reply, 0, &calls);
    let foreign = message(MessageKind::Request, 5, &calls);
    let ours = message(MessageKind::Request, 0xabc, &calls);
    let unknown = message(MessageKind::Request, 0, &[request(9, 9, b"")]);
    for (bytes, answer, counter) in [
        (&good[..], "1:0x0 2:0x0", None),
        (&ours[..], "1:0x0 2:0x0", None),
        (&[][..], "[0xff02]", Some("malformed_messages")),
        (&good[..15], "[0xff02]", Some("malformed_messages")),
        (&with(0, 0)[..], "[0xff02]", Some("malformed_messages")),
        (&with(2, 9)[..], "[0xff05]", Some("other_versions")),
        (&with(3, 8)[..], "[0xff02]", Some("malformed_messages")),
        (&reply[..], "[0xff02]", Some("malformed_messages")),
        (&foreign[..], "[0xff04]", Some("other_incarnations")),
        (&good[..cut], "1:0x0 2:0xff02", Some("malformed_requests")),
        (&good[..30], "1:0x0 [0xff02]", Some("malformed_messages")),
        (
            &with(4, 3)[..],
            "1:0x0 2:0x0 [0xff02]",
            Some("malformed_messages"),
        ),
        (
            &longer[..],
            "1:0x0 2:0x0 [0xff02]",
            Some("malformed_messages"),
        ),
        (&unknown[..], "9:0xff01", Some("unknown_methods")),
    ] {
        let counted = |rig: &mut Rig| {
            let mut list = rig.server().counters().list();
            counter.map(|name| list.find(|(n, _)| *n == name).unwrap().1)
        };
        let before = counted(&mut rig);
        assert_eq!(raw.ask(&mut rig, bytes), answer, "{bytes:02x?}");
        let after = counted(&mut rig);
        assert_eq!(after, before.map(|count| count + 1), "{answer}");
    }
    assert_eq!(
        rig.call(ECHO, b"ab"),
        Ok(b"ba".to_vec()),
        "the other client"
    );
    assert_eq!(rig.server().counters().lost, 0);
}

#[test]
fn a_message_longer_than_its_buffer_costs_the_sender_its_connection() {
    let mut rig = rig(2);
    let mut raw = Raw::client(&mut rig);
    raw.send(&mut rig, &[0; 3025]);
    rig.settle();
    assert_eq!(
        rig.network.nics[NODE].qp_state(raw.qpn),
        Some(QpState::Error)
    );
    assert_eq!(rig.server().counters().lost, 1);
    assert_eq!(rig.recorder.left, [1]);
    assert_eq!(rig.call(ECHO, b"ab"), Ok(b"ba".to_vec()));
}

/// More messages than were granted, from a peer that ignores grants: nothing accumulates.
#[test]
fn a_flood_fills_no_more_than_its_own_buffers() {
    let config = ServerConfig {
        send_buffers: 2,
        batch_bytes: 0,
        ..small_server()
    };
    let mut rig = Rig::new(2, 3, config);
    rig.join(2, small_client());
    let raw = Raw::new(&mut rig, NODE);
    rig.accept(NODE, raw.qpn);
    let mut raw = raw;
    let calls: Vec<_> = (0..100).map(|slot| request(slot, ECHO, b"")).collect();
    let flood = message(MessageKind::Request, 0, &calls);
    // Without receive requests, the server's replies find a receiver that is not ready, for a
    // while.
    for _ in 0..60 {
        raw.send(&mut rig, &flood);
    }
    for _ in 0..30 {
        rig.step();
    }
    let counters = *rig.server().counters();
    assert!(counters.messages_received <= 2, "{counters:?}");
    assert!(counters.messages_held > 0);
    rig.settle();
    assert_eq!(rig.server().counters().lost, 1, "it never listened");
    assert_eq!(rig.call(ECHO, b"ab"), Ok(b"ba".to_vec()));
}

/// A correct client with a request in flight, connected to a bare queue pair in place of a server.
fn client_of_a_liar(config: ClientConfig) -> (Rig, Raw) {
    let mut rig = Rig::new(1, 4, small_server());
    let raw = Raw::new(&mut rig, SERVER);
    let nic = &mut rig.network.nics[NODE];
    let pd = nic.create_pd();
    let client = Client::new(nic, &rig.network.memory, pd, config).unwrap();
    rig.connect((NODE, client.qpn()), (SERVER, raw.qpn));
    raw.open(&mut rig);
    rig.clients.push(TestClient {
        node: NODE,
        client,
        ends: Vec::new(),
    });
    rig.begin(ECHO, b"x").unwrap();
    rig.settle();
    let mut rig = rig;
    assert_eq!(raw.messages(&mut rig).len(), 1);
    (rig, raw)
}

#[test]
fn replies_to_nothing_are_counted_and_harm_nobody() {
    let (mut rig, mut raw) = client_of_a_liar(small_client());
    let stranger = |slot, generation| {
        let header = CallHeader {
            id: CallId { slot, generation },
            code: 0,
            length: 2,
        };
        [&header.emit()[..], b"??"].concat()
    };
    let calls = [
        stranger(0, 1),
        stranger(0, u16::MAX),
        stranger(1, 0),
        stranger(31, 0),
        stranger(32, 0),
        stranger(u16::MAX, u16::MAX),
        request(0, 0, b"ok"),
        request(0, 0, b"again"),
    ];
    raw.send(&mut rig, &message(MessageKind::Reply, 7, &calls));
    rig.settle();
    assert_eq!(rig.clients[0].ends.len(), 1);
    assert_eq!(rig.clients[0].ends[0].result, Ok(b"ok".to_vec()));
    assert_eq!(rig.clients[0].client.counters().unknown_replies, 7);
    // The slot is reused, with another generation.
    rig.begin(ECHO, b"y").unwrap();
    raw.send(
        &mut rig,
        &message(MessageKind::Reply, 7, &[request(0, 0, b"old")]),
    );
    raw.send(&mut rig, &message(MessageKind::Reply, 7, &[stranger(0, 1)]));
    rig.settle();
    assert_eq!(rig.clients[0].ends.len(), 2);
    assert_eq!(rig.clients[0].ends[1].result, Ok(b"??".to_vec()));
    assert_eq!(rig.clients[0].client.counters().unknown_replies, 8);
}

#[test]
fn what_is_no_reply_breaks_the_connection() {
    let reply = message(MessageKind::Reply, 7, &[request(0, 0, b"ok")]);
    let with = |at: usize, byte: u8| {
        let mut bytes = reply.clone();
        bytes[at] = byte;
        bytes
    };
    let refusal = message(MessageKind::Refusal, 7, &[request(0, 0xff05, b"")]);
    let empty_refusal = message(MessageKind::Refusal, 7, &[]);
    let request = message(MessageKind::Request, 7, &[]);
    let truncated = Cause::NoMessage(MessageError::Truncated { len: 3 });
    let check = |bytes: &[u8], cause: Cause, answered: usize| {
        let (mut rig, mut raw) = client_of_a_liar(small_client());
        raw.send(&mut rig, bytes);
        rig.settle();
        let client = &rig.clients[0];
        assert_eq!(client.client.cause(), Some(cause), "{bytes:02x?}");
        let found = client.ends.iter().filter(|end| end.result.is_ok()).count();
        assert_eq!((client.ends.len(), found), (1, answered), "{bytes:02x?}");
    };
    check(&reply[..3], truncated, 0);
    check(
        &with(2, 3),
        Cause::NoMessage(MessageError::Version { found: 3 }),
        0,
    );
    check(&reply[..20], Cause::NoReply, 0);
    check(&reply[..reply.len() - 1], Cause::NoReply, 0);
    check(&[&reply[..], &[0]].concat(), Cause::NoReply, 1);
    check(&request, Cause::NoReply, 0);
    check(&refusal, Cause::Refused(Status::OTHER_VERSION), 0);
    check(&empty_refusal, Cause::Refused(Status::MALFORMED), 0);
}

#[test]
fn answers_of_another_incarnation_are_refused() {
    let (mut rig, mut raw) = client_of_a_liar(small_client());
    raw.send(&mut rig, &message(MessageKind::Reply, 7, &[]));
    rig.settle();
    assert_eq!(rig.clients[0].client.incarnation(), Some(7));
    raw.send(
        &mut rig,
        &message(MessageKind::Reply, 8, &[request(0, 0, b"ok")]),
    );
    rig.settle();
    let cause = Cause::OtherIncarnation {
        expected: 7,
        found: 8,
    };
    let client = &rig.clients[0];
    assert_eq!(client.client.cause(), Some(cause));
    assert_eq!(client.client.counters().foreign_replies, 1);
    assert!(client.ends.len() == 1 && client.ends[0].result.is_err());
}

/// Random bytes, or a valid message with some of its bytes changed.
fn noise(rng: &mut Rng) -> Vec<u8> {
    let calls: Vec<_> = (0..rng.next_u32() % 5)
        .map(|_| {
            let length = rng.next_u32() as usize % 60;
            let payload: Vec<u8> = (0..length).map(|_| rng.next_u32() as u8).collect();
            request(
                rng.next_u32() as u16 % 40,
                rng.next_u32() as u16 % 5,
                &payload,
            )
        })
        .collect();
    let kind = match rng.next_u32() % 3 {
        0 => MessageKind::Reply,
        _ => MessageKind::Request,
    };
    let mut bytes = message(kind, 0, &calls);
    for _ in 0..rng.next_u32() % 4 {
        let header = MESSAGE_HEADER_LEN + CALL_HEADER_LEN;
        let at = rng.next_u32() as usize % bytes.len().min(header);
        bytes[at] = rng.next_u32() as u8;
    }
    if rng.next_u32().is_multiple_of(3) {
        bytes.truncate(rng.next_u32() as usize % (bytes.len() + 1));
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_server_survives_any_messages(seed: u64) {
        let mut rig = rig(seed);
        let mut rng = Rng::new(seed);
        let mut raw = Raw::client(&mut rig);
        for round in 0..40u8 {
            raw.send(&mut rig, &noise(&mut rng));
            rig.begin(ECHO, &[round, 1]).unwrap();
            rig.settle();
            let answers = raw.messages(&mut rig);
            prop_assert!(answers.iter().all(|answer| rpc::parse(answer).is_ok()));
            let end = rig.clients[0].ends.pop();
            prop_assert_eq!(end.unwrap().result, Ok(vec![1, round]));
        }
        prop_assert_eq!(rig.server().counters().lost, 0);
    }

    #[test]
    fn a_client_survives_any_messages(seed: u64) {
        let mut rng = Rng::new(seed);
        let (mut rig, mut raw) = client_of_a_liar(small_client());
        for _ in 0..20 {
            raw.send(&mut rig, &noise(&mut rng));
            let _ = rig.begin(ECHO, b"z");
            rig.settle();
            raw.messages(&mut rig);
        }
        let client = &rig.clients[0].client;
        let counters = client.counters();
        let ended = counters.answered + counters.refused + counters.disconnected;
        prop_assert_eq!(ended, rig.clients[0].ends.len() as u64);
        prop_assert_eq!(ended + client.under_way() as u64, counters.requests);
    }
}
