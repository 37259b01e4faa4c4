//! After a restart of the switch: what its registers knew is read back from the rings (zero-sided
//! RDMA, section 6.3, names this as possible).
//!
//! Nothing is lost and nothing delivered twice, because the switch writes a consumer's head
//! together with the commit record, and only then the producer's tail:
//!
//! - Items beyond the published head were never visible. Their transfers are simply done again.
//! - Items below it are the consumer's. If the restart came before the producer's tail was
//!   written, the commit record says what that tail should be.

use super::{AbortReason, FlowId, FlowState};
use crate::{Controller, Site};
use rackweave_base::canary::{Canary, planted};
use rackweave_wire::fabric::ring::SwitchState;

impl Controller {
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
            if consumer
                .switch(site)
                .is_some_and(|word| word.state == SwitchState::Ended)
            {
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
