//! One port of a hub: the link to one peer.

use super::{Key, Shared};
use crate::outbox::Outbox;
use crate::{Link, Properties};
use rackweave_base::{Instant, Packet};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg_addr};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// The link to one peer of a [`super::Hub`]. It is lossy, as datagrams may vanish.
#[derive(Debug)]
pub struct Port {
    shared: Arc<Shared>,
    to: SocketAddr,
    key: Key,
    mtu: usize,
    outbox: Outbox,
}

impl Port {
    /// The port whose inbox is at `key` and that sends packets of up to `mtu` to `to`.
    pub(super) fn new(shared: Arc<Shared>, to: SocketAddr, key: Key, mtu: usize) -> Self {
        Self {
            outbox: Outbox::new(mtu, shared.memory.clone()),
            mtu,
            shared,
            to,
            key,
        }
    }
}

impl Shared {
    /// Hands a packet to the system, behind its VXLAN header.
    fn send_to(&self, to: SocketAddr, frame: &[u8]) -> io::Result<()> {
        let header = self.vxlan.emit();
        let parts = [IoSlice::new(&header), IoSlice::new(frame)];
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

impl Link for Port {
    fn send(&mut self, now: Instant, packet: Packet) -> Result<(), Packet> {
        let (shared, to) = (&self.shared, self.to);
        let counters = &mut shared.lock().counters.send;
        self.outbox
            .send(now, packet, counters, |frame| shared.send_to(to, frame))
    }

    fn receive(&mut self, now: Instant) -> Option<Packet> {
        let (shared, to) = (&self.shared, self.to);
        let mut state = shared.lock();
        let counters = &mut state.counters.send;
        self.outbox
            .flush(now, counters, |frame| shared.send_to(to, frame));
        let packet = state.inboxes.get_mut(&self.key)?.pop_front();
        if packet.is_some() {
            return packet;
        }
        shared.pull(&mut state);
        state.inboxes.get_mut(&self.key)?.pop_front()
    }

    fn room(&self) -> usize {
        self.outbox.room()
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
        // Another port may have taken our packets from the socket, which then wakes nobody.
        let state = self.shared.lock();
        state
            .inboxes
            .get(&self.key)
            .is_none_or(|all| all.is_empty())
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.shared.lock().inboxes.remove(&self.key);
    }
}
