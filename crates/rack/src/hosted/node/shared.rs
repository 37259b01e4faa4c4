//! What the threads of a node's process share, and what becomes of it when the controller is lost.
//!
//! The NIC, the rings and the jobs outlive a control connection. Queue pairs that the controller
//! made go with it, so that no packet of a lost switch can reach a ring any more. Rings stay for a
//! while as orphans: a command may have another switch process take its flow over. Then they are
//! broken off, and whoever waits at them is told.

use super::jobs::{JobTable, Jobs};
use crate::hosted::ports::Unplugged;
use crate::hosted::pump::{Pump, Station};
use crate::station::NodeStation;
use core::sync::atomic::Ordering;
use rackweave_base::memory::Origin;
use rackweave_base::{Block, Instant, Memory, NodeId, Qpn, Rkey};
use rackweave_controller::{LocalRegions, RegionName};
use rackweave_link::Link;
use rackweave_nic::Nic;
use rackweave_verbs::{CqId, PdId, Verbs};
use rackweave_wire::fabric::ring::{ByteOrder, SWITCH_WORD, SwitchState, SwitchWord};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration as Time;

/// How long the rings of a flow wait for another switch process to take it over.
const ORPHAN_LIMIT: Time = Time::from_secs(20);

/// A NIC and its link, once the node has joined.
pub(in crate::hosted) struct NodeMachine(Option<NodeStation>);

impl Station for NodeMachine {
    fn run(&mut self, now: Instant) -> u32 {
        self.0.as_mut().map_or(0, |station| station.run(now))
    }

    fn deadline(&self) -> Option<Instant> {
        self.0.as_ref().and_then(NodeStation::deadline)
    }

    fn links(&mut self) -> Vec<&mut dyn Link> {
        let stations = self.0.iter_mut();
        stations
            .map(|station| &mut *station.link as &mut dyn Link)
            .collect()
    }
}

impl NodeMachine {
    /// Of a node that has not joined yet.
    pub fn new() -> Self {
        Self(None)
    }

    pub fn nic(&mut self) -> Option<&mut Nic> {
        self.0.as_mut().map(|station| &mut station.nic)
    }
}

/// What the controller has made on this node.
#[derive(Default)]
pub(super) struct Loans {
    pub qps: BTreeSet<Qpn>,
    pub cqs: Vec<CqId>,
    /// The domain of all rings, whichever controller makes them.
    domain: Option<PdId>,
    /// The memory of other nodes.
    pub imports: BTreeSet<u16>,
    /// Remote keys of rings whose controller was lost.
    pub orphans: BTreeSet<u32>,
    /// The switch process that the node belonged to last.
    controller: Option<u64>,
    /// When the orphans are broken off.
    orphans_until: Option<std::time::Instant>,
    /// Rings that a job has opened.
    opened: BTreeSet<u32>,
    /// Rings of flows that have ended before any job opened them, and since when. A job may start
    /// later than the flow ends.
    late: BTreeMap<u32, (Block, std::time::Instant)>,
}

/// What the threads of a node share.
pub(in crate::hosted) struct NodeCore {
    pub id: NodeId,
    pub memory: Memory,
    pub pump: Pump<NodeMachine>,
    pub table: JobTable,
    pub jobs: Arc<dyn Jobs>,
    pub regions: LocalRegions,
    loans: Mutex<Loans>,
    /// The byte order of its rings' words.
    order: ByteOrder,
}

impl NodeCore {
    pub fn new(
        id: NodeId,
        memory: Memory,
        pump: Pump<NodeMachine>,
        order: ByteOrder,
        jobs: Arc<dyn Jobs>,
    ) -> Self {
        Self {
            id,
            regions: LocalRegions::new(memory.clone()),
            memory,
            pump,
            table: JobTable::default(),
            jobs,
            loans: Mutex::default(),
            order,
        }
    }

    /// Whether the controller has made anything on this node that it has not removed.
    #[cfg(test)]
    pub fn owes_nothing(&self) -> bool {
        self.loans().qps.is_empty() && self.regions.list().is_empty()
    }

