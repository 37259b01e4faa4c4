//! Pages: buffer frames on compute nodes, a store behind an NVMe target, the directory in the
//! switch.

use crate::error::{Fault, call};
use crate::handle::{self, Handled, Kind};
use crate::pointer::{self, optional_text, tell};
use crate::rack::{Rack, rackweave_rack};
use crate::status::Status;
use ::rackweave_rack::config::Role;
use ::rackweave_rack::services::{
    BLOCK, PageOptions, PageService, PageServiceError, PageWorker, Prepare, StoreMedium,
};
use core::ffi::c_char;
use rackweave_base::NodeId;
use rackweave_controller::ask::AskError;
use rackweave_controller::{LaneError, PageSetUpError};
use rackweave_target::{Backend, FileBackend, FileError, FileOptions, MemoryBackend};
use std::path::Path;

/// A rack's page directory, with a store of pages behind it. Any thread, several at a time.
pub struct rackweave_pages {
    _opaque: (),
}

/// What the pages of a rack are to be. What is 0 or NULL is as by default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rackweave_pages_options {
    /// The file or block device that has the store; NULL: memory, which goes with the rack.
    pub path: *const c_char,
    /// Pages of the store. With a path: a new file for so many pages; 0: the file that is there,
    /// with as many as it has space for. In memory: 0 is 1024.
    pub pages: u64,
    /// The node with the NVMe target, by name; NULL: the first storage node.
    pub storage: *const c_char,
    /// The node whose memory has the entries of pages that the switch does not index, by name;
    /// NULL: the first memory node, if there is one.
    pub fallback: *const c_char,
    /// Buffer frames of each compute node; 0: 256.
    pub frames: u32,
    /// Workers of each compute node, one `rackweave_page_store` each at a time; 0: 2.
    pub workers: u16,
    /// Requests of a worker under way at a time; 0: 16.
    pub requests: u16,
}

/// The only store.
pub(crate) const STORE: u8 = 0;

/// The pages of a rack, shared by handles.
#[derive(Clone)]
pub(crate) struct Pages {
    pub rack: Rack,
    service: PageService,
}

impl Pages {
    /// How many pages the store has.
    pub fn capacity(&self) -> u64 {
        let stores = self.service.stores();
        stores.first().map_or(0, |store| store.pages)
    }

    /// A worker of a node.
    pub fn worker(&self, node: NodeId) -> Result<PageWorker, Fault> {
        let worker = self.service.worker(node);
        worker.map_err(|error| self.rack.fault(service_status(&error), &error))
    }
}

impl Handled for Pages {
    type Opaque = rackweave_pages;
    const KIND: Kind = Kind::Pages;
    const IS_SHARED: bool = true;
}

fn file_status(error: &FileError) -> Status {
    match error {
        FileError::Exists(_) => Status::Exists,
        FileError::Sizes { .. } => Status::BadArgument,
        FileError::Truncated { .. } | FileError::NotBlocks { .. } => Status::Corrupt,
        _ => Status::System,
    }
}

fn set_up_status(error: &PageSetUpError) -> Status {
    match error {
        PageSetUpError::Lane(LaneError::Controller(AskError::NoAnswer)) => Status::Gone,
        PageSetUpError::TooSmall { .. }
        | PageSetUpError::Lane(_)
        | PageSetUpError::Region { .. }
        | PageSetUpError::Target { .. }
        | PageSetUpError::Table(_) => Status::NoRoom,
        PageSetUpError::PageSize(_)
        | PageSetUpError::OtherPageSize { .. }
        | PageSetUpError::OutOfRange { .. } => Status::BadArgument,
        PageSetUpError::Exists => Status::Exists,
        PageSetUpError::NoNode | PageSetUpError::NoTarget(_) => Status::Gone,
        PageSetUpError::Refused { .. } => Status::Refused,
    }
}

fn service_status(error: &PageServiceError) -> Status {
    match error {
        PageServiceError::NoDirectory => Status::Refused,
        PageServiceError::Exists => Status::Exists,
        PageServiceError::NoCompute | PageServiceError::NoStorage => Status::NotFound,
        PageServiceError::NoNode(_) => Status::Gone,
        PageServiceError::Stores(_) | PageServiceError::Medium { .. } => Status::BadArgument,
        PageServiceError::Store(_) => Status::System,
        PageServiceError::Target { .. } => Status::NoRoom,
        PageServiceError::SetUp(source) => set_up_status(source),
        PageServiceError::AtStore { error, .. } | PageServiceError::Flush { error, .. } => {
            Fault::from(*error).status
        }
        PageServiceError::NoFrames(_) => Status::Refused,
        PageServiceError::AllTaken { .. } => Status::NoRoom,
        PageServiceError::Rejoin { source, .. } => set_up_status(source),
        PageServiceError::Pool(_) => Status::BadArgument,
        PageServiceError::InUse(_) => Status::InUse,
    }
}

