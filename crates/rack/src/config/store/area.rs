//! The area of double writes behind a store's pages: added, found, taken away.
//!
//! It must never be left behind: a store that is written without double writes and then opened with
//! them again would be overwritten with what the area has from before.

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

/// How often to look whether recovery is over.
const LOOK: Duration = Duration::from_micros(50);

impl StoreConfig {
    /// Bytes that the file has to have.
    pub(super) fn file_bytes(&self) -> u64 {
        match self.doubles().value {
            true => self.bytes.saturating_add(AREA_BYTES),
            false => self.bytes,
        }
    }

    /// Makes a file that is there and has `found` bytes one with an area, or without, as it is to
    /// be. Returns the bytes that it has then.
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

    /// Takes room for the area, so that a write never fails for lack of it after it began.
    fn add_area(&self, path: &Path, file: &File) -> Result<(), StoreError> {
        let (no_flags, at) = (FallocateFlags::empty(), self.bytes);
        let taken = match rustix::fs::fallocate(file, no_flags, at, AREA_BYTES) {
            // The file system takes no room before it is written.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.set_len(at + AREA_BYTES),
            taken => taken.map_err(Into::into),
        };
        let durable = taken.and_then(|()| file.sync_all());
        durable.map_err(|source| self.refused_to("extend", path, source))
    }

    /// Whether there is an area behind the pages that was in use.
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

    /// Brings home what the area has, and takes it away.
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
