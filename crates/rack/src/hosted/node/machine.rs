//! A node's NIC, links and target, as its pump drives them.

use crate::hosted::pump::LinkedMachine;
use crate::linked::LinkedNode;
use rackweave_base::{Instant, NodeId};
use rackweave_controller::{TargetReply, TargetRequest};
use rackweave_link::Link;
use rackweave_nic::Nic;
use rackweave_target::{Target, TargetError};
use rackweave_verbs::CqError;

/// A NIC and its link, once the node has joined.
pub(in crate::hosted) struct NodeMachine {
    pub(super) linked: Option<LinkedNode>,
}

impl LinkedMachine for NodeMachine {
    fn run(&mut self, now: Instant) -> u32 {
        self.linked.as_mut().map_or(0, |linked| linked.run(now))
    }

    fn deadline(&self) -> Option<Instant> {
        self.linked.as_ref().and_then(LinkedNode::deadline)
    }

    fn links(&mut self) -> impl Iterator<Item = &mut dyn Link> {
        self.linked.iter_mut().flat_map(|linked| {
            let direct = linked.direct.iter_mut().flatten();
            core::iter::once(&mut linked.link)
                .chain(direct.map(|cable| &mut cable.link))
                .map(|link| &mut **link as &mut dyn Link)
        })
    }
}

impl NodeMachine {
    /// The machine of a node that has not joined yet.
    pub fn new() -> Self {
        Self { linked: None }
    }

    pub fn nic(&mut self) -> Option<&mut Nic> {
        self.linked.as_mut().map(|linked| &mut linked.nic)
    }

    /// Bytes of Ethernet payload that the link carries.
    pub fn link_mtu(&self) -> Option<usize> {
        let linked = self.linked.as_ref()?;
        Some(linked.link.properties().mtu)
    }

    /// The nodes to which there is a direct cable.
    pub fn cables(&self) -> Vec<NodeId> {
        let direct = self.linked.iter().flat_map(|linked| &linked.direct);
        direct.flatten().map(|cable| cable.peer).collect()
    }

    /// Whether there is an NVMe target.
    pub fn has_target(&self) -> bool {
        self.linked
            .as_ref()
            .is_some_and(|linked| linked.target.is_some())
    }

    /// Asks the NVMe target; `None` if there is none.
    pub fn target(&mut self, request: TargetRequest) -> Option<Result<TargetReply, TargetError>> {
        let LinkedNode { nic, target, .. } = self.linked.as_mut()?;
        Some(request.answer(target.as_mut()?, nic))
    }

    /// Puts a target behind the NIC, in place of an existing one, which ends.
    pub fn set_target(
        &mut self,
        make: impl FnOnce(&mut Nic) -> Result<Target, TargetError>,
    ) -> Result<(), TargetError> {
        let Some(LinkedNode { nic, target, .. }) = &mut self.linked else {
            return Err(CqError::NoAnswer.into());
        };
        if let Some(target) = target.take() {
            target.destroy(nic);
        }
        *target = Some(make(nic)?);
        Ok(())
    }
}
