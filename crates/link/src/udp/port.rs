//! One port of a hub: the link to one peer.

use super::seal::Sealer;
use super::{Key, SealKeys, Shared};
use crate::outbox::Outbox;
use crate::{Link, Properties};
use rackweave_base::{Instant, Packet};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg_addr};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// The link to one peer of a [`super::Hub`]. It is lossy, because datagrams may be lost.
#[derive(Debug)]
pub struct Port {
    shared: Arc<Shared>,
    to: SocketAddr,
    key: Key,
    mtu: usize,
    outbox: Outbox,
    sealer: Option<Sealer>,
}

impl Port {
    /// The port whose inbox is at `key` and that sends packets with an MTU of `mtu` to `to`.
    pub(super) fn new(
        shared: Arc<Shared>,
        to: SocketAddr,
        key: Key,
        mtu: usize,
        keys: Option<&SealKeys>,
    ) -> Self {
        Self {
            outbox: Outbox::new(mtu, shared.memory.clone()),
            sealer: keys.map(Sealer::new),
            mtu,
            shared,
            to,
            key,
        }
    }
}

impl Shared {
    /// Passes a packet to the system, between its VXLAN header and its seal.
    pub(super) fn send_to(&self, to: SocketAddr, frame: &[u8], seal: &[u8]) -> io::Result<()> {
        let header = self.vxlan.emit();
        let parts = [&header, frame, seal].map(IoSlice::new);
        let mut no_control = SendAncillaryBuffer::default();
        sendmsg_addr(
            &self.socket,
            &to,
            &parts,
            &mut no_control,
            SendFlags::empty(),
        )?;
        Ok(())
    }
}

fn offer(
    shared: &Shared,
    to: SocketAddr,
    sealer: &mut Option<Sealer>,
    frame: &[u8],
) -> io::Result<()> {
    match sealer {
        Some(sealer) => shared.send_to(to, frame, &sealer.seal(frame)),
        None => shared.send_to(to, frame, &[]),
    }
}

impl Link for Port {
    fn send(&mut self, now: Instant, packet: Packet) -> Result<(), Packet> {
        let (shared, to, sealer) = (&self.shared, self.to, &mut self.sealer);
        let counters = &mut shared.lock().counters.send;
        self.outbox.send(now, packet, counters, |frame| {
            offer(shared, to, sealer, frame)
        })
    }

    fn receive(&mut self, now: Instant) -> Option<Packet> {
        let (shared, to, sealer) = (&self.shared, self.to, &mut self.sealer);
        let mut state = shared.lock();
        let counters = &mut state.counters.send;
        self.outbox
            .flush(now, counters, |frame| offer(shared, to, sealer, frame));
        let packet = state.inboxes.get_mut(&self.key)?.packets.pop_front();
        if packet.is_some() {
            return packet;
        }
        shared.pull(&mut state);
        state.inboxes.get_mut(&self.key)?.packets.pop_front()
    }

    fn free(&self) -> usize {
        self.outbox.free()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.outbox.retry_at()
    }

    fn properties(&self) -> Properties {
        Properties {
            mtu: self.mtu,
            lossless: false,
            check_needed: true,
        }
    }

    fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.socket.as_fd())
    }

    fn prepare_sleep(&mut self) -> bool {
        // Another port may have read packets of this port from the socket, which then wakes no
        // thread.
        let state = self.shared.lock();
        state
            .inboxes
            .get(&self.key)
            .is_none_or(|inbox| inbox.packets.is_empty())
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.shared.lock().inboxes.remove(&self.key);
    }
}
