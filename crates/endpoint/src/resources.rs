//! Memory and queues that an endpoint has at its NIC: all that it needs, or nothing.

use rackweave_base::memory::MemoryError;
use rackweave_base::{Memory, Qpn};
use rackweave_verbs::{
    Access, CqError, CqId, PdId, QpCapabilities, QpError, Region, RegisterError, Verbs,
};

/// What the memory or the NIC has no room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ResourceError {
    /// No memory for the buffers.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The buffers could not be registered.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// No completion queue could be made.
    #[error(transparent)]
    Cq(#[from] CqError),
    /// No queue pair could be made.
    #[error(transparent)]
    Qp(#[from] QpError),
}

/// A registered block, and a completion queue for what is done with it.
#[derive(Debug)]
pub(crate) struct Resources {
    pub region: Region,
    pub cq: CqId,
}

impl Resources {
    /// Registers so many bytes and makes a completion queue of so many entries.
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

    /// The same with a queue pair that completes there, for bytes that no peer reaches.
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

    /// Gives both back. Queue pairs that complete there go first.
    pub fn destroy(self, verbs: &mut dyn Verbs) {
        // A NIC that no longer knows it, as after a restart, has nothing to give back.
        let _gone = verbs.destroy_cq(self.cq);
        verbs.deregister(&self.region);
    }
}
