//! The implementation of [`Verbs`] for the soft NIC.

use crate::nic::Nic;
use crate::qp::Qp;
use rackweave_base::{Block, Qpn};
use rackweave_verbs::{
    Access, Completion, ConnectionManager, CqError, CqId, Datagrams, ModifyError, PdId, PostError,
    QpCapabilities, QpError, QpModify, QpState, ReceiveRequest, Region, RegisterError, Verbs,
    WorkRequest,
};

/// Maximum segments of one work request: the capacity of [`WorkRequest`].
const SEGMENTS_MAX: u32 = 4;

impl Nic {
    fn check_capabilities(&self, capabilities: &QpCapabilities) -> Result<(), QpError> {
        let limit = self.core.config.queue_entries_max;
        let bounds = [
            (capabilities.send_max, 1, limit),
            (capabilities.receive_max, 1, limit),
            (capabilities.segments_max, 1, SEGMENTS_MAX),
        ];
        for (asked, least, limit) in bounds {
            if asked < least || asked > limit {
                return Err(QpError::BadCapabilities { asked, limit });
            }
        }
        Ok(())
    }
}

impl Verbs for Nic {
    fn create_pd(&mut self) -> PdId {
        let pd = PdId(self.pds);
        self.pds += 1;
        pd
    }

    fn register(
        &mut self,
        pd: PdId,
        block: Block,
        access: Access,
    ) -> Result<Region, RegisterError> {
        if pd.0 >= self.pds {
            return Err(RegisterError::UnknownPd(pd));
        }
        let changes = Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
        if access.intersects(changes) && !access.contains(Access::LOCAL_WRITE) {
            return Err(RegisterError::NeedsLocalWrite);
        }
        let limit = self.core.config.regions_max;
        let regions = &mut self.core.regions;
        regions
            .register(pd, block, access, &mut self.keys)
            .ok_or(RegisterError::TooMany { limit })
    }

    fn deregister(&mut self, region: &Region) -> bool {
        self.core.regions.deregister(region.lkey, region.rkey)
    }

    fn create_cq(&mut self, capacity: u32) -> Result<CqId, CqError> {
        self.core.cqs.create(capacity)
    }

    fn destroy_cq(&mut self, cq: CqId) -> Result<(), CqError> {
        self.core.cqs.destroy(cq)
    }

    fn create_qp(
        &mut self,
        pd: PdId,
        send_cq: CqId,
        receive_cq: CqId,
        capabilities: QpCapabilities,
    ) -> Result<Qpn, QpError> {
        if pd.0 >= self.pds {
            return Err(QpError::UnknownPd(pd));
        }
        for cq in [send_cq, receive_cq] {
            if !self.core.cqs.exists(cq) {
                return Err(QpError::UnknownCq(cq));
            }
        }
        self.check_capabilities(&capabilities)?;
        let limit = self.qps.limit();
        let cqs = (send_cq, receive_cq);
        let make = |qpn, index| Qp::new(qpn, index, pd, cqs, capabilities);
        let qpn = self.qps.insert(make).ok_or(QpError::TooMany { limit })?;
        self.core.cqs.add_user(send_cq);
        self.core.cqs.add_user(receive_cq);
        Ok(qpn)
    }

    fn modify_qp(&mut self, qpn: Qpn, modify: QpModify) -> Result<(), ModifyError> {
        let qp = self.qps.get_mut(qpn).ok_or(ModifyError::Unknown(qpn))?;
        let result = qp.modify(&mut self.core, modify);
        self.settle_overflows();
        result
    }

    fn qp_state(&self, qpn: Qpn) -> Option<QpState> {
        self.qps.get(qpn).map(|qp| qp.state)
    }

    fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), QpError> {
        let qp = self.qps.remove(qpn).ok_or(QpError::Unknown(qpn))?;
        self.core.cancel_timers(qp.index);
        self.core.egress.remove(qp.index);
        self.core.forget_events(qpn);
        self.core.cqs.remove_user(qp.send_cq);
        self.core.cqs.remove_user(qp.receive_cq);
        Ok(())
    }

    fn read_by_reference(&mut self, qpn: Qpn) {
        self.set_read_by_reference(qpn, true);
    }

    fn keep_to_switch(&mut self, qpn: Qpn) {
        if let Some(qp) = self.qps.get_mut(qpn) {
            qp.keeps_to_switch = true;
        }
    }

    fn post_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError> {
        let qp = self.qps.get_mut(qpn).ok_or(PostError::Unknown(qpn))?;
        let result = qp.post_send(&mut self.core, request);
        self.settle_overflows();
        result
    }

    fn post_receive(&mut self, qpn: Qpn, request: ReceiveRequest) -> Result<(), PostError> {
        let qp = self.qps.get_mut(qpn).ok_or(PostError::Unknown(qpn))?;
        let result = qp.post_receive(&mut self.core, request);
        self.settle_overflows();
        result
    }

    fn poll_cq(&mut self, cq: CqId, limit: usize, completions: &mut Vec<Completion>) -> usize {
        self.core.cqs.poll(cq, limit, completions)
    }

    fn datagrams(&mut self) -> Option<&mut dyn Datagrams> {
        Some(self)
    }

    fn connections(&mut self) -> Option<&mut dyn ConnectionManager> {
        Some(self)
    }
}
