//! The places of hosts: entries of forwarding, ARP and the source guard, one each per node.
//!
//! Every switch knows all nodes and the port that leads towards each, so any of them answers ARP
//! for all. Only a node's own edge switch guards its port: what arrives by a cable between switches
//! has passed a guard.
//!
//! The controller keeps a registry of its entries, so that a node that leaves, or returns with
//! another address or at another port, leaves nothing behind. No two nodes, and no node and the
//! switch, may share an address: the first to be entered keeps it.

use crate::{Controller, Fabric, NodeAddress, Site, SwitchAddress, Topology};
use rackweave_base::{MacAddr, NodeId, PortId};
use rackweave_programs::Pipeline;
use rackweave_programs::forward::NextHop;
use rackweave_programs::guard::HostAddresses;
use rackweave_switch::table::TableError;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::MutexGuard;

/// The entries made so far.
#[derive(Default)]
pub(crate) struct HostRegistry {
    guard: bool,
    entered: BTreeMap<NodeId, Entered>,
}

#[derive(Clone, Copy)]
struct Entered {
    address: NodeAddress,
    /// The edge switch, whose port `address` names.
    switch: usize,
}

/// A host as entered in one switch.
#[derive(Clone, Copy)]
struct Host {
    mac: MacAddr,
    ip: Ipv4Addr,
    /// The port to which packets for it are forwarded.
    port: PortId,
    /// Whether it alone is behind that port and may send there with its own source address only.
    guarded: bool,
}

impl Fabric {
    /// Sets whether the switch drops packets that a node sends with another's source address
    /// (`programs::guard`); by default it does not. It applies to nodes that are entered from now
    /// on. Each then needs a port of its own.
    pub fn guard_sources(&self, on: bool) {
        self.hosts().guard = on;
    }

    fn hosts(&self) -> MutexGuard<'_, HostRegistry> {
        self.hosts.lock().expect("no holder panics")
    }

    /// Enters every node of the site at its current place, and removes those that are gone.
    /// Existing entries are made again, since switches may have restarted. Other switches forward
    /// packets for switch 0 towards it.
    ///
    /// # Errors
    /// The first node that could not be entered: a switch's tables are too small, or its address is
    /// taken. It is left out; all others are entered.
    pub fn install_hosts(&self, site: &mut dyn Site) -> Result<(), TableError> {
        let nodes = site.nodes();
        let gone: Vec<_> = self.hosts().entered.keys().copied().collect();
        let result = self.replace(site, &gone, &nodes);
        let topology = site.topology();
        (0..site.switches()).fold(result, |result, at| {
            result.and(self.enter_cables(site, &topology, at))
        })
    }

    /// Enters one node at its current place: it has joined, or returned. A node that the site does
    /// not know is removed.
    ///
    /// # Errors
    /// If a switch's tables are too small, or the node's address is taken; then the node has no
    /// entries.
    pub fn install_host(&self, site: &mut dyn Site, node: NodeId) -> Result<(), TableError> {
        let mut nodes = site.nodes();
        nodes.retain(|&(id, _)| id == node);
        self.replace(site, &[node], &nodes)
    }

    /// Removes the entries of a node that has left. Packets for it are dropped from now on, and
    /// its port is no longer guarded.
    pub fn remove_host(&self, site: &mut dyn Site, node: NodeId) {
        let removed = self.replace(site, &[node], &[]);
        debug_assert!(removed.is_ok(), "removal needs no room");
    }

    /// Removes, then enters: nodes may have changed places with each other. At each switch that is
    /// one step, so that a node that stays is never missing.
    fn replace(
        &self,
        site: &mut dyn Site,
        old: &[NodeId],
        new: &[(NodeId, NodeAddress)],
    ) -> Result<(), TableError> {
        let topology = site.topology();
        // No node is asked meanwhile, only switches.
        let mut registry = self.hosts();
        let gone: Vec<_> = old
            .iter()
            .filter_map(|node| Some((*node, registry.entered.remove(node)?)))
            .collect();
        let mut errors = vec![None; new.len()];
        for ((node, address), error) in new.iter().zip(&mut errors) {
            match registry.check_free(address, self.switch) {
                Ok(()) => {
                    let entered = Entered {
                        address: *address,
                        switch: topology.place(*node).map_or(0, |place| place.switch),
                    };
                    registry.entered.insert(*node, entered);
                }
                Err(taken) => *error = Some(taken),
            }
        }
        for at in 0..site.switches() {
            site.switch_at(at, &mut |_, switch| {
                let pipeline = switch.program_mut();
                for (_, entered) in &gone {
                    withdraw(pipeline, at, entered);
                }
                for ((node, _), error) in new.iter().zip(&mut errors) {
                    let entered = registry.entered.get(node).filter(|_| error.is_none());
                    let host =
                        entered.and_then(|entered| registry.host(&topology, at, *node, entered));
                    *error = error.or_else(|| enter(pipeline, &host?).err());
                }
            });
        }
        let mut result = Ok(());
        for ((node, _), error) in new.iter().zip(errors) {
            let Some(error) = error else { continue };
            result = result.and(Err(error));
            // A node whose address is taken is not in the registry; one for which a table was full
            // is.
            let Some(entered) = registry.entered.remove(node) else {
                continue;
            };
            for at in 0..site.switches() {
                site.switch_at(at, &mut |_, switch| {
                    withdraw(switch.program_mut(), at, &entered);
                });
            }
        }
        result
    }

    /// Enters in a switch the route to switch 0, and the ports that lead to switches: by those
    /// arrive queries of an index that have passed one.
    fn enter_cables(
        &self,
        site: &mut dyn Site,
        topology: &Topology,
        at: usize,
    ) -> Result<(), TableError> {
        let up = topology.up(at);
        let switch_0 = up.map(|port| Host {
            mac: self.switch.mac,
            ip: self.switch.ip,
            port,
            guarded: false,
        });
        let mut result = Ok(());
        site.switch_at(at, &mut |_, switch| {
            let pipeline = switch.program_mut();
            if let Some(switch_0) = &switch_0 {
                result = enter(pipeline, switch_0);
            }
            let index = &mut pipeline.index;
            if index.is_present() {
                let set = index.set_up_port(up);
                let mut ports = topology.cable_ports(at);
                let trusted = ports.try_for_each(|port| index.set_trusted(port, true));
                result = result.and(set).and(trusted);
            }
        });
        result
    }
}

