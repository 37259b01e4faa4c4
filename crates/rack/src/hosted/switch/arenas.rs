//! The memories of the nodes' processes, which the switch maps.

use super::SWITCH_ORIGIN;
use core::sync::atomic::{AtomicU16, Ordering};
use rackweave_base::Memory;
use rackweave_base::memory::Origin;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// The memory of a process with one or several nodes. It is unmapped when the last of them is gone.
pub(in crate::hosted) struct Arena {
    pub origin: Origin,
    /// Set once the first node has passed it on.
    descriptor: OnceLock<OwnedFd>,
    /// Held while the memory is mapped.
    mapping: Mutex<()>,
    memory: Memory,
}

impl Arena {
    /// Maps the memory, unless another node of the process was faster.
    ///
    /// # Errors
    /// If it is no arena, or the system does not map it.
    pub fn map(&self, descriptor: OwnedFd) -> Result<(), String> {
        let _one_at_a_time = self.mapping.lock().expect("no holder panics");
        if self.descriptor.get().is_some() {
            return Ok(());
        }
        let copy = descriptor.try_clone().map_err(|error| error.to_string())?;
        let imported = self.memory.import(self.origin, copy);
        imported.map_err(|error| error.to_string())?;
        let _is_first = self.descriptor.set(descriptor);
        Ok(())
    }

    /// The descriptor; `None` before the memory is mapped.
    pub fn descriptor(&self) -> Option<&OwnedFd> {
        self.descriptor.get()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.descriptor.get().is_some() {
            self.memory.forget(self.origin);
        }
    }
}

/// All of them, by the numbers that the processes have given them.
#[derive(Default)]
pub(super) struct Arenas {
    by_id: Mutex<BTreeMap<u64, Weak<Arena>>>,
    /// The origins of memories that an earlier switch process had.
    kept: BTreeMap<u64, u16>,
    origins: AtomicU16,
}

impl Arenas {
    /// Takes over the numbers and origins of the memories that an earlier switch process had.
    pub fn keep(&mut self, kept: impl Iterator<Item = (u64, u16)>) {
        self.kept = kept.collect();
        let last = self.kept.values().max();
        self.origins = AtomicU16::new(last.copied().unwrap_or(0));
    }

    /// Whether an earlier switch process had a memory of this origin.
    pub fn has_kept(&self, origin: u16) -> bool {
        self.kept.values().any(|&kept| kept == origin)
    }

    /// The memory with this number, which is new unless another node has it. Numbers are random:
    /// no process knows that of another.
    pub fn of(&self, id: u64, memory: &Memory) -> Arc<Arena> {
        let mut by_id = self.by_id.lock().expect("no holder panics");
        by_id.retain(|_, arena| arena.strong_count() > 0);
        if let Some(arena) = by_id.get(&id).and_then(Weak::upgrade) {
            return arena;
        }
        let next = || self.origins.fetch_add(1, Ordering::Relaxed) % (SWITCH_ORIGIN.0 - 1) + 1;
        let origin = self.kept.get(&id).copied().unwrap_or_else(next);
        let arena = Arc::new(Arena {
            origin: Origin(origin),
            descriptor: OnceLock::new(),
            mapping: Mutex::default(),
            memory: memory.clone(),
        });
        by_id.insert(id, Arc::downgrade(&arena));
        arena
    }
}
