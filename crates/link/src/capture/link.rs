//! A link that records its packets.

use super::{Picture, SharedCapture};
use crate::pcapng::Direction;
use crate::{Link, Properties};
use rackweave_base::{Instant, Packet, PortId};
use std::os::fd::BorrowedFd;

/// A link that records the packets sent and received at its end.
///
/// Packets sent count as leaving the switch, packets received as entering it, as is right for the
/// switch's end of a cable. Around a [`crate::Fault`] it shows the packets that were sent; inside
/// one, those that entered the cable.
#[derive(Debug)]
pub struct Capture<L> {
    inner: L,
    capture: SharedCapture,
    port: PortId,
    picture: Picture,
}

impl<L: Link> Capture<L> {
    /// Records the packets of `inner` as packets of `port`.
    pub fn new(inner: L, capture: SharedCapture, port: PortId) -> Self {
        Self {
            inner,
            capture,
            port,
            picture: Picture::default(),
        }
    }

    /// The link inside.
    pub fn inner(&self) -> &L {
        &self.inner
    }

    fn keep(&mut self, now: Instant, direction: Direction) {
        let mut tap = self.capture.tap();
        if tap.is_open() {
            tap.write(now, self.port, direction, &self.picture, None);
        }
    }
}

impl<L: Link> Link for Capture<L> {
    fn send(&mut self, now: Instant, packet: Packet) -> Result<(), Packet> {
        // The packet is copied before it is passed on, and the copy is recorded if it was sent.
        self.picture.take(&packet, &self.capture.memory);
        self.inner.send(now, packet)?;
        self.keep(now, Direction::Egress);
        Ok(())
    }

    fn cork(&mut self) {
        self.inner.cork();
    }

    fn uncork(&mut self, now: Instant) {
        self.inner.uncork(now);
    }

    fn receive(&mut self, now: Instant) -> Option<Packet> {
        let packet = self.inner.receive(now)?;
        self.picture.take(&packet, &self.capture.memory);
        self.keep(now, Direction::Ingress);
        Some(packet)
    }

    fn free(&self) -> usize {
        self.inner.free()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.inner.poll_timeout()
    }

    fn properties(&self) -> Properties {
        self.inner.properties()
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
