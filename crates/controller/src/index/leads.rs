//! The target of each key in a plan.

use super::NOBODY;
use super::plan::IndexPlan;
use super::weights::KeyWeights;
use rackweave_programs::index::entries::{DEPTHS, NO_SLOT};
use serde::{Deserialize, Serialize};

/// An entry of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum PlanEntry {
    /// A range of the fat root.
    Range(u16),
    /// A child of a tree node in a layer; the first layer is 1.
    Child { layer: u8, slot: u16, child: u8 },
}

/// The keys from `low` to `last` are led to one tree node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Lead {
    pub low: u64,
    pub last: u64,
    /// The last entry on the path there.
    pub place: PlanEntry,
    pub server: u16,
    pub node: u32,
    /// The level of the tree node, as far as known.
    pub level: u8,
}

/// The end of a query's path in the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Led {
    /// The server.
    pub server: u16,
    /// The tree node.
    pub node: u32,
    /// As [`IndexCounters::by_depth`] counts it.
    ///
    /// [`IndexCounters::by_depth`]: rackweave_programs::index::entries::IndexCounters::by_depth
    pub depth: usize,
}

/// How far a plan leads queries.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Forecast {
    /// The fraction of all queries that ends at each depth, as the switches count it; 0 is keys
    /// without an owner. All zero if the load is unknown.
    pub by_depth: [f64; DEPTHS],
    /// Average READs per query until a leaf has been read, for the tree at the time of the plan.
    /// Zero if the load is unknown.
    pub reads: f64,
}

impl Lead {
    fn depth(&self) -> usize {
        match self.place {
            _ if self.server == NOBODY => 0,
            PlanEntry::Range(_) => 1,
            PlanEntry::Child { layer, .. } => 1 + usize::from(layer),
        }
    }
}

impl Forecast {
    pub(super) fn new(leads: &[Lead], weights: &KeyWeights) -> Self {
        let mut forecast = Self::default();
        let (mut all, mut reads, mut read_by) = (0.0, 0.0, 0.0);
        for lead in leads {
            let weight = weights.of(lead.low, lead.last);
            all += weight;
            forecast.by_depth[lead.depth()] += weight;
            if lead.server != NOBODY {
                reads += weight * (f64::from(lead.level) + 1.0);
                read_by += weight;
            }
        }
        if all > 0.0 {
            forecast.by_depth.iter_mut().for_each(|part| *part /= all);
        }
        if read_by > 0.0 {
            forecast.reads = reads / read_by;
        }
        forecast
    }
}

impl IndexPlan {
    /// The target of a key, once a bank with this plan serves.
    pub fn lookup(&self, key: u64) -> Led {
        let at = self.leads.partition_point(|lead| lead.low <= key) - 1;
        let lead = &self.leads[at];
        Led {
            server: lead.server,
            node: lead.node,
            depth: lead.depth(),
        }
    }

    /// Follows all entries, in ascending order of key.
    pub(super) fn find_leads(&mut self) {
        let mut leads = Vec::new();
        for at in 0..self.lows.len() {
            let range = self.fat_root.ranges[at];
            let next = self.lows.get(at + 1);
            let lead = Lead {
                low: self.lows[at],
                last: next.map_or(u64::MAX, |&next| next - 1),
                place: PlanEntry::Range(at as u16),
                server: range.server,
                node: range.child.node,
                level: self.levels[at],
            };
            self.follow(lead, range.child.slot, &mut leads);
        }
        self.leads = leads;
    }

    fn follow(&self, lead: Lead, slot: u16, leads: &mut Vec<Lead>) {
        if slot == NO_SLOT {
            return leads.push(lead);
        }
        let layer = match lead.place {
            PlanEntry::Range(_) => 1,
            PlanEntry::Child { layer, .. } => layer + 1,
        };
        let at = (usize::from(layer) - 1, usize::from(slot));
        let (node, held) = (&self.layers[at.0][at.1], &self.held[at.0][at.1]);
        let mut low = lead.low;
        for child in 0..held.used {
            let last = node.pivots[child].min(lead.last);
            let entry = node.children[child];
            let stays = entry.node == held.own.0;
            let below = Lead {
                low,
                last,
                place: PlanEntry::Child {
                    layer,
                    slot,
                    child: child as u8,
                },
                server: lead.server,
                node: entry.node,
                level: if stays { held.own.1 } else { held.level - 1 },
            };
            self.follow(below, entry.slot, leads);
            low = last.saturating_add(1);
        }
        // Keys beyond the last child stay.
        if node.pivots[held.used - 1] < lead.last {
            leads.push(Lead { low, ..lead });
        }
    }
}
