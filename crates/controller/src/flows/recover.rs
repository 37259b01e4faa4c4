//! After a restart of the switch: what its registers knew is read back from the rings (zero-sided
//! RDMA, section 6.3, names this as possible).
//!
//! Nothing is lost and nothing delivered twice, because the switch writes a consumer's head
//! together with the commit record, and only then the producer's tail:
//!
//! - Items beyond the published head were never visible. Their transfers are simply done again.
//! - Items below it are the consumer's. If the restart came before the producer's tail was
//!   written, the commit record says what that tail should be.

use super::{AbortReason, FlowError, FlowId, FlowRings, FlowSpec, FlowState, Ring};
use crate::{Controller, Site};
use rackweave_base::canary::{Canary, planted};
use rackweave_wire::fabric::ring::SwitchState;

impl Controller {
    /// Takes over a flow that another controller has set up and lost: its rings are still on their
    /// nodes, and the switch knows nothing of it. What the rings say is all that is needed.
    ///
    /// # Errors
    /// If the specification is out of range or does not fit the rings, a ring is gone or not at
    /// work, a flow has it already, or the switch or a node lacks room. Then the rings are
    /// [disowned](Self::disown).
    pub fn adopt_flow(
        &mut self,
        site: &mut dyn Site,
        spec: FlowSpec,
        rings: FlowRings,
    ) -> Result<FlowId, FlowError> {
        let adopted = self.try_adopt(site, spec, rings.clone());
        if adopted.is_err() {
            self.disown(site, &rings);
        }
        adopted
    }

    /// Nobody will take these rings over: whoever waits at one is told, and its memory is given
    /// back. Rings of flows that run are left alone.
    pub fn disown(&mut self, site: &mut dyn Site, rings: &FlowRings) {
        for ring in rings.all().filter(|ring| !self.runs_over(ring)) {
            ring.tell(site, SwitchState::Aborted);
            site.remove_region(ring.node, &ring.region);
        }
    }

    /// Whether a flow that runs has this ring.
    fn runs_over(&self, ring: &Ring) -> bool {
        let same = |other: &Ring| (other.node, other.region.rkey) == (ring.node, ring.region.rkey);
        let flows = self.flows.flows.iter();
        flows
            .filter(|flow| flow.state == FlowState::Running)
            .any(|flow| flow.rings.all().any(same))
    }

    fn try_adopt(
        &mut self,
        site: &mut dyn Site,
        spec: FlowSpec,
        rings: FlowRings,
    ) -> Result<FlowId, FlowError> {
        spec.check()?;
        let per_producer = |of: &Vec<Ring>| of.len() == spec.producers.len();
        let shape = rings.consumers.len() == spec.consumers.len()
            && rings.producers.len() == spec.consumers.len()
            && rings.producers.iter().all(per_producer);
        if !shape {
            return Err(FlowError::BadSpec {
                what: "the number of rings",
                value: rings.all().count() as u64,
                rule: "one per consumer, and one per producer and consumer, are needed",
            });
        }
        if let Some(ring) = rings.all().find(|ring| self.runs_over(ring)) {
            return Err(FlowError::RingInUse { node: ring.node });
        }
        for ring in rings.all() {
            let open = ring
                .switch(site)
                .is_some_and(|word| matches!(word.state, SwitchState::Open | SwitchState::Ended));
            if !open || ring.unit(site).is_none() {
                return Err(FlowError::RingGone { node: ring.node });
            }
        }
        let id = self.enter_flow(spec)?;
        self.flows.flows[id.0 as usize].rings = rings;
        self.recover_flow(site, id);
        match self.flows.flows[id.0 as usize].state {
            FlowState::Aborted(AbortReason::NotRecovered(error)) => Err(error.into()),
            _ => Ok(id),
        }
    }

    /// The switch has restarted with empty tables: enters all nodes again and sets up all running
    /// flows again. A flow whose node has died meanwhile is broken off.
    ///
    /// # Errors
    /// If the switch's tables are too small for the nodes.
    pub fn switch_restarted(
        &mut self,
        site: &mut dyn Site,
    ) -> Result<(), rackweave_switch::table::TableError> {
        self.install_hosts(site)?;
        for at in 0..self.flows.flows.len() {
            let id = FlowId(at as u32);
            if self.flows.flows[at].state == FlowState::Running {
                self.recover_flow(site, id);
            }
        }
        Ok(())
    }

    fn recover_flow(&mut self, site: &mut dyn Site, id: FlowId) {
        // First the old queue pairs go, so that no packet still under way can change a ring.
        let lanes = core::mem::take(&mut self.flows.flows[id.0 as usize].lanes);
        for lane in &lanes {
            self.disconnect_lane(site, lane);
        }
        let flow = &mut self.flows.flows[id.0 as usize];
        for (at, consumer) in flow.rings.consumers.iter().enumerate() {
            if consumer.has_ended(site) {
                flow.threads_running[at] = false;
                continue;
            }
            let record = consumer.record(site);
            let forgets = planted(Canary::ControllerForgetsCommit);
            let place = (record.producer as usize)
                .checked_sub(1)
                .filter(|_| !forgets);
            if let Some(ring) = place.and_then(|place| flow.rings.producers[at].get(place)) {
                ring.set_switch_counter(site, record.tail);
            }
        }
        if !flow.threads_running.contains(&true) {
            return self.take_down(site, id, FlowState::Ended);
        }
        if let Err(error) = self.connect_flow(site, id) {
            self.take_down(
                site,
                id,
                FlowState::Aborted(AbortReason::NotRecovered(error)),
            );
        }
    }
}
