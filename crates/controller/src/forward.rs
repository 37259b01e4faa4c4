//! Where hosts are: entries of forwarding, ARP and the source guard, one each per node.
//!
//! The controller keeps a book of what it has entered, so that a node that leaves, or comes back
//! with another address or at another port, leaves nothing behind. No two nodes, and no node and
//! the switch, may have an address in common: the first to be entered keeps it.

use crate::{Controller, NodeAddress, Site};
use rackweave_base::NodeId;
use rackweave_programs::Pipeline;
use rackweave_programs::forward::NextHop;
use rackweave_programs::guard::Source;
use rackweave_switch::table::TableError;
use std::collections::BTreeMap;

/// What has been entered.
#[derive(Default)]
pub(crate) struct HostBook {
    guard: bool,
    entered: BTreeMap<NodeId, NodeAddress>,
}

impl Controller {
    /// Whether the switch drops what a node sends in another's name (`programs::guard`); it does
    /// not unless told so here. It holds for nodes that are entered from now on. Each then needs a
    /// port of its own.
    pub fn guard_sources(&mut self, on: bool) {
        self.hosts.guard = on;
    }

    /// Enters every node of the site, where it now is, and removes those that are gone. What was
    /// entered before is entered again, since the switch may have restarted.
    ///
    /// # Errors
    /// The first node that could not be entered: the switch's tables are too small, or its address
    /// is taken. It is left out; all others are entered.
    pub fn install_hosts(&mut self, site: &mut dyn Site) -> Result<(), TableError> {
        let nodes = site.nodes();
        let gone: Vec<_> = self.hosts.entered.keys().copied().collect();
        self.replace(site, &gone, &nodes)
    }

    /// Enters one node, where it now is: it has joined, or come back. A node that the site does
    /// not know is removed.
    ///
    /// # Errors
    /// If the switch's tables are too small, or the node's address is taken; then the node has no
    /// entries.
    pub fn install_host(&mut self, site: &mut dyn Site, node: NodeId) -> Result<(), TableError> {
        let mut nodes = site.nodes();
        nodes.retain(|&(id, _)| id == node);
        self.replace(site, &[node], &nodes)
    }

    /// Removes the entries of a node that has left. Packets for it are dropped from now on, and
    /// its port is no longer guarded.
    pub fn remove_host(&mut self, site: &mut dyn Site, node: NodeId) {
        let removed = self.replace(site, &[node], &[]);
        debug_assert!(removed.is_ok(), "removal needs no room");
    }

    /// Removes, then enters: nodes may have changed places with each other.
    fn replace(
        &mut self,
        site: &mut dyn Site,
        old: &[NodeId],
        new: &[(NodeId, NodeAddress)],
    ) -> Result<(), TableError> {
        let mut result = Ok(());
        site.switch(&mut |_, switch| {
            let pipeline = switch.program_mut();
            for node in old {
                if let Some(address) = self.hosts.entered.remove(node) {
                    withdraw(pipeline, &address);
                }
            }
            for (node, address) in new {
                let entered = self
                    .check_free(address)
                    .and_then(|()| enter(pipeline, address, self.hosts.guard));
                match entered {
                    Ok(()) => _ = self.hosts.entered.insert(*node, *address),
                    Err(error) => result = result.and(Err(error)),
                }
            }
        });
        result
    }

    fn check_free(&self, address: &NodeAddress) -> Result<(), TableError> {
        let others = self
            .hosts
            .entered
            .values()
            .map(|other| (other.mac, other.ip));
        for (mac, ip) in others.chain([(self.switch.mac, self.switch.ip)]) {
            if ip == address.ip {
                return Err(TableError::Taken {
                    table: "forward.routes",
                    key: u32::from(ip).into(),
                });
            }
            if mac == address.mac {
                let [a, b, c, d, e, f] = mac.0;
                return Err(TableError::Taken {
                    table: "forward.hosts",
                    key: u64::from_be_bytes([0, 0, a, b, c, d, e, f]),
                });
            }
        }
        Ok(())
    }
}

fn source(address: &NodeAddress) -> Source {
    Source {
        mac: address.mac,
        ip: address.ip,
    }
}

/// Makes all entries, or none. The guard comes first: no packet may pass before it stands.
fn enter(pipeline: &mut Pipeline, at: &NodeAddress, guard: bool) -> Result<(), TableError> {
    if guard {
        pipeline.guard.add_source(at.port, source(at))?;
    }
    let hop = NextHop {
        port: at.port,
        mac: at.mac,
    };
    let forward = &mut pipeline.forward;
    forward
        .add_host(at.mac, at.port)
        .and_then(|()| forward.add_route(at.ip, 32, hop))
        .and_then(|()| pipeline.arp.add_host(at.ip, at.mac))
        .inspect_err(|_| withdraw(pipeline, at))
}

/// Removes what there is: a switch that has restarted has nothing.
fn withdraw(pipeline: &mut Pipeline, at: &NodeAddress) {
    pipeline.forward.remove_host(at.mac);
    pipeline.forward.remove_route(at.ip, 32);
    pipeline.arp.remove_host(at.ip);
    pipeline.guard.remove_source(at.port, source(at));
}
