//! Real sockets on this machine, and a rack in this process.

mod nodes;
mod strangers;

use super::*;
use crate::EmbeddedRack;
use crate::RackConfig;
use rackweave_endpoint::messaging::handshake::{HandshakeError, Kind, RefusalCode};
use rackweave_wire::fabric::message::handshake::{Message, Refusal};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

const COMPUTE: NodeId = NodeId(2);
const STORAGE: NodeId = NodeId(0);

/// More than any test needs, on however slow a machine.
const AMPLE: Duration = Duration::from_secs(60);

fn any_port() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

fn rack() -> EmbeddedRack {
    EmbeddedRack::new(&RackConfig::default()).expect("the default can be built")
}

/// Small buffers: most tests need the connection, not its speed.
fn config() -> MessagingConfig {
    MessagingConfig {
        receive_buffers: 2,
        receive_bytes: 4096,
        message_max: 1 << 20,
        ..MessagingConfig::default()
    }
}

/// A listener with a timeout long enough for every peer.
fn listener(rack: &EmbeddedRack) -> Listener {
    let mut listener =
        Listener::bind(rack, STORAGE, any_port(), config()).expect("a free port is found");
    listener.set_patience(AMPLE);
    listener
}

fn dialing(rack: &EmbeddedRack, listener: &Listener) -> Dialing {
    let address = listener.local_addr();
    Dialing::start(rack, COMPUTE, address, config(), AMPLE).expect("it begins")
}

/// Polls both until the compute node has an end.
fn finish(
    listener: &mut Listener,
    dialing: &mut Dialing,
) -> Result<MessageConnection, ConnectError> {
    loop {
        listener.poll();
        if let Some(end) = dialing.poll() {
            return end;
        }
    }
}

/// Polls until a condition holds.
fn poll_until(listener: &mut Listener, mut done: impl FnMut(&mut Listener) -> bool) {
    while !done(listener) {
        listener.poll();
        std::thread::yield_now();
    }
}

/// Connects two nodes in this thread.
fn connect(rack: &EmbeddedRack, listener: &mut Listener) -> (MessageConnection, MessageConnection) {
    let mut dialing = dialing(rack, listener);
    let compute = finish(listener, &mut dialing).expect("nothing is in the way");
    let storage = listener.accept(AMPLE).expect("it is connected");
    (compute, storage)
}

/// Sends a message each way, and finishes.
fn check_traffic(compute: MessageConnection, storage: MessageConnection) {
    let (mut up, mut down_here) = compute.split();
    let (mut down, mut up_here) = storage.split();
    for (sender, receiver, text) in [
        (&mut up[0], &mut up_here[0], &b"which columns?"[..]),
        (&mut down[0], &mut down_here[0], &b"these"[..]),
    ] {
        sender.send(7, text).expect("it is open");
        let mut bytes = Vec::new();
        let info = receiver.receive(&mut bytes).expect("it is open");
        assert_eq!(info.expect("a message").opcode, 7);
        assert_eq!(bytes, text);
    }
}

/// All bytes that the other end of a stream sends, until its end.
fn hear(listener: &mut Listener, stream: &mut TcpStream) -> Vec<u8> {
    stream.set_nonblocking(true).expect("a stream");
    let mut heard = Vec::new();
    let mut ended = false;
    poll_until(listener, |_| {
        let mut bytes = [0; 256];
        match stream.read(&mut bytes) {
            Ok(0) => ended = true,
            Ok(len) => heard.extend_from_slice(&bytes[..len]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
        ended
    });
    heard
}

/// The refusal that the other end of a stream sends, which must be all that it sends.
fn hear_refusal(listener: &mut Listener, stream: &mut TcpStream) -> Refusal {
    let heard = hear(listener, stream);
    match Message::take(&heard) {
        Ok(Some((Message::Refuse { refusal, .. }, len))) if len == heard.len() => refusal,
        other => panic!("{other:?}"),
    }
}
