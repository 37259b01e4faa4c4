//! The parts of a received packet's headers that are used. The others are checked, but not decoded.

use rackweave_wire::{Bth, Ecn, Extension, View};
use std::net::Ipv4Addr;

/// The headers of a received packet that its queue pair needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) bth: Bth,
    pub(crate) extension: Extension,
}

impl Received {
    #[inline(always)]
    pub(crate) fn of(view: &View<'_>) -> Self {
        Self {
            bth: view.bth(),
            extension: view.extension(),
        }
    }
}

/// What the NIC needs of the header of IPv4.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    pub(crate) source: Ipv4Addr,
    pub(crate) target: Ipv4Addr,
    pub(crate) ecn: Ecn,
}

impl Network {
    #[inline(always)]
    pub(crate) fn of(view: &View<'_>) -> Self {
        Self {
            source: view.source(),
            target: view.target(),
            ecn: view.ecn(),
        }
    }
}
