//! Connections by the connection manager: our NIC with `rping` of rdma-core, on either side, and
//! refusals both ways.
//!
//! In each round of rping the client names a buffer by a SEND; the server READs it and says so by a
//! SEND; the client names another buffer; the server WRITEs the same bytes there and says so. The
//! client compares.

use super::Bench;
use super::host::Host;
use super::our_nic::OurNic;
use crate::driver::wait_for;
use crate::failure::{Failure, FailureContext, Outcome, expect, expect_eq};
use crate::guest;
use crate::guest_node::GuestNode;
use crate::pattern::pattern;
use rackweave_base::{Qpn, Rkey};
use rackweave_verbs::{
    Access, CompletionStatus, ConnectAttributes, ConnectionEvent, ConnectionId, ConnectionManager,
    CqId, Mtu, Operation, QpCapabilities, ReceiveRequest, Region, Verbs, WorkRequest,
};
use std::net::SocketAddrV4;
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

/// Our end of rping.
struct Ping<'a> {
    host: &'a Host,
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
    fn make(host: &'a Host) -> Outcome<Self> {
        let nic: &dyn OurNic = host;
        let region = nic.region(REGION_LEN, Access::all())?;
        let (cq, qpn) = nic.with(|verbs| {
            let cq = verbs.create_cq(64);
            let cq = cq.map_err(|error| Failure::refused("our completion queue", error))?;
            let qpn = verbs.create_qp(nic.pd(), cq, cq, QpCapabilities::default());
            let qpn = qpn.map_err(|error| Failure::refused("our queue pair", error))?;
            Ok((cq, qpn))
        })?;
        Ok(Self {
            host,
            region,
            cq,
            qpn,
        })
    }

    /// Posts the receive for a message of the peer, in any state but Reset.
    fn receive(&self) -> Outcome {
        let segments = [self.region.segment(RECEIVED, INFO_LEN)];
        let request = ReceiveRequest::new(0, &segments);
        let posted = self
            .host
            .with(|node| node.nic.post_receive(self.qpn, request));
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
        let posted = self.host.with(|node| node.nic.post_send(self.qpn, request));
        posted.map_err(|error| Failure::refused("our request", error))
    }

    /// The length of the next completion, which must be a success.
    fn completion(&self) -> Outcome<u32> {
        let mut found = Vec::new();
        let poll = || {
            self.host
                .with(|node| node.nic.poll_cq(self.cq, 1, &mut found));
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
        self.host.with(|node| {
            node.nic.destroy_qp(self.qpn).expect("made by `make`");
            node.nic
                .destroy_cq(self.cq)
                .expect("its queue pair is gone");
            node.nic.deregister(&self.region);
        });
    }
}

fn attributes() -> ConnectAttributes {
    ConnectAttributes {
        access: Access::REMOTE_READ | Access::REMOTE_WRITE,
        mtu: Mtu::B4096,
        timeout: rackweave_base::Duration::from_secs(1),
        ..ConnectAttributes::default()
    }
}

/// The next event of a connection.
fn event(host: &Host, what: &str) -> Outcome<ConnectionEvent> {
    wait_for(PATIENCE, || host.with(|node| node.nic.poll_connection()))
        .ok_or_else(|| Failure::Timeout(what.to_owned()))
}

fn unexpected<T>(event: &ConnectionEvent) -> Outcome<T> {
    Err(Failure::Wrong(format!("unexpected: {event:?}")))
}

fn established(host: &Host) -> Outcome<ConnectionId> {
    match event(host, "the connection")? {
        ConnectionEvent::Established { id, .. } => Ok(id),
        other => unexpected(&other),
    }
}

fn ended(host: &Host) -> Outcome {
    match event(host, "the end of the connection")? {
        ConnectionEvent::Disconnected { .. } => {}
        other => return unexpected(&other),
    }
    match event(host, "the connection to be forgotten")? {
        ConnectionEvent::Closed { .. } => Ok(()),
        other => unexpected(&other),
    }
}

