//! The arenas of other processes of this host, by name, mapped read-only.

use super::mapping::Mapping;
use super::shared::{self, ImportError};
use super::{BlockRef, Origin};
use core::sync::atomic::{Ordering, fence};
use std::os::fd::OwnedFd;
use std::sync::{PoisonError, RwLock};

/// The mapped arenas; the index of each is its name.
///
/// A thread that copies from an arena holds the lock for reading, so the arena stays mapped during
/// the copy.
#[derive(Default)]
pub(super) struct Imports(RwLock<Vec<Option<Mapping>>>);

impl Imports {
    /// Maps the arena behind `fd` as `origin`, replacing the one that had the name before.
    pub(super) fn insert(&self, origin: Origin, fd: &OwnedFd) -> Result<(), ImportError> {
        if !origin.is_name() {
            return Err(ImportError::Reserved(origin));
        }
        let mapping = shared::open(fd)?;
        let at = usize::from(origin.0);
        let mut imports = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if imports.len() <= at {
            imports.resize_with(at + 1, || None);
        }
        imports[at] = Some(mapping);
        Ok(())
    }

    /// Unmaps the arena called `origin`. Waits for copies from it to end.
    pub(super) fn remove(&self, origin: Origin) {
        let mut imports = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(import) = imports.get_mut(usize::from(origin.0)) {
            *import = None;
        }
    }

    /// Calls `read` with the referenced bytes; they stay mapped while it runs. Returns false if the
    /// block does not exist, or was released meanwhile.
    pub(super) fn with(&self, reference: BlockRef, read: impl FnOnce(*const u8)) -> bool {
        let imports = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mapping = imports.get(usize::from(reference.origin.0));
        let Some(mapping) = mapping.and_then(Option::as_ref) else {
            return false;
        };
        let Some(pointer) = shared::resolve(mapping, reference) else {
            return false;
        };
        read(pointer);
        fence(Ordering::Acquire);
        shared::resolve(mapping, reference).is_some()
    }
}
