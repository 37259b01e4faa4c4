//! A guest as a node of the rack: requests of the controller to a node become lines to the guest.

use crate::failure::{Failure, Outcome};
use crate::guest::gid;
use crate::guest_node::{GuestNode, letters};
use rackweave_base::{Block, Lkey, Qpn, Rkey};
use rackweave_controller::{RegionError, RegionName};
use rackweave_verbs::{
    Access, Completion, CqError, CqId, ModifyError, PdId, PostError, QpCapabilities, QpError,
    QpModify, QpState, ReceiveRequest, Region, RegisterError, Verbs, WorkRequest,
};
use std::collections::BTreeMap;

/// The guest's timeout (specification 1.4, 9.9.2): 4.096 µs × 2^18. Lanes never wait at their
/// node's end.
const TIMEOUT: u8 = 18;

/// A guest behind a port of the switch.
pub struct Proxy {
    node: GuestNode,
    /// The node's numbers of regions, by remote key.
    regions: BTreeMap<u32, u64>,
    /// The first request that failed; errors of verbs cannot hold it.
    failure: Option<Failure>,
}

impl Proxy {
    /// The guest to which `node` is connected.
    pub fn new(node: GuestNode) -> Self {
        Self {
            node,
            regions: BTreeMap::new(),
            failure: None,
        }
    }

    /// The node's number of a region.
    pub fn region(&self, rkey: Rkey) -> Option<u64> {
        self.regions.get(&rkey.0).copied()
    }

    /// The first request that failed, if one has.
    pub fn failure(&mut self) -> Option<Failure> {
        self.failure.take()
    }

    /// Allocates and registers memory.
    pub fn make_region(&mut self, len: u64, access: Access) -> Result<RegionName, RegionError> {
        let made = self.region_of(len, access);
        made.map_err(|failure| RegionError::Remote(failure.to_string()))
    }

    fn region_of(&mut self, len: u64, access: Access) -> Outcome<RegionName> {
        let letters = letters(access);
        let answer = self.node.ask(&format!("region {len} {letters}"))?;
        let rkey = answer.number("rkey")? as u32;
        self.regions.insert(rkey, answer.number("region")?);
        Ok(RegionName {
            address: answer.number("va")?,
            rkey: Rkey(rkey),
            // Only the guest itself would use it.
            lkey: Lkey(rkey),
        })
    }

    /// Removes a region.
    pub fn remove_region(&mut self, rkey: Rkey) {
        if let Some(region) = self.regions.remove(&rkey.0) {
            let _ = self.ask(&format!("drop {region}"));
        }
    }

    /// The word at `offset`, as the guest's bytes.
    pub fn load(&mut self, rkey: Rkey, offset: u64) -> Option<[u8; 8]> {
        let region = self.region(rkey)?;
        let answer = self.node.ask(&format!("load {region} {offset}"));
        let word = self.keep(answer.and_then(|answer| answer.number("word")))?;
        // The guest is little-endian, and returns its bytes there as a number.
        Some(word.to_le_bytes())
    }

    /// Sets the word at `offset`.
    pub fn store(&mut self, rkey: Rkey, offset: u64, bytes: [u8; 8]) {
        if let Some(region) = self.region(rkey) {
            let word = u64::from_le_bytes(bytes);
            let _ = self.ask(&format!("store {region} {offset} {word}"));
        }
    }

    fn ask(&mut self, request: &str) -> Option<()> {
        let answer = self.node.ask(request).map(drop);
        self.keep(answer)
    }

    fn keep<T>(&mut self, outcome: Outcome<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(failure) => {
                self.failure.get_or_insert(failure);
                None
            }
        }
    }
}

/// The part that connects lanes; the controller uses nothing else.
impl Verbs for Proxy {
    fn create_pd(&mut self) -> PdId {
        PdId(0)
    }

    fn register(&mut self, pd: PdId, _: Block, _: Access) -> Result<Region, RegisterError> {
        // A block is memory of this process, not of the guest.
        Err(RegisterError::UnknownPd(pd))
    }

    fn deregister(&mut self, region: &Region) -> bool {
        self.remove_region(region.rkey);
        true
    }

    fn create_cq(&mut self, _: u32) -> Result<CqId, CqError> {
        // The node makes one with each queue pair.
        Ok(CqId(0))
    }

    fn destroy_cq(&mut self, _: CqId) -> Result<(), CqError> {
        Ok(())
    }

    fn create_qp(
        &mut self,
        _: PdId,
        _: CqId,
        _: CqId,
        capabilities: QpCapabilities,
    ) -> Result<Qpn, QpError> {
        let QpCapabilities {
            send_max,
            receive_max,
            ..
        } = capabilities;
        let answer = self.node.ask(&format!("qp {send_max} {receive_max}"));
        let qpn = self.keep(answer.and_then(|answer| answer.number("qpn")));
        qpn.map(|qpn| Qpn(qpn as u32)).ok_or(QpError::NoAnswer)
    }

    fn modify_qp(&mut self, qpn: Qpn, modify: QpModify) -> Result<(), ModifyError> {
        let number = qpn.0;
        let request = match modify {
            QpModify::Reset => format!("reset {number}"),
            QpModify::Init => format!("init {number}"),
            QpModify::Error => format!("error {number}"),
            QpModify::ReadyToReceive(side) => {
                let (peer, gid, psn) = (side.peer.qpn.0, gid(side.peer.ip), side.psn.get());
                let (mtu, reads) = (side.mtu.bytes(), side.reads_in_flight_max);
                let letters = letters(side.access);
                // No request consumes a receive, so that the wait for one is arbitrary: 10 µs.
                format!("rtr {number} {peer} {gid} {psn} {mtu} {reads} 1 {letters}")
            }
            QpModify::ReadyToSend(side) => {
                let (psn, reads) = (side.psn.get(), side.reads_in_flight_max);
                let (retries, rnr_retries) = (side.retries, side.rnr_retries);
                format!("rts {number} {psn} {TIMEOUT} {retries} {rnr_retries} {reads}")
            }
            QpModify::Drain | QpModify::Resume => {
                let state = QpState::ReadyToSend;
                return Err(ModifyError::Illegal { qpn, state });
            }
        };
        self.ask(&request).ok_or(ModifyError::NoAnswer)
    }

    fn qp_state(&self, _: Qpn) -> Option<QpState> {
        None
    }

    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), QpError> {
        let number = qpn.0;
        self.ask(&format!("destroy {number}"))
            .ok_or(QpError::NoAnswer)
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
