//! Requests whose reply follows later.

use super::rig::{DEFER, ECHO, Rig, SERVER, small_client, small_server};
use crate::rpc::ClientConfig;
use rackweave_base::Duration;

fn results(rig: &mut Rig) -> Vec<Vec<u8>> {
    let ends = core::mem::take(&mut rig.clients[0].ends);
    ends.into_iter().map(|end| end.result.unwrap()).collect()
}

#[test]
fn a_deferred_reply_comes_later_and_in_order() {
    let mut rig = Rig::pair(small_client(), small_server());
    rig.begin(DEFER, b"first").unwrap();
    rig.begin(ECHO, b"abc").unwrap();
    rig.begin(DEFER, b"second").unwrap();
    rig.settle();
    assert_eq!(results(&mut rig), [b"cba"]);
    assert_eq!(rig.server().counters().deferred, 2);
    assert!(rig.recorder.resumed > 0);
    // A message without calls is sent to nobody who does not ask for it.
    assert_eq!(rig.clients[0].client.counters().messages_received, 1);
    rig.recorder.answers = true;
    rig.settle();
    assert_eq!(results(&mut rig), [&b"first"[..], b"second"]);
    let resumed = rig.recorder.resumed;
    rig.settle();
    assert_eq!(rig.recorder.resumed, resumed, "nothing is left to continue");
    assert_eq!(rig.call(ECHO, b"xy").unwrap(), b"yx");
}

#[test]
fn a_probe_is_answered_while_replies_are_deferred() {
    let config = ClientConfig {
        timeout: Duration::from_micros(500),
        ..small_client()
    };
    let mut rig = Rig::pair(config, small_server());
    rig.begin(DEFER, b"late").unwrap();
    rig.run_for(Duration::from_millis(3));
    assert!(rig.clients[0].ends[0].result.is_err(), "it has timed out");
    assert!(!rig.clients[0].client.is_broken(), "the server is alive");
    assert_eq!(rig.clients[0].client.counters().probes, 1);
}

#[test]
fn nothing_is_continued_for_a_client_that_has_left() {
    for closed in [false, true] {
        let mut rig = Rig::pair(small_client(), small_server());
        rig.begin(DEFER, b"never").unwrap();
        rig.settle();
        if closed {
            // The server closes the connection.
            let far = rig.accepted[0];
            let nic = &mut rig.network.nics[SERVER];
            assert!(rig.server.as_mut().unwrap().remove(nic, far));
            rig.settle();
        } else {
            rig.network.dead.push(1);
            rig.recorder.answers = true;
            rig.settle();
        }
        assert_eq!(rig.recorder.left, [0]);
        let resumed = rig.recorder.resumed;
        rig.recorder.answers = true;
        rig.settle();
        assert_eq!(rig.recorder.resumed, resumed);
    }
}

#[test]
fn a_client_that_only_defers_is_read_up_to_a_bound() {
    let mut rig = Rig::pair(
        ClientConfig {
            window: 512,
            ..small_client()
        },
        small_server(),
    );
    let mut begun = 0;
    // A reply in every message, so that the server grants more of them.
    while begun < 500 && rig.begin(DEFER, &[7; 900]).is_ok() && rig.begin(ECHO, b"x").is_ok() {
        begun += 2;
        rig.settle();
    }
    let held = rig.server().counters().messages_held;
    assert!(held > 0, "{begun} requests are not too many");
    let served = rig.recorder.deferred.len();
    assert!(
        served <= 40,
        "{served} deferred requests in 9 buffers of 3 kB"
    );
    rig.recorder.answers = true;
    rig.settle();
    assert_eq!(
        rig.clients[0].ends.len(),
        begun + rig.clients[0].client.under_way()
    );
}
