//! Names of nodes whose processes are joining.

use super::SwitchCore;
use rackweave_base::NodeId;

/// The name of a node, claimed by a process that is joining.
pub(super) struct NameClaim<'a> {
    core: &'a SwitchCore,
    pub node: NodeId,
}

impl<'a> NameClaim<'a> {
    /// `None` if another process has the name, or has claimed it.
    pub fn new(core: &'a SwitchCore, node: NodeId) -> Option<Self> {
        let mut claims = core.claims.lock().expect("no holder panics");
        let place = core.members[usize::from(node.0)].lock();
        let is_free = place.expect("no holder panics").is_none() && claims.insert(node);
        // Lazily: a claim that is dropped takes the lock.
        is_free.then(|| Self { core, node })
    }
}

impl Drop for NameClaim<'_> {
    fn drop(&mut self) {
        let mut claims = self.core.claims.lock().expect("no holder panics");
        claims.remove(&self.node);
    }
}
