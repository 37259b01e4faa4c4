//! Errors of opening stores.

#[cfg(feature = "files")]
use rackweave_target::FileError;
use std::path::PathBuf;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Pages of this size do not fit it.
    #[error(
        "store {store:?} has {bytes} bytes, which is no whole number of pages of {page_size} \
         bytes; make store.bytes a multiple of the page size, a power of two from 4096 to 1048576"
    )]
    Pages {
        /// The store.
        store: String,
        /// Its size in bytes.
        bytes: u64,
        /// Bytes of a page.
        page_size: u32,
    },
    /// A file store without a path.
    #[error("store {0:?} has the medium \"file\" and no file; say path = \"...\" in its [[store]]")]
    NoPath(String),
    /// The file system has less free space than the store may need.
    #[error(
        "store {store:?}: {} may come to take {bytes} bytes, and its file system has {free} left; \
         free some, lower store.bytes, or choose another store.path", path.display()
    )]
    NoRoom {
        /// The store.
        store: String,
        /// The file.
        path: PathBuf,
        /// Size of the store in bytes.
        bytes: u64,
        /// Free bytes for this user.
        free: u64,
    },
    /// The file exists with another size.
    #[error(
        "store {store:?}: {} has {found} bytes, store.bytes is {expected}; it is another store's, \
         or was truncated: correct store.bytes, or remove the file to begin with an empty store",
        path.display()
    )]
    Size {
        /// The store.
        store: String,
        /// The file.
        path: PathBuf,
        /// Bytes configured.
        expected: u64,
        /// Bytes found.
        found: u64,
    },
    /// A block device is too small for the pages and the area of double writes.
    #[error(
        "store {store:?}: {} has {found} bytes, with double writes {needed} are needed; lower \
         store.bytes, or say double_write = false", path.display()
    )]
    NoAreaRoom {
        /// The store.
        store: String,
        /// The block device.
        path: PathBuf,
        /// Bytes of the pages and the area.
        needed: u64,
        /// Bytes found.
        found: u64,
    },
    /// A block device has an area of double writes, which would be out of date when it is next
    /// used.
    #[error(
        "store {store:?}: {} has been used with double writes; say double_write = true, or clear \
         the 8 MiB behind its pages", path.display()
    )]
    HasArea {
        /// The store.
        store: String,
        /// The block device.
        path: PathBuf,
    },
    /// Writes that a power failure interrupted could not be completed.
    #[error(
        "store {store:?}: {} has writes that a power cut interrupted, and they cannot be completed: \
         the medium failed, or has no room left", path.display()
    )]
    Interrupted {
        /// The store.
        store: String,
        /// The file.
        path: PathBuf,
    },
    /// It is open elsewhere, or mounted.
    #[error(
        "store {store:?}: {} is in use, by another rack or as a file system; end that, or choose \
         another store.path", path.display()
    )]
    InUse {
        /// The store.
        store: String,
        /// The file.
        path: PathBuf,
    },
    /// This user lacks permission.
    #[error(
        "store {store:?}: this user may not read and write {}; change its owner or mode, or choose \
         another store.path", path.display()
    )]
    Denied {
        /// The store.
        store: String,
        /// The file.
        path: PathBuf,
    },
    /// This program was built without file stores.
    #[error(
        "store {0:?} is in a file, and this program was built without such stores; build it with \
         the feature `files` of rackweave, or use the medium `memory`"
    )]
    NoFiles(String),
    /// Any other error of the system.
    #[cfg(feature = "files")]
    #[error("store {store:?}: {error}")]
    File {
        /// The store.
        store: String,
        /// The system's error.
        error: FileError,
    },
}
