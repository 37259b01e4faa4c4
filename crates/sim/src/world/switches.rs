//! The switches of the world: state machines, port connections, cables between them.

use super::config::{CableModel, WorldConfig};
use super::node::Pipe;
use super::{SwitchPort, World, WorldError};
use crate::queue::Alarm;
use rackweave_base::{Instant, Memory, Packet, PortId, Rng};
use rackweave_link::{FaultConfig, FaultError};
use rackweave_switch::{Program, Switch};

/// The trace location of port 0 of switch 0; further switches follow in steps of this size. Nodes
/// are numbered from zero.
const SWITCH_TRACE_ID: u64 = 1 << 16;

/// The far end of a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Far {
    Nothing,
    Node(u16),
    /// This direction of a cable begins here.
    Cable(u16),
}

pub(super) struct SwitchSlot<P: Program> {
    pub(super) machine: Switch<P>,
    pub(super) alarm: Alarm,
    /// By port.
    pub(super) ports: Vec<Far>,
}

/// One direction of a cable between switches.
pub(super) struct CablePipe {
    pub(super) pipe: Pipe,
    /// Where it ends.
    pub(super) to: SwitchPort,
}

impl SwitchPort {
    /// Its location in the trace.
    pub(super) fn trace_id(self) -> u64 {
        (SWITCH_TRACE_ID + (u64::from(self.switch) << 16)) | u64::from(self.port.0)
    }
}

impl<P: Program> SwitchSlot<P> {
    #[inline]
    pub(super) fn handle_packet(&mut self, now: Instant, port: PortId, packet: Packet) {
        self.machine.handle_packet(now, port, packet);
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.alarm.fired(now);
        self.machine.handle_timeout(now);
    }
}

/// The switch port of each node.
pub(super) fn places(config: &WorldConfig) -> Result<Vec<SwitchPort>, WorldError> {
    let (nodes, places) = (config.nodes.len(), config.places.len());
    if places == nodes {
        return Ok(config.places.clone());
    }
    if places > 0 {
        return Err(WorldError::Places { nodes, places });
    }
    let ports = (0..nodes).map(|port| SwitchPort {
        switch: 0,
        port: PortId(port as u16),
    });
    Ok(ports.collect())
}

/// The switches with all ports connected.
pub(super) fn plug<P: Program>(
    machines: Vec<Switch<P>>,
    places: &[SwitchPort],
    cables: &[CableModel],
) -> Result<Vec<SwitchSlot<P>>, WorldError> {
    let slots = machines.into_iter().map(|machine| SwitchSlot {
        ports: vec![Far::Nothing; usize::from(machine.ports())],
        machine,
        alarm: Alarm::default(),
    });
    let mut slots: Vec<_> = slots.collect();
    let nodes = (0u16..)
        .zip(places)
        .map(|(node, &at)| (at, Far::Node(node)));
    let ends = cables.iter().flat_map(|cable| cable.ends);
    let ends = (0u16..).zip(ends).map(|(pipe, at)| (at, Far::Cable(pipe)));
    for (at, far) in nodes.chain(ends) {
        let ports = slots
            .get_mut(usize::from(at.switch))
            .map(|slot| &mut slot.ports);
        let port = ports.and_then(|ports| ports.get_mut(usize::from(at.port.0)));
        match port {
            Some(port) if *port == Far::Nothing => *port = far,
            _ => return Err(WorldError::Port(at)),
        }
    }
    Ok(slots)
}

/// Both directions of every cable: the one that begins at its first end, then the one that begins
/// at its second.
pub(super) fn lay(
    cables: &[CableModel],
    faults: &FaultConfig,
    rng: &mut Rng,
    memory: &Memory,
) -> Result<Vec<CablePipe>, FaultError> {
    let mut pipes = Vec::with_capacity(2 * cables.len());
    for cable in cables {
        for to in [cable.ends[1], cable.ends[0]] {
            let pipe = Pipe::new(cable.link, faults, rng, memory)?;
            pipes.push(CablePipe { pipe, to });
        }
    }
    Ok(pipes)
}

impl<P: Program> World<P> {
    /// Number of switches.
    pub fn switch_count(&self) -> usize {
        self.switches.len()
    }

    /// Switch 0.
    pub fn switch(&self) -> &Switch<P> {
        &self.switches[0].machine
    }

    /// Switch 0, for the control plane. Call [`World::kick`] after changes.
    pub fn switch_mut(&mut self) -> &mut Switch<P> {
        &mut self.switches[0].machine
    }

    /// A switch. None if there is no such switch.
    pub fn switch_at(&self, at: usize) -> Option<&Switch<P>> {
        self.switches.get(at).map(|slot| &slot.machine)
    }

    /// A switch, for the control plane. Call [`World::kick`] after changes.
    pub fn switch_at_mut(&mut self, at: usize) -> Option<&mut Switch<P>> {
        self.switches.get_mut(at).map(|slot| &mut slot.machine)
    }

    /// Number of cables between switches.
    pub fn cable_count(&self) -> usize {
        self.cables.len() / 2
    }

    /// Cuts (`true`) or repairs a cable between switches, in both directions. Returns false if
    /// there is no such cable.
    pub fn set_cable_down(&mut self, cable: usize, down: bool) -> bool {
        let Some(pipes) = self.cables.get_mut(2 * cable..2 * cable + 2) else {
            return false;
        };
        for pipe in pipes {
            pipe.pipe.link.set_down(down);
        }
        true
    }

    /// Changes the faults on a cable between switches, in both directions, from now on.
    ///
    /// # Errors
    /// If the faults are invalid; the old ones stay. A cable that does not exist has no faults.
    pub fn set_cable_faults(
        &mut self,
        cable: usize,
        faults: FaultConfig,
    ) -> Result<(), FaultError> {
        faults.check()?;
        for pipe in self.cables.iter_mut().skip(2 * cable).take(2) {
            pipe.pipe.link.set_config(faults)?;
        }
        Ok(())
    }
}