/// The output of a program in the guest, which must have succeeded.
fn output(node: &mut GuestNode, job: u64) -> Outcome<String> {
    let ended = node.ask(&format!("wait {job} 30"))?;
    let text = ended
        .value("output")?
        .replace("%20", " ")
        .replace("%0a", "\n");
    match ended.number("status")? {
        0 => Ok(text),
        status => Err(Failure::Wrong(format!("rping ended with {status}: {text}"))),
    }
}

/// rping's client connects to our server.
pub fn serves(bench: &mut Bench<'_>) -> Outcome {
    let host = bench.host;
    let listens = host.with(|node| node.nic.listen(PORT, 4));
    listens.map_err(|error| Failure::refused("listening", error))?;
    let rping = format!(
        "spawn rping -c -V -a {} -p {PORT} -C {ROUNDS} -S {LEN}",
        host.ip()
    );
    let job = bench.node.ask(&rping)?.number("job")?;
    let request = event(host, "a request")?;
    let ConnectionEvent::Requested { id, from, .. } = request else {
        return unexpected(&request);
    };
    expect_eq("the client", *from.ip(), guest::ip(bench.node.guest()))?;
    let ping = Ping::make(host)?;
    let accepted = host.with(|node| node.nic.accept(id, ping.qpn, &attributes(), &[]));
    accepted.map_err(|error| Failure::refused("accepting", error))?;
    // Before it is there, the client's first message waits.
    ping.receive()?;
    established(host)?;
    for round in 0..ROUNDS {
        ping.serve().at(format!("round {round}"))?;
    }
    ended(host)?;
    host.with(|node| node.nic.unlisten(PORT));
    output(bench.node, job).map(drop)
}

/// Our client connects to rping's server.
pub fn asks(bench: &mut Bench<'_>) -> Outcome {
    let host = bench.host;
    let to = SocketAddrV4::new(guest::ip(bench.node.guest()), PORT);
    let rping = format!("spawn rping -s -V -P -a {} -p {PORT} -S {LEN}", to.ip());
    let job = bench.node.ask(&rping)?.number("job")?;
    for connection in 0..2 {
        let place = format!("connection {connection}");
        one_client(host, to).at(place)?;
    }
    // The persistent server goes on until it is killed.
    bench.node.ask(&format!("kill {job}")).map(drop)
}

fn one_client(host: &Host, to: SocketAddrV4) -> Outcome {
    let ping = Ping::make(host)?;
    let connect = || host.with(|node| node.nic.connect(ping.qpn, to, &attributes(), &[]));
    // The server may not listen yet.
    let connected = wait_for(PATIENCE, || {
        connect().ok()?;
        match event(host, "an answer") {
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
    let ends = host.with(|node| node.nic.disconnect(id));
    ends.map_err(|error| Failure::refused("disconnecting", error))?;
    ended(host)
}

/// Connections to where nobody listens are refused, in both directions, and say so.
pub fn refused(bench: &mut Bench<'_>) -> Outcome {
    let host = bench.host;
    let ping = Ping::make(host)?;
    let to = SocketAddrV4::new(guest::ip(bench.node.guest()), PORT + 1);
    let connects = host.with(|node| node.nic.connect(ping.qpn, to, &attributes(), &[]));
    connects.map_err(|error| Failure::refused("connecting", error))?;
    match event(host, "a refusal")? {
        ConnectionEvent::Rejected { text, .. } => {
            expect_eq("the reason", &*text, "nobody listens there (reason 8)")?;
        }
        other => return unexpected(&other),
    }
    let rping = format!("spawn rping -c -a {} -p {}", host.ip(), PORT + 1);
    let job = bench.node.ask(&rping)?.number("job")?;
    let ended = bench.node.ask(&format!("wait {job} 30"))?;
    let text = ended.value("output")?;
    expect(
        ended.number("status")? != 0 && text.contains("REJECTED"),
        || format!("rping should be refused: {text}"),
    )
}
