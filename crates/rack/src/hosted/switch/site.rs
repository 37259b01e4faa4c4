//! The rack as the controller sees it: a local switch, and remote nodes that get requests.

use super::{Member, SwitchCore};
use crate::address::Address;
use crate::hosted::messages::{NodeReply, NodeRequest};
use rackweave_base::{Block, Instant, NodeId, Qpn, Rkey};
use rackweave_controller::{
    NodeAddress, PairError, PairRequest, RegionError, RegionName, RegionPurpose, Site, TargetReply,
    TargetRequest,
};
use rackweave_programs::Pipeline;
use rackweave_switch::Switch;
use rackweave_target::TargetError;
use rackweave_verbs::{
    Access, Completion, CqError, CqId, ModifyError, PdId, PostError, QpCapabilities, QpError,
    QpModify, QpState, ReceiveRequest, Region, RegisterError, Verbs, WorkRequest,
};
use std::sync::Arc;

/// The parts of a long request: each fits into a message, and no reply takes long.
const WORDS_MAX: usize = 8192;
const PAIRS_MAX: usize = 256;

/// Sends requests to the nodes. Meanwhile it holds no lock that is needed for other nodes, except
/// that of a flow with the node as a member (`rackweave_controller::flows`).
pub(super) struct Asking<'a>(pub &'a SwitchCore);

impl Site for Asking<'_> {
    fn now(&self) -> Instant {
        self.0.pump.now()
    }

    fn nodes(&self) -> Vec<(NodeId, NodeAddress)> {
        let config = &self.0.config;
        let hosts = (0..config.host.len()).map(|at| Address::of_host(config, at));
        Address::of_nodes(config).into_iter().chain(hosts).collect()
    }

    fn node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        let Some(member) = self.0.member(node) else {
            return false;
        };
        act(&mut RemoteVerbs(member));
        true
    }

    fn make_region(
        &mut self,
        node: NodeId,
        pd: PdId,
        len: u64,
        access: Access,
        purpose: RegionPurpose,
    ) -> Result<RegionName, RegionError> {
        let member = self.0.member(node).ok_or(RegionError::NoNode)?;
        let request = NodeRequest::MakeRegion {
            pd,
            len,
            access,
            purpose,
        };
        match member.ask_counted(&request) {
            Some(NodeReply::Region(Ok(region))) => Ok(region),
            Some(NodeReply::Region(Err(error))) => Err(RegionError::Remote(error)),
            _ => Err(RegionError::NoNode),
        }
    }

    fn remove_region(&mut self, node: NodeId, name: &RegionName) {
        let region = *name;
        if let Some(member) = self.0.member(node) {
            let _ = member.ask_counted(&NodeRequest::RemoveRegion { region });
        }
    }

    fn load_word(&mut self, node: NodeId, rkey: Rkey, offset: u64) -> Option<[u8; 8]> {
        self.load_words(node, rkey, &[offset])?.pop()
    }

    fn load_words(&mut self, node: NodeId, rkey: Rkey, offsets: &[u64]) -> Option<Vec<[u8; 8]>> {
        let member = self.0.member(node)?;
        let mut words = Vec::new();
        for offsets in offsets.chunks(WORDS_MAX) {
            let offsets = offsets.to_vec();
            match member.ask_counted(&NodeRequest::LoadWords { rkey, offsets }) {
                Some(NodeReply::Words(some)) => words.extend(some?),
                _ => return None,
            }
        }
        Some(words)
    }

    fn connect_pairs(
        &mut self,
        node: NodeId,
        requests: &[PairRequest],
    ) -> Option<Vec<Result<Qpn, PairError>>> {
        let member = self.0.member(node)?;
        let mut pairs = Vec::new();
        for requests in requests.chunks(PAIRS_MAX) {
            match member.ask_counted(&NodeRequest::ConnectPairs(requests.to_vec())) {
                Some(NodeReply::Pairs(some)) => pairs.extend(some),
                _ => return None,
            }
        }
        Some(pairs)
    }

    fn store_word(&mut self, node: NodeId, rkey: Rkey, offset: u64, bytes: [u8; 8]) {
        if let Some(member) = self.0.member(node) {
            let _ = member.ask_counted(&NodeRequest::StoreWord {
                rkey,
                offset,
                bytes,
            });
        }
    }

    fn compare_swap_word(
        &mut self,
        node: NodeId,
        rkey: Rkey,
        offset: u64,
        words: (u64, u64),
    ) -> Option<u64> {
        let request = NodeRequest::CompareSwapWord {
            rkey,
            offset,
            words,
        };
        match self.0.member(node)?.ask_counted(&request) {
            Some(NodeReply::Swapped(found)) => found,
            _ => None,
        }
    }

    fn target(
        &mut self,
        node: NodeId,
        request: TargetRequest,
    ) -> Option<Result<TargetReply, TargetError>> {
        self.target_all(node, vec![request])?.pop()
    }

    fn target_all(
        &mut self,
        node: NodeId,
        requests: Vec<TargetRequest>,
    ) -> Option<Vec<Result<TargetReply, TargetError>>> {
        match self
            .0
            .member(node)?
            .ask_counted(&NodeRequest::Target(requests))
        {
            Some(NodeReply::Target(replies)) => replies,
            _ => None,
        }
    }

    fn switch(&mut self, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>)) {
        let now = self.0.pump.now();
        self.0
            .pump
            .with(|machine| act(now, &mut machine.linked.switch));
    }
}

