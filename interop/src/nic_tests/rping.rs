//! Connections by the connection manager: our NIC with `rping` of rdma-core, on either side, and
//! refusals both ways.
//!
//! In each round of rping the client names a buffer by a SEND; the server READs it and says so by a
//! SEND; the client names another buffer; the server WRITEs the same bytes there and says so. The
//! client compares.

use super::our_nic::OurNic;
use crate::driver::wait_for;
use crate::failure::{Failure, FailureContext, Outcome, expect, expect_eq};
use crate::guest_node::GuestNode;
use crate::pattern::pattern;
use crate::suite::Suite;
use rackweave_base::{Qpn, Rkey};
use rackweave_verbs::{
    Access, CompletionStatus, ConnectAttributes, ConnectionEvent, ConnectionId, ConnectionManager,
    CqId, Mtu, Operation, QpCapabilities, ReceiveRequest, Region, WorkRequest,
};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

const PORT: u16 = 7174;
const ROUNDS: u32 = 20;

/// Bytes of a round: several packets, the last one with pad bytes.
const LEN: u32 = 9001;

/// Bytes of the messages that name a buffer: address, key and length.
const INFO_LEN: u32 = 16;

/// Where our region has the message received, the one to be sent, and the two buffers.
const RECEIVED: u64 = 0;
const SENT: u64 = 64;
const FIRST: u64 = 4096;
const SECOND: u64 = 4096 + 16384;
const REGION_LEN: usize = 4096 + 2 * 16384;

/// How long an event may take: the guest is emulated.
const PATIENCE: Duration = Duration::from_secs(30);

/// Our NIC and a guest.
pub struct Peers<'a> {
    /// Our NIC.
    pub nic: &'a dyn OurNic,
    /// The guest.
    pub node: &'a mut GuestNode,
    /// The guest's address.
    pub address: Ipv4Addr,
    /// The path MTU.
    pub mtu: Mtu,
}

/// Our end of rping.
struct Ping<'a> {
    nic: &'a dyn OurNic,
    region: Region,
    cq: CqId,
    qpn: Qpn,
}

/// A buffer of the peer.
struct Buffer {
    address: u64,
    rkey: Rkey,
    length: u32,
}

impl<'a> Ping<'a> {
    fn make(nic: &'a dyn OurNic) -> Outcome<Self> {
        let region = nic.region(REGION_LEN, Access::all())?;
        let (cq, qpn) = nic.queue_pair(QpCapabilities::default())?;
        Ok(Self {
            nic,
            region,
            cq,
            qpn,
        })
    }

    /// Posts the receive for a message of the peer, in any state but Reset.
    fn receive(&self) -> Outcome {
        let segments = [self.region.segment(RECEIVED, INFO_LEN)];
        let request = ReceiveRequest::new(0, &segments);
        let posted = self.nic.with(|verbs| verbs.post_receive(self.qpn, request));
        posted.map_err(|error| Failure::refused("our receive", error))
    }

    /// Waits for a message of the peer, and receives the next one.
    fn buffer(&self) -> Outcome<Buffer> {
        let received = self.completion()?;
        expect_eq("the length of a message", received, INFO_LEN)?;
        let mut bytes = [0; INFO_LEN as usize];
        self.region.block.read(RECEIVED as usize, &mut bytes);
        self.receive()?;
        let [address, rest] = [0, 8].map(|at| *bytes[at..].first_chunk::<8>().expect("16 bytes"));
        let rest = u64::from_be_bytes(rest);
        Ok(Buffer {
            address: u64::from_be_bytes(address),
            rkey: Rkey((rest >> 32) as u32),
            length: rest as u32,
        })
    }

    /// Sends a message that names one of our buffers.
    fn tell(&self, at: u64, length: u32) -> Outcome {
        let mut bytes = [0; INFO_LEN as usize];
        bytes[..8].copy_from_slice(&(self.region.address + at).to_be_bytes());
        bytes[8..12].copy_from_slice(&self.region.rkey.0.to_be_bytes());
        bytes[12..].copy_from_slice(&length.to_be_bytes());
        self.region.block.write(SENT as usize, &bytes);
        self.post(Operation::Send { immediate: None }, SENT, INFO_LEN)
    }

    /// Posts a request; only failures complete.
    fn post(&self, operation: Operation, at: u64, len: u32) -> Outcome {
        let mut request = WorkRequest::new(1, operation, &[self.region.segment(at, len)]);
        request.signaled = matches!(operation, Operation::Read { .. });
        let posted = self.nic.with(|verbs| verbs.post_send(self.qpn, request));
        posted.map_err(|error| Failure::refused("our request", error))
    }

