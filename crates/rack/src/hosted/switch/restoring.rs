//! The start of a switch process that finds the state of an earlier one.
//!
//! It waits for the nodes that the state names. One that comes back and has kept everything is the
//! same as before; one that does not, or is a new process, is dead. Then the state is restored, as
//! after a restart of the switch inside one process. Until then the requests of nodes and commands
//! wait, and no other node is admitted.

use super::kept::Kept;
use super::{SwitchCore, SwitchEvent};
use crate::hosted::node::controller_patience;
use core::sync::atomic::Ordering;
use rackweave_base::{KeyRng, NodeId};
use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex};
use std::time::{Duration as Time, Instant};

/// How often a thread that waits checks whether the process stops.
const LOOK_EVERY: Time = Time::from_millis(50);

/// How long to wait for nodes, in addition to the time after which they notice at the latest that
/// the controller is gone.
const RETURN_LIMIT: Time = Time::from_secs(1);

/// The nodes that are waited for.
#[derive(Default)]
struct Awaited {
    /// Whether the state of the earlier process is being restored.
    restoring: bool,
    /// The nodes that have not come back yet.
    nodes: BTreeSet<NodeId>,
}

/// Whether the state of an earlier process is being restored.
#[derive(Default)]
pub(super) struct Restoring {
    awaited: Mutex<Awaited>,
    changed: Condvar,
}

/// How a node that wants to join relates to the earlier process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Return {
    /// It has kept everything.
    Same,
    /// It is new: it forgets what another controller has made there.
    New,
    /// It has to wait.
    Later,
}

impl Restoring {
    /// Begins, before any node is admitted.
    pub fn begin(&self, nodes: BTreeSet<NodeId>) {
        let restoring = true;
        *self.awaited.lock().expect("no holder panics") = Awaited { restoring, nodes };
    }

    pub fn is_on(&self) -> bool {
        self.awaited.lock().expect("no holder panics").restoring
    }

    /// A node has come back, or never will.
    pub fn note(&self, node: NodeId) {
        let mut awaited = self.awaited.lock().expect("no holder panics");
        awaited.nodes.remove(&node);
        self.changed.notify_all();
    }

    fn end(&self) {
        self.awaited.lock().expect("no holder panics").restoring = false;
        self.changed.notify_all();
    }
}

impl SwitchCore {
    /// Waits until the state of an earlier process has been restored.
    pub(super) fn wait_restored(&self) {
        let restoring = &self.restoring;
        let mut awaited = restoring.awaited.lock().expect("no holder panics");
        while awaited.restoring && !self.is_stopped() {
            let waited = restoring.changed.wait_timeout(awaited, LOOK_EVERY);
            awaited = waited.expect("no holder panics").0;
        }
    }

    /// How a node that wants to join relates to the earlier process.
    pub(super) fn returns(&self, node: NodeId, incarnation: u64) -> Return {
        let restoring = self.restoring.awaited.lock().expect("no holder panics");
        if !restoring.restoring {
            return Return::New;
        }
        let is_awaited = restoring.nodes.contains(&node);
        drop(restoring);
        let kept = self.kept_member(node);
        match kept.filter(|kept| is_awaited && kept.incarnation == incarnation) {
            Some(_) => Return::Same,
            None => {
                // Its process is another one, so the earlier one is dead.
                self.restoring.note(node);
                Return::Later
            }
        }
    }

    /// Restores the state of an earlier process, once its nodes are back.
    pub(super) fn restore(&self, kept: Kept, watch: &(dyn Fn(SwitchEvent) + Sync)) {
        let members: Vec<NodeId> = kept.rack.members.keys().map(|&node| NodeId(node)).collect();
        let notice = controller_patience(&self.config.hosted());
        self.wait_for_return(notice + RETURN_LIMIT);
        if self.is_stopped() {
            return;
        }
        let is_back = |node: &NodeId| self.member(*node).is_some();
        let absent: Vec<NodeId> = members.iter().copied().filter(|it| !is_back(it)).collect();
        if absent.len() == members.len() {
            // Nobody has kept anything.
            self.instance
                .store(KeyRng::system().next_u64(), Ordering::Relaxed);
            self.stored(|state| {
                state.rack = super::kept::KeptRack {
                    instance: self.instance.load(Ordering::Relaxed),
                    ..Default::default()
                };
            });
            self.restoring.end();
            return watch(SwitchEvent::StateLeft {
                why: "none of its nodes has come back".into(),
            });
        }
        self.wait_introduced(&members);
        absent.iter().for_each(|&node| self.cut_cables_to(node));
        let mut controller = self.controller.lock().expect("no holder panics");
        // Nodes have got farewells, and would count as dead.
        if self.is_stopped() {
            return;
        }
        let Kept {
            fabric,
            services,
            plan,
            ..
        } = kept;
        controller.restore(fabric, services, plan);
        self.save_all(&controller);
        let resumed = controller.resume(&mut super::site::Asking(self), &absent);
        self.save_all(&controller);
        drop(controller);
        let estates: Vec<_> = absent
            .iter()
            .map(|&node| self.forget_member(node))
            .collect();
        self.restoring.end();
        estates
            .into_iter()
            .for_each(|estate| self.end_estate(estate));
        let names = absent
            .iter()
            .map(|node| self.config.node[usize::from(node.0)].name.clone());
        watch(match resumed {
            Ok(()) => SwitchEvent::Restored {
                absent: names.collect(),
            },
            Err(error) => SwitchEvent::StateLeft {
                why: error.to_string(),
            },
        });
        self.end_unclaimed_commands();
    }

    /// Waits for nodes. The time for which this process stands still does not count: nodes cannot
    /// come back meanwhile.
    fn wait_for_return(&self, limit: Time) {
        let restoring = &self.restoring;
        let mut awaited = restoring.awaited.lock().expect("no holder panics");
        let mut left = limit;
        while !awaited.nodes.is_empty() && !self.is_stopped() && !left.is_zero() {
            let began = Instant::now();
            let waited = restoring.changed.wait_timeout(awaited, LOOK_EVERY);
            awaited = waited.expect("no holder panics").0;
            left = left.saturating_sub(began.elapsed().min(2 * LOOK_EVERY));
        }
    }
}
