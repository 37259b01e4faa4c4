//! The two ends of a connection: a queue pair of this project's NIC, and one of the guest's.

use super::connection::{Action, Done, REGION_LEN, Remote, Setup};
use super::our_nic::OurNic;
use crate::driver::wait_for;
use crate::failure::{Failure, Outcome, expect};
use crate::guest::gid;
use crate::guest_node::{GuestNode, letters};
use crate::pattern::{GUARD, pattern};
use rackweave_base::{Duration, Psn, Qpn, Rkey};
use rackweave_controller::connect::PairAttributes;
use rackweave_verbs::{
    CompletionOpcode, CompletionStatus, CqId, Operation, QpCapabilities, QpState, ReceiveRequest,
    Region, WorkRequest,
};
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

/// Number of requests that either queue of a queue pair holds.
const QUEUE: u32 = 64;

/// READs and atomics in flight, in either direction.
const READS: u8 = 4;

/// The guest's timeout, 4.096 µs × 2^18: emulation is slow, and shorter ones expire without a loss.
const GUEST_TIMEOUT: u8 = 18;

/// How long a requester waits after a receiver-not-ready: in the specification's code for 10.24 ms,
/// and as a time.
const RNR_CODE: u8 = 20;
const RNR_WAIT: Duration = Duration::from_micros(10_240);

/// This project's end.
pub struct Ours<'a> {
    nic: &'a dyn OurNic,
    region: Region,
    cq: CqId,
    qpn: Qpn,
    posted: u64,
}

/// The guest's end.
pub struct Theirs<'a> {
    node: &'a mut GuestNode,
    region: u64,
    remote: Remote,
    qpn: u64,
}

impl<'a> Ours<'a> {
    /// Creates a queue pair and a region.
    pub fn make(nic: &'a dyn OurNic, setup: &Setup) -> Outcome<Self> {
        let region = nic.region(REGION_LEN as usize, setup.region)?;
        let capabilities = QpCapabilities {
            send_max: QUEUE,
            receive_max: QUEUE,
            segments_max: 1,
        };
        let (cq, qpn) = nic.queue_pair(capabilities)?;
        Ok(Self {
            nic,
            region,
            cq,
            qpn,
            posted: 0,
        })
    }

    /// From Reset to ReadyToSend.
    pub fn connect(&self, setup: &Setup, theirs: &Theirs<'_>, psn: u32, peer_psn: u32) -> Outcome {
        let attributes = PairAttributes {
            mtu: setup.mtu,
            access: setup.qp,
            reads_in_flight_max: READS,
            timeout: setup.timeout,
            retries: 7,
            rnr_retries: setup.rnr_retries,
            rnr_wait: RNR_WAIT,
        };
        let own = (self.qpn, Psn::new(psn));
        let peer = (Qpn(theirs.qpn as u32), Psn::new(peer_psn));
        self.nic
            .connect(own, theirs.node.guest(), peer, &attributes)
    }

    /// The address of this NIC.
    pub fn ip(&self) -> Ipv4Addr {
        self.nic.ip()
    }

    /// The number of this queue pair.
    pub fn qpn(&self) -> Qpn {
        self.qpn
    }

    /// This region, in the form that the guest's requests use.
    pub fn remote(&self) -> Remote {
        Remote {
            address: self.region.address,
            rkey: self.region.rkey.0,
        }
    }

    /// See [`super::connection::Connection::fill`].
    pub fn fill(&self, offset: u64, len: u32, seed: u64) {
        let bytes = pattern(seed, len as usize);
        self.region.block.write(offset as usize, bytes);
    }

    /// See [`super::connection::Connection::mark`].
    pub fn mark(&self, offset: u64, len: u32) {
        let guards = vec![GUARD; len as usize + 16];
        self.region.block.write(offset as usize - 8, &guards);
    }

    /// See [`super::connection::Connection::expect`].
    pub fn expect(&self, offset: u64, len: u32, seed: u64) -> Outcome {
        let mut found = vec![0; len as usize + 16];
        self.region.block.read(offset as usize - 8, &mut found);
        let (before, rest) = found.split_at(8);
        let (found, after) = rest.split_at(len as usize);
        let expected = pattern(seed, len as usize);
        if let Some(at) = (0..expected.len()).find(|&at| found[at] != expected[at]) {
            let (is, not) = (found[at], expected[at]);
            return Err(Failure::Wrong(format!(
                "byte {at} of {len} at our end is {is:#x}, not {not:#x}"
            )));
        }
        let whole = before.iter().chain(after).all(|&byte| byte == GUARD);
        expect(whole, || {
            format!("bytes around the {len} expected at our end were overwritten")
        })
    }

