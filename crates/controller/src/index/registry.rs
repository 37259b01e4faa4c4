//! The controller's entries in the switches, and the loading and activation of plans.
//!
//! Every table has two banks. One is active: the first switches of queries write its number into
//! them; the other is filled piece by piece, on all switches, while packets pass. Only when all
//! switches have the complete plan is it activated, by one write at each switch. Earlier queries
//! continue in the old bank, so that is not changed for a *grace time*, longer than a query may be
//! in flight in the network. No query ever sees parts of two plans, or a half-loaded plan.
//!
//! A switch that has restarted gets servers and queue pairs again at once, and leads its own
//! clients' queries to the root until the plan has been reloaded. Other switches' queries are led
//! less deep there than before, never to a wrong node: parts of the plan that are not loaded yet
//! are not walked.

use super::enter::{configs, on_one};
use super::load::{Cursor, IndexLoadError, check_room, load_piece};
use super::plan::{IndexPlan, Target};
use super::{KeyWeights, NOBODY};
use crate::{Controller, Site};
use rackweave_base::{Duration, Instant, NodeId, Qpn};
use rackweave_programs::index::Index;
use rackweave_programs::index::entries::{BANKS, QueryEntry, ServerEntry};
use rackweave_switch::table::TableError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Default for how long queries may be in flight in the network: a NIC has given up long before.
const GRACE: Duration = Duration::from_millis(100);

/// The progress of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadStep {
    /// Queries may still be in flight in the bank. It can be filled from this moment on.
    Wait {
        /// The moment.
        until: Instant,
    },
    /// There is more to load.
    More,
    /// All switches have the complete plan.
    Done,
}

/// A plan in a bank.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    plan: Arc<IndexPlan>,
    bank: usize,
}

#[derive(Clone, Debug)]
struct Loading {
    placed: Placed,
    /// The progress of each switch.
    cursors: Vec<Cursor>,
}

/// What is kept of the index beyond the controller's process, besides the active plan.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct IndexState {
    grace: Duration,
    servers: BTreeMap<u16, ServerEntry>,
    udp_servers: BTreeMap<Ipv4Addr, u16>,
    queries: Vec<((Ipv4Addr, Qpn), QueryEntry)>,
    bank: Option<usize>,
}

/// The controller's state of the index in the switches.
#[derive(Debug)]
pub struct IndexRegistry {
    grace: Duration,
    pub(super) servers: BTreeMap<u16, ServerEntry>,
    pub(super) udp_servers: BTreeMap<Ipv4Addr, u16>,
    pub(super) queries: BTreeMap<(Ipv4Addr, Qpn), QueryEntry>,
    active: Option<Placed>,
    loading: Option<Loading>,
    /// When the bank that was active before may be reused.
    free_from: Instant,
    /// Switches into which the active plan is being reloaded.
    behind: BTreeMap<usize, Cursor>,
}

impl Default for IndexRegistry {
    fn default() -> Self {
        Self {
            grace: GRACE,
            servers: BTreeMap::new(),
            udp_servers: BTreeMap::new(),
            queries: BTreeMap::new(),
            active: None,
            loading: None,
            free_from: Instant::ZERO,
            behind: BTreeMap::new(),
        }
    }
}

impl Controller {
    /// The index in the switches.
    pub fn index(&self) -> &IndexRegistry {
        &self.index
    }

    /// The index in the switches, for changes.
    pub fn index_mut(&mut self) -> &mut IndexRegistry {
        &mut self.index
    }

    /// Handles the death of a node: no query is led to it any more.
    pub(crate) fn index_node_died(&mut self, site: &mut dyn Site, node: NodeId) {
        let nodes = site.nodes();
        if let Some((_, place)) = nodes.iter().find(|(id, _)| *id == node) {
            self.index.node_died(site, place.ip);
        }
    }
}

impl IndexRegistry {
    pub(crate) fn state(&self) -> IndexState {
        let queries = self.queries.iter();
        IndexState {
            grace: self.grace,
            servers: self.servers.clone(),
            udp_servers: self.udp_servers.clone(),
            queries: queries.map(|(&at, &entry)| (at, entry)).collect(),
            bank: self.active_bank(),
        }
    }

