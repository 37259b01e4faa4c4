//! State shared by the threads of a node's process, and its handling when the controller is lost.
//!
//! The NIC, everything that the controller has made on it, and the jobs outlive a control
//! connection. Queue pairs that pass the switch stand still meanwhile, so that none gives up. If
//! the next switch process restores the controller's state, the node keeps everything; else, or if
//! none comes in time, it forgets all: flows are aborted, and threads waiting at rings are
//! notified.

use super::jobs::{JobTable, Jobs};
use super::machine::NodeMachine;
use super::process::{Imports, NodesProcess};
use super::term::ObeyedTerm;
use crate::hosted::HostedError;
use crate::hosted::again::FurtherConnections;
use crate::hosted::messages::NodeWelcome;
use crate::hosted::ports::Unplugged;
use crate::hosted::pump::Pump;
use crate::linked::{DirectCable, LinkedNode};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use rackweave_base::memory::Origin;
use rackweave_base::{Block, KeyRng, Memory, NodeId, Qpn, Rkey};
use rackweave_controller::{LocalRegions, RegionName, RegionPurpose};
use rackweave_link::Link;
use rackweave_nic::Nic;
use rackweave_verbs::{CqId, PdId, Verbs};
use rackweave_wire::fabric::page::control;
use rackweave_wire::fabric::ring::{ByteOrder, SWITCH_WORD, SwitchState, SwitchWord};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration as Time;

/// How long a node that has lost the controller keeps everything.
pub(in crate::hosted) const KEEP_LIMIT: Time = Time::from_secs(20);

/// The resources that the controller has made on this node.
#[derive(Default)]
pub(super) struct Loans {
    pub qps: BTreeSet<Qpn>,
    pub cqs: Vec<CqId>,
    /// The protection domain of all rings, of whichever controller.
    domain: Option<PdId>,
    /// Remote keys of the rings.
    rings: BTreeSet<u32>,
    /// Remote keys of the control regions of channels to the page directory, with the offsets of
    /// their generations.
    channels: BTreeMap<u32, u64>,
    /// Until when everything is kept, if the controller was lost.
    kept_until: Option<std::time::Instant>,
    /// Rings that a job has opened.
    opened: BTreeSet<u32>,
    /// Rings of flows that ended before any job opened them, with the time of the end. A job may
    /// start later than its flow ends.
    late: BTreeMap<u32, (Block, std::time::Instant)>,
}

/// State shared by the threads of a node.
pub(in crate::hosted) struct NodeCore {
    pub id: NodeId,
    pub memory: Memory,
    imports: Arc<Imports>,
    pub pump: Pump<NodeMachine>,
    pub table: JobTable,
    pub jobs: Arc<dyn Jobs>,
    pub regions: LocalRegions,
    /// Set by a channel to the page directory that requests a new connection.
    pub page_alarm: Arc<AtomicBool>,
    /// The secret of the rack that the node has joined last.
    pub identity: AtomicU64,
    /// A random number that changes when the node forgets what the controller has made.
    pub incarnation: AtomicU64,
    /// How often it has forgotten that.
    pub forgotten: AtomicU64,
    term: ObeyedTerm,
    /// Its further connections to the controller.
    pub further: Arc<FurtherConnections>,
    loans: Mutex<Loans>,
    /// The byte order of its rings' words.
    order: ByteOrder,
}

impl NodeCore {
    pub fn new(
        id: NodeId,
        process: &NodesProcess,
        pump: Pump<NodeMachine>,
        order: ByteOrder,
        jobs: Arc<dyn Jobs>,
    ) -> Self {
        Self {
            id,
            regions: LocalRegions::new(process.memory.clone()),
            memory: process.memory.clone(),
            imports: process.imports.clone(),
            pump,
            table: JobTable::default(),
            jobs,
            page_alarm: process.page_alarm.clone(),
            identity: AtomicU64::new(0),
            incarnation: AtomicU64::new(KeyRng::system().next_u64()),
            forgotten: AtomicU64::new(0),
            term: ObeyedTerm::default(),
            further: Arc::default(),
            loans: Mutex::default(),
            order,
        }
    }

