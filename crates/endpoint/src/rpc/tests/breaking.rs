//! Ends that die, restart or are removed.

use super::rig::*;
use crate::rpc::{Cause, ClientConfig, RpcError, ServerConfig, Status};
use rackweave_base::Duration;
use rackweave_verbs::{CompletionStatus, QpModify, Verbs};

fn all_disconnected(rig: &Rig, cause: Cause, count: usize) {
    let client = &rig.clients[0];
    assert_eq!(client.ends.len(), count);
    let error = RpcError::Disconnected(cause);
    assert!(client.ends.iter().all(|end| end.result == Err(error)));
    assert_eq!(client.client.cause(), Some(cause));
    assert_eq!(client.client.counters().disconnected, count as u64);
    assert_eq!(client.client.under_way(), 0);
}

#[test]
fn a_restart_of_the_server_is_seen_by_its_clients() {
    let mut rig = Rig::pair(small_client(), small_server());
    rig.call(ECHO, b"x").unwrap();
    let server = rig.server.take().unwrap();
    server.close(&mut rig.network.nics[SERVER]);
    for _ in 0..7 {
        rig.begin(ECHO, b"x").unwrap();
    }
    rig.settle();
    let cause = Cause::Completion(CompletionStatus::RetriesExceeded);
    all_disconnected(&rig, cause, 7);
    assert_eq!(rig.begin(ECHO, b"x"), Err(RpcError::Disconnected(cause)));

    let nic = &mut rig.network.nics[1];
    rig.clients.pop().unwrap().client.close(nic);
    rig.start(ServerConfig {
        incarnation: 0xdef,
        ..small_server()
    });
    rig.join(1, small_client());
    assert_eq!(rig.call(ECHO, b"ab"), Ok(b"ba".to_vec()));
    assert_eq!(rig.clients[0].client.incarnation(), Some(0xdef));
}

/// The server's NIC has acknowledged everything: only a probe detects the failure.
#[test]
fn a_server_that_dies_with_requests_taken_is_found_out() {
    let config = ClientConfig {
        timeout: Duration::from_millis(1),
        ..small_client()
    };
    let mut rig = Rig::pair(config, small_server());
    rig.awake = false;
    for _ in 0..5 {
        rig.begin(ECHO, b"x").unwrap();
    }
    rig.run_for(Duration::from_micros(100));
    rig.network.dead.push(SERVER);
    rig.run_for(Duration::from_micros(1200));
    let timed_out = Err(RpcError::TimedOut(Duration::from_millis(1)));
    assert_eq!(rig.clients[0].ends.len(), 5);
    assert!(
        rig.clients[0]
            .ends
            .iter()
            .all(|end| end.result == timed_out)
    );
    assert!(!rig.clients[0].client.is_broken());
    rig.settle();
    assert_eq!(rig.clients[0].client.cause(), Some(Cause::NoAnswer));
    assert_eq!(rig.clients[0].ends.len(), 5, "each is told once");
    assert_eq!(rig.clients[0].client.counters().probes, 1);
}

#[test]
fn answers_that_came_before_the_break_count() {
    let mut rig = Rig::pair(small_client(), small_server());
    rig.begin(ECHO, b"ab").unwrap();
    // The reply is at the client's NIC, and the client has not polled.
    let clients = {
        let now = rig.network.now;
        rig.clients[0].client.advance(now, &mut rig.network.nics[1]);
        core::mem::take(&mut rig.clients)
    };
    rig.settle();
    rig.clients = clients;
    let qpn = rig.clients[0].client.qpn();
    rig.network.nics[1].modify_qp(qpn, QpModify::Error).unwrap();
    rig.begin(ECHO, b"cd").unwrap();
    rig.poll_clients();
    let results: Vec<_> = rig.clients[0]
        .ends
        .iter()
        .map(|end| end.result.clone())
        .collect();
    let cause = Cause::Completion(CompletionStatus::Flushed);
    let gone = Err(RpcError::Disconnected(cause));
    assert_eq!(results, [Ok(b"ba".to_vec()), gone]);
}