    /// The word at `offset`.
    pub fn load(&self, offset: u64) -> u64 {
        let word = self.region.block.word(offset as usize);
        word.load(Ordering::Acquire)
    }

    /// Sets the word at `offset`.
    pub fn store(&self, offset: u64, word: u64) {
        let place = self.region.block.word(offset as usize);
        place.store(word, Ordering::Release);
    }

    /// Posts a request.
    pub fn post(&mut self, action: Action, offset: u64, len: u32, remote: Remote) -> Outcome {
        let (address, rkey) = (remote.address, Rkey(remote.rkey));
        let operation = match action {
            Action::Send(immediate) => Operation::Send { immediate },
            Action::Write(immediate) => Operation::Write {
                address,
                rkey,
                immediate,
            },
            Action::Read => Operation::Read { address, rkey },
            Action::FetchAdd(add) => Operation::FetchAdd { address, rkey, add },
            Action::CompareSwap(compare, swap) => Operation::CompareSwap {
                address,
                rkey,
                compare,
                swap,
            },
        };
        self.posted += 1;
        let segments = [self.region.segment(offset, len)];
        let request = WorkRequest::new(self.posted, operation, &segments);
        let posted = self.nic.with(|verbs| verbs.post_send(self.qpn, request));
        posted.map_err(|error| Failure::refused("posting our request", error))
    }

    /// Posts a receive.
    pub fn receive(&mut self, offset: u64, len: u32) -> Outcome {
        self.posted += 1;
        let segments = [self.region.segment(offset, len)];
        let request = ReceiveRequest::new(self.posted, &segments);
        let posted = self.nic.with(|verbs| verbs.post_receive(self.qpn, request));
        posted.map_err(|error| Failure::refused("posting our receive", error))
    }

    /// Waits for a completion.
    pub fn poll(&mut self, seconds: f64) -> Outcome<Done> {
        let limit = std::time::Duration::from_secs_f64(seconds);
        let mut found = Vec::new();
        let poll = || {
            let count = self.nic.with(|verbs| verbs.poll_cq(self.cq, 1, &mut found));
            (count > 0).then(|| found[0])
        };
        let done = wait_for(limit, poll)
            .ok_or_else(|| Failure::Timeout("a completion at our end".to_owned()))?;
        let receive = matches!(
            done.opcode,
            CompletionOpcode::Receive | CompletionOpcode::ReceiveWithImmediate
        );
        Ok(Done {
            receive,
            status: done.status,
            length: done.length,
            immediate: done.immediate,
        })
    }

    /// Whether this queue pair is in error.
    pub fn is_broken(&self) -> bool {
        self.nic.with(|verbs| verbs.qp_state(self.qpn)) == Some(QpState::Error)
    }

    /// A counter of this project's NIC.
    pub fn counter(&self, name: &str) -> u64 {
        self.nic.counter(name)
    }
}

impl Drop for Ours<'_> {
    fn drop(&mut self) {
        self.nic.with(|verbs| {
            verbs.destroy_qp(self.qpn).expect("made by `make`");
            verbs.destroy_cq(self.cq).expect("its queue pair is gone");
            verbs.deregister(&self.region);
        });
    }
}

impl<'a> Theirs<'a> {
    /// Creates a queue pair and a region.
    pub fn make(node: &'a mut GuestNode, setup: &Setup) -> Outcome<Self> {
        let letters = letters(setup.region);
        let region = node.ask(&format!("region {REGION_LEN} {letters}"))?;
        let remote = Remote {
            address: region.number("va")?,
            rkey: region.number("rkey")? as u32,
        };
        let qpn = node.ask(&format!("qp {QUEUE} {QUEUE}"))?.number("qpn")?;
        Ok(Self {
            node,
            region: region.number("region")?,
            remote,
            qpn,
        })
    }

    /// From Reset to ReadyToSend.
    pub fn connect(&mut self, setup: &Setup, ours: &Ours<'_>, psn: u32, peer_psn: u32) -> Outcome {
        let (qpn, peer, gid) = (self.qpn, ours.qpn().0, gid(ours.ip()));
        let (mtu, letters, rnr) = (setup.mtu.bytes(), letters(setup.qp), setup.rnr_retries);
        self.node.ask(&format!("init {qpn}"))?;
        self.node.ask(&format!(
            "rtr {qpn} {peer} {gid} {peer_psn} {mtu} {READS} {RNR_CODE} {letters}"
        ))?;
        self.node
            .ask(&format!("rts {qpn} {psn} {GUEST_TIMEOUT} 7 {rnr} {READS}"))?;
        Ok(())
    }

