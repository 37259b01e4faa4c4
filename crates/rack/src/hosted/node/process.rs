//! What the nodes of one process share: memory, clock, and the memories of other processes.

use crate::config::{LinkKind, RackConfig};
use crate::hosted::HostedError;
use core::sync::atomic::AtomicBool;
use rackweave_base::memory::Origin;
use rackweave_base::{KeyRng, Memory, NodeId};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};

/// The process of one or several nodes.
#[derive(Clone)]
pub(in crate::hosted) struct NodesProcess {
    pub memory: Memory,
    /// A random number by which the switch sees that nodes have one memory.
    pub memory_id: u64,
    /// The beginning of the clock.
    pub epoch: std::time::Instant,
    /// Set by a channel to the page directory that requests a new connection.
    pub page_alarm: Arc<AtomicBool>,
    pub imports: Arc<Imports>,
}

impl NodesProcess {
    /// The process of these nodes, with a memory that others can map if a link needs it.
    ///
    /// # Errors
    /// If the system cannot share memory.
    pub fn new(config: &RackConfig, names: &[&str]) -> Result<Self, HostedError> {
        let hosted = config.hosted();
        let limit = usize::try_from(config.memory_limit).unwrap_or(usize::MAX);
        let mut here = config.node.iter();
        let shared = here.find(|node| {
            names.contains(&node.name.as_str()) && node.link_kind(&hosted) == LinkKind::SharedMemory
        });
        let memory = match shared {
            None => Memory::new(limit),
            Some(node) => Memory::shared(limit).map_err(|error| HostedError::Link {
                kind: LinkKind::SharedMemory.name(),
                node: node.name.clone(),
                problem: error.to_string(),
            })?,
        };
        Ok(Self {
            memory,
            memory_id: KeyRng::system().next_u64(),
            epoch: std::time::Instant::now(),
            page_alarm: Arc::default(),
            imports: Arc::default(),
        })
    }
}

/// The memories of other processes that are mapped here, and the nodes that were given them.
#[derive(Default)]
pub(in crate::hosted) struct Imports(Mutex<BTreeMap<u16, Import>>);

struct Import {
    /// Device and inode of the arena: another switch process may give its name to another arena.
    file: (u64, u64),
    nodes: BTreeSet<NodeId>,
}

impl Imports {
    /// Maps a memory that a node is given, unless another node of this process has it: copies from
    /// it may be in progress.
    ///
    /// # Errors
    /// If it is no arena, or the system does not map it.
    pub fn import(
        &self,
        memory: &Memory,
        (node, origin): (NodeId, Origin),
        fd: OwnedFd,
    ) -> Result<(), String> {
        let stat = rustix::fs::fstat(&fd).map_err(|error| error.to_string())?;
        let file = (stat.st_dev, stat.st_ino);
        let mut all = self.0.lock().expect("no holder panics");
        if let Some(import) = all.get_mut(&origin.0).filter(|import| import.file == file) {
            import.nodes.insert(node);
            return Ok(());
        }
        let imported = memory.import(origin, fd);
        imported.map_err(|error| error.to_string())?;
        let nodes = BTreeSet::from([node]);
        all.insert(origin.0, Import { file, nodes });
        Ok(())
    }

    /// Takes a memory from a node, and unmaps it if no other node here has it.
    pub fn forget(&self, memory: &Memory, node: NodeId, origin: Origin) {
        let mut all = self.0.lock().expect("no holder panics");
        let Some(import) = all.get_mut(&origin.0) else {
            return;
        };
        if import.nodes.remove(&node) && import.nodes.is_empty() {
            all.remove(&origin.0);
            memory.forget(origin);
        }
    }

    /// The origins of the memories that a node has been given.
    pub fn of(&self, node: NodeId) -> Vec<u16> {
        let all = self.0.lock().expect("no holder panics");
        let given = all.iter().filter(|(_, it)| it.nodes.contains(&node));
        given.map(|(&origin, _)| origin).collect()
    }

    /// Takes all memories from a node.
    pub fn forget_all(&self, memory: &Memory, node: NodeId) {
        for origin in self.of(node) {
            self.forget(memory, node, Origin(origin));
        }
    }
}
