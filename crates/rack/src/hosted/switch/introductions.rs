//! Nodes that share memory import each other's.
//!
//! Each member is given the memories of the others by the thread that serves its heartbeats. So a
//! slow member does not delay others that join or leave; an operation that needs two members to
//! know each other waits only for these two.

use super::members::Shared;
use super::{Member, SwitchCore};
use crate::hosted::messages::{NodeReply, NodeRequest};
use rackweave_base::NodeId;
use rackweave_link::shared_memory::handover;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration as Time;

/// Interval at which a waiting thread checks whether the awaited members have left.
const LOOK_EVERY: Time = Time::from_millis(50);

/// Notifications of members that join, leave, or are given a memory.
#[derive(Default)]
pub(super) struct Introductions {
    /// How many times a member has joined or left.
    changes: Mutex<u64>,
    changed: Condvar,
    /// Notified when a member has been given a memory.
    given: Condvar,
}

impl Introductions {
    fn changes(&self) -> MutexGuard<'_, u64> {
        self.changes.lock().expect("no holder panics")
    }

    /// Records that a member has joined or left.
    pub fn note_change(&self) {
        *self.changes() += 1;
        self.changed.notify_all();
    }

    /// Waits for up to `limit` until the number of changes differs from `seen`. Returns the number.
    pub fn wait_for_change(&self, seen: u64, limit: Time) -> u64 {
        let waited = self
            .changed
            .wait_timeout_while(self.changes(), limit, |changes| *changes == seen);
        *waited.expect("no holder panics").0
    }
}

impl SwitchCore {
    /// Has a member import the memories of all others, and forget those that have left. Only the
    /// member's own thread does that.
    ///
    /// # Errors
    /// The first memory that it could not import. It is not retried.
    pub(super) fn introduce_to(&self, member: &Member) -> Result<(), String> {
        let Some(own) = &member.shared else {
            return Ok(());
        };
        let present = self.members.iter().filter_map(|place| {
            let other = place.lock().expect("no holder panics").clone()?;
            let origin = other.shared.as_ref()?.arena.origin;
            (origin != own.arena.origin).then_some((origin.0, other))
        });
        let present: BTreeMap<u16, Arc<Member>> = present.collect();
        let given = || member.given.lock().expect("no holder panics");
        let known = given().clone();
        let is_gone = |origin: &u16| !present.contains_key(origin) && !self.restoring.is_on();
        for &origin in known.iter().filter(|&origin| is_gone(origin)) {
            let _ = member.ask_counted(&NodeRequest::Forget { origin });
            given().remove(&origin);
        }
        let mut result = Ok(());
        for (origin, other) in present {
            if known.contains(&origin) {
                continue;
            }
            let theirs = other.shared.as_ref().expect("it has an origin");
            result = result.and(give((member, own), theirs));
            given().insert(origin);
            // A waiting thread either sees the update or is already waiting for the notification.
            drop(self.introductions.changes());
            self.introductions.given.notify_all();
        }
        result
    }

    /// Waits until the present ones of `nodes` have been given each other's memories.
    pub(super) fn wait_introduced(&self, nodes: &[NodeId]) {
        let introductions = &self.introductions;
        let mut changes = introductions.changes();
        while !self.are_introduced(nodes) && !self.is_stopped() {
            let waited = introductions.given.wait_timeout(changes, LOOK_EVERY);
            changes = waited.expect("no holder panics").0;
        }
    }

    pub(super) fn are_introduced(&self, nodes: &[NodeId]) -> bool {
        let members = nodes.iter().filter_map(|&node| self.member(node));
        let members: Vec<_> = members.filter(|member| member.shared.is_some()).collect();
        members.iter().all(|member| {
            let given = member.given.lock().expect("no holder panics");
            let mut others = members.iter().filter(|other| other.node != member.node);
            others.all(|other| {
                let theirs = other.shared.as_ref();
                theirs.is_none_or(|theirs| {
                    let (origin, own) = (theirs.arena.origin, member.shared.as_ref());
                    own.is_some_and(|own| own.arena.origin == origin) || given.contains(&origin.0)
                })
            })
        })
    }
}

/// Gives a member, whose memory is `place`, the memory of another.
fn give((member, place): (&Member, &Shared), other: &Shared) -> Result<(), String> {
    let descriptor = other.arena.descriptor().ok_or("it is not mapped")?;
    let _in_order = member.handing.lock().expect("no holder panics");
    handover::send(&place.channel, b"memory", &[descriptor.as_fd()])
        .map_err(|error| error.to_string())?;
    let origin = other.arena.origin.0;
    match member.ask_counted(&NodeRequest::Import { origin }) {
        Some(NodeReply::Imported(done)) => done,
        _ => Err("it does not answer".into()),
    }
}