    /// Takes over a state and its active plan. A plan that was being loaded is forgotten: whoever
    /// loads it learns that when it activates it.
    pub(crate) fn restore(&mut self, state: IndexState, plan: Option<IndexPlan>) {
        let active = state.bank.filter(|bank| *bank < BANKS).zip(plan);
        *self = Self {
            grace: state.grace,
            servers: state.servers,
            udp_servers: state.udp_servers,
            queries: state.queries.into_iter().collect(),
            active: active.map(|(bank, plan)| Placed {
                plan: Arc::new(plan),
                bank,
            }),
            ..Self::default()
        };
    }

    /// Reloads the active plan into switches that have restarted. A plan that a switch refuses is
    /// deactivated, so that queries are led to the root.
    pub(crate) fn reload(&mut self, site: &mut dyn Site) {
        let reloaded = self.catch_up(site, usize::MAX);
        if !matches!(reloaded, Ok(true)) {
            // A switch that refuses this as well leads no queries at all.
            let _refused = self.deactivate(site);
        }
    }

    /// Sets how long a query may be in flight in the network. This is about packets: a NIC repeats
    /// unanswered queries in new packets. 100 ms by default.
    pub fn set_grace(&mut self, grace: Duration) {
        self.grace = grace;
    }

    /// Begins to load a plan into the inactive bank. A plan that was being loaded there is
    /// forgotten. The servers have pinned the plan's [targets](IndexPlan::targets).
    ///
    /// # Errors
    /// If a switch lacks capacity for it, a layer fits no switch, or a server is not entered. Then
    /// nothing has changed.
    pub fn begin_load(
        &mut self,
        site: &mut dyn Site,
        plan: Arc<IndexPlan>,
    ) -> Result<(), IndexLoadError> {
        let configs = configs(site);
        check_room(&configs, &plan)?;
        for range in &plan.fat_root.ranges {
            self.check_server(Some(range.server).filter(|&server| server != NOBODY))?;
        }
        let bank = self
            .active
            .as_ref()
            .map_or(0, |active| (active.bank + 1) % BANKS);
        self.loading = Some(Loading {
            placed: Placed { plan, bank },
            cursors: configs.iter().map(Cursor::new).collect(),
        });
        Ok(())
    }

    /// Continues loading: first switches that have restarted, then the plan that was begun. At most
    /// `budget` tree nodes are written to each switch; the fat root is written at once.
    ///
    /// # Errors
    /// If a switch refuses an entry.
    pub fn load_step(
        &mut self,
        site: &mut dyn Site,
        budget: usize,
    ) -> Result<LoadStep, IndexLoadError> {
        let caught_up = self.catch_up(site, budget)?;
        let Some(Loading { placed, cursors }) = &mut self.loading else {
            return Ok(if caught_up {
                LoadStep::Done
            } else {
                LoadStep::More
            });
        };
        if site.now() < self.free_from {
            let until = self.free_from;
            return Ok(LoadStep::Wait { until });
        }
        let mut done = caught_up;
        for (switch, cursor) in cursors.iter_mut().enumerate() {
            let piece =
                |index: &mut Index| load_piece(index, (&placed.plan, placed.bank), cursor, budget);
            on_one(site, switch, piece)?;
            done &= cursor.is_done;
        }
        Ok(if done { LoadStep::Done } else { LoadStep::More })
    }

    /// Reloads the active plan into switches that have restarted. Returns true if all have it.
    fn catch_up(&mut self, site: &mut dyn Site, budget: usize) -> Result<bool, IndexLoadError> {
        let Some(Placed { plan, bank }) = &self.active else {
            self.behind.clear();
            return Ok(true);
        };
        let mut caught_up = Vec::new();
        for (&switch, cursor) in &mut self.behind {
            let piece = |index: &mut Index| load_piece(index, (plan, *bank), cursor, budget);
            if on_one(site, switch, piece)? {
                serve(site, switch, Some(*bank))?;
                caught_up.push(switch);
            }
        }
        self.behind.retain(|switch, _| !caught_up.contains(switch));
        Ok(self.behind.is_empty())
    }