/// The storage of a store's blocks.
fn backend(path: Option<&str>, pages: u64, page_size: u32) -> Result<Box<dyn Backend>, Fault> {
    let per_page = u64::from(page_size / BLOCK);
    let blocks = |pages: u64| {
        let blocks = pages.checked_mul(per_page);
        blocks.ok_or_else(|| Fault::argument(format!("a store of {pages} pages")))
    };
    let Some(path) = path else {
        let pages = if pages == 0 { 1024 } else { pages };
        return Ok(Box::new(MemoryBackend::new(BLOCK, blocks(pages)?)));
    };
    let (path, options) = (Path::new(path), FileOptions::default());
    let opened = match pages {
        0 => FileBackend::open(path, BLOCK, None, &options),
        pages => FileBackend::create(path, BLOCK, blocks(pages)?, &options),
    };
    let file = opened.map_err(|error| Fault::new(file_status(&error), error))?;
    Ok(Box::new(file))
}

/// # Safety
/// The texts of the options are NULL or end with a zero byte.
unsafe fn create(rack: Rack, options: &rackweave_pages_options) -> Result<Pages, Fault> {
    // SAFETY: as the caller promises.
    let (path, storage, fallback) = unsafe {
        (
            optional_text(options.path, "path")?,
            optional_text(options.storage, "storage")?,
            optional_text(options.fallback, "fallback")?,
        )
    };
    let node = rack.node_or_first(storage, Role::Storage)?;
    let fallback = fallback.map(|name| rack.node_named(name)).transpose()?;
    // The process of that node has the stores, and another program may have made the directory.
    let is_elsewhere = rack.node_here(node).is_none();
    let compute = rack.config().nodes_of(Role::Compute);
    if !is_elsewhere && compute.iter().any(|&node| rack.page_ends(node).is_some()) {
        // Checked before a file is created in vain.
        return Err(rack.fault(Status::Exists, &PageServiceError::Exists));
    }
    let usual = PageOptions::default();
    let or = |given: u16, usual| if given == 0 { usual } else { given };
    let frames = match options.frames {
        0 => usual.frames,
        given => given,
    };
    let wanted = PageOptions {
        frames,
        workers: or(options.workers, usual.workers),
        requests: or(options.requests, usual.requests),
        fallback,
        // The program itself chooses between opening and formatting.
        prepare: Prepare::Leave,
        ..usual
    };
    let made = match is_elsewhere {
        true => PageService::new(&rack, &wanted),
        false => {
            let store = StoreMedium {
                name: path.unwrap_or("memory").to_owned(),
                node,
                backend: backend(path, options.pages, rack.config().switch.page_size)?,
                page_size: None,
            };
            PageService::with_stores(&rack, &wanted, vec![store])
        }
    };
    let service = made.map_err(|error| rack.fault(service_status(&error), &error))?;
    Ok(Pages { rack, service })
}

/// Gives a rack a page directory and a store of pages. A rack has one at most, for as long as it
/// lives. All compute nodes get buffer frames. On a rack of processes, if the node with the NVMe
/// target is in another process, the stores are those of the rack's configuration, `path` and
/// `pages` are not used, and a directory that another program has made is found.
///
/// EXISTS: the rack has one, or the file is there already. NOT_FOUND: no such node. REFUSED: the
/// switch of this rack has no page directory. NO_ROOM: the switch, a NIC or the rack's memory.
/// SYSTEM, CORRUPT: the file.
///
/// # Safety
/// `options` is NULL or points to options whose texts end with a zero byte; `pages` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_pages_create(
    rack: *const rackweave_rack,
    options: *const rackweave_pages_options,
    pages: *mut *mut rackweave_pages,
) -> Status {
    const USUAL: rackweave_pages_options = rackweave_pages_options {
        path: core::ptr::null(),
        pages: 0,
        storage: core::ptr::null(),
        fallback: core::ptr::null(),
        frames: 0,
        workers: 0,
        requests: 0,
    };
    let make = || {
        // SAFETY: as the caller promises.
        let options = unsafe { pointer::options(options, USUAL)? };
        // SAFETY: as the caller promises.
        unsafe { create(handle::shared(rack)?, &options) }
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(pages, "pages", make) }
}

/// Ends a handle of a page directory. It stays in the rack. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_pages_destroy(pages: *mut rackweave_pages) -> Status {
    handle::destroy::<Pages>(pages)
}

/// How many pages the store has, the superblock (page 0) included, and the bytes of a page,
/// including its header: `rackweave_page_guard_data` gives what is left of them. Both may be NULL.
///
/// # Safety
/// `pages_max` and `page_bytes` are NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_pages_size(
    pages: *const rackweave_pages,
    pages_max: *mut u64,
    page_bytes: *mut u32,
) -> Status {
    call(|| {
        let pages = handle::shared::<Pages>(pages)?;
        let bytes = pages.service.stores().first().map_or(0, |it| it.page_size);
        // SAFETY: as the caller promises.
        unsafe {
            tell(pages_max, "pages_max", pages.capacity())?;
            tell(page_bytes, "page_bytes", bytes)
        }
    })
}