    pub(super) fn loans(&self) -> MutexGuard<'_, Loans> {
        self.loans.lock().expect("no holder of this lock panics")
    }

    /// The domain of all rings. Nothing before the node has joined.
    pub(super) fn domain(&self) -> Option<PdId> {
        let mut loans = self.loans();
        if loans.domain.is_none() {
            loans.domain = self
                .pump
                .with(|machine| machine.nic().map(Verbs::create_pd));
        }
        loans.domain
    }

    /// The memory of a ring, for a job.
    pub(super) fn open_ring(&self, rkey: Rkey) -> Option<Block> {
        let mut loans = self.loans();
        let there = self.regions.block(self.id, rkey);
        if there.is_some() {
            loans.opened.insert(rkey.0);
        }
        there.or_else(|| loans.late.remove(&rkey.0).map(|(block, _)| block))
    }

    /// A flow has ended: its ring is no region any more.
    pub(super) fn remove_ring(&self, name: &RegionName) {
        let mut loans = self.loans();
        let unopened = !loans.opened.remove(&name.rkey.0);
        self.pump.with(|machine| {
            let Some(region) = self.regions.remove(self.id, name.rkey) else {
                return;
            };
            if unopened {
                let since = std::time::Instant::now();
                loans
                    .late
                    .insert(name.rkey.0, (region.block.clone(), since));
            }
            if let Some(nic) = machine.nic() {
                // Unknown if the node has restarted meanwhile.
                nic.deregister(&region);
            }
        });
    }

    /// Connects the NIC, made now if this is the first time, to a link.
    pub(super) fn plug(&self, link: Box<dyn Link>, nic: impl FnOnce() -> Nic) {
        self.pump.relink(|machine| match &mut machine.0 {
            Some(station) => station.link = link,
            None => {
                machine.0 = Some(NodeStation {
                    target: None,
                    nic: nic(),
                    link,
                    dead: false,
                });
            }
        });
    }

    /// The controller is lost: its queue pairs go, its rings become orphans.
    pub(super) fn disconnect(&self) {
        let mut loans = self.loans();
        let (qps, cqs) = (
            std::mem::take(&mut loans.qps),
            std::mem::take(&mut loans.cqs),
        );
        self.pump.relink(|machine| {
            let Some(station) = &mut machine.0 else {
                return;
            };
            station.link = Box::new(Unplugged);
            // What is unknown by now needs no removing.
            for qpn in qps {
                let _ = station.nic.destroy_qp(qpn);
            }
            for cq in cqs {
                let _ = station.nic.destroy_cq(cq);
            }
        });
        for origin in std::mem::take(&mut loans.imports) {
            self.memory.forget(Origin(origin));
        }
        let rings = self.regions.list();
        loans.orphans.extend(rings.iter().map(|ring| ring.rkey.0));
        loans.orphans_until = Some(std::time::Instant::now() + ORPHAN_LIMIT);
    }

    /// The node joins a switch process. If it is the one that it had lost, that has taken the node
    /// for dead and broken its flows off: nobody will take the orphans over.
    pub(super) fn meet(&self, controller: u64) {
        let mut loans = self.loans();
        if loans.controller.replace(controller) == Some(controller) {
            loans.orphans_until = Some(std::time::Instant::now());
        }
        drop(loans);
        self.keep_house();
    }

    /// What is to be done now and then: orphans and jobs that nobody wants are ended.
    pub(super) fn keep_house(&self) {
        self.table.forget_unasked();
        let orphans = {
            let mut loans = self.loans();
            loans
                .late
                .retain(|_, (_, since)| since.elapsed() < ORPHAN_LIMIT);
            match loans.orphans_until {
                Some(until) if until <= std::time::Instant::now() => {
                    loans.orphans_until = None;
                    std::mem::take(&mut loans.orphans)
                }
                _ => return,
            }
        };
        for rkey in orphans {
            self.end_ring(Rkey(rkey));
        }
    }

    /// The process ends: jobs are stopped and rings broken off.
    pub(super) fn end(&self) {
        self.table.stop_all();
        for ring in self.regions.list() {
            self.end_ring(ring.rkey);
        }
        self.pump.stop();
    }

    fn end_ring(&self, rkey: Rkey) {
        if let Some(region) = self.regions.get(self.id, rkey) {
            break_off(&region.block, self.order);
            self.remove_ring(&RegionName::from(&region));
        }
    }
}

/// Writes into a ring that its flow is broken off, unless it has ended well.
fn break_off(block: &Block, order: ByteOrder) {
    let word = block.word(SWITCH_WORD as usize);
    let said = order.native(word.load(Ordering::Acquire));
    let said = SwitchWord::try_from(said).unwrap_or_default();
    if said.state != SwitchState::Ended {
        let state = SwitchState::Aborted;
        let told = SwitchWord { state, ..said };
        word.store(order.native(told.into()), Ordering::Release);
    }
}
