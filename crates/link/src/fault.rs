//! A link that injects faults: it loses, duplicates, reorders and corrupts what is sent through it.
//!
//! It wraps one end of a link and affects the packets that this end sends. Each fault uses its own
//! generator, so that changing the rate of one does not affect the others, and a run is
//! reproducible from its seed. A packet that stays on the link longer than its sender may keep the
//! bytes (a delayed packet, a second copy), or that is changed, has its payload copied out first:
//! region memory is never modified.
//!
//! The switch of the cable and the counters can be accessed from elsewhere by a [`FaultHandle`].

mod config;
#[cfg(test)]
mod tests;

pub use config::{FaultConfig, FaultError};

use crate::{Link, Properties};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rackweave_base::{Duration, Instant, Memory, Packet, Payload, Rng};
use rackweave_wire::{Headers, ethernet, icrc};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Maximum packets delayed at a time. Further packets are not delayed.
pub const DELAYED_MAX: usize = 256;

/// Maximum packets that one `receive` discards while the cable is cut.
const DISCARDED_MAX: usize = 1024;

/// Counts of injected faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounters {
    /// Packets lost.
    pub lost: u64,
    /// Second copies sent.
    pub duplicated: u64,
    /// Packets delayed.
    pub reordered: u64,
    /// Packets with a bit flipped.
    pub corrupted: u64,
    /// Packets dropped at a cut cable, in either direction.
    pub partitioned: u64,
    /// Delayed packets that the inner link refused when their time came, although it had space when
    /// they were accepted.
    pub refused: u64,
}

/// Controls the cable of a [`Fault`] from elsewhere. Clones control the same one.
#[derive(Clone, Debug)]
pub struct FaultHandle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    down: AtomicBool,
    lost: AtomicU64,
    duplicated: AtomicU64,
    reordered: AtomicU64,
    corrupted: AtomicU64,
    partitioned: AtomicU64,
    refused: AtomicU64,
}

/// A link around `inner` that injects faults according to its configuration.
#[derive(Debug)]
pub struct Fault<L> {
    inner: L,
    config: FaultConfig,
    memory: Memory,
    loss: Rng,
    duplicate: Rng,
    reorder: Rng,
    corrupt: Rng,
    /// Packets that the current burst still drops.
    burst_left: u32,
    /// Delayed packets by the time of their release; equal times are in the order of sending.
    delayed: VecDeque<(Instant, Packet)>,
    shared: Arc<Shared>,
}

impl FaultHandle {
    /// Cuts the cable (`true`) or mends it. A cut cable drops everything in both directions, and
    /// delayed packets when their time comes.
    pub fn set_down(&self, down: bool) {
        self.0.down.store(down, Ordering::Relaxed);
    }

    /// Whether the cable is cut.
    pub fn is_down(&self) -> bool {
        self.0.down.load(Ordering::Relaxed)
    }

    /// The counts of injected faults.
    pub fn counters(&self) -> FaultCounters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FaultCounters {
            lost: read(&self.0.lost),
            duplicated: read(&self.0.duplicated),
            reordered: read(&self.0.reordered),
            corrupted: read(&self.0.corrupted),
            partitioned: read(&self.0.partitioned),
            refused: read(&self.0.refused),
        }
    }
}

impl<L: Link> Fault<L> {
    /// Wraps `inner`. `memory` resolves payloads that must be copied out.
    ///
    /// # Errors
    /// If the configuration is invalid.
    pub fn new(
        inner: L,
        config: FaultConfig,
        mut rng: Rng,
        memory: Memory,
    ) -> Result<Self, FaultError> {
        config.check()?;
        Ok(Self {
            inner,
            config,
            memory,
            loss: rng.fork("loss"),
            duplicate: rng.fork("duplicate"),
            reorder: rng.fork("reorder"),
            corrupt: rng.fork("corrupt"),
            burst_left: 0,
            delayed: VecDeque::with_capacity(DELAYED_MAX),
            shared: Arc::default(),
        })
    }

