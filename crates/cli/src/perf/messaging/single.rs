//! The paper's single buffer with as much memory, for comparison: copied in, copied out, read.

use super::bulk::{Moved, Received, moved, repeat};
use super::rig::Rig;
use super::source::{Messages, sum};
use crate::globals::Interrupt;
use crate::outcome::CliError;
use crate::perf::pair::{Shape, Side};
use rackweave_bench::baseline::single_buffer::{
    NOTICE_BYTES, PackageHeader, SEND_REQUESTS, SingleBuffer,
};
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::flow::wait_until;
use rackweave_endpoint::messaging::{KeyedAddress, MessagingConfig};
use rackweave_rack::Node;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Code of packages with messages that count.
const DATA: u8 = 1;
/// Code of the empty package that ends a stream for now.
const END: u8 = 2;

/// The storage node's end and the compute node's.
pub struct SinglePair {
    storage: End,
    compute: End,
}

struct End {
    node: Node,
    buffer: SingleBuffer,
}

/// State shared by both threads: one that fails ends the other.
struct Run<'a> {
    sent: Messages<'a>,
    failed: AtomicBool,
}

impl SinglePair {
    /// Creates both ends; a half is as large as all receive buffers of a connection together.
    pub fn new(rig: &Rig<'_>, messaging: &MessagingConfig) -> Result<Self, CliError> {
        let half = messaging.receive_bytes_all() as usize;
        let shape = Shape {
            size: (2 * half + NOTICE_BYTES) as u32,
            queue_pairs: 1,
            depth: SEND_REQUESTS,
            receives: 0,
        };
        let attributes = PairAttributes::default();
        let [near, far] = rig.places.map(|node| Side::open(rig.rack, node, &shape));
        let (near, far) = (near?, far?);
        near.connect(rig.rack, &far.offer(), &attributes)?;
        let end = |side: &Side, other: &Side| {
            let to = KeyedAddress {
                address: other.region.address,
                rkey: other.region.rkey,
            };
            let queue_pair = (side.qpns[0], side.cq);
            End {
                node: rig.rack.node_at(side.node),
                buffer: SingleBuffer::new(side.region.clone(), half, queue_pair, to),
            }
        };
        Ok(Self {
            storage: end(&near, &far),
            compute: end(&far, &near),
        })
    }

    /// Sends for the span, at least one message.
    pub fn run(&mut self, rig: &Rig<'_>, size: usize, span: Duration) -> Result<Moved, CliError> {
        let run = &Run {
            sent: Messages::new(&rig.source, size),
            failed: AtomicBool::new(false),
        };
        let Self { storage, compute } = self;
        moved(
            || run.ended(|| run.send(storage, (span, rig.interrupt))),
            || run.ended(|| run.take(compute)),
        )
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

    /// Waits until `done` returns a value, driving the rack.
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

    /// Takes completions until `done` returns true.
    fn poll_until(
        &self,
        End { node, buffer }: &mut End,
        done: impl Fn(&SingleBuffer) -> bool,
    ) -> Result<(), CliError> {
        self.wait(node, || {
            node.poll(|nic| buffer.poll(nic))?;
            Ok(done(buffer).then_some(()))
        })
    }

    fn send(&self, end: &mut End, limits: (Duration, &Interrupt)) -> Result<Moved, CliError> {
        let (started, size, mut packages) = (Instant::now(), self.sent.size, 0);
        let messages = repeat(1, limits, |number| {
            let mut offset = 0;
            let message = self.sent.get(number);
            for package in message.chunks(end.buffer.payload_max()) {
                self.package(end, (DATA, size, offset), package)?;
                offset += package.len();
                packages += 1;
            }
            Ok(())
        })?;
        let nanos = started.elapsed().as_nanos() as u64;
        self.package(end, (END, 0, 0), &[])?;
        Ok(Moved {
            messages,
            bytes: messages * size as u64,
            packages,
            nanos,
            sound: true,
        })
    }

    /// Sends a package and waits until it is consumed, as the protocol requires.
    fn package(
        &self,
        end: &mut End,
        (code, total, offset): (u8, usize, usize),
        bytes: &[u8],
    ) -> Result<(), CliError> {
        let header = PackageHeader {
            code,
            length: bytes.len() as u64,
            total: total as u64,
            offset: offset as u64,
        };
        let End { node, buffer } = end;
        buffer.fill(header, [bytes]);
        node.with(|nic| buffer.post(nic))?;
        self.poll_until(end, SingleBuffer::is_free)
    }

    fn take(&self, end: &mut End) -> Result<Received, CliError> {
        let (mut messages, mut sound) = (0, true);
        let mut target = vec![0; self.sent.size];
        loop {
            let End { node, buffer } = &mut *end;
            let header = self.wait(node, || Ok(buffer.look()?))?;
            let from = header.offset as usize;
            let to = from + header.length as usize;
            if header.code == DATA && to <= target.len() {
                buffer.copy_out(&mut target[from..to]);
            } else {
                sound &= header.code == END;
            }
            node.with(|nic| {
                buffer.release(nic)?;
                buffer.poll(nic)
            })?;
            if header.code == END {
                // The notice must arrive, and its completion be taken, before the next run.
                self.poll_until(end, SingleBuffer::is_settled)?;
                return Ok(Received { messages, sound });
            }
            if header.offset + header.length == header.total {
                sound &= sum(&target, 0) == self.sent.sum_of(messages);
                messages += 1;
            }
        }
    }
}