    /// The length of the next completion, which must be a success.
    fn completion(&self) -> Outcome<u32> {
        let mut found = Vec::new();
        let poll = || {
            self.nic.with(|verbs| verbs.poll_cq(self.cq, 1, &mut found));
            found.pop()
        };
        let done = wait_for(PATIENCE, poll);
        let done = done.ok_or_else(|| Failure::Timeout("a completion at our end".to_owned()))?;
        expect_eq("the status", done.status, CompletionStatus::Success)?;
        Ok(done.length)
    }

    /// One round as the server.
    fn serve(&self) -> Outcome {
        let Buffer {
            address,
            rkey,
            length,
        } = self.buffer().at("the source")?;
        expect_eq("the bytes of a round", length, LEN)?;
        self.post(Operation::Read { address, rkey }, FIRST, length)?;
        self.completion().at("the READ")?;
        self.tell(FIRST, 0)?;
        let Buffer { address, rkey, .. } = self.buffer().at("the target")?;
        let write = Operation::Write {
            address,
            rkey,
            immediate: None,
        };
        self.post(write, FIRST, length)?;
        self.tell(FIRST, 0)
    }

    /// One round as the client.
    fn ask(&self, seed: u64) -> Outcome {
        // The server takes it for a text of C, and the pattern has no zeros.
        let mut bytes = pattern(seed, LEN as usize).to_vec();
        bytes[LEN as usize - 1] = 0;
        self.region.block.write(FIRST as usize, &bytes);
        self.region
            .block
            .write(SECOND as usize, &vec![0; LEN as usize]);
        self.tell(FIRST, LEN)?;
        self.buffer().at("the server has read")?;
        self.tell(SECOND, LEN)?;
        self.buffer().at("the server has written")?;
        let mut back = vec![0; LEN as usize];
        self.region.block.read(SECOND as usize, &mut back);
        expect(back == bytes, || "other bytes came back".to_owned())
    }
}

impl Drop for Ping<'_> {
    fn drop(&mut self) {
        self.nic.with(|verbs| {
            verbs.destroy_qp(self.qpn).expect("made by `make`");
            verbs.destroy_cq(self.cq).expect("its queue pair is gone");
            verbs.deregister(&self.region);
        });
    }
}

fn attributes(mtu: Mtu) -> ConnectAttributes {
    ConnectAttributes {
        access: Access::REMOTE_READ | Access::REMOTE_WRITE,
        mtu,
        timeout: rackweave_base::Duration::from_secs(1),
        ..ConnectAttributes::default()
    }
}

fn manage<R>(nic: &dyn OurNic, act: impl FnOnce(&mut dyn ConnectionManager) -> R) -> R {
    nic.with(|verbs| {
        act(verbs
            .connections()
            .expect("our NIC has a connection manager"))
    })
}

/// The next event of a connection.
fn event(nic: &dyn OurNic, what: &str) -> Outcome<ConnectionEvent> {
    wait_for(PATIENCE, || {
        manage(nic, |manager| manager.poll_connection())
    })
    .ok_or_else(|| Failure::Timeout(what.to_owned()))
}

fn unexpected<T>(event: &ConnectionEvent) -> Outcome<T> {
    Err(Failure::Wrong(format!("unexpected: {event:?}")))
}

fn established(nic: &dyn OurNic) -> Outcome<ConnectionId> {
    match event(nic, "the connection")? {
        ConnectionEvent::Established { id, .. } => Ok(id),
        other => unexpected(&other),
    }
}

fn ended(nic: &dyn OurNic) -> Outcome {
    match event(nic, "the end of the connection")? {
        ConnectionEvent::Disconnected { .. } => {}
        other => return unexpected(&other),
    }
    match event(nic, "the connection to be forgotten")? {
        ConnectionEvent::Closed { .. } => Ok(()),
        other => unexpected(&other),
    }
}

/// The output of a program in the guest, which must have succeeded.
fn output(node: &mut GuestNode, job: u64) -> Outcome<String> {
    let ended = node.ask(&format!("wait {job} 30"))?;
    let text = ended.words("output")?;
    match ended.number("status")? {
        0 => Ok(text),
        status => Err(Failure::Wrong(format!("rping ended with {status}: {text}"))),
    }
}