    /// Changes the rates from the next packet on. Whether the link is lossless and whether it needs
    /// check values changes with them, and machines may have read these properties before.
    ///
    /// # Errors
    /// If the configuration is invalid; the old one remains.
    pub fn set_config(&mut self, config: FaultConfig) -> Result<(), FaultError> {
        config.check()?;
        self.config = config;
        Ok(())
    }

    /// The rates in force.
    pub fn config(&self) -> FaultConfig {
        self.config
    }

    /// Cuts the cable (`true`) or mends it; see [`FaultHandle::set_down`].
    pub fn set_down(&mut self, down: bool) {
        self.handle().set_down(down);
    }

    /// Whether the cable is cut.
    pub fn is_down(&self) -> bool {
        self.shared.down.load(Ordering::Relaxed)
    }

    /// The counts of injected faults.
    pub fn counters(&self) -> FaultCounters {
        self.handle().counters()
    }

    /// A handle to the cable and the counters, for use elsewhere.
    pub fn handle(&self) -> FaultHandle {
        FaultHandle(self.shared.clone())
    }

    /// The link inside.
    pub fn inner(&self) -> &L {
        &self.inner
    }

    /// Forwards the delayed packets whose time has come.
    fn release(&mut self, now: Instant) {
        while self.delayed.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, packet)) = self.delayed.pop_front() else {
                return;
            };
            if self.is_down() {
                count(&self.shared.partitioned);
            } else if self.inner.send(now, packet).is_err() {
                count(&self.shared.refused);
            }
        }
    }

    fn is_lost(&mut self) -> bool {
        if self.burst_left == 0 {
            if !self.loss.chance(self.config.loss) {
                return false;
            }
            self.burst_left = self.config.loss_burst;
        }
        self.burst_left -= 1;
        count(&self.shared.lost);
        true
    }

    /// Sends `packet`, for which there is space, at once or later.
    fn pass(&mut self, now: Instant, mut packet: Packet) -> Result<(), Packet> {
        if !self.reorder.chance(self.config.reorder) || self.delayed.len() == DELAYED_MAX {
            return self.inner.send(now, packet);
        }
        self.copy_out(&mut packet);
        let delay = self
            .reorder
            .between(1, self.config.reorder_delay.as_nanos());
        let due = now + Duration::from_nanos(delay);
        let at = self.delayed.partition_point(|(other, _)| *other <= due);
        self.delayed.insert(at, (due, packet));
        count(&self.shared.reordered);
        Ok(())
    }

    /// Gives `packet` its own copy of the payload. A packet whose block no longer exists is left
    /// unchanged.
    fn copy_out(&self, packet: &mut Packet) {
        if matches!(packet.payload, Payload::Region(_))
            && let Some(bytes) = packet.payload.to_vec(&self.memory)
        {
            packet.payload = Payload::copied(&bytes);
        }
    }

    /// Flips one random bit after the Ethernet header, unless that would make a packet valid that
    /// an earlier link has corrupted.
    ///
    /// A second flip of the same bit would do so. In between, a switch may have overwritten the
    /// field, or have taken the corrupted packet for another kind of packet. With one flip per
    /// packet, the probability would be one over the number of bits of a packet, where a check of
    /// 32 bits promises one in 2^32. At the error rates of real links, one packet in a million or
    /// fewer, that does not matter; here one in twenty may be corrupted.
    ///
    /// A packet without check value gets one first: it comes from a link that guarantees integrity,
    /// and a sender to a link that does not must seal it.
    fn harm(&mut self, packet: &mut Packet) {
        let Some(bytes) = packet.payload.to_vec(&self.memory) else {
            return;
        };
        packet.payload = Payload::copied(&bytes);
        crate::seal_if_missing(packet, &self.memory);
        let skipped = ethernet::parse(packet.header()).map_or(0, |ethernet| ethernet.len);
        let header_len = packet.header().len() - skipped;
        let (payload_len, pad_len) = (bytes.len(), packet.pad().len());
        let check_len = packet.check.map_or(0, |check| check.len());
        let bits = 8 * (header_len + payload_len + pad_len + check_len) as u64;
        if bits == 0 {
            return;
        }
        let bit = self.corrupt.below(bits) as usize;
        count(&self.shared.corrupted);
        let before = packet.clone();
        flip(packet, bytes, skipped, bit);
        if !is_sound(&before, &self.memory) && is_sound(packet, &self.memory) {
            *packet = before;
        }
    }
}

