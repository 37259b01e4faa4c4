//! The B+tree in the switch: queries are directed to the deepest tree node known to the switches on
//! their path (fat-btree).
//!
//! A query is a READ request with rkey 0 whose address is a key, on an ordinary queue pair between
//! a client and the server of a tree. Each switch on the path walks the levels that it has: the
//! **fat root**, which has many children on several servers, then **layers** of regular tree nodes,
//! 16 children each. The last switch writes the address of the tree node that was reached, and the
//! server's rkey, into the request, and updates the ICRC. The server's NIC sees an ordinary READ.
//! Between switches, a header carries the progress of the query
//! ([`rackweave_wire::fabric::query`]). A request over plain UDP
//! ([`rackweave_wire::fabric::lookup`]) is handled in the same way; the number of the tree node at
//! which the server begins is written into it.
//!
//! - The client verifies the tree node as it always does: a switch only shortens its walk. A tree
//!   node that is not loaded, has no child for the key, or belongs to another server ends the walk
//!   earlier, at worst at the root, which is always tree node 1.
//! - **Banks.** There are two of every table. The first switch writes the active one into the
//!   query, and all switches use that one for it, so that a query sees one tree from top to bottom
//!   whatever is loaded meanwhile. The controller fills the other one and activates it; before it
//!   fills the old one, it waits longer than a query may be in flight.
//! - **First and last.** A port is *trusted* if there is another index switch behind it. A query
//!   that arrives without a header is at its first switch; one that leaves by an untrusted port is
//!   at its last. A header that arrives by an untrusted port is forged. A query that has not met
//!   the fat root goes **up** to the switch that has it; after that, or if there is no port up, it
//!   goes to its Ethernet address.
//! - A query on a queue pair that the controller has not entered is dropped, and so is one whose
//!   headers or ICRC are wrong; the client's NIC retries.
//!
//! The fat root takes six stages: settings, four slices of the key, ranges. A layer takes six. The
//! tables of servers and queue pairs are in the fourth and fifth of the first six stages: they are
//! needed only for the ranges and at the end. Event counters are those that a switch attaches to
//! its actions; the hits of ranges and children are register arrays, because the controller clears
//! them.
//!
//! Files: `entries` what the controller enters; `control` the control-plane operations; `fat_root`
//! and `layer` the tables; `compare` the 64-bit comparison; `walk` the walk of a query.

mod compare;
mod control;
pub mod entries;
mod fat_root;
mod layer;
#[cfg(test)]
mod tests;
mod walk;

use crate::forward::Forward;
use entries::ROOT;
use fat_root::FatRootTables;
use layer::Layer;
use rackweave_base::{Packet, PortId, Qpn, Rkey};
use rackweave_switch::table::{Direct, Exact};
use rackweave_switch::transfer::Engine;
use rackweave_switch::{DropReason, Ledger, Pass};
use rackweave_wire::fabric::lookup::Start;
use rackweave_wire::fabric::query::{self, HOPS_MAX, Kind, Progress};
use rackweave_wire::icrc::{self, Rewrite, Verdict};
use rackweave_wire::{Datagram, Extension, Headers, ethernet};
use std::net::Ipv4Addr;

pub use entries::{
    BANKS, BRANCHES, Child, DEPTHS, FatRange, FatRoot, IndexConfig, IndexCounters, LoadError,
    NO_SLOT, NODES_MAX, Next, QueryEntry, RegularNode, ServerEntry, SliceEntry,
};

/// Settings that every query gets at its first switch, and its port from there.
#[derive(Clone, Copy, Default, Debug)]
struct Settings {
    active: Option<u8>,
    up: Option<PortId>,
}

/// The index.
pub struct Index {
    config: IndexConfig,
    /// A single entry.
    settings: Direct<Settings>,
    fat_root: Option<FatRootTables>,
    layers: Box<[Layer]>,
    /// By the server's IP address and queue pair.
    queries: Exact<QueryEntry>,
    /// By IP address: the server that takes requests over plain UDP there.
    udp_servers: Exact<u16>,
    /// By port: whether there is another index switch behind it.
    trusted: Direct<()>,
    servers: Direct<ServerEntry>,
    counters: IndexCounters,
    /// The banks that were loaded last: of the fat root, then of the layers.
    last_loaded: [u8; 3],
}

/// A parsed query.
enum Asked {
    Read(Headers),
    Lookup(Start),
}

impl Asked {
    fn key(&self) -> u64 {
        match self {
            Asked::Read(headers) => reth_of(headers).0,
            Asked::Lookup(start) => start.key,
        }
    }
}

/// Address and key of a READ request; zeros if it is not one.
fn reth_of(headers: &Headers) -> (u64, Rkey) {
    match headers.extension {
        Extension::Reth(reth) => (reth.address, reth.rkey),
        _ => (0, Rkey(0)),
    }
}