/// Runs all of them; `label` distinguishes our NICs.
pub fn run(suite: &mut Suite, label: &str, peers: &mut Peers<'_>) {
    let name = |test| format!("{label} connects: {test}");
    suite.run(&name("rping's client to ours"), || serves(peers));
    suite.run(&name("ours to rping's server"), || asks(peers));
    suite.run(&name("refused both ways"), || refused(peers));
}

/// rping's client connects to our server.
fn serves(peers: &mut Peers<'_>) -> Outcome {
    let nic = peers.nic;
    let listens = manage(nic, |manager| manager.listen(PORT, 4));
    listens.map_err(|error| Failure::refused("listening", error))?;
    let rping = format!(
        "spawn rping -c -V -a {} -p {PORT} -C {ROUNDS} -S {LEN}",
        nic.ip()
    );
    let job = peers.node.ask(&rping)?.number("job")?;
    let request = event(nic, "a request")?;
    let ConnectionEvent::Requested { id, from, .. } = request else {
        return unexpected(&request);
    };
    expect_eq("the client", *from.ip(), peers.address)?;
    let ping = Ping::make(nic)?;
    let accepted = manage(nic, |manager| {
        manager.accept(id, ping.qpn, &attributes(peers.mtu), &[])
    });
    accepted.map_err(|error| Failure::refused("accepting", error))?;
    // Before it is there, the client's first message waits.
    ping.receive()?;
    established(nic)?;
    for round in 0..ROUNDS {
        ping.serve().at(format!("round {round}"))?;
    }
    ended(nic)?;
    manage(nic, |manager| manager.unlisten(PORT));
    output(peers.node, job).map(drop)
}

/// Our client connects to rping's server.
fn asks(peers: &mut Peers<'_>) -> Outcome {
    let nic = peers.nic;
    let to = SocketAddrV4::new(peers.address, PORT);
    let rping = format!("spawn rping -s -V -P -a {} -p {PORT} -S {LEN}", to.ip());
    let job = peers.node.ask(&rping)?.number("job")?;
    for connection in 0..2 {
        let place = format!("connection {connection}");
        one_client(nic, to, peers.mtu).at(place)?;
    }
    // The persistent server goes on until it is killed.
    peers.node.ask(&format!("kill {job}")).map(drop)
}

fn one_client(nic: &dyn OurNic, to: SocketAddrV4, mtu: Mtu) -> Outcome {
    let ping = Ping::make(nic)?;
    let connect = || {
        manage(nic, |manager| {
            manager.connect(ping.qpn, to, &attributes(mtu), &[])
        })
    };
    // The server may not listen yet.
    let connected = wait_for(PATIENCE, || {
        connect().ok()?;
        match event(nic, "an answer") {
            Ok(ConnectionEvent::Established { id, .. }) => Some(id),
            _ => {
                std::thread::sleep(Duration::from_millis(50));
                None
            }
        }
    });
    let id = connected.ok_or_else(|| Failure::Timeout("rping's server".to_owned()))?;
    ping.receive()?;
    for round in 0..ROUNDS {
        ping.ask(round.into()).at(format!("round {round}"))?;
    }
    let ends = manage(nic, |manager| manager.disconnect(id));
    ends.map_err(|error| Failure::refused("disconnecting", error))?;
    ended(nic)
}

/// Connections to where nobody listens are refused, in both directions, and say so.
fn refused(peers: &mut Peers<'_>) -> Outcome {
    let nic = peers.nic;
    let ping = Ping::make(nic)?;
    let to = SocketAddrV4::new(peers.address, PORT + 1);
    let connects = manage(nic, |manager| {
        manager.connect(ping.qpn, to, &attributes(peers.mtu), &[])
    });
    connects.map_err(|error| Failure::refused("connecting", error))?;
    match event(nic, "a refusal")? {
        ConnectionEvent::Rejected { text, .. } => {
            expect_eq("the reason", &*text, "nobody listens there (reason 8)")?;
        }
        other => return unexpected(&other),
    }
    let rping = format!("spawn rping -c -a {} -p {}", nic.ip(), PORT + 1);
    let job = peers.node.ask(&rping)?.number("job")?;
    let ended = peers.node.ask(&format!("wait {job} 30"))?;
    let text = ended.words("output")?;
    expect(
        ended.number("status")? != 0 && text.contains("REJECTED"),
        || format!("rping should be refused: {text}"),
    )
}