/// Whether `packet` is a RoCEv2 packet in which a receiver detects no corruption.
fn is_sound(packet: &Packet, memory: &Memory) -> bool {
    Headers::of(packet).is_ok() && icrc::verify(packet, memory) != icrc::Verdict::Wrong
}

/// Flips bit `bit` of `packet`, counted from `skipped` header bytes on, over payload, pad and check
/// value. `payload` has the bytes of the payload.
fn flip(packet: &mut Packet, mut payload: Vec<u8>, skipped: usize, bit: usize) {
    let (mut at, mask) = (bit / 8, 1 << (bit % 8));
    let header = &mut packet.header_mut()[skipped..];
    if at < header.len() {
        header[at] ^= mask;
        return;
    }
    at -= header.len();
    if at < payload.len() {
        payload[at] ^= mask;
        packet.payload = Payload::copied(&payload);
        return;
    }
    at -= payload.len();
    let pad_len = packet.pad().len();
    if at < pad_len {
        let mut pad = [0; 3];
        pad[..pad_len].copy_from_slice(packet.pad());
        pad[at] ^= mask;
        packet.set_pad(&pad[..pad_len]);
        return;
    }
    at -= pad_len;
    if let Some(check) = &mut packet.check {
        check[at] ^= mask;
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl<L: Link> Link for Fault<L> {
    fn send(&mut self, now: Instant, mut packet: Packet) -> Result<(), Packet> {
        self.release(now);
        if self.is_down() {
            count(&self.shared.partitioned);
            return Ok(());
        }
        if !self.config.harms_delivery() && self.delayed.is_empty() {
            return self.inner.send(now, packet);
        }
        // An accepted packet must fit even after all delayed packets have been forwarded; a packet
        // that is returned draws no random numbers.
        let free = self.free();
        if free == 0 {
            return Err(packet);
        }
        if self.is_lost() {
            return Ok(());
        }
        let twice = self.duplicate.chance(self.config.duplicate) && free >= 2;
        let mut second = None;
        if twice {
            self.copy_out(&mut packet);
            second = Some(packet.clone());
        }
        if self.corrupt.chance(self.config.corrupt) {
            self.harm(&mut packet);
        }
        self.pass(now, packet)?;
        if let Some(copy) = second
            && self.pass(now, copy).is_ok()
        {
            count(&self.shared.duplicated);
        }
        Ok(())
    }

    fn cork(&mut self) {
        self.inner.cork();
    }

    fn uncork(&mut self, now: Instant) {
        self.inner.uncork(now);
    }

    fn receive(&mut self, now: Instant) -> Option<Packet> {
        self.release(now);
        if self.is_down() {
            for _ in 0..DISCARDED_MAX {
                self.inner.receive(now)?;
                count(&self.shared.partitioned);
            }
            return None;
        }
        self.inner.receive(now)
    }

    fn free(&self) -> usize {
        if self.is_down() {
            // A cut cable accepts every packet.
            return self.inner.free().max(1);
        }
        self.inner.free().saturating_sub(self.delayed.len())
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let due = self.delayed.front().map(|(due, _)| *due);
        due.into_iter().chain(self.inner.poll_timeout()).min()
    }

    fn properties(&self) -> Properties {
        let inner = self.inner.properties();
        Properties {
            mtu: inner.mtu,
            lossless: inner.lossless && !self.config.harms_delivery(),
            check_needed: inner.check_needed || self.config.corrupt > 0.0,
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.wake_fd()
    }

    fn asks_system(&self) -> bool {
        self.inner.asks_system()
    }

    fn prepare_sleep(&mut self) -> bool {
        self.inner.prepare_sleep()
    }

    fn end_sleep(&mut self) {
        self.inner.end_sleep();
    }

    fn is_peer_gone(&self) -> bool {
        self.inner.is_peer_gone()
    }
}
