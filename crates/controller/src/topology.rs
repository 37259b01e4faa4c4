//! The switches of a rack, their cables, and the places of its nodes.
//!
//! Every topology is a tree with switch 0 at the top, so there is exactly one path between any two
//! places:
//!
//! ```text
//!   One          Two            FatTree { pods: 4 }: the tree below one core switch
//!    0           0 ── 1                             0                        core
//!   /|\         /|\  /|\             ┌─────────┬────┴────┬─────────┐
//!                                    1         2         3         4         aggregation
//!                                  ┌─┴─┐     ┌─┴─┐     ┌─┴─┐     ┌─┴─┐
//!                                  5   6     7   8     9  10    11  12       edge
//!                                 /|  /|    /|  /|    /|  /|    /|  /|       k/2 nodes each
//! ```
//!
//! A fat tree of k pods has k²/4 core switches; an index in the network uses one of them, and the
//! one aggregation switch of each pod that it reaches (fat-btree, section III-F).
//!
//! Plain data: it is made once and never changes. Source of the shapes: fat-btree, sections III-F
//! and V.

mod shape;

pub use shape::{IndexPart, PODS_MAX, Shape, SwitchRole};

use rackweave_base::{NodeId, PortId};
use std::collections::BTreeMap;

/// A cable between two switches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cable {
    /// The switch nearer to switch 0, and its port.
    pub upper: (usize, PortId),
    /// The other switch, and its port.
    pub lower: (usize, PortId),
}

/// The place of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodePlacement {
    /// Its edge switch.
    pub switch: usize,
    /// The port there.
    pub port: PortId,
}

/// Why nodes do not fit a topology.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TopologyError {
    /// There is no fat tree with this number of pods.
    #[error("a fat tree of {0} pods cannot be: take an even number from 2 to {PODS_MAX}")]
    Pods(u16),
    /// A node is assigned to a switch that does not exist.
    #[error("node{} is to hang at switch {switch}; there are switches 0 to {last}", node.0)]
    NoSwitch {
        /// The node.
        node: NodeId,
        /// The switch.
        switch: u16,
        /// The last existing switch.
        last: usize,
    },
    /// A node is assigned to a switch that connects only switches.
    #[error(
        "node{} is to hang at switch {switch}, which is {role} and has other switches only; take \
         one of {first} to {last}", node.0
    )]
    NotEdge {
        /// The node.
        node: NodeId,
        /// The switch.
        switch: u16,
        /// The switch's role.
        role: SwitchRole,
        /// The first edge switch.
        first: usize,
        /// The last edge switch.
        last: usize,
    },
    /// More nodes are assigned to a switch than it has ports for.
    #[error(
        "node{} finds no port at switch {switch}, which has {ports} for nodes; let it hang at \
         another, or take more pods", node.0
    )]
    Full {
        /// The node that has no port.
        node: NodeId,
        /// The switch.
        switch: usize,
        /// Its ports for nodes.
        ports: usize,
    },
    /// There are more nodes than ports for them.
    #[error(
        "{nodes} nodes are too many: the edge switches have {ports} ports for them; take more pods \
         or fewer nodes"
    )]
    TooMany {
        /// Number of nodes.
        nodes: usize,
        /// Ports for them.
        ports: usize,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct SwitchPlacement {
    role: SwitchRole,
    ports: u16,
    /// The port that leads up, and the switch and port at the other end of its cable.
    up: Option<(PortId, usize, PortId)>,
}

/// Switches, cables, and places of nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    shape: Shape,
    switches: Vec<SwitchPlacement>,
    nodes: BTreeMap<NodeId, NodePlacement>,
}

