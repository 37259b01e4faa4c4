//! The campaign against the page store. Nodes share pages through the switch's directory and a
//! memory server's, over an NVMe target. Packets suffer faults, cables are cut, nodes crash and
//! return, the target and the switch restart, the power fails. The device runs full, does not
//! answer, fails or loses data. Entries move between the two directories, and logs lag.
//!
//! The histories of pages (`rackweave_sim::checkers::page_history`) judge the invariants
//! (docs/faults.md): at most one holder, no lost update, no torn page, no stale page; changes that
//! die with a node are reported lost, and the page is not served in an older version. At the end
//! all nodes read all pages, write all changes home, and a new rack over the same medium finds
//! them.
//!
//! Two of five seeds have a second store, which is formatted, opened and closed, and whose pages
//! are allocated and freed ([`allocators`]). `rackweave_sim::checkers::PageUse` judges that no page
//! is in use twice, whatever crashes. At the end the store is closed, and the new rack finds it
//! closed or, after a power cut, open; its map has every page in use, and all others can be
//! allocated except leaked ones.
//!
//! [`plan`] draws the rack and pages of a seed, [`disturb`] its faults; [`harness`] builds it;
//! [`actors`] use the pages, an [`attendant`] polls idle workers, a [`rogue`] misuses the pages;
//! [`shared`] is their common state. [`end`] is the quiet phase at the end of a run.

mod actors;
mod allocators;
mod attendant;
mod disturb;
mod end;
mod harness;
mod log;
mod plan;
mod rogue;
mod shared;

use crate::SeedReport;
use crate::campaign::{self, Campaign, Findings};
use actors::Work;
use allocators::{Store, StorePlan};
use core::cell::{Cell, RefCell};
use disturb::Disturbance;
use harness::Harness;
use plan::PagesPlan;
use rackweave_base::{Duration, Rng};
use rackweave_rack::SimulatedRack;
use rackweave_sim::checkers::PageHistory;
use rackweave_target::MemoryBackend;
use shared::Shared;
use std::rc::Rc;

/// Time after a node's crash within which its latches become free. It includes the time until the
/// controller is notified, cut cables and restarts of the target.
const RELEASED: Duration = Duration::from_millis(100);

/// Patience of a channel to the directory, and the maximum duration of all faults except a device
/// that does not answer.
const CHANNEL_PATIENCE: Duration = Duration::from_secs(1);
const OTHER_DELAYS: Duration = Duration::from_millis(25);

pub(super) fn run(seed: u64) -> SeedReport {
    let plan = PagesPlan::new(seed);
    let mut report = SeedReport::of(seed, &plan);
    let shared = Rc::new(shared(&plan));
    let medium = medium(&plan, (plan.store.page_size, plan.store.pages));
    let mut was_cut = false;
    match Harness::new(&plan, 0, medium.clone(), shared.clone(), &mut report) {
        Ok(harness) => was_cut = harness.play(),
        Err(error) => report.violations.push(error),
    }
    if report.is_sound() {
        // Flushed data is not lost, even if the power fails afterwards.
        let mut rng = Rng::new(seed).fork("power");
        medium.set_blocks_free(None);
        medium.power_cut(&mut rng);
        if was_cut {
            shared.history.borrow_mut().power_cut();
            if let Some(store) = &shared.store {
                store.cut_power(&mut rng);
            }
        } else {
            shared.history.borrow_mut().reopen();
        }
        if let Some(store) = &shared.store {
            store.reopen();
        }
        match Harness::new(&plan, 1, medium, shared.clone(), &mut report) {
            Ok(harness) => harness.reopened(),
            Err(error) => report.violations.push(error),
        }
    }
    report.losses = shared.lost.get();
    report.damaged = shared.damage_found.get();
    if let Some(store) = &shared.store {
        report.violations.extend(store.judge());
    }
    let empty = PageHistory::new(Duration::ZERO);
    let history = shared.history.replace(empty);
    (report.reads, report.writes) = history.counts();
    report.violations.extend(shared.wrong.take());
    report.judge(history.finish());
    report
}

/// The medium that the target has for a store.
fn medium(plan: &PagesPlan, (page_size, pages): (u32, u64)) -> MemoryBackend {
    let size = plan.store.block_size;
    let blocks = pages * u64::from(page_size / size);
    let area = match plan.double_writes() {
        true => harness::area_blocks(plan),
        false => 0,
    };
    MemoryBackend::new(size, blocks + area).with_volatile_cache()
}

fn shared(plan: &PagesPlan) -> Shared {
    let store =
        |second: StorePlan| Store::new(second, medium(plan, (second.page_size, second.pages)));
    let shared = Shared {
        seed: plan.seed,
        habits: plan.habits,
        pages: plan.store.pages,
        is_impatient: plan.is_impatient(),
        history: RefCell::new(PageHistory::new(RELEASED + plan.stalls())),
        store: plan.second.map(store),
        wrong: Findings::default(),
        full: Cell::new(0),
        lost: Cell::new(0),
        damaged: RefCell::default(),
        damage_found: Cell::new(0),
        excuses: Cell::default(),
        logs: RefCell::default(),
    };
    for index in 0..shared.pages {
        let page = shared.page(index).number();
        shared.history.borrow_mut().create(page);
    }
    if let Some(store) = &shared.store {
        let mut history = shared.history.borrow_mut();
        store.pages().for_each(|page| history.create(page));
    }
    shared
}

