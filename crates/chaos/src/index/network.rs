//! The index in the network at work: the trees are loaded into the switches again and again, and
//! the queries that they lead are checked.

use super::browser::ClientSlot;
use super::harness::Harness;
use super::plan::IndexPlan;
use super::switches::{Switches, breaks_connections};
use rackweave_base::{Instant, NodeId, Rng};
use rackweave_controller::index::{KeyWeights, PlanError};
use rackweave_endpoint::index::{EndpointId, ReaderStatistics};
use rackweave_rack::testing::{Faults, SimulatedMachines};
use rackweave_rack::{IndexCounters, IndexNetworkError, LoadProgress};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Loads the switches.
pub(super) struct Guide {
    plan: Switches,
    rng: Rng,
    /// When the next load begins, if none is in progress.
    next_at: Instant,
    /// The switches' counters at the time of their restarts.
    counted: IndexCounters,
    restarts: u64,
    /// The state of a wanted load of the current trees: not yet begun, begun, done.
    last: Last,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    Unwanted,
    Wanted,
    Begun,
    Serves,
}

/// Statistics of an index in the network.
#[derive(Default)]
pub(super) struct Guided {
    pub loads: u64,
    pub switch_restarts: u64,
}

/// What a reader that queries the network has counted so far.
pub(super) struct Seen {
    slot: Rc<ClientSlot>,
    statistics: ReaderStatistics,
    /// How often its node's NIC lost every packet of a request by chance.
    unlucky: u64,
}

impl Guide {
    /// `None` if no switch leads queries.
    pub fn new(plan: &IndexPlan) -> Option<Self> {
        Some(Self {
            plan: plan.network?,
            rng: Rng::new(plan.seed).fork("guide"),
            next_at: Instant::ZERO,
            counted: IndexCounters::default(),
            restarts: 0,
            last: Last::Unwanted,
        })
    }
}

