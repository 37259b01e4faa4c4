//! What a store's blocks lie in.

use super::error::PagesError;
use super::options::BLOCK;
use rackweave_target::{Backend, FileBackend, FileError, FileOptions, MemoryBackend};
use std::path::{Path, PathBuf};

/// What a store's blocks lie in.
pub enum Medium {
    /// Memory of this process. Clones share the blocks.
    Memory(MemoryBackend),
    /// A file.
    File(FileBackend),
    /// Whatever somebody else has opened.
    Given(Box<dyn Backend>),
}

impl core::fmt::Debug for Medium {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Memory(memory) => f.debug_tuple("Memory").field(memory).finish(),
            Self::File(file) => f.debug_tuple("File").field(file).finish(),
            Self::Given(given) => {
                let bytes = given.blocks().saturating_mul(given.block_size().into());
                f.debug_struct("Given").field("bytes", &bytes).finish()
            }
        }
    }
}

impl Medium {
    /// Blocks in memory for so many pages.
    pub fn memory(page_size: u32, pages: u64) -> Self {
        Self::Memory(MemoryBackend::new(BLOCK, blocks(page_size, pages)))
    }

    /// A new file for so many pages, which takes no room before it is written.
    ///
    /// # Errors
    /// If there is a file already, or the system refuses.
    pub fn create(path: &Path, page_size: u32, pages: u64) -> Result<Self, PagesError> {
        let blocks = blocks(page_size, pages);
        let file = FileBackend::create(path, BLOCK, blocks, &FileOptions::default())?;
        Ok(Self::File(file))
    }

    /// A file that has lost its name already, so that nothing is left of it however the process
    /// ends. It lies in `folder`.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn temporary(folder: &Path, page_size: u32, pages: u64) -> Result<Self, PagesError> {
        let mut number = 0;
        loop {
            let path = temporary_path(folder, number);
            match Self::create(&path, page_size, pages) {
                Err(PagesError::File(FileError::Exists(_))) if number < 1000 => number += 1,
                made => {
                    // If it keeps its name somebody will find it and remove it.
                    let _kept = std::fs::remove_file(&path);
                    return made;
                }
            }
        }
    }

    /// A file that there is.
    ///
    /// # Errors
    /// If it is no whole number of blocks long, or the system refuses.
    pub fn open(path: &Path) -> Result<Self, PagesError> {
        let file = FileBackend::open(path, BLOCK, None, &FileOptions::default())?;
        Ok(Self::File(file))
    }

    /// Whole pages that there is room for.
    pub fn pages(&self, page_size: u32) -> u64 {
        let blocks = match self {
            Self::Memory(memory) => memory.blocks(),
            Self::File(file) => file.blocks(),
            Self::Given(given) => {
                let bytes = given.blocks().saturating_mul(given.block_size().into());
                return bytes / u64::from(page_size);
            }
        };
        blocks / u64::from(page_size / BLOCK)
    }

    /// What its blocks lie in, to be tried before a target has it.
    pub fn backend_mut(&mut self) -> &mut dyn Backend {
        match self {
            Self::Memory(memory) => memory,
            Self::File(file) => file,
            Self::Given(given) => &mut **given,
        }
    }

    /// What a target is given.
    pub fn into_backend(self) -> Box<dyn Backend> {
        match self {
            Self::Memory(memory) => Box::new(memory),
            Self::File(file) => Box::new(file),
            Self::Given(given) => given,
        }
    }
}

fn blocks(page_size: u32, pages: u64) -> u64 {
    pages.saturating_mul(u64::from(page_size / BLOCK))
}

fn temporary_path(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!(
        "rackweave-ycsb-{}-{number}.pages",
        std::process::id()
    ))
}