#[test]
fn a_client_that_wants_one_incarnation_gets_no_other() {
    let config = ClientConfig {
        incarnation: 0xabd,
        ..small_client()
    };
    let mut rig = Rig::pair(config, small_server());
    rig.begin(ECHO, b"x").unwrap();
    rig.settle();
    all_disconnected(&rig, Cause::Refused(Status::OTHER_INCARNATION), 1);
    assert_eq!(rig.recorder.served, [], "it was not carried out");
    assert_eq!(rig.server().counters().other_incarnations, 1);
}

#[test]
fn a_queue_pair_taken_away_breaks_the_client_when_it_sends() {
    let mut rig = Rig::pair(small_client(), small_server());
    rig.call(ECHO, b"x").unwrap();
    let qpn = rig.clients[0].client.qpn();
    rig.network.nics[1].destroy_qp(qpn).unwrap();
    rig.begin(ECHO, b"x").unwrap();
    rig.settle();
    all_disconnected(&rig, Cause::QueuePair, 1);
}

#[test]
fn a_client_that_dies_is_lost_and_its_place_is_given_to_another() {
    let config = ServerConfig {
        clients_max: 2,
        ..small_server()
    };
    let mut rig = Rig::new(2, 5, config);
    rig.join(1, small_client());
    rig.join(2, small_client());
    rig.begin(ECHO, b"x").unwrap();
    rig.awake = false;
    rig.run_for(Duration::from_micros(20));
    // Its request has arrived; its node cannot receive a reply.
    rig.network.dead.push(1);
    rig.awake = true;
    rig.run_for(Duration::from_millis(5));
    assert_eq!(rig.recorder.left, [0]);
    assert_eq!(rig.server().clients(), 1);
    let lost = rig.server().poll_lost().unwrap();
    assert_eq!(rig.server().client_of(lost), None);
    assert_eq!(rig.server().poll_lost(), None);
    assert_eq!(rig.server().counters().lost, 1);
    rig.join(2, small_client());
    for at in [1, 2] {
        let client = &mut rig.clients[at].client;
        client.begin_with(ECHO, b"ab").unwrap();
    }
    rig.run_for(Duration::from_millis(1));
    for at in [1, 2] {
        assert_eq!(rig.clients[at].ends[0].result, Ok(b"ba".to_vec()));
    }
}

#[test]
fn a_client_that_is_removed_sees_the_connection_break() {
    let mut rig = Rig::new(1, 6, small_server());
    let nic = &mut rig.network.nics[1];
    let pd = nic.create_pd();
    let client = crate::rpc::Client::new(nic, &rig.network.memory, pd, small_client()).unwrap();
    let far = rig.accept(1, client.qpn());
    rig.clients.push(TestClient {
        node: 1,
        client,
        ends: Vec::new(),
    });
    rig.call(ECHO, b"x").unwrap();
    let nic = &mut rig.network.nics[SERVER];
    let server = rig.server.as_mut().unwrap();
    assert!(server.remove(nic, far) && !server.remove(nic, far));
    assert_eq!(
        server.connected(nic, far),
        Err(RpcError::UnknownClient(far))
    );
    rig.begin(ECHO, b"x").unwrap();
    rig.settle();
    let cause = Cause::Completion(CompletionStatus::RetriesExceeded);
    all_disconnected(&rig, cause, 1);
}

#[test]
fn requests_begun_before_anybody_connects_wait() {
    let mut rig = Rig::new(1, 7, small_server());
    let nic = &mut rig.network.nics[1];
    let pd = nic.create_pd();
    let mut client = crate::rpc::Client::new(nic, &rig.network.memory, pd, small_client()).unwrap();
    client.begin_with(ECHO, b"ab").unwrap();
    let qpn = client.qpn();
    rig.clients.push(TestClient {
        node: 1,
        client,
        ends: Vec::new(),
    });
    rig.settle();
    assert_eq!(rig.client_counters(), [("requests", 1)]);
    // The server is not notified; it checks by itself.
    let nic = &mut rig.network.nics[SERVER];
    let far = rig.server.as_mut().unwrap().accept(nic).unwrap();
    rig.settle();
    rig.connect((1, qpn), (SERVER, far));
    rig.settle();
    assert_eq!(rig.clients[0].ends[0].result, Ok(b"ba".to_vec()));
}