/// A node's NIC, accessed by requests and replies. Verbs on memory are up to the node itself and
/// are refused here.
struct RemoteVerbs(Arc<Member>);

impl Verbs for RemoteVerbs {
    fn create_pd(&mut self) -> PdId {
        match self.0.ask_counted(&NodeRequest::CreatePd) {
            Some(NodeReply::Pd(pd)) => pd,
            // The next verb will report that the node does not reply.
            _ => PdId(u32::MAX),
        }
    }

    fn register(&mut self, pd: PdId, _: Block, _: Access) -> Result<Region, RegisterError> {
        // Regions of remote nodes are made by `Site::make_region`.
        Err(RegisterError::UnknownPd(pd))
    }

    fn deregister(&mut self, _: &Region) -> bool {
        false
    }

    fn create_cq(&mut self, capacity: u32) -> Result<CqId, CqError> {
        match self.0.ask_counted(&NodeRequest::CreateCq { capacity }) {
            Some(NodeReply::Cq(made)) => made,
            _ => Err(CqError::NoAnswer),
        }
    }

    fn destroy_cq(&mut self, cq: CqId) -> Result<(), CqError> {
        match self.0.ask_counted(&NodeRequest::DestroyCq { cq }) {
            Some(NodeReply::CqDestroyed(done)) => done,
            _ => Err(CqError::NoAnswer),
        }
    }

    fn create_qp(
        &mut self,
        pd: PdId,
        send_cq: CqId,
        receive_cq: CqId,
        capabilities: QpCapabilities,
    ) -> Result<Qpn, QpError> {
        let request = NodeRequest::CreateQp {
            pd,
            send_cq,
            receive_cq,
            capabilities,
        };
        match self.0.ask_counted(&request) {
            Some(NodeReply::Qp(made)) => made,
            _ => Err(QpError::NoAnswer),
        }
    }

    fn modify_qp(&mut self, qpn: Qpn, modify: QpModify) -> Result<(), ModifyError> {
        match self.0.ask_counted(&NodeRequest::ModifyQp { qpn, modify }) {
            Some(NodeReply::Modified(done)) => done,
            _ => Err(ModifyError::NoAnswer),
        }
    }

    fn qp_state(&self, _: Qpn) -> Option<QpState> {
        None
    }

    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), QpError> {
        match self.0.ask_counted(&NodeRequest::DestroyQp { qpn }) {
            Some(NodeReply::Destroyed(done)) => done,
            _ => Err(QpError::NoAnswer),
        }
    }

    fn read_by_reference(&mut self, qpn: Qpn) {
        let _ = self.0.ask_counted(&NodeRequest::ReadByReference { qpn });
    }

    fn post_send(&mut self, qpn: Qpn, _: WorkRequest) -> Result<(), PostError> {
        Err(PostError::Unknown(qpn))
    }

    fn post_receive(&mut self, qpn: Qpn, _: ReceiveRequest) -> Result<(), PostError> {
        Err(PostError::Unknown(qpn))
    }

    fn poll_cq(&mut self, _: CqId, _: usize, _: &mut Vec<Completion>) -> usize {
        0
    }
}