impl Harness<'_> {
    /// Whether a client queries the network again after a failed query.
    pub fn asks_again(&mut self) -> bool {
        let guide = self.guide.as_mut();
        guide.is_some_and(|guide| guide.rng.chance(0.7))
    }

    /// Continues a load, or begins the next one.
    pub fn guide_on(&mut self) -> Result<(), String> {
        let now = self.rack.now();
        let Some(guide) = &mut self.guide else {
            return Ok(());
        };
        let mut index = self.index.index();
        let Some(network) = index.network_mut() else {
            return Ok(());
        };
        let step = network.step(&self.rack);
        drop(index);
        match step.map_err(|error| format!("a load at {now:?}: {error}"))? {
            LoadProgress::Rest if now >= guide.next_at => self.begin_load(now),
            LoadProgress::Serves => {
                let pause = guide.rng.below(guide.plan.pause_max.as_nanos());
                guide.next_at = now + rackweave_base::Duration::from_nanos(pause);
                if guide.last == Last::Begun {
                    guide.last = Last::Serves;
                }
                Ok(())
            }
            LoadProgress::Rest | LoadProgress::More | LoadProgress::Wait(_) => Ok(()),
        }
    }

    fn begin_load(&mut self, now: Instant) -> Result<(), String> {
        let keys = self.shared.keys;
        let Some(guide) = &mut self.guide else {
            return Ok(());
        };
        let mut index = self.index.index();
        let Some(network) = index.network_mut() else {
            return Ok(());
        };
        let rng = &mut guide.rng;
        let weights = match rng.below(3) {
            0 => KeyWeights::default(),
            1 => {
                let asked = (0..rng.below(50)).map(|_| keys.key(rng.below(keys.count)));
                let asked: Vec<u64> = asked.collect();
                KeyWeights::from_samples(&asked)
            }
            _ => network.take_weights(&self.rack),
        };
        match network.begin_load(&self.rack, &weights) {
            Ok(LoadProgress::More) if guide.last == Last::Wanted => guide.last = Last::Begun,
            Ok(_) => {}
            // Keys are moving from one tree to the other and are in both: the load is tried again
            // later.
            Err(IndexNetworkError::Plan(PlanError::Overlap { .. })) if !guide.plan.is_calm => {
                guide.next_at = now + guide.plan.period;
            }
            Err(error) => return Err(format!("no load at {now:?}: {error}")),
        }
        Ok(())
    }

    /// Requests a load of the current trees into the switches.
    pub fn want_load(&mut self) {
        if let Some(guide) = &mut self.guide {
            guide.last = Last::Wanted;
            guide.next_at = Instant::ZERO;
        }
    }

    /// Whether the requested load is done.
    pub fn is_loaded(&self) -> bool {
        let mut guide = self.guide.iter();
        guide.all(|guide| guide.last == Last::Serves)
    }

    /// A switch restarts with empty tables.
    pub fn restart_switch(&mut self, at: usize) -> Result<(), String> {
        if let (Some(guide), Some(switch)) = (&mut self.guide, self.rack.switch_at(at)) {
            guide.counted += &switch.program().index.counters();
            guide.restarts += 1;
        }
        let restarted = self.rack.restart_switch_at(at);
        restarted
            .map(|_| ())
            .map_err(|error| format!("switch {at} does not restart: {error}"))
    }

    /// Live clients that query the network.
    fn askers(&self) -> Vec<Rc<ClientSlot>> {
        let slots = self.slots.iter();
        let askers = slots.filter(|slot| slot.asks_network() && !slot.is_dead.get());
        askers.cloned().collect()
    }

    /// Lets all such clients query the network again, over connections that are intact.
    pub fn renew_ways(&mut self) -> Result<(), String> {
        let now = self.rack.now();
        for slot in self.askers() {
            let Some(mut nic) = self.rack.nic_mut(slot.node) else {
                continue;
            };
            let mut client = slot.client.borrow_mut();
            // Detects connections that broke while no client polled.
            if let Some(reply) = client.poll(now, &mut *nic) {
                let what = format!("client {}: {reply:?} for nobody", slot.who);
                self.shared.wrong.push(what);
            }
            let starts = slot.starts.borrow();
            for ((of, start), at) in starts.iter().zip(&self.starts).zip(0..) {
                if of != start {
                    client.detach(&mut *nic, EndpointId(at));
                }
            }
        }
        self.connect()?;
        for slot in self.askers() {
            slot.client.borrow_mut().set_network(true);
        }
        Ok(())
    }

    /// The current counts of all readers that query the network.
    pub fn seen(&mut self) -> Vec<Seen> {
        let seen = self.askers().into_iter().map(|slot| {
            let statistics = slot.client.borrow().reader_statistics();
            let unlucky = self.unlucky(slot.node);
            Seen {
                slot,
                statistics,
                unlucky,
            }
        });
        seen.collect()
    }

    /// How many queue pairs of a node ran out of retries only because the run loses packets. A
    /// request is sent eight times; where one round trip in ten fails, one request in a hundred
    /// million gets through none of them.
    fn unlucky(&mut self, node: NodeId) -> u64 {
        let faults = &self.plan.config.faults;
        let loses = faults.loss + faults.corrupt > 0.0;
        let nic = self.rack.nic_mut(node).filter(|_| loses);
        nic.map_or(0, |nic| nic.counters().retry_exceeded_err)
    }

    /// Checks a read of all keys since `before`, without faults: it must have used the network.
    pub fn check_led(&mut self, before: &[Seen]) {
        for seen in before {
            let (slot, before) = (&seen.slot, &seen.statistics);
            let now = slot.client.borrow().reader_statistics();
            let (astray, refused, queries) = (
                now.network_astray - before.network_astray,
                now.network_refused - before.network_refused,
                now.network_queries - before.network_queries,
            );
            let unlucky = self.unlucky(slot.node) - seen.unlucky;
            if astray > 0 || refused > unlucky || queries == 0 {
                let what = format!(
                    "client {} after everything was mended: {queries} queries, {astray} led \
                     astray, {refused} ways refused",
                    slot.who
                );
                self.shared.wrong.push(what);
            }
        }
    }

    /// Checks the invariants of a whole run, and returns its statistics.
    pub fn judge_network(&mut self) -> Guided {
        let nodes: BTreeSet<NodeId> = self.slots.iter().map(|slot| slot.node).collect();
        let unlucky: u64 = nodes.into_iter().map(|node| self.unlucky(node)).sum();
        let Some(guide) = &mut self.guide else {
            return Guided::default();
        };
        let mut counted = self.index.network_counters().unwrap_or_default();
        counted += &guide.counted;
        let mut seen = ReaderStatistics::default();
        for slot in &self.slots {
            seen += slot.client.borrow().reader_statistics();
        }
        let is_calm = guide.plan.is_calm;
        let is_whole = is_calm && !breaks_connections(&self.plan.disturbances);
        // A flipped bit may name another queue pair.
        let is_known = is_whole && self.plan.config.faults.corrupt == 0.0;
        let rules = [
            ("astray", seen.network_astray, is_calm),
            (
                "refused",
                seen.network_refused.saturating_sub(unlucky),
                is_whole,
            ),
            ("unknown", counted.unknown_pair, is_known),
            ("forged", counted.forged, true),
            ("in circles", counted.hops, true),
        ];
        for (what, count, holds) in rules {
            if holds && count > 0 {
                let what = format!("{count} queries {what} in a run that has no reason for it");
                self.shared.wrong.push(what);
            }
        }
        Guided {
            loads: self
                .index
                .index()
                .network()
                .map_or(0, |it| it.summary().loads),
            switch_restarts: guide.restarts,
        }
    }
}
