//! Direct cables to peers, beside the one to the switch.
//!
//! The packets of a queue pair take the direct cable to its peer if there is one, unless a program
//! of the switch has to see them ([`Verbs::keep_to_switch`]). The NICs at both ends of a direct
//! cable resolve references into each other's memory, so READ responses on it refer to the region,
//! and a requester sends nothing that may change memory while it waits for them. A requester
//! changes to another cable only while no request of its own is outstanding, and a responder uses
//! the cable of the last request: packets of one direction do not overtake each other.
//!
//! [`Verbs::keep_to_switch`]: rackweave_verbs::Verbs::keep_to_switch

use crate::Nic;
use rackweave_base::{Instant, Packet};
use std::net::Ipv4Addr;

/// A cable of a NIC: the number of a direct one counts from one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CableId(pub u8);

impl CableId {
    /// The cable to the switch.
    pub const SWITCH: Self = Self(0);
}

/// Maximum peers that are remembered as wanted.
const WANTED_MAX: usize = 16;

/// The cables, and those of the packets that are being handled.
#[derive(Default)]
pub(crate) struct Cables {
    /// The peers at the direct cables.
    peers: Vec<Option<Ipv4Addr>>,
    /// Peers without a direct cable to which requests were sent; `None` if none may be made.
    wanted: Option<Vec<Ipv4Addr>>,
    /// The cable from which a packet is being handled.
    pub(crate) from: CableId,
    /// The cable for the packet that was taken last.
    pub(crate) to: CableId,
    /// Whether the cable to the switch is unplugged.
    is_unplugged: bool,
}

impl Cables {
    /// The cable to a peer.
    #[inline]
    pub(crate) fn towards(&mut self, peer: Ipv4Addr) -> CableId {
        let Some(wanted) = &mut self.wanted else {
            return CableId::SWITCH;
        };
        match self.peers.iter().position(|&at| at == Some(peer)) {
            Some(at) => CableId(at as u8 + 1),
            None => {
                if wanted.len() < WANTED_MAX && !wanted.contains(&peer) {
                    wanted.push(peer);
                }
                CableId::SWITCH
            }
        }
    }

    /// Whether packets for this cable wait until it is plugged in.
    #[inline]
    pub(crate) fn holds(&self, cable: CableId) -> bool {
        self.is_unplugged && cable == CableId::SWITCH
    }

    /// Whether the packet that is being handled may come from this address.
    #[inline]
    pub(crate) fn admits(&self, source: Ipv4Addr) -> bool {
        match usize::from(self.from.0) {
            0 => true,
            cable => self.peers.get(cable - 1) == Some(&Some(source)),
        }
    }
}

impl Nic {
    /// Allows direct cables: from now on the NIC records which peers it would need one to.
    pub fn allow_direct_cables(&mut self) {
        self.core.cables.wanted.get_or_insert_default();
    }

    /// Returns and forgets the peers without a direct cable to which requests were sent.
    pub fn take_wanted(&mut self) -> Vec<Ipv4Addr> {
        let wanted = self.core.cables.wanted.as_mut();
        wanted.map(core::mem::take).unwrap_or_default()
    }

    /// Connects a direct cable to a peer, or disconnects it. Queue pairs that used it go on by way
    /// of the switch.
    ///
    /// # Panics
    /// If it is the cable to the switch.
    pub fn set_cable(&mut self, cable: CableId, peer: Option<Ipv4Addr>) {
        let at = usize::from(cable.0).checked_sub(1);
        let at = at.expect("the cable to the switch stays");
        let peers = &mut self.core.cables.peers;
        if peers.len() <= at {
            peers.resize(at + 1, None);
        }
        peers[at] = peer;
        for qp in self.qps.iter_mut() {
            // With requests always outstanding it would never change to the new cable.
            if Some(qp.connection.peer_ip) == peer && qp.requester.outstanding() > 0 {
                qp.requester.changes_cable = true;
            }
            for used in [&mut qp.requester.cable, &mut qp.responder.cable] {
                if *used == cable {
                    *used = CableId::SWITCH;
                }
            }
        }
    }

    /// Whether the cable to the switch is unplugged.
    pub fn is_unplugged(&self) -> bool {
        self.core.cables.is_unplugged
    }

    /// Unplugs the cable to the switch, or plugs one in. Meanwhile its queue pairs wait, and none
    /// gives up; those on direct cables go on.
    pub fn set_unplugged(&mut self, is_unplugged: bool) {
        self.core.cables.is_unplugged = is_unplugged;
        for qp in self.qps.iter_mut() {
            qp.wake(&mut self.core);
        }
    }

    /// Has all queue pairs enter the Error state: for their peers, what was here is gone.
    pub fn fail_queue_pairs(&mut self) {
        for qp in self.qps.iter_mut() {
            qp.enter_error(&mut self.core);
        }
    }

    /// Handles a packet that arrived on a direct cable. Packets that do not come from the peer
    /// there are dropped: no switch has checked their source.
    pub fn handle_direct(&mut self, now: Instant, cable: CableId, packet: Packet) {
        self.core.cables.from = cable;
        self.handle_packet(now, packet);
        self.core.cables.from = CableId::SWITCH;
    }

    /// The cable for the packet that [`Nic::poll_transmit`] returned last.
    pub fn cable(&self) -> CableId {
        self.core.cables.to
    }
}
