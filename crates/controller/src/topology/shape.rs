//! Shapes of racks: how many switches there are, and the role of each.

use core::fmt;

/// The number of switches and their cables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Shape {
    /// One switch.
    #[default]
    One,
    /// Two switches with a cable between them; nodes are at either.
    Two,
    /// The tree below one core switch of a fat tree: a core switch, an aggregation switch per pod,
    /// and in each pod half as many edge switches as there are pods, each with as many nodes.
    FatTree {
        /// Number of pods: even, 2 to [`PODS_MAX`].
        pods: u16,
    },
}

/// Maximum number of pods: then there are 128 places for nodes.
pub const PODS_MAX: u16 = 8;

/// The role of a switch in its topology.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwitchRole {
    /// The only switch.
    Only,
    /// Switch 0 of two: the clients' side.
    First,
    /// Switch 1 of two: the servers' side.
    Second,
    /// Reaches every pod.
    Core,
    /// Reaches the edge switches of its pod and the core.
    Aggregation,
    /// Has nodes.
    Edge,
}

/// The part of a B+tree that a switch can hold (fat-btree, section III-F).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexPart {
    /// Whether the fat root is here.
    pub fat_root: bool,
    /// The first layer below the fat root that may be here, counted from one.
    pub first_layer: u8,
    /// Maximum number of layers here.
    pub layers_max: u8,
}

impl fmt::Display for SwitchRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SwitchRole::Only => "the only one",
            SwitchRole::First => "the first",
            SwitchRole::Second => "the second",
            SwitchRole::Core => "core",
            SwitchRole::Aggregation => "aggregation",
            SwitchRole::Edge => "edge",
        })
    }
}

impl SwitchRole {
    /// The part of a B+tree that switches of this role can hold.
    pub const fn index_part(self) -> IndexPart {
        let (fat_root, first_layer, layers_max) = match self {
            SwitchRole::Only => (true, 1, 2),
            SwitchRole::First => (true, 1, 1),
            SwitchRole::Second => (false, 2, 2),
            SwitchRole::Core => (true, 1, 0),
            SwitchRole::Aggregation => (false, 1, 2),
            SwitchRole::Edge => (false, 3, 2),
        };
        IndexPart {
            fat_root,
            first_layer,
            layers_max,
        }
    }
}

impl Shape {
    /// The roles of the switches, by number.
    pub fn roles(self) -> Vec<SwitchRole> {
        match self {
            Shape::One => vec![SwitchRole::Only],
            Shape::Two => vec![SwitchRole::First, SwitchRole::Second],
            Shape::FatTree { pods } => {
                let k = usize::from(pods);
                let mut roles = vec![SwitchRole::Core];
                roles.resize(1 + k, SwitchRole::Aggregation);
                roles.resize(1 + k + k * (k / 2), SwitchRole::Edge);
                roles
            }
        }
    }

    /// The role of switch 0.
    pub fn top(self) -> SwitchRole {
        match self {
            Shape::One => SwitchRole::Only,
            Shape::Two => SwitchRole::First,
            Shape::FatTree { .. } => SwitchRole::Core,
        }
    }

    /// Maximum layers of tree nodes that a query can pass on its path.
    pub fn layers_max(self) -> u8 {
        match self {
            Shape::One => 2,
            Shape::Two => 3,
            Shape::FatTree { .. } => 4,
        }
    }

    /// Ports for nodes of each switch that has any; `None` means unlimited.
    pub(super) fn node_ports(self) -> Option<usize> {
        match self {
            Shape::One | Shape::Two => None,
            Shape::FatTree { pods } => Some(usize::from(pods / 2)),
        }
    }
}
