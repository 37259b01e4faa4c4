//! Messages between nodes.

use super::AMPLE;
use rackweave_endpoint::messaging::MessagingConfig;
use rackweave_rack::Rack;
use rackweave_rack::messaging::{Dialing, Listener, MessageConnection};

/// Rounds of messages in which links with faults have one.
const MOST: usize = 100;

/// The compute node's end and the storage node's, each on its own rack.
pub fn connect(storage: &Rack, compute: &Rack) -> (MessageConnection, MessageConnection) {
    let config = MessagingConfig {
        message_max: 1 << 20,
        ..MessagingConfig::default()
    };
    let at = storage.node("storage0").expect("it is here");
    let address = ([127, 0, 0, 1], 0).into();
    let mut listener = Listener::bind(storage, &at, address, config.clone()).expect("a free port");
    listener.set_patience(AMPLE);
    let from = compute.node("compute0").expect("it is here");
    let dialing = Dialing::start(compute, &from, listener.local_addr(), config, AMPLE);
    let connected = listener.connect(dialing.expect("it begins"));
    connected.expect("both are of this rack")
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 + len) as u8).collect()
}

/// Messages of many lengths, both ways.
pub fn between(storage: &Rack, compute: &Rack) {
    let (dialed, accepted) = connect(storage, compute);
    let ((mut up, mut downs), (mut down, mut ups)) = (dialed.split(), accepted.split());
    let mut came = Vec::new();
    for (opcode, len) in [0, 1, 64, 4096, 100_000].into_iter().enumerate() {
        let sent = bytes(len);
        for (sender, receiver) in [(&mut up[0], &mut ups[0]), (&mut down[0], &mut downs[0])] {
            assert_eq!(sender.send(opcode as u32, &sent), Ok(()));
            came.clear();
            let info = receiver.receive(&mut came).expect("it is open");
            let info = info.expect("a message comes");
            assert_eq!((info.opcode, info.length), (opcode as u32, len as u64));
            assert_eq!(came, sent);
        }
    }
}

pub fn they_come_once_whole_and_in_order(rack: &Rack) {
    between(rack, rack);
}

/// Messages until a fault was met.
pub fn they_come_in_spite_of_faults(rack: &Rack) {
    let retries = || -> u64 {
        let nodes = rack.statistics().nodes;
        let of = nodes
            .iter()
            .map(|node| node.counters.get("completer_retry_err"));
        of.flatten().sum()
    };
    for _ in 0..MOST {
        between(rack, rack);
        if retries() > 0 {
            return;
        }
    }
    panic!("no packet had to be sent again");
}

pub fn an_end_that_goes_is_told_of(rack: &Rack) {
    let (dialed, accepted) = connect(rack, rack);
    let (_kept, mut ups) = accepted.split();
    drop(dialed);
    let closed = ups[0].receive(&mut Vec::new());
    assert!(closed.is_err(), "the peer has gone: {closed:?}");
}