    /// The guest's region, in the form that this project's requests use.
    pub fn remote(&self) -> Remote {
        self.remote
    }

    /// See [`super::connection::Connection::fill`].
    pub fn fill(&mut self, offset: u64, len: u32, seed: u64) -> Outcome {
        self.ask(format!("fill {} {offset} {len} {seed}", self.region))
    }

    /// See [`super::connection::Connection::mark`].
    pub fn mark(&mut self, offset: u64, len: u32) -> Outcome {
        self.ask(format!("mark {} {offset} {len}", self.region))
    }

    /// See [`super::connection::Connection::expect`].
    pub fn expect(&mut self, offset: u64, len: u32, seed: u64) -> Outcome {
        self.ask(format!("expect {} {offset} {len} {seed}", self.region))
    }

    /// The word at `offset`.
    pub fn load(&mut self, offset: u64) -> Outcome<u64> {
        let answer = self.node.ask(&format!("load {} {offset}", self.region))?;
        answer.number("word")
    }

    /// Sets the word at `offset`.
    pub fn store(&mut self, offset: u64, word: u64) -> Outcome {
        self.ask(format!("store {} {offset} {word}", self.region))
    }

    /// Posts a request.
    pub fn post(&mut self, action: Action, offset: u64, len: u32, remote: Remote) -> Outcome {
        let (qpn, region) = (self.qpn, self.region);
        let Remote { address, rkey } = remote;
        let immediate = |immediate: Option<u32>| {
            let text = immediate.map(|immediate| immediate.to_string());
            text.unwrap_or_default()
        };
        let place = format!("{qpn} {region} {offset} {len}");
        let word = format!("{qpn} {region} {offset} {address} {rkey}");
        self.ask(match action {
            Action::Send(imm) => format!("send {place} {}", immediate(imm)),
            Action::Write(imm) => {
                format!("write {place} {address} {rkey} {}", immediate(imm))
            }
            Action::Read => format!("read {place} {address} {rkey}"),
            Action::FetchAdd(add) => format!("fadd {word} {add}"),
            Action::CompareSwap(compare, swap) => format!("cas {word} {compare} {swap}"),
        })
    }

    /// Posts a receive.
    pub fn receive(&mut self, offset: u64, len: u32) -> Outcome {
        self.ask(format!("recv {} {} {offset} {len}", self.qpn, self.region))
    }

    /// Waits for a completion.
    pub fn poll(&mut self, seconds: f64) -> Outcome<Done> {
        let answer = self.node.ask(&format!("poll {} {seconds}", self.qpn))?;
        let status = status(answer.number("status")?).ok_or_else(|| answer.unexpected())?;
        Ok(Done {
            receive: answer.value("request")? == "recv",
            status,
            length: answer.number("length")? as u32,
            immediate: answer.number_if_any("imm").map(|imm| imm as u32),
        })
    }

    /// Whether the guest's queue pair is in error.
    pub fn is_broken(&mut self) -> Outcome<bool> {
        let answer = self.node.ask(&format!("state {}", self.qpn))?;
        // IBV_QPS_ERR
        Ok(answer.number("state")? == 6)
    }

    /// A counter of the guest's device.
    pub fn counter(&mut self, name: &str) -> Outcome<u64> {
        self.node.ask("counters")?.number(name)
    }

    fn ask(&mut self, request: String) -> Outcome {
        self.node.ask(request.trim_end()).map(drop)
    }
}

impl Drop for Theirs<'_> {
    fn drop(&mut self) {
        // A guest that no longer answers has failed the test already.
        let _ = self.node.ask(&format!("destroy {}", self.qpn));
        let _ = self.node.ask(&format!("drop {}", self.region));
    }
}

/// The status that a number of `enum ibv_wc_status` means.
fn status(number: u64) -> Option<CompletionStatus> {
    Some(match number {
        0 => CompletionStatus::Success,
        // Linux reports 2, "local QP operation error", for a receive that is too short.
        1 | 2 => CompletionStatus::LocalLength,
        4 => CompletionStatus::LocalProtection,
        5 => CompletionStatus::Flushed,
        9 => CompletionStatus::RemoteInvalidRequest,
        10 => CompletionStatus::RemoteAccess,
        11 => CompletionStatus::RemoteOperation,
        12 => CompletionStatus::RetriesExceeded,
        13 => CompletionStatus::RnrRetriesExceeded,
        _ => return None,
    })
}