    /// Handles the loss of a switch's state.
    pub(super) fn begin_again(&mut self, site: &mut dyn Site, switch: usize) {
        let Some(config) = configs(site).get(switch).copied() else {
            return;
        };
        let loading = self.loading.as_mut();
        if let Some(cursor) = loading.and_then(|it| it.cursors.get_mut(switch)) {
            *cursor = Cursor::new(&config);
        }
        if self.active.is_some() && config.servers > 0 {
            self.behind.insert(switch, Cursor::new(&config));
        }
    }

    /// Activates the loaded plan.
    ///
    /// # Errors
    /// If it is not loaded everywhere yet.
    pub fn activate(&mut self, site: &mut dyn Site) -> Result<(), IndexLoadError> {
        let is_loaded = |it: &&mut Loading| it.cursors.iter().all(|cursor| cursor.is_done);
        let Some(loading) = self.loading.as_mut().filter(is_loaded) else {
            return Err(IndexLoadError::NotLoaded);
        };
        let placed = loading.placed.clone();
        for switch in 0..site.switches() {
            on_one(site, switch, |index| {
                index.clear_hits(placed.bank);
                Ok::<_, TableError>(())
            })?;
            serve(site, switch, Some(placed.bank))?;
        }
        self.loading = None;
        // They have the new plan and no longer need the old one.
        self.behind.clear();
        if self.active.replace(placed).is_some() {
            self.free_from = site.now() + self.grace;
        }
        Ok(())
    }

    /// Deactivates the plan: queries are led to the root. A plan that was being loaded is
    /// forgotten.
    ///
    /// # Errors
    /// If a switch refuses.
    pub fn deactivate(&mut self, site: &mut dyn Site) -> Result<(), IndexLoadError> {
        for switch in 0..site.switches() {
            serve(site, switch, None)?;
        }
        self.loading = None;
        self.behind.clear();
        if self.active.take().is_some() {
            self.free_from = site.now() + self.grace;
        }
        Ok(())
    }

    /// The active plan.
    pub fn active(&self) -> Option<&Arc<IndexPlan>> {
        self.active.as_ref().map(|placed| &placed.plan)
    }

    /// The active bank.
    pub fn active_bank(&self) -> Option<usize> {
        self.active.as_ref().map(|placed| placed.bank)
    }

    /// The moment from which no query is in flight any more in the previously active bank: then a
    /// new plan can be loaded there, and what the servers had pinned for the old one can be
    /// unpinned.
    pub fn free_from(&self) -> Instant {
        self.free_from
    }

    /// Whether switches that have restarted lack the active plan.
    pub fn is_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Tree nodes that must stay pinned: the targets of the plans in both banks that are active or
    /// being loaded.
    pub fn targets(&self) -> Vec<Target> {
        let loading = self.loading.as_ref().map(|loading| &loading.placed);
        let placed = self.active.iter().chain(loading);
        let mut targets: Vec<_> = placed.flat_map(|placed| placed.plan.targets()).collect();
        targets.sort_unstable();
        targets.dedup();
        targets
    }

    /// How often keys were asked for since the last call, or since the activation of the plan, by
    /// the switches' hit counters.
    pub fn take_hits(&self, site: &mut dyn Site) -> KeyWeights {
        let Some(Placed { plan, bank }) = &self.active else {
            return KeyWeights::default();
        };
        let counted = plan.counted();
        let mut hits = vec![0; counted.len()];
        for switch in 0..site.switches() {
            site.switch_at(switch, &mut |_, switch| {
                let index = &mut switch.program_mut().index;
                for (sum, lead) in hits.iter_mut().zip(&counted) {
                    *sum += lead.place.hits(index, *bank);
                }
                index.clear_hits(*bank);
            });
        }
        let leads = counted.iter().zip(hits);
        KeyWeights::from_counts(leads.map(|(lead, hits)| (lead.low, lead.last, hits)))
    }
}

/// Sets the active bank of a switch.
fn serve(site: &mut dyn Site, switch: usize, bank: Option<usize>) -> Result<(), IndexLoadError> {
    on_one(site, switch, |index| index.set_active(bank))?;
    Ok(())
}

#[cfg(test)]
#[path = "load_rig.rs"]
mod rig;
#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
