//! Loads a plan into one switch, piece by piece.

use super::NOBODY;
use super::leads::{Lead, PlanEntry};
use super::plan::IndexPlan;
use crate::unanswered::AskError;
use rackweave_base::text::Text;
use rackweave_programs::index::Index;
use rackweave_programs::index::entries::{IndexConfig, LoadError, NO_SLOT};
use rackweave_switch::table::TableError;
use serde::{Deserialize, Serialize};

/// Why a plan was not loaded, or an entry for the index not made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum IndexLoadError {
    /// The controller was not reached.
    #[error(transparent)]
    Controller(#[from] AskError),
    /// No switch leads queries.
    #[error("no switch has an index program; give one a size, or read by RPC or one-sided")]
    NoIndex,
    /// No switch has the fat root.
    #[error("no switch has room for a fat root; give one fat_ranges")]
    NoFatRoot,
    /// A switch has less capacity than the plan needs.
    #[error(
        "the plan needs {needs} {what}, and switch {switch} has room for {has}; raise {setting}"
    )]
    NoRoom {
        /// The switch.
        switch: usize,
        /// The resource.
        #[serde(with = "rackweave_base::text")]
        what: Text,
        /// The number needed.
        needs: usize,
        /// The capacity.
        has: usize,
        /// The setting to raise.
        #[serde(with = "rackweave_base::text")]
        setting: Text,
    },
    /// No switch has capacity for a layer of the plan.
    #[error("the plan has {layers} layers, but layer {layer} is in no switch; plan fewer layers")]
    NoLayer {
        /// The first layer without a switch.
        layer: usize,
        /// The plan's layers.
        layers: usize,
    },
    /// A server has not been entered.
    #[error("server {server} is not entered; enter it before what names it")]
    UnknownServer {
        /// Its number.
        server: u16,
    },
    /// The number belongs to an endpoint of another node.
    #[error("server {server} is at another node; remove it there, or take another number")]
    ServerTaken {
        /// The number.
        server: u16,
    },
    /// No loaded plan can be activated.
    #[error("no plan is loaded on all switches: begin to load one, and load until it is done")]
    NotLoaded,
    /// A switch refused an entry.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A table of a switch is too small.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// The progress of loading a plan into a switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor {
    /// The bank has been emptied, and has the fat root if it is in this switch.
    is_begun: bool,
    /// Complete layers of this switch.
    layers: u8,
    /// Loaded tree nodes of the next layer.
    nodes: usize,
    /// The switch has the complete plan.
    pub is_done: bool,
}

impl Cursor {
    /// No progress yet.
    pub fn new(config: &IndexConfig) -> Self {
        Self {
            is_begun: false,
            layers: 0,
            nodes: 0,
            is_done: config.servers == 0,
        }
    }
}

/// Checks that the switches have capacity for a plan.
pub(super) fn check_room(configs: &[IndexConfig], plan: &IndexPlan) -> Result<(), IndexLoadError> {
    let here = || configs.iter().filter(|config| config.servers > 0);
    if here().next().is_none() {
        return Err(IndexLoadError::NoIndex);
    }
    if here().all(|config| config.fat_ranges == 0) {
        return Err(IndexLoadError::NoFatRoot);
    }
    let layers = plan.layers.len();
    let is_nowhere = |layer: &usize| here().all(|config| !has_layer(config, *layer));
    if let Some(layer) = (1..=layers).find(is_nowhere) {
        return Err(IndexLoadError::NoLayer { layer, layers });
    }
    for (switch, config) in configs.iter().enumerate() {
        if config.servers == 0 {
            continue;
        }
        let has_ranges = usize::from(config.fat_ranges);
        // A switch without a fat root gets none.
        let ranges = if has_ranges == 0 {
            0
        } else {
            plan.fat_root.ranges.len()
        };
        let needed = (1..=layers).filter(|&layer| has_layer(config, layer));
        let nodes = needed.map(|layer| plan.layers[layer - 1].len()).max();
        for (what, needs, has, setting) in [
            ("ranges", ranges, has_ranges, "fat_ranges"),
            (
                "tree nodes in a layer",
                nodes.unwrap_or(0),
                config.nodes.into(),
                "nodes",
            ),
        ] {
            if needs > has {
                return Err(IndexLoadError::NoRoom {
                    switch,
                    what,
                    needs,
                    has,
                    setting,
                });
            }
        }
    }
    Ok(())
}

fn has_layer(config: &IndexConfig, layer: usize) -> bool {
    let first = usize::from(config.first_layer);
    (first..first + usize::from(config.layers)).contains(&layer)
}

/// Loads up to `budget` more tree nodes into a switch; sets `is_done` when it has all. It begins
/// with emptying the bank and writing the fat root.
pub(super) fn load_piece(
    index: &mut Index,
    (plan, bank): (&IndexPlan, usize),
    cursor: &mut Cursor,
    budget: usize,
) -> Result<bool, LoadError> {
    let config = *index.config();
    if !cursor.is_begun {
        index.clear(bank)?;
        if config.fat_ranges > 0 {
            index.load_fat_root(bank, &plan.fat_root)?;
        }
        cursor.is_begun = true;
    }
    let mut left = budget.max(1);
    while cursor.layers < config.layers && left > 0 {
        let layer = config.first_layer + cursor.layers;
        let at = usize::from(layer).checked_sub(1);
        let nodes = at.and_then(|at| plan.layers.get(at));
        let nodes = nodes.map_or(&[][..], |nodes| &nodes[cursor.nodes..]);
        let piece = &nodes[..left.min(nodes.len())];
        if !piece.is_empty() {
            index.load_nodes(bank, layer, cursor.nodes as u16, piece)?;
        }
        left -= piece.len();
        cursor.nodes += piece.len();
        if piece.len() == nodes.len() {
            (cursor.layers, cursor.nodes) = (cursor.layers + 1, 0);
        }
    }
    cursor.is_done = cursor.layers == config.layers;
    Ok(cursor.is_done)
}

impl PlanEntry {
    /// The number of queries that a switch has counted at this place.
    pub(super) fn hits(self, index: &Index, bank: usize) -> u64 {
        match self {
            PlanEntry::Range(range) => index.range_hits(bank, range),
            PlanEntry::Child { layer, slot, child } => {
                index.child_hits(bank, layer, slot, child.into())
            }
        }
    }
}

impl IndexPlan {
    /// The keys that a switch counts separately. Those that end at a tree node that others pass are
    /// not included, nor those without an owner.
    pub(super) fn counted(&self) -> Vec<Lead> {
        let mut leads = self.leads.clone();
        leads.retain(|lead| lead.server != NOBODY && self.slot_at(lead.place) == NO_SLOT);
        leads
    }

    fn slot_at(&self, place: PlanEntry) -> u16 {
        match place {
            PlanEntry::Range(range) => self.fat_root.ranges[usize::from(range)].child.slot,
            PlanEntry::Child { layer, slot, child } => {
                let layer = &self.layers[usize::from(layer) - 1];
                layer[usize::from(slot)].children[usize::from(child)].slot
            }
        }
    }
}
