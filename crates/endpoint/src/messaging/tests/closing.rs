//! Connections that end, and peers that die.

use super::rig::{COMPUTE, Rig, STORAGE, small};
use crate::messaging::{Arrived, CloseReason, Closed, ClosedBy, SendError};
use rackweave_base::Duration;

fn closed(by: ClosedBy, reason: CloseReason) -> Option<Closed> {
    Some(Closed { by, reason })
}

#[test]
fn the_peer_is_told_why() {
    let mut rig = Rig::new(&small());
    rig.fill(&[1; 900]);
    rig.run(Duration::from_millis(1));
    let (now, nic) = (rig.network.now, &mut rig.network.nics[COMPUTE]);
    rig.nodes[COMPUTE].close(now, nic, CloseReason::NodeStops);
    rig.run(Duration::from_millis(1));
    let [here, there] = rig.closed();
    assert_eq!(here, closed(ClosedBy::Local, CloseReason::NodeStops));
    assert_eq!(there, closed(ClosedBy::Peer, CloseReason::NodeStops));
    assert!(rig.nodes[COMPUTE].is_settled());
    let refused = rig.sender().try_send(1, b"more");
    assert_eq!(refused, Err(SendError::Closed(here.unwrap())));
    // What had arrived is still available.
    let mut target = Vec::new();
    for _ in 0..3 {
        assert!(rig.receiver().receive_into(&mut target).unwrap().is_some());
    }
    assert_eq!(target, [1; 2700]);
    assert_eq!(
        rig.receiver().receive_into(&mut target),
        Err(there.unwrap())
    );
    assert_eq!(rig.receiver().peek(), Err(there.unwrap()));
    rig.destroy();
}

/// The compute node closes after it has sent and received everything, and before it reports that it
/// has released the last package. The end of its own channel at the peer has been destroyed by
/// then.
#[test]
fn the_peer_is_told_by_a_channel_that_it_still_has() {
    let mut rig = Rig::new(&small());
    rig.sender().finish().unwrap();
    rig.run(Duration::from_millis(1));
    assert_eq!(rig.receiver().peek(), Ok(Arrived::Finished));
    rig.run(Duration::from_millis(1));
    assert!(rig.sender().is_consumed() && rig.receiver().is_settled());
    let over = rig.nodes[STORAGE].receivers.remove(0);
    over.destroy(&mut rig.network.nics[STORAGE]);
    rig.nodes[STORAGE].senders[0]
        .try_send(1, b"the last")
        .unwrap();
    rig.nodes[STORAGE].senders[0].finish().unwrap();
    rig.run(Duration::from_millis(1));
    let last = &mut rig.nodes[COMPUTE].receivers[0];
    assert!(last.receive_into(&mut Vec::new()).unwrap().is_some());
    assert_eq!(last.peek(), Ok(Arrived::Finished));
    let (now, nic) = (rig.network.now, &mut rig.network.nics[COMPUTE]);
    rig.nodes[COMPUTE].senders[0].close(now, nic, CloseReason::Normal);
    assert!(!rig.nodes[COMPUTE].is_settled(), "nobody has told the peer");
    rig.run(Duration::from_millis(1));
    assert!(rig.nodes[COMPUTE].is_settled());
    let [_, there] = rig.closed();
    assert_eq!(there, closed(ClosedBy::Peer, CloseReason::Normal));
}

#[test]
fn the_first_reason_holds() {
    let mut rig = Rig::new(&small());
    let now = rig.network.now;
    for reason in [CloseReason::BadMessage, CloseReason::Normal] {
        rig.nodes[STORAGE].close(now, &mut rig.network.nics[STORAGE], reason);
    }
    rig.run(Duration::from_millis(1));
    let expect = [
        closed(ClosedBy::Peer, CloseReason::BadMessage),
        closed(ClosedBy::Local, CloseReason::BadMessage),
    ];
    assert_eq!(rig.closed(), expect);
}

#[test]
fn a_peer_that_dies_is_noticed_by_all_who_wait() {
    let broken = closed(ClosedBy::Transport, CloseReason::TransportBroken);
    for dead in [COMPUTE, STORAGE] {
        let mut rig = Rig::new(&small());
        rig.sender().try_send(1, b"something").unwrap();
        rig.run(Duration::from_millis(1));
        rig.network.dead.push(dead);
        rig.run(Duration::from_millis(100));
        assert_eq!(rig.closed()[1 - dead], broken, "node {dead} died");
        if dead == COMPUTE {
            let Ok(Arrived::Piece(piece)) = rig.receiver().peek() else {
                panic!("it had arrived");
            };
            assert_eq!(piece.bytes, *b"something");
        }
    }
}

#[test]
fn a_node_that_forgets_the_connection_is_noticed() {
    let mut rig = Rig::new(&small());
    rig.run(Duration::from_millis(1));
    // Another connection in place of the storage node's; the peer does not know its queue pairs.
    let other = Rig::new(&small());
    let [_, strange] = other.nodes;
    let gone = core::mem::replace(&mut rig.nodes[STORAGE], strange);
    gone.destroy(&mut rig.network.nics[STORAGE]);
    for _ in 0..1000 {
        let now = rig.network.now;
        let _ = rig.nodes[COMPUTE].poll(now, &mut rig.network.nics[COMPUTE]);
        let timers = rig.nodes[COMPUTE].poll_timeout();
        let limit = now + Duration::from_millis(10);
        rig.network.advance(limit, timers.into_iter());
    }
    let broken = closed(ClosedBy::Transport, CloseReason::TransportBroken);
    assert_eq!(rig.closed()[COMPUTE], broken);
}
