//! The sequencers in the switch of a simulated rack.

use super::SimulatedRack;
use rackweave_base::{NodeId, Qpn};
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::{SequencerId, SequencerPlace, SequencerSetUpError, SequencerSpec};

impl SimulatedRack {
    /// Sets a sequencer up in the switch.
    ///
    /// # Errors
    /// If the specification makes no sense or the switch has no room.
    pub fn create_sequencer(
        &mut self,
        spec: SequencerSpec,
    ) -> Result<SequencerId, SequencerSetUpError> {
        self.change(|controller, site| controller.create_sequencer(site, spec))
    }

    /// Connects a client's queue pair, whatever its state is, to the switch.
    ///
    /// # Errors
    /// As for [`rackweave_controller::Controller::attach_sequencer`].
    pub fn attach_sequencer(
        &mut self,
        id: SequencerId,
        client: (NodeId, Qpn),
        attributes: &PairAttributes,
    ) -> Result<SequencerPlace, SequencerSetUpError> {
        self.change(|controller, site| controller.attach_sequencer(site, id, client, attributes))
    }

    /// The switch forgets a client's queue pair.
    pub fn detach_sequencer(&mut self, client: (NodeId, Qpn)) {
        self.change(|controller, site| controller.detach_sequencer(site, client));
    }

    /// Takes a sequencer down.
    pub fn close_sequencer(&mut self, id: SequencerId) {
        self.change(|controller, site| controller.close_sequencer(site, id));
    }

    /// From this number on, none of a sequencer's was ever handed out.
    pub fn sequencer_reserved(&self, id: SequencerId) -> Option<u64> {
        self.controller.sequencer_reserved(id)
    }
}
