//! Connections that end.

use super::super::*;
use super::setup::{Setup, numbers, wide};
use crate::messaging::tests::rig::{COMPUTE, STORAGE};
use crate::messaging::{CloseReason, ClosedBy};

#[test]
fn who_finishes_gets_all_answers_first() {
    let mut setup = Setup::new();
    setup.serve("c", &numbers(0, 5000));
    for _ in 0..3 {
        setup.client.ask("c", None).unwrap();
    }
    setup.client.finish();
    assert_eq!(setup.client.ask("c", None), Err(AskError::Finished));
    setup.until(|setup| setup.client.is_finished());
    assert_eq!(setup.answers.len(), 3);
    assert!(setup.answers.iter().all(|answer| answer.result.is_ok()));
    setup.until(|setup| {
        setup
            .server
            .is_finished(&setup.rig.nodes[STORAGE].senders[0])
    });
    assert_eq!(setup.closed, [None, None]);
    setup.destroy();
}

#[test]
fn a_node_that_stops_refuses_what_it_has_not_begun() {
    let mut setup = Setup::new();
    setup.serve("c", &numbers(0, 20_000));
    setup.client.ask("c", None).unwrap();
    setup.until(|setup| setup.server.counters().columns == 1);
    setup.server.stop();
    setup.client.ask("c", None).unwrap();
    setup.until(|setup| setup.answers.len() == 2);
    assert!(setup.answers[0].result.is_ok());
    match &setup.answers[1].result {
        Err(RequestError::Refused { code, .. }) => assert_eq!(*code, RefusalCode::STOPS),
        other => panic!("{other:?}"),
    }
    setup.destroy();
}

#[test]
fn every_request_ends_when_the_connection_does() {
    let mut setup = Setup::new();
    setup.serve("c", &numbers(0, 50_000));
    for _ in 0..4 {
        setup.client.ask("c", None).unwrap();
    }
    setup.until(|setup| setup.server.counters().columns == 1);
    let now = setup.rig.network.now;
    let nic = &mut setup.rig.network.nics[STORAGE];
    setup.rig.nodes[STORAGE].close(now, nic, CloseReason::NodeStops);
    setup.until(|setup| setup.answers.len() == 4);
    for answer in &setup.answers {
        match &answer.result {
            Err(RequestError::Closed(closed)) => {
                assert_eq!(
                    (closed.by, closed.reason),
                    (ClosedBy::Peer, CloseReason::NodeStops)
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(
        setup.client.ask("c", None),
        Err(AskError::Broken(_))
    ));
    // The storage node releases the column although the connection is not destroyed.
    let removal = setup.catalogue.remove("c").unwrap();
    setup.until(|_| removal.is_done());
    drop(removal);
    setup.destroy();
}

#[test]
fn a_peer_that_vanishes_is_an_error() {
    let mut setup = Setup::new();
    setup.serve("c", &numbers(0, 50_000));
    setup.client.ask("c", None).unwrap();
    setup.until(|setup| setup.server.counters().columns == 1);
    setup.rig.network.dead = vec![STORAGE];
    setup.awake[STORAGE] = false;
    setup.until(|setup| setup.answers.len() == 1);
    let Err(RequestError::Closed(closed)) = &setup.answers[0].result else {
        panic!("not closed");
    };
    assert_eq!(closed.by, ClosedBy::Transport);
    setup.awake[STORAGE] = true;
    setup.until(|setup| setup.closed[STORAGE].is_some());
    let removal = setup.catalogue.remove("c").unwrap();
    setup.until(|_| removal.is_done());
    drop(removal);
    setup.destroy();
}

#[test]
fn messages_that_hold_no_refusal_are_no_use() {
    let config = crate::messaging::MessagingConfig {
        message_max: 1031,
        ..wide()
    };
    for asleep in [COMPUTE, STORAGE] {
        let (client, server) = Default::default();
        let mut setup = Setup::of(&config, 1, client, server);
        setup.awake[asleep] = false;
        setup.until(|setup| setup.closed[1 - asleep].is_some());
        let closed = setup.closed[1 - asleep].unwrap();
        assert_eq!(closed.reason, CloseReason::MessageTooLong);
        setup.destroy();
    }
}
