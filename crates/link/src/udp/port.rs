//! One port of a hub: the link to one peer.

use super::seal::Sealer;
use super::{Key, SealKeys, Shared};
use crate::outbox::{Carrier, Datagrams, Outbox};
use crate::send_many;
use crate::{Link, Properties};
use rackweave_base::{Instant, Packet};
use rackweave_wire::vxlan;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// The link to one peer of a [`super::Hub`]. It is lossy, because datagrams may be lost.
#[derive(Debug)]
pub struct Port {
    shared: Arc<Shared>,
    to: SocketAddr,
    key: Key,
    /// The number of its inbox.
    number: usize,
    mtu: usize,
    outbox: Outbox,
    wrapper: Wrapper,
    /// How often the socket had been found empty when this port last had nothing to return.
    emptied: u64,
}

/// What goes around a port's packets, and how they are passed to the system.
#[derive(Debug)]
struct Wrapper {
    head: [u8; vxlan::LEN],
    sealer: Option<Sealer>,
    /// Whether the system may be asked to split messages into datagrams.
    may_split: bool,
}

/// The way from a port to the system.
struct Way<'a> {
    shared: &'a Shared,
    to: SocketAddr,
    wrapper: &'a mut Wrapper,
}

impl Port {
    /// The port whose inbox has this key and number. It sends packets with an MTU of `mtu` to `to`.
    pub(super) fn new(
        shared: Arc<Shared>,
        to: SocketAddr,
        (key, number): (Key, usize),
        mtu: usize,
        keys: Option<&SealKeys>,
    ) -> Self {
        Self {
            outbox: Outbox::new(mtu, shared.memory.clone()),
            wrapper: Wrapper {
                head: shared.vxlan.emit(),
                sealer: keys.map(Sealer::new),
                may_split: true,
            },
            mtu,
            shared,
            to,
            key,
            number,
            emptied: 0,
        }
    }
}

impl Carrier for Way<'_> {
    fn head(&self) -> &[u8] {
        &self.wrapper.head
    }

    fn finish(&mut self, bytes: &mut Vec<u8>, at: usize) {
        if let Some(sealer) = &mut self.wrapper.sealer {
            let seal = sealer.seal(&bytes[at..]);
            bytes.extend_from_slice(&seal);
        }
    }

    fn offer(&mut self, datagrams: Datagrams<'_>) -> io::Result<usize> {
        let may_split = &mut self.wrapper.may_split;
        send_many::send(&self.shared.socket, Some(self.to), datagrams, may_split)
    }
}

impl Port {
    /// Whether the system may be asked to split messages.
    #[cfg(test)]
    pub(super) fn may_split(&self) -> bool {
        self.wrapper.may_split
    }

    fn way(&mut self) -> (&mut Outbox, Way<'_>) {
        let way = Way {
            shared: &self.shared,
            to: self.to,
            wrapper: &mut self.wrapper,
        };
        (&mut self.outbox, way)
    }

    /// Passes on what waits.
    fn flush(&mut self, now: Instant) {
        if self.outbox.is_empty() {
            return;
        }
        let (outbox, mut way) = self.way();
        let counters = &mut way.shared.lock().counters.send;
        outbox.flush(now, counters, &mut way);
    }
}

impl Link for Port {
    fn send(&mut self, now: Instant, packet: Packet) -> Result<(), Packet> {
        let (outbox, mut way) = self.way();
        let counters = &mut way.shared.lock().counters.send;
        outbox.send(now, packet, counters, &mut way)
    }

    fn cork(&mut self) {
        self.outbox.cork();
    }

    fn uncork(&mut self, now: Instant) {
        self.outbox.uncork();
        self.flush(now);
    }

    fn receive(&mut self, now: Instant) -> Option<Packet> {
        self.flush(now);
        let shared = &self.shared;
        let mut state = shared.lock();
        let packet = state.inboxes[self.number].as_mut()?.packets.pop_front();
        if packet.is_some() {
            return packet;
        }
        // A thread that polls all ports in turn asks the system once for all of them.
        if state.emptied == self.emptied {
            shared.pull(&mut state);
        }
        self.emptied = state.emptied;
        state.inboxes[self.number].as_mut()?.packets.pop_front()
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

    fn asks_system(&self) -> bool {
        true
    }

    fn prepare_sleep(&mut self) -> bool {
        // Another port may have read packets of this port from the socket, which then wakes no
        // thread.
        let inbox = &self.shared.lock().inboxes[self.number];
        inbox.as_ref().is_none_or(|it| it.packets.is_empty())
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.numbers.remove(&self.key);
        state.inboxes[self.number] = None;
    }
}
