//! Sequencers in the switch of a rack.

use super::Rack;
use rackweave_base::{NodeId, Qpn};
use rackweave_controller::ask::{
    AttachSequencer, CloseSequencer, CreateSequencer, DetachSequencer, SequencerReserved,
};
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::{SequencerId, SequencerPlace, SequencerSetUpError, SequencerSpec};

impl Rack {
    /// Sets a sequencer up in the switch.
    ///
    /// # Errors
    /// If the specification makes no sense or the switch has no room.
    pub fn create_sequencer(
        &self,
        spec: SequencerSpec,
    ) -> Result<SequencerId, SequencerSetUpError> {
        self.ask(CreateSequencer { spec })
    }

    /// Connects a client's queue pair, whatever its state is, to the switch.
    ///
    /// # Errors
    /// As for [`rackweave_controller::Controller::attach_sequencer`].
    pub fn attach_sequencer(
        &self,
        id: SequencerId,
        client: (NodeId, Qpn),
        attributes: &PairAttributes,
    ) -> Result<SequencerPlace, SequencerSetUpError> {
        let attributes = *attributes;
        self.ask(AttachSequencer {
            id,
            client,
            attributes,
        })
    }

    /// The switch forgets a client's queue pair.
    pub fn detach_sequencer(&self, client: (NodeId, Qpn)) {
        self.ask(DetachSequencer { client });
    }

    /// Takes a sequencer down.
    pub fn close_sequencer(&self, id: SequencerId) {
        self.ask(CloseSequencer { id });
    }

    /// From this number on, none of a sequencer's was ever handed out.
    pub fn sequencer_reserved(&self, id: SequencerId) -> Option<u64> {
        self.ask(SequencerReserved { id })
    }
}
