//! Recovery after a restart of the switch, or the loss of a member: the state of the switch's
//! registers is read back from the rings (zero-sided RDMA, section 6.3, names this as
//! possible).
//!
//! Nothing is lost and nothing is delivered twice, because the switch writes a consumer's head
//! together with the commit record, and only then the producer's tail:
//!
//! - Items beyond the published head were never visible. Their transfers are repeated.
//! - Items below it are the consumer's. If the restart came before the producer's tail was written,
//!   the commit record contains that tail. Several consumers of a balanced flow may each have a
//!   record of the same producer; since its items are published in order, the most advanced record
//!   covers what all were given.
//! - Of several replicas one may have received a head that others have not. All of them have the
//!   items, so the head is now written to all.

use super::flow::Flow;
use super::set_up::forget_ring;
use super::{AbortReason, FlowError, FlowId, FlowRings, FlowShape, FlowSpec, FlowState, Ring};
use crate::{Controller, Fabric, Site};
use rackweave_base::canary::{Canary, planted};
use rackweave_wire::fabric::ring::{CommitRecord, SwitchState};

impl Fabric {
    /// Takes over a flow that another controller has set up and lost: its rings are still on their
    /// nodes, and the switch has no state of it. The rings contain everything that is needed.
    ///
    /// # Errors
    /// If the specification is out of range or does not fit the rings, a ring has been removed or
    /// is not active, a flow has it already, or the switch or a node lacks capacity. Then the rings
    /// are [disowned](Self::disown).
    pub fn adopt_flow(
        &self,
        site: &mut dyn Site,
        spec: FlowSpec,
        rings: FlowRings,
    ) -> Result<FlowId, FlowError> {
        let fits = check_shape(&spec, &rings);
        let entered = fits.and_then(|()| {
            let adopt = |flow: &mut Flow| self.adopt(site, flow);
            self.flows.enter(spec, Some(rings.clone()), adopt)
        });
        // If a later step failed, the flow was taken down, which does the same.
        entered.inspect_err(|_| self.disown(site, &rings))?
    }

    /// Frees rings that will not be taken over: programs waiting at one are notified, and its
    /// memory is freed. Rings of running flows are left alone.
    pub fn disown(&self, site: &mut dyn Site, rings: &FlowRings) {
        for ring in rings.all() {
            if self.flows.lock().claim(&[ring]).is_ok() {
                ring.tell(site, SwitchState::Aborted);
                forget_ring(site, ring);
                self.flows.lock().release([ring].into_iter());
            }
        }
    }

    /// Sets up a flow that has its rings.
    fn adopt(&self, site: &mut dyn Site, flow: &mut Flow) -> Result<FlowId, FlowError> {
        let mut is_whole = |ring: &Ring| {
            let word = ring.switch(site);
            let is_open = |state| matches!(state, SwitchState::Open | SwitchState::Ended);
            word.is_some_and(|word| is_open(word.state)) && ring.node_word(site).is_some()
        };
        let gone = flow.rings.all().find(|ring| !is_whole(ring));
        if let Some(node) = gone.map(|ring| ring.node) {
            self.take_down(site, flow, FlowState::Aborted(AbortReason::Closed));
            return Err(FlowError::RingGone { node });
        }
        self.detach(site, flow);
        self.attach(site, flow)?;
        Ok(flow.id)
    }

    /// Removes a flow from the switch and makes its rings consistent, so that they contain its
    /// complete state.
    pub(super) fn detach(&self, site: &mut dyn Site, flow: &mut Flow) {
        // First the old queue pairs are removed, so that no packet in flight can change a ring.
        self.disconnect_flow(site, flow);
        let consumers: Vec<usize> = flow.live_consumers().collect();
        if flow.spec.shape == FlowShape::Replicate {
            level_replicas(site, flow, &consumers);
        }
        for &at in &consumers {
            if flow.rings.consumers[at].has_ended(site) {
                flow.consumers[at].running = false;
                continue;
            }
            let record = flow.rings.consumers[at].record(site);
            let forgets = planted(Canary::ControllerForgetsCommit);
            let place = (record.producer as usize)
                .checked_sub(1)
                .filter(|_| !forgets);
            let rings = &flow.rings.producers[flow.ring_at(at)];
            if let Some(ring) = place.and_then(|place| rings.get(place)) {
                ring.raise_switch_counter(site, record.tail);
            }
        }
        let_go(site, flow);
    }

    /// Sets up a flow again from the state of its rings, with its current members.
    ///
    /// # Errors
    /// If that fails; then the flow is aborted.
    pub(super) fn attach(&self, site: &mut dyn Site, flow: &mut Flow) -> Result<(), FlowError> {
        if !flow.has_work() {
            self.take_down(site, flow, FlowState::Ended);
            return Ok(());
        }
        if let Err(error) = self.connect_flow(site, flow) {
            let reason = AbortReason::NotRecovered(error);
            self.take_down(site, flow, FlowState::Aborted(reason));
            return Err(error.into());
        }
        Ok(())
    }
}

