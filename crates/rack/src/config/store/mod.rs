//! Stores of pages, which are namespaces of NVMe targets on storage nodes.

#[cfg(feature = "files")]
mod area;
mod check;
mod error;
#[cfg(feature = "files")]
mod file;

pub use error::StoreError;

use crate::config::choices::{Choice, Kind};
use rackweave_base::Rng;
use rackweave_sim::SsdModel;
use rackweave_target::{Backend, MemoryBackend};
use rackweave_wire::fabric::page::is_page_size;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Bytes of a logical block: the size of the smallest page, and the largest alignment that
/// `O_DIRECT` needs.
const BLOCK: u32 = 4096;

rackweave_base::named! {
    /// The medium of a store's blocks.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Medium {
        /// Memory of the process, lost when it ends. Blocks never written take none.
        #[default]
        Memory = "memory",
        /// A file or block device.
        File = "file",
    }
}

/// A store of pages.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// Its name, unique among stores.
    pub name: String,
    /// The name of its storage node.
    pub node: String,
    /// The medium of its blocks.
    #[serde(default)]
    pub medium: Medium,
    /// The file or block device, for the medium `file`. A relative path starts at the folder of the
    /// configuration file. A missing file is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// Its size in bytes, a multiple of its page size.
    pub bytes: u64,
    /// Bytes of its pages: a power of two, not below `switch.page_size`, the smallest page size of
    /// the rack. None means that one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_size: Option<u32>,
    /// Drives that a simulated rack stripes it over, page by page; each as the model specifies
    /// ([`SsdModel`]).
    #[serde(default = "one_drive")]
    pub drives: u16,
    /// For the medium `file`: whether each write is atomic and durable if the power fails. It takes
    /// 8 MiB after the pages. None means yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub double_write: Option<bool>,
}

fn one_drive() -> u16 {
    1
}

impl StoreConfig {
    /// A store in memory.
    pub fn in_memory(name: impl Into<String>, node: impl Into<String>, bytes: u64) -> Self {
        Self {
            name: name.into(),
            node: node.into(),
            medium: Medium::Memory,
            path: None,
            bytes,
            page_size: None,
            drives: 1,
            double_write: None,
        }
    }

    /// A store in a file or block device.
    pub fn in_file(
        name: impl Into<String>,
        node: impl Into<String>,
        path: impl Into<PathBuf>,
        bytes: u64,
    ) -> Self {
        Self {
            medium: Medium::File,
            path: Some(path.into()),
            ..Self::in_memory(name, node, bytes)
        }
    }

    /// The medium of its blocks, in a rack of this kind.
    pub(crate) fn medium_in(&self, kind: Kind) -> Choice<Medium> {
        match kind {
            Kind::Embedded | Kind::Hosted => Choice::new(self.medium, "store.medium says so"),
            Kind::Simulated => Choice::new(
                Medium::Memory,
                "nothing real has a place in virtual time; store.drives says how many are modelled",
            ),
        }
    }

    /// Whether writes are doubled, in a rack that uses its medium.
    pub(crate) fn doubles(&self) -> Choice<bool> {
        match (self.medium, self.double_write) {
            (Medium::Memory, _) => Choice::new(false, "memory does not survive a power cut anyway"),
            (Medium::File, Some(said)) => Choice::new(said, "store.double_write says so"),
            (Medium::File, None) => {
                Choice::new(true, "the default keeps pages whole when the power fails")
            }
        }
    }

    /// Bytes of its pages, in a rack whose smallest pages have this size.
    pub fn page_size(&self, smallest: u32) -> u32 {
        self.page_size.unwrap_or(smallest)
    }

    /// Its size in pages, in such a rack.
    pub fn pages(&self, smallest: u32) -> u64 {
        self.bytes / u64::from(self.page_size(smallest).max(1))
    }

    /// Opens the backend for a target, with blocks of 4096 bytes. A missing file is created,
    /// sparse; an existing one is opened unchanged, except that the area of double writes is added
    /// after its pages or removed, as the configuration says. It is locked for this rack until the
    /// backend is dropped.
    ///
    /// # Errors
    /// If its pages do not fit it, or the file cannot be opened: no space, another size, no
    /// permission, in use, no space for double writes on a block device.
    pub fn open(&self, smallest: u32) -> Result<Box<dyn Backend>, StoreError> {
        self.check_pages(smallest)?;
        Ok(match self.medium_in(Kind::Embedded).value {
            Medium::Memory => Box::new(self.memory()),
            Medium::File => {
                let path = self.path.as_deref();
                let path = path.ok_or_else(|| StoreError::NoPath(self.name.clone()))?;
                self.open_file(path)?
            }
        })
    }

    #[cfg(not(feature = "files"))]
    fn open_file(&self, _: &Path) -> Result<Box<dyn Backend>, StoreError> {
        Err(StoreError::NoFiles(self.name.clone()))
    }

    /// The same for a simulated rack, with the timing of modelled drives. Its blocks are in memory
    /// whatever the medium, since real I/O has no place in virtual time.
    ///
    /// # Errors
    /// If its pages do not fit it.
    pub fn open_simulated(
        &self,
        smallest: u32,
        rng: &mut Rng,
    ) -> Result<Box<dyn Backend>, StoreError> {
        let page_size = self.check_pages(smallest)?;
        let drives = usize::from(self.drives);
        let model = SsdModel::default();
        let striped = crate::SsdBackend::new(self.memory(), &model, drives, page_size, rng);
        Ok(Box::new(striped))
    }

    fn memory(&self) -> MemoryBackend {
        MemoryBackend::new(BLOCK, self.bytes / u64::from(BLOCK))
    }

    /// Bytes of its pages.
    fn check_pages(&self, smallest: u32) -> Result<u32, StoreError> {
        let page_size = self.page_size(smallest);
        let whole = is_page_size(page_size) && self.bytes.is_multiple_of(page_size.into());
        if whole && self.bytes > 0 {
            return Ok(page_size);
        }
        Err(StoreError::Pages {
            store: self.name.clone(),
            bytes: self.bytes,
            page_size,
        })
    }

    /// Makes a relative path start at the folder of the configuration file.
    pub(in crate::config) fn resolve_path(&mut self, folder: &Path) {
        if let Some(path) = &mut self.path {
            *path = folder.join(&*path);
        }
    }
}

#[cfg(test)]
mod tests;