/// The key of a queue pair.
fn pair_key(ip: Ipv4Addr, qpn: Qpn) -> u64 {
    u64::from(u32::from(ip)) << 24 | u64::from(qpn.0 & 0x00ff_ffff)
}

impl Index {
    /// Empty tables, in a switch whose ports are `0..ports`.
    ///
    /// # Panics
    /// If there are more than two layers, or more than [`NODES_MAX`] tree nodes to a layer.
    pub fn new(config: IndexConfig, ports: usize) -> Self {
        assert!(config.layers <= 2, "at most two layers in one switch");
        assert!(config.nodes <= NODES_MAX, "at most {NODES_MAX} nodes");
        let config = if config.servers == 0 {
            IndexConfig::NONE
        } else {
            config
        };
        let first = config.first_stage;
        let fat_root =
            (config.fat_ranges > 0).then(|| FatRootTables::new(first + 1, config.fat_ranges));
        let below = first + if fat_root.is_some() { layer::STAGES } else { 0 };
        let layers = (0..config.layers)
            .map(|at| Layer::new(below + at * layer::STAGES, config.nodes))
            .collect();
        let (names, addresses) = (first + 3, first + 4);
        let servers = usize::from(config.servers);
        let ports = if config.servers == 0 { 0 } else { ports };
        Self {
            settings: Direct::new("index.settings", first, 1),
            fat_root,
            layers,
            queries: Exact::new("index.queries", names, 56, config.queries as usize),
            udp_servers: Exact::new("index.udp_servers", names, 32, servers),
            trusted: Direct::new("index.trusted", names, ports),
            servers: Direct::new("index.servers", addresses, servers),
            counters: IndexCounters::default(),
            last_loaded: [0; 3],
            config,
        }
    }

    /// Whether this switch has an index.
    #[inline]
    pub fn is_present(&self) -> bool {
        self.config.servers > 0
    }

    /// The sizes.
    pub fn config(&self) -> &IndexConfig {
        &self.config
    }

    /// Counters since the switch started.
    pub fn counters(&self) -> IndexCounters {
        self.counters
    }

    /// Declares tables and registers.
    pub fn declare(&self, ledger: &mut Ledger) {
        if !self.is_present() {
            return;
        }
        ledger.direct(&self.settings);
        if let Some(fat_root) = &self.fat_root {
            fat_root.declare(ledger);
        }
        for layer in &self.layers {
            layer.declare(ledger);
        }
        ledger.exact(&self.queries);
        ledger.exact(&self.udp_servers);
        ledger.direct(&self.trusted);
        ledger.direct(&self.servers);
    }