impl Controller {
    /// Handles a restart of the switch with empty tables: enters all nodes and sets up all running
    /// flows again. A flow whose node has died meanwhile is aborted.
    ///
    /// # Errors
    /// If the switch's tables are too small for the nodes.
    pub fn switch_restarted(
        &mut self,
        site: &mut dyn Site,
    ) -> Result<(), rackweave_switch::table::TableError> {
        self.install_hosts(site)?;
        self.reserve_for_restart();
        self.set_up_again(site)
    }

    /// Sets up everything but the nodes in a switch with empty tables.
    pub(crate) fn set_up_again(
        &mut self,
        site: &mut dyn Site,
    ) -> Result<(), rackweave_switch::table::TableError> {
        self.enter_sequencers(site)?;
        self.pages_restarted(site);
        self.index.switch_restarted(site, 0)?;
        for id in self.flows.left() {
            let set_up_again = |flow: &mut Flow| {
                self.detach(site, flow);
                // A flow that cannot be set up again is aborted, and its state says so.
                let _ = self.attach(site, flow);
            };
            let _ = self.flows.with_running(id, set_up_again);
        }
        Ok(())
    }
}

/// Whether these can be the rings of such a flow.
fn check_shape(spec: &FlowSpec, rings: &FlowRings) -> Result<(), FlowError> {
    spec.check()?;
    let per_producer = |of: &Vec<Ring>| of.len() == spec.producers.len();
    let fits = rings.consumers.len() == spec.consumers.len()
        && rings.producers.len() == spec.rings_per_producer()
        && rings.producers.iter().all(per_producer);
    if !fits {
        return Err(FlowError::BadSpec {
            what: "the number of rings",
            value: rings.all().count() as u64,
            rule: "one per consumer, and the rings of every producer, are needed",
        });
    }
    Ok(())
}

/// Lets the members of a detached flow go that were about to leave. The last consumer stays: only
/// it can still be given items.
fn let_go(site: &mut dyn Site, flow: &mut Flow) {
    let mut rings = Vec::new();
    if flow.staying_consumers().next().is_some() {
        for at in flow.live_consumers().collect::<Vec<_>>() {
            if flow.consumers[at].leaves {
                flow.consumers[at].gone = true;
                rings.push(flow.rings.consumers[at].clone());
            }
        }
    }
    for at in flow.live_producers().collect::<Vec<_>>() {
        if flow.producers[at].leaves {
            flow.producers[at].gone = true;
            rings.extend(flow.rings.of_producer(at));
        }
    }
    for ring in &rings {
        ring.tell(site, SwitchState::Ended);
        forget_ring(site, ring);
    }
}

/// Writes to all replicas the newest head that any of them has. A replica that has never been
/// given a head and is ahead of the others has yet to join: it gets the items from there on.
fn level_replicas(site: &mut dyn Site, flow: &mut Flow, consumers: &[usize]) {
    let mut words = Vec::new();
    for &at in consumers {
        let ring = &flow.rings.consumers[at];
        if let Some(word) = ring.switch(site) {
            let has_ended = word.state == SwitchState::Ended;
            let was_given = has_ended || ring.record(site) != CommitRecord::default();
            words.push((at, word, was_given));
        }
    }
    let Some(&(_, first, _)) = words.first() else {
        return;
    };
    let ahead = |counter: u32| counter.wrapping_sub(first.counter) as i32;
    let given = words.iter().filter(|(.., was_given)| *was_given);
    let newest = given.max_by_key(|(_, word, _)| ahead(word.counter));
    // If none has been given a head, all that have joined have the same.
    let newest = newest.or_else(|| words.iter().min_by_key(|(_, word, _)| ahead(word.counter)));
    let Some(&(newest, word, _)) = newest else {
        return;
    };
    let has_ended = words
        .iter()
        .any(|(_, word, _)| word.state == SwitchState::Ended);
    let record = flow.rings.consumers[newest].record(site);
    for &(at, own, was_given) in &words {
        let is_ahead = ahead(own.counter) > ahead(word.counter);
        let joins_at = (is_ahead && !was_given).then_some(own.counter);
        flow.consumers[at].joins_at = joins_at;
        let ring = &flow.rings.consumers[at];
        if joins_at.is_none() {
            ring.set_record(site, record);
            ring.set_switch_counter(site, word.counter);
        }
        if has_ended {
            ring.tell(site, SwitchState::Ended);
        }
    }
}
