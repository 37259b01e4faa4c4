//! A client of the switch's programs, with its queue pair and buffers.

use super::SLOTS;
use crate::fixture;
use crate::rack::Rack;
use rackweave_base::{NodeId, Qpn, Rkey};
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::pages::{PageChannel, PagePool};
use rackweave_controller::{Controller, SequencerId, SequencerPlace};
use rackweave_verbs::{
    Access, Completion, CqId, Operation, QpCapabilities, Region, Segment, Verbs, WorkRequest,
};
use rackweave_wire::fabric::page::request::RESPONSE_LEN;

/// What a node needs for sending requests.
pub(super) struct Client {
    node: usize,
    /// Receives the answers of sequencers.
    pub(super) region: Region,
    pub(super) cq: CqId,
    qpn: Qpn,
    pub(super) place: SequencerPlace,
    pub(super) channel: PageChannel,
    pub(super) pool: PagePool,
}

impl Client {
    /// Creates a client attached to the page directory and to the sequencer.
    pub(super) fn new(
        rack: &mut Rack,
        controller: &mut Controller,
        (node, sequencer): (usize, SequencerId),
    ) -> Self {
        let nic = &mut rack.nics[node];
        let pd = nic.create_pd();
        let region = fixture::region(nic, &rack.memory, pd, 64, Access::LOCAL_WRITE);
        let cq = nic.create_cq(64).expect("capacity");
        let qpn = nic.create_qp(pd, cq, cq, QpCapabilities::default());
        let (qpn, id) = (qpn.expect("capacity"), NodeId(node as u16));
        let attributes = PairAttributes::default();
        let place = controller.attach_sequencer(rack, sequencer, (id, qpn), &attributes);
        let (pool, channels) = controller.page_node(id).expect("it has pages");
        Self {
            node,
            region,
            cq,
            qpn,
            place: place.expect("capacity"),
            channel: channels[0].clone(),
            pool,
        }
    }

    /// Requests `count` numbers.
    pub(super) fn add(&self, rack: &mut Rack, place: SequencerPlace, count: u64) {
        let SequencerPlace { address, rkey } = place;
        let operation = Operation::FetchAdd {
            address,
            rkey,
            add: count,
        };
        let request = WorkRequest::new(0, operation, &[self.region.segment(0, 8)]);
        // A queue pair that the attacker's own packets have broken accepts no request.
        let _broken = rack.nics[self.node].post_send(self.qpn, request);
    }

    /// Sends a request to the page directory.
    pub(super) fn page(&self, rack: &mut Rack, address: u64, rkey: Rkey) {
        let slot = u64::from(rkey.0 >> 24) % u64::from(SLOTS);
        let segment = Segment {
            address: self.channel.control.address + self.response_at(slot),
            length: RESPONSE_LEN,
            lkey: self.channel.control.lkey,
        };
        let operation = Operation::Read { address, rkey };
        let request = WorkRequest::new(1, operation, &[segment]);
        let _broken = rack.nics[self.node].post_send(self.channel.requests, request);
    }

    pub(super) fn response_at(&self, slot: u64) -> u64 {
        16 * (u64::from(SLOTS) + slot)
    }

    pub(super) fn poll(&self, rack: &mut Rack, cq: CqId) -> Vec<Completion> {
        let mut completions = Vec::new();
        rack.nics[self.node].poll_cq(cq, 64, &mut completions);
        completions
    }
}