impl Topology {
    /// One switch with these nodes at these ports.
    pub fn one(nodes: impl IntoIterator<Item = (NodeId, PortId)>) -> Self {
        let place = |(node, port)| (node, NodePlacement { switch: 0, port });
        let nodes: BTreeMap<_, _> = nodes.into_iter().map(place).collect();
        let ports = nodes.values().map(|place| place.port.0.saturating_add(1));
        let only = SwitchPlacement {
            role: SwitchRole::Only,
            ports: ports.max().unwrap_or(0),
            up: None,
        };
        Self {
            shape: Shape::One,
            switches: vec![only],
            nodes,
        }
    }

    /// A shape with nodes numbered from zero. Each is at the switch that `wishes` names; those
    /// without a wish take the free ports in order, edge switch by edge switch. Nodes have the
    /// lower ports of their switch in the order of their numbers; the cables have the higher ones.
    ///
    /// # Errors
    /// If the shape is invalid, or there is no place for a node.
    pub fn new(shape: Shape, wishes: &[Option<u16>]) -> Result<Self, TopologyError> {
        if let Shape::FatTree { pods } = shape
            && !(pods.is_multiple_of(2) && (2..=PODS_MAX).contains(&pods))
        {
            return Err(TopologyError::Pods(pods));
        }
        let roles = shape.roles();
        let at = place_nodes(shape, &roles, wishes)?;
        let mut taken = vec![0u16; roles.len()];
        if let Some(ports) = shape.node_ports() {
            // All edge switches have the same layout, whatever nodes they have.
            for (at, role) in roles.iter().enumerate() {
                if *role == SwitchRole::Edge {
                    taken[at] = ports as u16;
                }
            }
        }
        let mut next = vec![0u16; roles.len()];
        let mut nodes = BTreeMap::new();
        for (node, switch) in (0u16..).map(NodeId).zip(at) {
            let port = PortId(next[switch]);
            next[switch] += 1;
            taken[switch] = taken[switch].max(next[switch]);
            nodes.insert(node, NodePlacement { switch, port });
        }
        let mut switches: Vec<_> = roles
            .into_iter()
            .zip(taken)
            .map(|(role, ports)| SwitchPlacement {
                role,
                ports,
                up: None,
            })
            .collect();
        for lower in 1..switches.len() {
            let upper = match shape {
                Shape::FatTree { pods } => parent(lower, usize::from(pods)),
                Shape::One | Shape::Two => 0,
            };
            let port = PortId(switches[upper].ports);
            switches[upper].ports += 1;
            switches[lower].up = Some((PortId::default(), upper, port));
        }
        // The port that leads up is a switch's last.
        for place in &mut switches {
            if let Some((port, ..)) = &mut place.up {
                *port = PortId(place.ports);
                place.ports += 1;
            }
        }
        Ok(Self {
            shape,
            switches,
            nodes,
        })
    }

    /// The shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The number of switches.
    pub fn switches(&self) -> usize {
        self.switches.len()
    }

    /// The ports of a switch.
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn ports(&self, switch: usize) -> u16 {
        self.switches[switch].ports
    }

    /// The role of a switch.
    ///
    /// # Panics
    /// If there is no such switch.
    pub fn role(&self, switch: usize) -> SwitchRole {
        self.switches[switch].role
    }

    /// The port that leads towards switch 0, where a query meets the fat root; `None` at switch 0.
    pub fn up(&self, switch: usize) -> Option<PortId> {
        self.switches.get(switch)?.up.map(|(port, ..)| port)
    }

    /// The cables, by their lower switch.
    pub fn cables(&self) -> impl Iterator<Item = Cable> {
        let ups = self.switches.iter().map(|place| place.up).enumerate();
        ups.filter_map(|(lower, up)| {
            let (port, upper, upper_port) = up?;
            Some(Cable {
                upper: (upper, upper_port),
                lower: (lower, port),
            })
        })
    }

    /// The ports of a switch that lead to other switches.
    pub fn cable_ports(&self, switch: usize) -> impl Iterator<Item = PortId> {
        self.cables()
            .flat_map(|cable| [cable.upper, cable.lower])
            .filter_map(move |(at, port)| (at == switch).then_some(port))
    }

