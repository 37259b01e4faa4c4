//! The medium of a store's blocks.

use super::options::BLOCK;
use crate::ycsb::{Result, YcsbError};
use rackweave_target::{
    Backend, DoubleWrite, DoubleWriteArea, FileBackend, FileError, FileOptions, MemoryBackend,
};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Blocks of the double-write area, which follows the pages of a file.
const AREA: u64 = DoubleWriteArea::usual_blocks(BLOCK);

/// The medium of a store's blocks.
pub enum Medium {
    /// Memory of this process. Clones share the blocks.
    Memory(MemoryBackend),
    /// A file, or any other backend.
    Other(Box<dyn Backend>),
}

impl Medium {
    /// Blocks in memory for this many pages.
    pub fn memory(page_size: u32, pages: u64) -> Self {
        Self::Memory(MemoryBackend::new(BLOCK, blocks(page_size, pages)))
    }

    /// A new file for this many pages, which occupies no blocks until it is written; with
    /// `doubles`, a power failure cannot tear writes.
    ///
    /// # Errors
    /// If the file already exists, or the system refuses.
    pub fn create(path: &Path, page_size: u32, pages: u64, doubles: bool) -> Result<Self> {
        let area = if doubles { AREA } else { 0 };
        let blocks = blocks(page_size, pages).saturating_add(area);
        let file = FileBackend::create(path, BLOCK, blocks, &FileOptions::default())?;
        Ok(Self::of_file(file, doubles))
    }

    /// A file that has more blocks than its double-write area, if it has one.
    fn of_file(file: FileBackend, doubles: bool) -> Self {
        match doubles {
            false => Self::Other(Box::new(file)),
            true => {
                let double = DoubleWrite::new(file).expect("the file has more than the area");
                Self::Other(Box::new(double))
            }
        }
    }

    /// A file in `folder` that is already unlinked, so that it disappears however the process ends.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn temporary(folder: &Path, page_size: u32, pages: u64, doubles: bool) -> Result<Self> {
        let mut number = 0;
        loop {
            let path = temporary_path(folder, number);
            match Self::create(&path, page_size, pages, doubles) {
                Err(YcsbError::File(FileError::Exists(_))) if number < 1000 => number += 1,
                made => {
                    // If unlinking fails, the file remains visible, and the user can remove it.
                    let _kept = std::fs::remove_file(&path);
                    return made;
                }
            }
        }
    }

    /// An existing file.
    ///
    /// # Errors
    /// If it is not a whole number of blocks long, was made with double writes and is to be used
    /// without or the reverse, or the system refuses.
    pub fn open(path: &Path, doubles: bool) -> Result<Self> {
        let file = FileBackend::open(path, BLOCK, None, &FileOptions::default())?;
        if has_area(path, file.blocks()) != doubles {
            return Err(YcsbError::DoubleWrites { wanted: doubles });
        }
        Ok(Self::of_file(file, doubles))
    }

    /// Number of whole pages that fit.
    pub fn pages(&self, page_size: u32) -> u64 {
        let backend: &dyn Backend = match self {
            Self::Memory(memory) => memory,
            Self::Other(backend) => &**backend,
        };
        let bytes = backend.blocks().saturating_mul(backend.block_size().into());
        bytes / u64::from(page_size)
    }

    /// The backend, to be tested before a target takes it.
    pub fn backend_mut(&mut self) -> &mut dyn Backend {
        match self {
            Self::Memory(memory) => memory,
            Self::Other(backend) => &mut **backend,
        }
    }

    /// The backend for a target.
    pub fn into_backend(self) -> Box<dyn Backend> {
        match self {
            Self::Memory(memory) => Box::new(memory),
            Self::Other(backend) => backend,
        }
    }
}

fn blocks(page_size: u32, pages: u64) -> u64 {
    pages.saturating_mul(u64::from(page_size / BLOCK))
}

/// Whether a file of this many blocks ends with a double-write area.
fn has_area(path: &Path, blocks: u64) -> bool {
    let (Some(area), Ok(file)) = (
        DoubleWriteArea::at_end(BLOCK, blocks, AREA),
        File::open(path),
    ) else {
        return false;
    };
    let mut bytes = [0; 512];
    let at = area.header_block(0) * u64::from(BLOCK);
    file.read_exact_at(&mut bytes, at).is_ok() && DoubleWriteArea::is_header(&bytes)
}

fn temporary_path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!(
        "rackweave-ycsb-{}-{number}.pages",
        std::process::id()
    ))
}