impl Campaign for Harness<'_> {
    /// The longest legitimate phases take tens of milliseconds. With the stalls of its plan, a
    /// phase must not last 8 s, after which nodes resolve the stall on their own.
    const PATIENCE: Duration = Duration::from_secs(1);

    fn rack(&mut self) -> &mut SimulatedRack {
        &mut self.rack
    }

    fn report(&mut self) -> &mut SeedReport {
        self.report
    }

    fn is_broken_off(&self) -> bool {
        self.is_cut
    }

    fn stalls(&self) -> Duration {
        self.plan.stalls()
    }

    fn control(&mut self, token: u64) -> bool {
        let (_, disturbance) = self.plan.disturbances[token as usize];
        if !self.quiet {
            let done = self.disturb(disturbance);
            self.check(done);
        }
        false
    }
}

impl Harness<'_> {
    fn nodes(&self) -> usize {
        self.plan.nodes.len()
    }

    /// The whole run: work during disturbances, then a quiet phase. True if the power failed
    /// before.
    fn play(mut self) -> bool {
        let plan = self.plan;
        campaign::schedule(&mut self.rack, &plan.disturbances);
        for at in 0..self.nodes() {
            self.work(at, 1);
        }
        self.spawn_rogue();
        if self.drive("at work: ") {
            self.quieten();
            self.read_all();
            self.flush_all();
            // Closes the second store cleanly.
            self.at_store(allocators::Script::Retire);
            self.one_at_store(allocators::Script::Close);
        }
        self.report.add_rack(&self.rack);
        self.is_cut
    }

    /// Checks that everything written home is present.
    fn reopened(mut self) {
        self.read_all();
        // Opens the second store again and allocates all free pages.
        self.one_at_store(allocators::Script::Exhaust);
        self.report.add_rack(&self.rack);
    }

    fn disturb(&mut self, disturbance: Disturbance) -> Result<(), String> {
        match disturbance {
            Disturbance::Crash(node) => {
                let at = usize::from(node.0);
                if self.is_alive(at) {
                    self.crash(at);
                    self.unreported.push(node);
                    self.report.crashes += 1;
                }
            }
            Disturbance::Tell(node) => {
                if self.unreported.contains(&node) {
                    self.unreported.retain(|&other| other != node);
                    self.tell(node);
                }
            }
            Disturbance::Return(node) => return self.go_on(usize::from(node.0)),
            Disturbance::Accept => self.accept(),
            Disturbance::Presume(node) => {
                let at = usize::from(node.0);
                if self.is_alive(at) {
                    self.presume(at);
                    self.report.crashes += 1;
                }
            }
            Disturbance::RestartSwitch => {
                self.report.switch_restarts += 1;
                return self.restart_switch();
            }
            Disturbance::CrashServer(server) => {
                self.report.crashes += 1;
                self.crash_server(server);
            }
            Disturbance::CutPower => {
                self.report.crashes += 1;
                self.is_cut = true;
            }
            Disturbance::CutCable(node) => self.rack.set_link_down(node, true),
            Disturbance::LongCut(node) => {
                // A pool gives up after the 5 s that the switch grants a target.
                self.excuse(|excuses| excuses.nobody_answers = true);
                self.rack.set_link_down(node, true);
            }
            Disturbance::MendCable(node) => self.rack.set_link_down(node, false),
            Disturbance::StopTarget => {
                self.target_stopped = true;
                self.report.restarts += 1;
                self.rack.remove_target(self.plan.store.target);
            }
            Disturbance::StartTarget => return self.start_target(),
            other => self.disturb_pages(other),
        }
        Ok(())
    }

    /// What goes wrong with the device, and what changes between the switch and the entries in
    /// memory.
    fn disturb_pages(&mut self, disturbance: Disturbance) {
        match disturbance {
            Disturbance::Fill(free) => self.fill(Some(free)),
            Disturbance::Free => self.fill(None),
            Disturbance::Stall(lasts) => {
                self.stall(lasts);
                let waits = self.plan.patience.min(CHANNEL_PATIENCE);
                let too_long = OTHER_DELAYS + lasts > waits;
                self.excuse(|excuses| excuses.nobody_answers |= too_long);
            }
            Disturbance::Break(page) => {
                self.set_broken(page, true);
                self.excuse(|excuses| excuses.storage_fails = true);
            }
            Disturbance::Mend(page) => self.set_broken(page, false),
            Disturbance::Tear(page, block) => self.damage(page, block, false),
            Disturbance::Zero(page, block) => self.damage(page, block, true),
            Disturbance::Promote(index) => {
                let page = self.shared.page(index);
                self.report.changes += u64::from(self.rack.promote(page));
            }
            Disturbance::Demote(index) => {
                let page = self.shared.page(index);
                self.report.changes += u64::from(self.rack.demote(page));
            }
            other => unreachable!("{other:?} is not about pages"),
        }
    }

    /// A node that has crashed, as the controller knows, returns and resumes work.
    fn go_on(&mut self, at: usize) -> Result<(), String> {
        let node = self.plan.nodes[at].node;
        if self.is_alive(at) || self.unreported.contains(&node) {
            return Ok(());
        }
        self.revive(at)?;
        self.work(at, 2);
        Ok(())
    }

    /// A node does its work, or one part of it.
    fn work(&mut self, at: usize, parts: u32) {
        let plan = self.plan;
        let fixes = plan.habits.fixes / parts;
        self.spawn(at, true, || Work::Random(fixes));
        if let Some(second) = plan.second {
            let script = allocators::Script::Work(second.operations / parts);
            self.spawn_store_user(at, script);
        }
    }
}

#[cfg(test)]
mod tests;