    /// Processes a packet that [`query::sort`] classified as a query.
    pub fn packet<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        (forward, engine): (&Forward, &Engine),
        (port, kind): (PortId, Kind),
        mut packet: Packet,
    ) {
        let taken = match kind {
            Kind::Carried => self.take_carried(port, &mut packet).map(Some),
            Kind::Read => self.take_read(&packet).map(Some),
            Kind::Lookup => Ok(self.take_lookup(&packet)),
        };
        let (asked, mut progress) = match taken {
            Ok(Some(taken)) => taken,
            Ok(None) => return forward.packet(pass, port, packet),
            Err(reason) => return pass.drop(port, reason, &packet),
        };
        // The last switch overwrites the key, and with it the evidence of damage: if the same bit
        // flips again behind it, the preserved wrong check value fits again. A query has no
        // payload, so a switch can see all the bytes that the check covers.
        let is_read = matches!(asked, Asked::Read(_));
        if is_read && icrc::verify(&packet, engine.memory()) == Verdict::Wrong {
            return pass.drop(port, DropReason::BadCheck, &packet);
        }
        self.walk(&mut pass.cursor, asked.key(), &mut progress);
        let Some(out) = self.way(forward, port, &packet, &progress) else {
            return pass.drop(port, DropReason::NoRoute, &packet);
        };
        let done = if self.is_trusted(out) {
            self.pass_on(&mut packet, progress)
        } else {
            self.finish(engine.config().rewrite, &mut packet, asked, &progress)
        };
        match done {
            Ok(()) => pass.forward(out, packet),
            Err(reason) => pass.drop(port, reason, &packet),
        }
    }

    /// A READ at its first switch. One with damaged headers is not passed on: if the same bit
    /// flipped again behind the switch, it would be a valid query that no switch has processed.
    fn take_read(&mut self, packet: &Packet) -> Result<(Asked, Progress), DropReason> {
        let headers = Headers::of(packet).map_err(|_| DropReason::Malformed)?;
        let pair = pair_key(headers.ipv4.target, headers.bth.target_qp);
        let Some(entry) = self.queries.lookup(pair) else {
            self.counters.unknown_pair += 1;
            return Err(DropReason::IndexUnknownPair);
        };
        let server = entry.server;
        self.counters.queries += 1;
        Ok((Asked::Read(headers), self.start(server, false)))
    }

    /// A request over plain UDP at its first switch. `None` if it is not for a server.
    fn take_lookup(&mut self, packet: &Packet) -> Option<(Asked, Progress)> {
        let asked = Start::of(packet).filter(|start| start.node == 0)?;
        let target = Datagram::of(packet).ok()?.ipv4.target;
        let Some(&server) = self.udp_servers.lookup(u32::from(target).into()) else {
            self.counters.unknown_server += 1;
            return None;
        };
        self.counters.lookups += 1;
        Some((Asked::Lookup(asked), self.start(server, true)))
    }

    /// A query that comes from another switch.
    fn take_carried(
        &mut self,
        port: PortId,
        packet: &mut Packet,
    ) -> Result<(Asked, Progress), DropReason> {
        if !self.is_trusted(port) {
            self.counters.forged += 1;
            return Err(DropReason::IndexForged);
        }
        let progress = query::detach(packet).map_err(|_| DropReason::Malformed)?;
        let is_at_root = (progress.node, progress.slot) == (ROOT, NO_SLOT);
        if !progress.fat_root_met && !is_at_root {
            return Err(DropReason::Malformed);
        }
        if progress.is_lookup {
            let asked = Start::of(packet).ok_or(DropReason::Malformed)?;
            return Ok((Asked::Lookup(asked), progress));
        }
        let headers = Headers::of(packet).map_err(|_| DropReason::Malformed)?;
        let is_query = query::sort(packet.header()) == Some(Kind::Read);
        if !is_query {
            return Err(DropReason::Malformed);
        }
        Ok((Asked::Read(headers), progress))
    }

    /// The initial progress of a query.
    fn start(&mut self, server: u16, is_lookup: bool) -> Progress {
        let settings = self.settings();
        if settings.active.is_none() {
            self.counters.no_bank += 1;
        }
        Progress {
            is_lookup,
            // Without a bank the query is not walked.
            fat_root_met: settings.active.is_none(),
            bank: settings.active.unwrap_or(0),
            hops: 0,
            layer: 0,
            depth: 0,
            slot: NO_SLOT,
            server,
            node: ROOT,
        }
    }

    /// The port by which a query leaves.
    fn way(
        &self,
        forward: &Forward,
        port: PortId,
        packet: &Packet,
        progress: &Progress,
    ) -> Option<PortId> {
        // A misconfigured switch above without the fat root would send it back.
        let up = self.settings().up.filter(|&up| up != port);
        match up {
            Some(up) if !progress.fat_root_met => Some(up),
            _ => forward.port_of(ethernet::target(packet.header())?),
        }
    }

    /// Prepares a query for another switch.
    fn pass_on(&mut self, packet: &mut Packet, mut progress: Progress) -> Result<(), DropReason> {
        if progress.hops == HOPS_MAX {
            self.counters.hops += 1;
            return Err(DropReason::IndexHops);
        }
        progress.hops += 1;
        query::attach(packet, &progress).map_err(|_| DropReason::Malformed)
    }

    /// Prepares a query for its server.
    fn finish(
        &mut self,
        rewrite: Rewrite,
        packet: &mut Packet,
        asked: Asked,
        progress: &Progress,
    ) -> Result<(), DropReason> {
        match asked {
            Asked::Lookup(_) => {
                let is_filled_in = Start::fill_in(packet, progress.node);
                debug_assert!(is_filled_in, "what was asked lies where it is answered");
            }
            Asked::Read(headers) => self.fill_in(rewrite, packet, headers, progress)?,
        }
        let depth = usize::from(progress.depth).min(DEPTHS - 1);
        self.counters.by_depth[depth] += 1;
        Ok(())
    }

    /// Writes address and key into a READ request.
    fn fill_in(
        &mut self,
        rewrite: Rewrite,
        packet: &mut Packet,
        mut headers: Headers,
        progress: &Progress,
    ) -> Result<(), DropReason> {
        let pair = pair_key(headers.ipv4.target, headers.bth.target_qp);
        let entry = self.queries.lookup(pair);
        // The tree node must be on the server that the query was sent to.
        let entry = entry.filter(|entry| entry.server == progress.server);
        let server = self.servers.lookup(usize::from(progress.server));
        let (Some(entry), Some(server)) = (entry, server) else {
            self.counters.unknown_pair += 1;
            return Err(DropReason::IndexUnknownPair);
        };
        if let Extension::Reth(reth) = &mut headers.extension {
            let offset = u64::from(progress.node) << (server.node_shift & 63);
            reth.address = server.address.wrapping_add(offset);
            reth.rkey = entry.rkey;
        }
        headers.udp.checksum = 0;
        rewrite.replace(packet, &headers);
        Ok(())
    }

    fn is_trusted(&self, port: PortId) -> bool {
        self.trusted.lookup(usize::from(port.0)).is_some()
    }

    fn settings(&self) -> Settings {
        self.settings.lookup(0).copied().unwrap_or_default()
    }
}
