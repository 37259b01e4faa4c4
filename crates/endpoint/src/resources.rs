//! Memory and queues of an endpoint at its NIC. Allocation is all or nothing.

use rackweave_base::memory::MemoryError;
use rackweave_base::{Memory, Qpn};
use rackweave_verbs::{
    Access, CqError, CqId, PdId, QpCapabilities, QpError, Region, RegisterError, Verbs,
};

/// Why memory or a queue could not be allocated.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ResourceError {
    /// The buffers could not be allocated.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The buffers could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The completion queue could not be created.
    #[error(transparent)]
    Cq(#[from] CqError),
    /// The queue pair could not be created.
    #[error(transparent)]
    Qp(#[from] QpError),
}

/// A registered block, and a completion queue for the operations on it.
#[derive(Debug)]
pub(crate) struct Resources {
    pub region: Region,
    pub cq: CqId,
}

impl Resources {
    /// Registers a block of the given size and creates a completion queue of the given capacity.
    pub fn new(
        verbs: &mut dyn Verbs,
        memory: &Memory,
        pd: PdId,
        (bytes, access): (usize, Access),
        entries: u32,
    ) -> Result<Self, ResourceError> {
        let region = verbs.register(pd, memory.allocate(bytes)?, access)?;
        let cq = verbs.create_cq(entries).inspect_err(|_| {
            verbs.deregister(&region);
        })?;
        Ok(Self { region, cq })
    }

    /// As `new`, with a queue pair that completes there; peers have no access to the block.
    pub fn with_qp(
        verbs: &mut dyn Verbs,
        memory: &Memory,
        pd: PdId,
        bytes: usize,
        entries: u32,
        capabilities: QpCapabilities,
    ) -> Result<(Self, Qpn), ResourceError> {
        let made = Self::new(verbs, memory, pd, (bytes, Access::LOCAL_WRITE), entries)?;
        match verbs.create_qp(pd, made.cq, made.cq, capabilities) {
            Ok(qpn) => Ok((made, qpn)),
            Err(error) => {
                made.destroy(verbs);
                Err(error.into())
            }
        }
    }

    /// Destroys both. Queue pairs that complete there must be destroyed first.
    pub fn destroy(self, verbs: &mut dyn Verbs) {
        // If the NIC no longer knows the queue, as after a restart, there is nothing to destroy.
        let _gone = verbs.destroy_cq(self.cq);
        verbs.deregister(&self.region);
    }
}
