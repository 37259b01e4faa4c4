//! Connections that end.

use super::super::*;
use super::desk::{Desk, numbers, wide};
use crate::messaging::tests::rig::{COMPUTE, STORAGE};
use crate::messaging::{CloseReason, ClosedBy};

#[test]
fn who_finishes_gets_all_answers_first() {
    let mut desk = Desk::new();
    desk.serve("c", &numbers(0, 5000));
    for _ in 0..3 {
        desk.client.ask("c", None).unwrap();
    }
    desk.client.finish();
    assert_eq!(desk.client.ask("c", None), Err(AskError::Finished));
    desk.until(|desk| desk.client.is_finished());
    assert_eq!(desk.answers.len(), 3);
    assert!(desk.answers.iter().all(|answer| answer.result.is_ok()));
    desk.until(|desk| desk.server.is_finished(&desk.rig.units[STORAGE].senders[0]));
    assert_eq!(desk.closed, [None, None]);
    desk.destroy();
}

#[test]
fn a_unit_that_stops_refuses_what_it_has_not_begun() {
    let mut desk = Desk::new();
    desk.serve("c", &numbers(0, 20_000));
    desk.client.ask("c", None).unwrap();
    desk.until(|desk| desk.server.counters().columns == 1);
    desk.server.stop();
    desk.client.ask("c", None).unwrap();
    desk.until(|desk| desk.answers.len() == 2);
    assert!(desk.answers[0].result.is_ok());
    match &desk.answers[1].result {
        Err(RequestError::Refused { code, .. }) => assert_eq!(*code, RefusalCode::STOPS),
        other => panic!("{other:?}"),
    }
    desk.destroy();
}

#[test]
fn every_request_ends_when_the_connection_does() {
    let mut desk = Desk::new();
    desk.serve("c", &numbers(0, 50_000));
    for _ in 0..4 {
        desk.client.ask("c", None).unwrap();
    }
    desk.until(|desk| desk.server.counters().columns == 1);
    let now = desk.rig.network.now;
    let nic = &mut desk.rig.network.nics[STORAGE];
    desk.rig.units[STORAGE].close(now, nic, CloseReason::UnitStops);
    desk.until(|desk| desk.answers.len() == 4);
    for answer in &desk.answers {
        match &answer.result {
            Err(RequestError::Closed(closed)) => {
                assert_eq!(
                    (closed.by, closed.reason),
                    (ClosedBy::Peer, CloseReason::UnitStops)
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(matches!(
        desk.client.ask("c", None),
        Err(AskError::Broken(_))
    ));
    // The storage unit lets go of the column though nobody destroys the connection.
    let removal = desk.catalogue.remove("c").unwrap();
    desk.until(|_| removal.is_done());
    drop(removal);
    desk.destroy();
}

#[test]
fn a_peer_that_vanishes_is_an_error() {
    let mut desk = Desk::new();
    desk.serve("c", &numbers(0, 50_000));
    desk.client.ask("c", None).unwrap();
    desk.until(|desk| desk.server.counters().columns == 1);
    desk.rig.network.dead = vec![STORAGE];
    desk.awake[STORAGE] = false;
    desk.until(|desk| desk.answers.len() == 1);
    let Err(RequestError::Closed(closed)) = &desk.answers[0].result else {
        panic!("not closed");
    };
    assert_eq!(closed.by, ClosedBy::Transport);
    desk.awake[STORAGE] = true;
    desk.until(|desk| desk.closed[STORAGE].is_some());
    let removal = desk.catalogue.remove("c").unwrap();
    desk.until(|_| removal.is_done());
    drop(removal);
    desk.destroy();
}

#[test]
fn messages_that_hold_no_refusal_are_no_use() {
    let config = crate::messaging::MessagingConfig {
        message_max: 1031,
        ..wide()
    };
    for asleep in [COMPUTE, STORAGE] {
        let (client, server) = Default::default();
        let mut desk = Desk::of(&config, 1, client, server);
        desk.awake[asleep] = false;
        desk.until(|desk| desk.closed[1 - asleep].is_some());
        let closed = desk.closed[1 - asleep].unwrap();
        assert_eq!(closed.reason, CloseReason::MessageTooLong);
        desk.destroy();
    }
}
