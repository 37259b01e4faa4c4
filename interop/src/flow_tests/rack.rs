//! A rack of two guests and two nodes with soft NICs around this project's switch.

use super::proxy::Proxy;
use crate::cable::Cable;
use crate::driver::{Driver, Machine};
use crate::failure::{Failure, Outcome};
use crate::guest::{self, Guest};
use crate::test_node::{BURST, TestNode};
use rackweave_base::{Duration, Instant, KeyRng, MacAddr, Memory, NodeId, PortId, Rkey, Rng};
use rackweave_controller::{
    Controller, LocalRegions, NodeAddress, RegionError, RegionName, RegionPurpose, Site,
    SwitchAddress,
};
use rackweave_link::in_process::{self, InProcess};
use rackweave_link::{Capture, Link, SharedCapture};
use rackweave_nic::Nic;
use rackweave_programs::flows::FlowConfig;
use rackweave_programs::{Pipeline, PipelineConfig};
use rackweave_switch::transfer::EngineConfig;
use rackweave_switch::{Budget, Switch, SwitchConfig};
use rackweave_verbs::{Access, PdId, Verbs};
use rackweave_wire::Rewrite;
use std::net::Ipv4Addr;

/// The nodes: two guests, and two of this project. Each is at the port of its number.
pub const GUESTS: [NodeId; 2] = [NodeId(0), NodeId(1)];
/// See [`GUESTS`].
pub const OURS: [NodeId; 2] = [NodeId(2), NodeId(3)];

const SWITCH: SwitchAddress = SwitchAddress {
    mac: MacAddr([2, 0, 0, 0x77, 0, 254]),
    ip: Ipv4Addr::new(10, 78, 0, 254),
};

fn pipeline_config(rewrite: Rewrite) -> PipelineConfig {
    PipelineConfig {
        ip: SWITCH.ip,
        engine: EngineConfig {
            lanes: 128,
            // An emulated guest takes milliseconds for a batch; losses should cost little more.
            timeout: Duration::from_millis(250),
            retries: 12,
            acknowledge_every: 8,
            check: true,
            rewrite,
            mac: SWITCH.mac,
        },
        flows: FlowConfig {
            threads: 8,
            producers: 16,
        },
        pages: rackweave_programs::pages::PagesConfig::NONE,
        sequencer: rackweave_programs::sequencer::SequencerConfig::NONE,
        index: rackweave_programs::index::IndexConfig::NONE,
        hosts: 8,
        routes: 8,
    }
}

/// The rack. Its packets are recorded at the switch's ports.
pub struct Rack {
    /// The controller.
    pub controller: Controller,
    /// The nodes that it controls.
    pub site: RackSite,
}

/// The switch and the nodes of the rack.
pub struct RackSite {
    driver: Driver<Machines>,
    guests: Vec<Proxy>,
    addresses: Vec<(NodeId, NodeAddress)>,
    regions: LocalRegions,
}

/// The state machines that one thread runs.
struct Machines {
    switch: Switch<Pipeline>,
    cables: Vec<Cable>,
    /// The switch's ends of the links to this project's nodes; their ports follow those of the
    /// cables.
    links: Vec<Capture<InProcess>>,
    nodes: Vec<TestNode<InProcess>>,
}

impl Machines {
    fn link(&mut self, port: usize) -> &mut dyn Link {
        match port.checked_sub(self.cables.len()) {
            None => &mut self.cables[port],
            Some(at) => &mut self.links[at],
        }
    }

    fn run_port(&mut self, port: usize, now: Instant) -> bool {
        let (id, mut moved) = (PortId(port as u16), false);
        for _ in 0..BURST {
            let Some(packet) = self.link(port).receive(now) else {
                break;
            };
            moved = true;
            self.switch.handle_packet(now, id, packet);
        }
        let free = self.link(port).free();
        for _ in 0..self.switch.egress_len(id).min(free) {
            let Some(packet) = self.switch.poll_transmit(id) else {
                break;
            };
            moved = true;
            let sent = self.link(port).send(now, packet);
            debug_assert!(sent.is_ok(), "the link said that it had free");
        }
        moved
    }
}

impl Machine for Machines {
    fn run(&mut self, now: Instant) -> bool {
        let mut moved = false;
        if self.switch.poll_timeout().is_some_and(|due| due <= now) {
            self.switch.handle_timeout(now);
            moved = true;
        }
        for port in 0..self.cables.len() + self.links.len() {
            moved |= self.run_port(port, now);
        }
        for node in &mut self.nodes {
            moved |= node.run(now);
        }
        moved
    }
}

