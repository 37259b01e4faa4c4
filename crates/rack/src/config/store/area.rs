//! The area of double writes after a store's pages: added, found, removed.
//!
//! It must never be left behind: if a store were written without double writes and then opened with
//! them again, the old contents of the area would overwrite newer data.

use super::{BLOCK, StoreConfig, StoreError};
use rackweave_base::Instant;
use rackweave_target::{
    Backend, DoubleWrite, DoubleWriteArea, FileBackend, FileError, FileOptions,
};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

/// Bytes of the area.
pub(super) const AREA_BYTES: u64 = DoubleWriteArea::usual_blocks(BLOCK) * BLOCK as u64;

/// How often to check whether recovery is complete.
const LOOK: Duration = Duration::from_micros(50);

impl StoreConfig {
    /// Required size of the file in bytes.
    pub(super) fn file_bytes(&self) -> u64 {
        match self.doubles().value {
            true => self.bytes.saturating_add(AREA_BYTES),
            false => self.bytes,
        }
    }

    /// Adds the area to an existing file of `found` bytes, or removes it, as configured. Returns
    /// the new size in bytes.
    pub(super) fn fit_area(
        &self,
        path: &Path,
        file: &File,
        (found, is_device): (u64, bool),
    ) -> Result<u64, StoreError> {
        let doubles = self.doubles().value;
        let with_area = self.bytes.saturating_add(AREA_BYTES);
        match (doubles, is_device) {
            (true, true) if (self.bytes..with_area).contains(&found) => {
                Err(StoreError::NoAreaRoom {
                    store: self.name.clone(),
                    path: path.to_owned(),
                    needed: with_area,
                    found,
                })
            }
            (true, false) if found == self.bytes || found == with_area => {
                self.add_area(path, file)?;
                Ok(with_area)
            }
            (false, true) if found >= with_area && self.has_area(file) => {
                Err(StoreError::HasArea {
                    store: self.name.clone(),
                    path: path.to_owned(),
                })
            }
            (false, false) if found == with_area && self.has_area(file) => {
                self.remove_area(path, file)?;
                Ok(self.bytes)
            }
            _ => Ok(found),
        }
    }

    /// Allocates the space of the area, so that a write never fails for lack of space after it
    /// began.
    fn add_area(&self, path: &Path, file: &File) -> Result<(), StoreError> {
        let (no_flags, at) = (FallocateFlags::empty(), self.bytes);
        let taken = match rustix::fs::fallocate(file, no_flags, at, AREA_BYTES) {
            // The file system does not allocate space before it is written.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(at + AREA_BYTES),
            taken => taken.map_err(Into::into),
        };
        let durable = taken.and_then(|()| file.sync_all());
        durable.map_err(|source| self.refused_to("extend", path, source))
    }

    /// Whether there is a used area after the pages.
    fn has_area(&self, file: &File) -> bool {
        let blocks = self.bytes / u64::from(BLOCK);
        let all = blocks + DoubleWriteArea::usual_blocks(BLOCK);
        let area = DoubleWriteArea::at_end(BLOCK, all, all - blocks);
        let area = area.expect("a store has a page");
        (0..2).any(|half| {
            let mut bytes = [0; 512];
            let at = area.header_block(half) * u64::from(BLOCK);
            file.read_exact_at(&mut bytes, at).is_ok() && DoubleWriteArea::is_header(&bytes)
        })
    }

    /// Completes the writes in the area, and removes it.
    fn remove_area(&self, path: &Path, file: &File) -> Result<(), StoreError> {
        let blocks = (self.bytes + AREA_BYTES) / u64::from(BLOCK);
        let opened = FileBackend::open(path, BLOCK, Some(blocks), &FileOptions::default());
        let inner = opened.map_err(|error| self.refused(path, error))?;
        let mut double = DoubleWrite::new(inner).expect("the file has more than the area");
        while !double.is_recovered() {
            if double.is_failed() {
                return Err(StoreError::Interrupted {
                    store: self.name.clone(),
                    path: path.to_owned(),
                });
            }
            double.poll(Instant::ZERO, &mut Vec::new());
            std::thread::sleep(LOOK);
        }
        drop(double);
        let cut = file.set_len(self.bytes).and_then(|()| file.sync_all());
        cut.map_err(|source| self.refused_to("shorten", path, source))
    }

    pub(super) fn refused_to(
        &self,
        action: &'static str,
        path: &Path,
        source: std::io::Error,
    ) -> StoreError {
        let error = FileError::System {
            path: path.to_owned(),
            action,
            source,
        };
        self.refused(path, error)
    }
}