    /// Whether the controller has removed everything that it made on this node.
    #[cfg(test)]
    pub fn owes_nothing(&self) -> bool {
        self.loans().qps.is_empty() && self.regions.list().is_empty()
    }

    pub(super) fn loans(&self) -> MutexGuard<'_, Loans> {
        self.loans.lock().expect("no holder of this lock panics")
    }

    /// The protection domain of all rings. `None` before the node has joined.
    pub(super) fn domain(&self) -> Option<PdId> {
        let mut loans = self.loans();
        if loans.domain.is_none() {
            loans.domain = self
                .pump
                .with(|machine| machine.nic().map(Verbs::create_pd));
        }
        loans.domain
    }

    /// The memory of a region that the controller has made, for a program here.
    pub(super) fn open_region(&self, rkey: Rkey) -> Option<Block> {
        let mut loans = self.loans();
        let there = self.regions.block(self.id, rkey);
        if there.is_some() {
            loans.opened.insert(rkey.0);
        }
        there.or_else(|| loans.late.remove(&rkey.0).map(|(block, _)| block))
    }

    /// Records what a region is for that the controller has made.
    pub(super) fn lend(&self, rkey: Rkey, purpose: RegionPurpose) {
        let mut loans = self.loans();
        match purpose {
            RegionPurpose::Ring => _ = loans.rings.insert(rkey.0),
            RegionPurpose::PageChannel { slots } => {
                let offset = control::generation_at(slots);
                loans.channels.insert(rkey.0, offset);
            }
            RegionPurpose::Pages => {}
        }
    }

    /// Removes a region. A ring whose flow has ended may still be opened; a channel to the page
    /// directory is fenced: the controller cannot do that at a node that it has declared dead.
    pub(super) fn remove_region(&self, name: &RegionName) {
        let mut loans = self.loans();
        let is_ring = loans.rings.remove(&name.rkey.0);
        let unopened = !loans.opened.remove(&name.rkey.0) && is_ring;
        let fenced = loans.channels.remove(&name.rkey.0);
        self.pump.with(|machine| {
            let Some(region) = self.regions.remove(self.id, name.rkey) else {
                return;
            };
            if let Some(generation) = fenced {
                let word = region.block.word(generation as usize);
                word.store(control::FENCED.to_le(), Ordering::Release);
            }
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

    /// Connects the NIC, made on the first call, to a link.
    pub(super) fn plug(&self, link: Box<dyn Link>, nic: impl FnOnce() -> Nic) {
        self.loans().kept_until = None;
        self.pump.relink(|machine| match &mut machine.linked {
            Some(linked) => {
                linked.link = link;
                linked.nic.set_unplugged(false);
            }
            None => {
                machine.linked = Some(LinkedNode {
                    direct: Vec::new(),
                    target: None,
                    nic: nic(),
                    link,
                    dead: false,
                    has_more: false,
                });
            }
        });
    }

    /// Connects a direct cable to another node, at this address.
    pub(super) fn plug_cable(&self, cable: DirectCable, ip: Ipv4Addr) {
        self.pump.relink(|machine| {
            if let Some(linked) = &mut machine.linked {
                linked.connect_directly(cable, ip);
            }
        });
    }

    /// Removes the cable to another node, if there is one.
    pub(super) fn cut_cable(&self, peer: NodeId) {
        self.pump.relink(|machine| {
            if let Some(linked) = &mut machine.linked {
                linked.disconnect_directly(peer);
            }
        });
    }

    /// Maps the memory of another process.
    pub(super) fn import(&self, origin: Origin, fd: OwnedFd) -> Result<(), String> {
        self.imports.import(&self.memory, (self.id, origin), fd)
    }

    /// Unmaps it.
    pub(super) fn forget(&self, origin: Origin) {
        self.imports.forget(&self.memory, self.id, origin);
    }

    /// Handles the loss of the controller: everything is kept for a while. What passes the switch
    /// stands still, and direct cables go on: the next controller learns of them by a hello.
    pub(super) fn disconnect(&self) {
        self.further.close();
        let mut loans = self.loans();
        self.pump.relink(|machine| {
            if let Some(linked) = &mut machine.linked {
                linked.link = Box::new(Unplugged);
                linked.nic.set_unplugged(true);
            }
        });
        loans.kept_until = Some(std::time::Instant::now() + KEEP_LIMIT);
    }

    /// Records that the node joins a rack, whose controller knows what the node has kept, or does
    /// not.
    ///
    /// # Errors
    /// As for [`ObeyedTerm::obey`].
    pub(super) fn meet(&self, welcome: &NodeWelcome) -> Result<(), HostedError> {
        self.term.obey(welcome.term)?;
        self.identity.store(welcome.controller, Ordering::Relaxed);
        if !welcome.keep {
            self.forget_all();
        }
        Ok(())
    }

    /// Destroys everything that the controller has made, so that no packet can reach it, aborts
    /// rings, and fences channels to the page directory. The program's own queue pairs fail: for
    /// their peers the node was dead, and a replica may have the place of an index's endpoint here.
    fn forget_all(&self) {
        self.forgotten.fetch_add(1, Ordering::Relaxed);
        let mut loans = self.loans();
        let qps = std::mem::take(&mut loans.qps);
        let (cqs, rings) = (std::mem::take(&mut loans.cqs), loans.rings.clone());
        drop(loans);
        self.pump.relink(|machine| {
            if let Some(linked) = &mut machine.linked {
                linked.disconnect_all();
            }
            let Some(nic) = machine.nic() else { return };
            // What is unknown by now need not be removed.
            for qpn in qps {
                let _ = nic.destroy_qp(qpn);
            }
            for cq in cqs {
                let _ = nic.destroy_cq(cq);
            }
            nic.fail_queue_pairs();
        });
        // Cables have been cut: no packet refers to the others' memories.
        self.imports.forget_all(&self.memory, self.id);
        rings.into_iter().for_each(|rkey| self.end_ring(Rkey(rkey)));
        for region in self.regions.list() {
            self.remove_region(&RegionName::from(&region));
        }
    }

    /// Periodic cleanup: ends jobs that are no longer wanted, and what was kept long enough.
    pub(super) fn keep_house(&self) {
        self.table.forget_unasked();
        let is_over = {
            let mut loans = self.loans();
            loans
                .late
                .retain(|_, (_, since)| since.elapsed() < KEEP_LIMIT);
            let now = std::time::Instant::now();
            loans.kept_until.take_if(|until| *until <= now).is_some()
        };
        if is_over {
            self.incarnation
                .store(KeyRng::system().next_u64(), Ordering::Relaxed);
            self.term.forget();
            self.forget_all();
            self.give_up();
        }
    }

    /// Has the program's own queue pairs give up: nobody answers.
    fn give_up(&self) {
        self.pump.relink(|machine| {
            if let Some(linked) = &mut machine.linked {
                linked.disconnect_all();
                linked.nic.set_unplugged(false);
            }
        });
    }

    /// Ends the process's work: stops jobs and aborts rings.
    pub(super) fn end(&self) {
        self.table.stop_all();
        let rings = self.loans().rings.clone();
        rings.into_iter().for_each(|rkey| self.end_ring(Rkey(rkey)));
        self.give_up();
        self.pump.stop();
    }

    fn end_ring(&self, rkey: Rkey) {
        if let Some(region) = self.regions.get(self.id, rkey) {
            break_off(&region.block, self.order);
            self.remove_region(&RegionName::from(&region));
        }
    }
}

/// Marks a ring's flow as aborted, unless it has ended regularly.
fn break_off(block: &Block, order: ByteOrder) {
    let word = block.word(SWITCH_WORD as usize);
    let said = order.native(word.load(Ordering::Acquire));
    let said = SwitchWord::try_from(said).unwrap_or_default();
    if said.state != SwitchState::Ended {
        let state = SwitchState::Aborted;
        let new_word = SwitchWord { state, ..said };
        word.store(order.native(new_word.into()), Ordering::Release);
    }
}