impl Rack {
    /// Connects both guests and two nodes of this project to a switch.
    pub fn start(
        guests: &[Guest; 2],
        memory: &Memory,
        capture: &SharedCapture,
        rewrite: Rewrite,
        rng: &mut Rng,
    ) -> Outcome<Self> {
        let config = pipeline_config(rewrite);
        let switch = Switch::load(
            Pipeline::new(&config, memory.clone()),
            Budget::Tofino1,
            SwitchConfig::default(),
        )
        .map_err(|error| Failure::refused("the switch", error))?;
        let (mut cables, mut links, mut nodes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut addresses, mut proxies) = (Vec::new(), Vec::new());
        for (guest, node) in guests.iter().zip(GUESTS) {
            let rng = rng.fork(&format!("cable {}", guest.id));
            let port = PortId(node.0);
            cables.push(Cable::plug(guest, memory, capture, port, rng)?);
            proxies.push(Proxy::new(guest.node()?));
            let (mac, ip) = (guest::mac(guest.id), guest::ip(guest.id));
            addresses.push((node, NodeAddress { mac, ip, port }));
        }
        for node in OURS {
            let last = node.0 as u8 + 200;
            let (mac, ip) = (
                MacAddr([2, 0, 0, 0x77, 0, last]),
                Ipv4Addr::new(10, 78, 0, last),
            );
            let rng = rng.fork(&format!("nic {}", node.0));
            let (near, far) = in_process::pair(256);
            let port = PortId(node.0);
            links.push(Capture::new(far, capture.clone(), port));
            nodes.push(TestNode::new(ip, mac, near, memory, rng));
            addresses.push((node, NodeAddress { mac, ip, port }));
        }
        let mut site = RackSite {
            driver: Driver::start(Machines {
                switch,
                cables,
                links,
                nodes,
            }),
            guests: proxies,
            addresses,
            regions: LocalRegions::new(memory.clone()),
        };
        let (lanes, flows) = (config.engine.lanes, config.flows);
        let rng = rng.fork("controller");
        let controller = Controller::new(
            SWITCH,
            lanes,
            flows.threads,
            flows.producers,
            KeyRng::seeded(rng),
        );
        controller.guard_sources(true);
        controller
            .install_hosts(&mut site)
            .map_err(|error| Failure::refused("the switch's tables", error))?;
        Ok(Self { controller, site })
    }
}

impl RackSite {
    /// From now on each packet on a guest's cable is lost with this probability.
    pub fn set_loss(&self, loss: f64) {
        self.driver.with(|machines| {
            for cable in &mut machines.cables {
                cable.set_loss(loss);
            }
        });
    }

    /// Packets lost so far, in both directions on both cables.
    pub fn lost(&self) -> u64 {
        self.driver.with(|machines| {
            let lost = machines.cables.iter().map(Cable::lost);
            lost.map(|(out, inbound)| out + inbound).sum()
        })
    }

    /// Packets that the switch has sent so far.
    pub fn forwarded(&self) -> u64 {
        let sent = |machines: &mut Machines| machines.switch.counters().packets_out;
        self.driver.with(sent)
    }

    /// The guest at a node; `None` if the node is one of this project.
    pub fn guest(&mut self, node: NodeId) -> Option<&mut Proxy> {
        self.guests.get_mut(usize::from(node.0))
    }

    /// The memory of this project's nodes.
    pub fn regions(&self) -> &LocalRegions {
        &self.regions
    }

    fn nic<R>(&self, node: NodeId, act: impl FnOnce(&mut Nic) -> R) -> Option<R> {
        let at = OURS.iter().position(|&ours| ours == node)?;
        Some(
            self.driver
                .with(|machines| act(&mut machines.nodes[at].nic)),
        )
    }
}

impl Site for RackSite {
    fn now(&self) -> Instant {
        self.driver.now()
    }

    fn nodes(&self) -> Vec<(NodeId, NodeAddress)> {
        self.addresses.clone()
    }

    fn node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        // The state machines run meanwhile, because the guest asks the switch for addresses.
        if let Some(proxy) = self.guest(node) {
            act(proxy);
            return true;
        }
        self.nic(node, |nic| act(nic)).is_some()
    }

    fn make_region(
        &mut self,
        node: NodeId,
        pd: PdId,
        len: u64,
        access: Access,
        _purpose: RegionPurpose,
    ) -> Result<RegionName, RegionError> {
        if let Some(proxy) = self.guest(node) {
            return proxy.make_region(len, access);
        }
        let made = self.nic(node, |nic| self.regions.make(nic, node, pd, len, access));
        made.unwrap_or(Err(RegionError::NoNode))
    }

    fn remove_region(&mut self, node: NodeId, name: &RegionName) {
        if let Some(proxy) = self.guest(node) {
            return proxy.remove_region(name.rkey);
        }
        if let Some(region) = self.regions.remove(node, name.rkey) {
            self.nic(node, |nic| nic.deregister(&region));
        }
    }

    fn load_word(&mut self, node: NodeId, rkey: Rkey, offset: u64) -> Option<[u8; 8]> {
        match self.guest(node) {
            Some(proxy) => proxy.load(rkey, offset),
            None => self.regions.load(node, rkey, offset),
        }
    }

    fn store_word(&mut self, node: NodeId, rkey: Rkey, offset: u64, bytes: [u8; 8]) {
        match self.guest(node) {
            Some(proxy) => proxy.store(rkey, offset, bytes),
            None => self.regions.store(node, rkey, offset, bytes),
        }
    }

    fn switch(&mut self, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>)) {
        let now = self.driver.now();
        self.driver.with(|machines| act(now, &mut machines.switch));
    }
}
