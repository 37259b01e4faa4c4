//! Sequencers after a restart of the switch.

use super::{Made, with_sequencers};
use crate::{Controller, Site};
use rackweave_base::canary::{Canary, planted};
use rackweave_switch::table::TableError;
use rackweave_verbs::QpModify;
use rackweave_wire::fabric::sequencer::NUMBERS_END;

impl Controller {
    /// Reserves numbers for sequencers whose switch has restarted: they continue at the recorded
    /// limits.
    pub(crate) fn reserve_for_restart(&mut self) {
        for made in self.sequencers.made.iter_mut().flatten() {
            made.first = if planted(Canary::SequencerForgetsLimit) {
                made.reserved - made.block
            } else {
                made.reserved
            };
            // A sequencer that has used up all numbers stays at its end.
            if made.reserved <= NUMBERS_END - made.block {
                made.reserved += made.block;
            }
        }
    }

    /// Enters the sequencers in a switch with empty tables. Their clients are notified by their
    /// queue pairs.
    pub(crate) fn enter_sequencers(&mut self, site: &mut dyn Site) -> Result<(), TableError> {
        for (index, made) in (0u16..).zip(&self.sequencers.made) {
            let Some(made) = made else { continue };
            let Made {
                entry,
                first,
                reserved,
                ..
            } = *made;
            with_sequencers(site, |it| it.set_sequencer(index, entry, first, reserved))?;
        }
        for client in self.sequencers.clients.iter().flatten() {
            site.node(client.node, &mut |verbs| {
                // It does not exist if the client has destroyed it without notice.
                let _gone = verbs.modify_qp(client.node_qpn, QpModify::Error);
            });
        }
        Ok(())
    }
}