impl Controller {
    /// Restores the entries of a switch other than switch 0 that has restarted with empty tables.
    /// For switch 0 call [`Controller::switch_restarted`].
    ///
    /// # Errors
    /// If the switch's tables are too small for the nodes, which the first start rules out.
    pub fn edge_switch_restarted(
        &mut self,
        site: &mut dyn Site,
        at: usize,
    ) -> Result<(), TableError> {
        let topology = site.topology();
        let hosts: Vec<_> = {
            let registry = self.hosts();
            let entered = registry.entered.iter();
            entered
                .filter_map(|(&node, entered)| registry.host(&topology, at, node, entered))
                .collect()
        };
        let mut result = Ok(());
        site.switch_at(at, &mut |_, switch| {
            let pipeline = switch.program_mut();
            for host in &hosts {
                result = result.and(enter(pipeline, host));
            }
        });
        result.and(self.enter_cables(site, &topology, at))?;
        self.index.switch_restarted(site, at)
    }
}

impl HostRegistry {
    fn check_free(&self, address: &NodeAddress, switch: SwitchAddress) -> Result<(), TableError> {
        let others = self
            .entered
            .values()
            .map(|Entered { address, .. }| (address.mac, address.ip));
        for (mac, ip) in others.chain([(switch.mac, switch.ip)]) {
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

    /// A node as switch `at` is to know it. `None` if there is no path to it.
    fn host(
        &self,
        topology: &Topology,
        at: usize,
        node: NodeId,
        entered: &Entered,
    ) -> Option<Host> {
        let Entered { address, switch } = *entered;
        let is_local = switch == at;
        let port = if is_local {
            address.port
        } else {
            topology.port_towards(at, node)?
        };
        Some(Host {
            mac: address.mac,
            ip: address.ip,
            port,
            guarded: self.guard && is_local,
        })
    }
}

/// Makes all entries, or none. The guard comes first: no packet may pass before it is installed.
fn enter(pipeline: &mut Pipeline, host: &Host) -> Result<(), TableError> {
    let &Host { mac, ip, port, .. } = host;
    if host.guarded {
        pipeline.guard.add_source(port, HostAddresses { mac, ip })?;
    }
    let hop = NextHop { port, mac };
    let forward = &mut pipeline.forward;
    forward
        .add_host(mac, port)
        .and_then(|()| forward.add_route(ip, 32, hop))
        .and_then(|()| pipeline.arp.add_host(ip, mac))
        .inspect_err(|_| remove(pipeline, host))
}

/// Removes the entries of a node in switch `at`: one that has restarted has none.
fn withdraw(pipeline: &mut Pipeline, at: usize, entered: &Entered) {
    let NodeAddress { mac, ip, port } = entered.address;
    let guarded = entered.switch == at;
    remove(
        pipeline,
        &Host {
            mac,
            ip,
            port,
            guarded,
        },
    );
}

fn remove(pipeline: &mut Pipeline, host: &Host) {
    let &Host { mac, ip, port, .. } = host;
    pipeline.forward.remove_host(mac);
    pipeline.forward.remove_route(ip, 32);
    pipeline.arp.remove_host(ip);
    if host.guarded {
        pipeline
            .guard
            .remove_source(port, HostAddresses { mac, ip });
    }
}
