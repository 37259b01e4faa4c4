//! What the switch must do with a packet, according to the description of the index: the tree is
//! walked in plain loops, and the sender's permission is read from the packet.

use super::tree::{CHILDREN, FIRST, NODE, OTHER, QPN, ROOT};
use super::{Fuzzed, HOSTS, SERVER, TRUNK};
use crate::rack::{SWITCH, host};
use rackweave_base::Packet;
use rackweave_programs::index::NO_SLOT;
use rackweave_switch::DropReason;
use rackweave_wire::fabric::lookup::Start;
use rackweave_wire::fabric::query::{self, Kind, Progress};
use rackweave_wire::icrc::{self, Verdict};
use rackweave_wire::{Datagram, Extension, Headers, arp, ethernet};

/// The result for a packet.
#[derive(Debug)]
pub enum Fate {
    Dropped(DropReason),
    /// Sent on this port, with these bytes.
    Sent(u16, Vec<u8>),
    /// Sent on this port as a READ of a tree node, or to the other switch as a query for it.
    Led(u16, Progress),
    /// Not for the index: if it is forwarded, it is unchanged.
    Forwarded,
    /// For the switch itself.
    Own,
}

impl Fuzzed {
    pub fn expect(&self, port: u16, packet: &Packet) -> Fate {
        let target = ethernet::target(packet.header());
        if arp::is_arp(packet.header()) || target == Some(SWITCH.mac) {
            return Fate::Own;
        }
        let way = (0..HOSTS).find(|number| target == Some(host(*number).mac));
        let way = way.map(|number| if number == 4 { TRUNK } else { number as u16 });
        let mut packet = packet.clone();
        let sort = query::sort(packet.header());
        let (progress, start) = match sort {
            None => return Fate::Forwarded,
            Some(Kind::Carried) if port != TRUNK => return Fate::Dropped(DropReason::IndexForged),
            Some(Kind::Carried) => match query::detach(&mut packet) {
                // Before the fat root there is only the root.
                Ok(Progress {
                    fat_root_met: false,
                    node,
                    slot,
                    ..
                }) if (node, slot) != (ROOT, NO_SLOT) => {
                    return Fate::Dropped(DropReason::Malformed);
                }
                Ok(progress) => (Some(progress), Start::of(&packet)),
                Err(_) => return Fate::Dropped(DropReason::Malformed),
            },
            Some(Kind::Lookup) => {
                let target = Datagram::of(&packet).ok().map(|of| of.ipv4.target);
                let server = [0, 1]
                    .into_iter()
                    .find(|server| target == Some(host(SERVER + usize::from(*server)).ip));
                let start = Start::of(&packet).filter(|start| start.node == 0);
                let (Some(server), Some(start)) = (server, start) else {
                    return Fate::Forwarded;
                };
                (Some(self.start(server, true)), Some(start))
            }
            Some(Kind::Read) => (None, None),
        };
        if let Some(progress) = progress.filter(|progress| progress.is_lookup) {
            return self.expect_lookup(way, packet, (progress, start));
        }
        self.expect_read(way, &packet, progress)
    }

    fn expect_lookup(
        &self,
        way: Option<u16>,
        mut packet: Packet,
        (progress, start): (Progress, Option<Start>),
    ) -> Fate {
        let Some(start) = start else {
            return Fate::Dropped(DropReason::Malformed);
        };
        let progress = self.walked(progress, start.key);
        match way {
            None => Fate::Dropped(DropReason::NoRoute),
            Some(TRUNK) => {
                let passed = Progress {
                    hops: progress.hops + 1,
                    ..progress
                };
                if progress.hops == query::HOPS_MAX {
                    return Fate::Dropped(DropReason::IndexHops);
                }
                match query::attach(&mut packet, &passed) {
                    Ok(()) => Fate::Sent(TRUNK, self.bytes(&packet)),
                    Err(_) => Fate::Dropped(DropReason::Malformed),
                }
            }
            Some(way) => {
                assert!(Start::fill_in(&mut packet, progress.node));
                Fate::Sent(way, self.bytes(&packet))
            }
        }
    }

    fn expect_read(&self, way: Option<u16>, packet: &Packet, carried: Option<Progress>) -> Fate {
        let Ok(headers) = Headers::of(packet) else {
            return Fate::Dropped(DropReason::Malformed);
        };
        let is_query = query::sort(packet.header()) == Some(Kind::Read);
        if !is_query {
            return Fate::Dropped(DropReason::Malformed);
        }
        let server = (0..2).find(|server| {
            let ip = host(SERVER + usize::from(*server)).ip;
            (headers.ipv4.target, headers.bth.target_qp) == (ip, QPN)
        });
        let progress = match (carried, server) {
            (Some(progress), _) => progress,
            (None, Some(server)) => self.start(server, false),
            (None, None) => return Fate::Dropped(DropReason::IndexUnknownPair),
        };
        if icrc::verify(packet, &self.memory) == Verdict::Wrong {
            return Fate::Dropped(DropReason::BadCheck);
        }
        let Extension::Reth(reth) = headers.extension else {
            return Fate::Dropped(DropReason::Malformed);
        };
        let progress = self.walked(progress, reth.address);
        match way {
            None => Fate::Dropped(DropReason::NoRoute),
            Some(TRUNK) if progress.hops == query::HOPS_MAX => Fate::Dropped(DropReason::IndexHops),
            Some(way) if way != TRUNK && server != Some(progress.server) => {
                Fate::Dropped(DropReason::IndexUnknownPair)
            }
            Some(way) => Fate::Led(way, progress),
        }
    }

    /// The progress of a query for `key` through this one switch.
    fn walked(&self, mut progress: Progress, key: u64) -> Progress {
        let mut descend = |node, slot| {
            progress.node = node;
            progress.slot = slot;
            progress.layer = (progress.layer + 1).min(query::LEVELS_END - 1);
            progress.depth = (progress.depth + 1).min(query::LEVELS_END - 1);
        };
        let is_loaded = progress.bank == 0;
        let (server, node, slot) = if key <= CHILDREN[2].0 {
            (0, FIRST, NODE)
        } else {
            (1, OTHER, NO_SLOT)
        };
        if !progress.fat_root_met && is_loaded && server == progress.server {
            descend(node, slot);
        }
        progress.fat_root_met = true;
        if progress.layer == 1 && progress.slot != NO_SLOT {
            let child = CHILDREN.iter().find(|(last, _)| key <= *last);
            let child = child.filter(|_| is_loaded && progress.slot == NODE);
            progress.slot = NO_SLOT;
            if let Some((_, node)) = child {
                progress.node = *node;
                progress.layer += 1;
                progress.depth = (progress.depth + 1).min(query::LEVELS_END - 1);
            }
        }
        progress
    }
}