    /// The nodes and their places.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, NodePlacement)> {
        self.nodes.iter().map(|(&node, &place)| (node, place))
    }

    /// The place of a node.
    pub fn place(&self, node: NodeId) -> Option<NodePlacement> {
        self.nodes.get(&node).copied()
    }

    /// Whether a node is attached to this switch.
    pub fn is_local(&self, switch: usize, node: NodeId) -> bool {
        self.place(node).is_some_and(|place| place.switch == switch)
    }

    /// The port by which packets for a node leave a switch. `None` if there is no such node or
    /// switch.
    pub fn port_towards(&self, switch: usize, node: NodeId) -> Option<PortId> {
        let place = self.place(node)?;
        self.switches.get(switch)?;
        let mut below = place.switch;
        let mut port = place.port;
        // Up from the node until this switch, or until the top: then the path leads up from here.
        while below != switch {
            match self.switches[below].up {
                Some((_, upper, upper_port)) => (below, port) = (upper, upper_port),
                None => return self.up(switch),
            }
        }
        Some(port)
    }

    /// The number of switches that a packet from one node to another passes.
    pub fn hops(&self, from: NodeId, to: NodeId) -> Option<usize> {
        let way = |node| {
            let first = Some(self.place(node)?.switch);
            let up = |at: &usize| self.switches[*at].up.map(|(_, upper, _)| upper);
            Some(core::iter::successors(first, up).collect::<Vec<_>>())
        };
        let (a, b) = (way(from)?, way(to)?);
        let shared = a.iter().rev().zip(b.iter().rev());
        let shared = shared.take_while(|(a, b)| a == b).count();
        // The common part of both paths to the top is passed once, at its lowest switch.
        Some(a.len() + b.len() - 2 * shared + 1)
    }
}

/// The parent of a switch of a fat tree.
fn parent(lower: usize, pods: usize) -> usize {
    match lower.checked_sub(1 + pods) {
        None => 0,
        Some(edge) => 1 + edge / (pods / 2),
    }
}

/// The switch of each node.
fn place_nodes(
    shape: Shape,
    roles: &[SwitchRole],
    wishes: &[Option<u16>],
) -> Result<Vec<usize>, TopologyError> {
    let is_edge = |role: SwitchRole| !matches!(role, SwitchRole::Core | SwitchRole::Aggregation);
    let first = roles.iter().position(|&role| is_edge(role)).unwrap_or(0);
    let last = roles.len() - 1;
    let most = shape.node_ports().unwrap_or(usize::MAX);
    let places = most.saturating_mul(roles.len() - first);
    if wishes.len() > places {
        let (nodes, ports) = (wishes.len(), places);
        return Err(TopologyError::TooMany { nodes, ports });
    }
    let mut ports_left = vec![most; roles.len()];
    for (node, wish) in (0u16..).map(NodeId).zip(wishes) {
        let &Some(switch) = wish else { continue };
        let at = usize::from(switch);
        match roles.get(at) {
            None => return Err(TopologyError::NoSwitch { node, switch, last }),
            Some(&role) if !is_edge(role) => {
                return Err(TopologyError::NotEdge {
                    node,
                    switch,
                    role,
                    first,
                    last,
                });
            }
            Some(_) if ports_left[at] == 0 => {
                let (switch, ports) = (at, most);
                return Err(TopologyError::Full {
                    node,
                    switch,
                    ports,
                });
            }
            Some(_) => ports_left[at] -= 1,
        }
    }
    let mut free = first;
    let places = wishes.iter().map(|wish| match wish {
        Some(switch) => usize::from(*switch),
        None => {
            // There are at least as many ports as nodes, so this ends.
            while ports_left[free] == 0 {
                free += 1;
            }
            ports_left[free] -= 1;
            free
        }
    });
    Ok(places.collect())
}

#[cfg(test)]
#[path = "topology_tests.rs"]
mod tests;
