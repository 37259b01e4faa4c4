//! The paper's single buffer with as much memory, for comparison: copied in, copied out, read.

use super::bulk::{Moved, Received};
use super::rig::Rig;
use super::source::{Places, Source, sum};
use crate::interrupt::Interrupt;
use crate::outcome::CliError;
use rackweave_base::{NodeId, Qpn};
use rackweave_bench::baseline::single_buffer::{
    NOTICE_BYTES, PackageHeader, SEND_REQUESTS, SingleBuffer,
};
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::flow::wait_until;
use rackweave_endpoint::messaging::{KeyedAddress, MessagingConfig};
use rackweave_rack::Node;
use rackweave_verbs::{Access, CqId, QpCapabilities, Region};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The code of packages of messages that count.
const DATA: u8 = 1;
/// That of the package that says that there are no more for now; it is empty.
const END: u8 = 2;

/// The storage unit's end and the compute unit's.
pub struct SinglePair {
    storage: (Node, SingleBuffer),
    compute: (Node, SingleBuffer),
}

/// What both threads must know of each other: one that fails ends the other.
struct Run<'a> {
    places: &'a Places,
    failed: AtomicBool,
}

impl SinglePair {
    /// Ends whose halves are as large as the receive buffers of a connection together.
    pub fn new(rig: &Rig<'_>, messaging: &MessagingConfig) -> Result<Self, CliError> {
        let half = messaging.receive_bytes_all() as usize;
        let [a, b] = rig.places;
        let (near, far) = (region(rig, a, half)?, region(rig, b, half)?);
        let (at_near, at_far) = (queue_pair(rig, a, &near)?, queue_pair(rig, b, &far)?);
        let attributes = PairAttributes::default();
        rig.rack
            .connect((a, at_near.0), (b, at_far.0), &attributes)?;
        let (to_near, to_far) = (keyed(&near), keyed(&far));
        Ok(Self {
            storage: (
                rig.rack.node_at(a),
                SingleBuffer::new(near, half, at_near, to_far),
            ),
            compute: (
                rig.rack.node_at(b),
                SingleBuffer::new(far, half, at_far, to_near),
            ),
        })
    }

    /// Sends for the span, one message at least.
    pub fn run(
        &mut self,
        source: &Source,
        places: &Places,
        span: Duration,
        interrupt: &Interrupt,
    ) -> Result<Moved, CliError> {
        let run = &Run {
            places,
            failed: AtomicBool::new(false),
        };
        let Self { storage, compute } = self;
        let (sent, received) = std::thread::scope(|scope| {
            let receiving = scope.spawn(|| run.ended(|| run.take(compute)));
            let sent = run.ended(|| run.send(storage, source, (span, interrupt)));
            (sent, receiving.join())
        });
        let received = received.map_err(|_| CliError::run("the receiving thread panicked"))?;
        let (messages, nanos) = sent?;
        Ok(Moved::new(messages, places.size, nanos, received?))
    }
}

impl Run<'_> {
    fn ended<T>(&self, act: impl FnOnce() -> Result<T, CliError>) -> Result<T, CliError> {
        let result = act();
        if result.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        result
    }

    /// Waits until `done` says so, driving the rack.
    fn wait<T>(
        &self,
        node: &Node,
        mut done: impl FnMut() -> Result<Option<T>, CliError>,
    ) -> Result<T, CliError> {
        wait_until(node, || {
            if self.failed.load(Ordering::Acquire) {
                return Some(Err(CliError::run(
                    "the other end of the single buffer failed",
                )));
            }
            done().transpose()
        })
    }

    fn send(
        &self,
        (node, end): &mut (Node, SingleBuffer),
        source: &Source,
        (span, interrupt): (Duration, &Interrupt),
    ) -> Result<(u64, u64), CliError> {
        let (started, mut number, size) = (Instant::now(), 0, self.places.size);
        loop {
            let at = self.places.at(number);
            let message = &source.bytes[at..at + size];
            let mut offset = 0;
            for package in message.chunks(end.payload_max()) {
                self.package(node, end, (DATA, size, offset), package)?;
                offset += package.len();
            }
            number += 1;
            if started.elapsed() >= span || interrupt.is_set() {
                break;
            }
        }
        let nanos = started.elapsed().as_nanos() as u64;
        self.package(node, end, (END, 0, 0), &[])?;
        Ok((number, nanos))
    }

    /// Sends a package and waits until it is consumed, as one must.
    fn package(
        &self,
        node: &Node,
        end: &mut SingleBuffer,
        (code, total, offset): (u8, usize, usize),
        bytes: &[u8],
    ) -> Result<(), CliError> {
        let header = PackageHeader {
            code,
            length: bytes.len() as u64,
            total: total as u64,
            offset: offset as u64,
        };
        end.fill(header, [bytes]);
        node.with(|nic| end.post(nic)).map_err(CliError::run)?;
        self.wait(node, || {
            node.poll(|nic| end.poll(nic)).map_err(CliError::run)?;
            Ok(end.is_free().then_some(()))
        })
    }

    fn take(&self, (node, end): &mut (Node, SingleBuffer)) -> Result<Received, CliError> {
        let (mut messages, mut sound) = (0, true);
        let mut target = vec![0; self.places.size];
        loop {
            let header = self.wait(node, || end.look().map_err(CliError::run))?;
            let from = header.offset as usize;
            let to = from + header.length as usize;
            if header.code == DATA && to <= target.len() {
                end.copy_out(&mut target[from..to]);
            } else {
                sound &= header.code == END;
            }
            let released = node.with(|nic| {
                end.release(nic)?;
                end.poll(nic)
            });
            released.map_err(CliError::run)?;
            if header.code == END {
                // The notice has to arrive, and its completion be taken, before the next run.
                self.wait(node, || {
                    node.poll(|nic| end.poll(nic)).map_err(CliError::run)?;
                    Ok(end.is_settled().then_some(()))
                })?;
                return Ok(Received { messages, sound });
            }
            if header.offset + header.length == header.total {
                sound &= sum(&target, 0) == self.places.sum_of(messages);
                messages += 1;
            }
        }
    }
}

fn region(rig: &Rig<'_>, node: NodeId, half: usize) -> Result<Region, CliError> {
    let block = rig.rack.memory().allocate(2 * half + NOTICE_BYTES)?;
    let region = rig.rack.node_at(node).with(|nic| {
        let pd = nic.create_pd();
        nic.register(pd, block, Access::all())
    })?;
    Ok(region)
}

fn queue_pair(rig: &Rig<'_>, node: NodeId, region: &Region) -> Result<(Qpn, CqId), CliError> {
    let capabilities = QpCapabilities {
        send_max: SEND_REQUESTS,
        receive_max: 1,
        ..QpCapabilities::default()
    };
    rig.rack.node_at(node).with(|nic| {
        let cq = nic.create_cq(SEND_REQUESTS)?;
        Ok((nic.create_qp(region.pd, cq, cq, capabilities)?, cq))
    })
}

fn keyed(region: &Region) -> KeyedAddress {
    KeyedAddress {
        address: region.address,
        rkey: region.rkey,
    }
}
