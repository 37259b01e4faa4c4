//! Pages: buffer frames on compute nodes, a store behind an NVMe target, the directory in the
//! switch.

use crate::error::{Fault, call};
use crate::handle::{self, Handled, Kind};
use crate::pointer::{Out, optional_text, read};
use crate::rack::{Rack, rackweave_rack};
use crate::status::Status;
use ::rackweave_rack::TargetOptions;
use ::rackweave_rack::config::Role;
use core::ffi::c_char;
use rackweave_base::NodeId;
use rackweave_controller::{PageNode, PageSetUpError, PageStoreSpec};
use rackweave_endpoint::page_store::directory::{Channel, ChannelParts};
use rackweave_endpoint::page_store::{PageStore, Pool, PoolConfig, Worker};
use rackweave_target::{Backend, FileBackend, FileError, FileOptions, MemoryBackend};
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

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
    /// with as many as it has room for. In memory: 0 is 1024.
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

/// Bytes of a logical block: no page is smaller.
const BLOCK: u32 = 4096;
/// The only store.
pub(crate) const STORE: u8 = 0;

/// Held while a rack gets its pages.
static CREATING: Mutex<()> = Mutex::new(());

/// A node's pool, and its workers that nobody has.
struct Desk {
    pool: Arc<Pool>,
    parts: Vec<ChannelParts>,
    resting: Vec<PageStore<Channel>>,
}

pub(crate) struct Directory {
    pub rack: Rack,
    pub pages: u64,
    desks: Mutex<HashMap<NodeId, Desk>>,
}

impl Directory {
    fn desks(&self) -> std::sync::MutexGuard<'_, HashMap<NodeId, Desk>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A worker of a node.
    pub fn hire(&self, node: NodeId) -> Result<PageStore<Channel>, Fault> {
        let mut desks = self.desks();
        let desk = desks.get_mut(&node).ok_or_else(|| {
            let detail = format!("{node:?} has no buffer frames: it is no compute node");
            self.rack.fault(Status::Refused, &detail)
        })?;
        if let Some(rested) = desk.resting.pop() {
            return Ok(rested);
        }
        let parts = desk.parts.pop().ok_or_else(|| {
            let detail = format!("all workers of {node:?} are taken; create pages with more");
            self.rack.fault(Status::NoRoom, &detail)
        })?;
        let worker = Worker::new(Arc::clone(&desk.pool), Channel::new(parts));
        Ok(PageStore::new(worker, Arc::new(self.rack.node(node))))
    }

    /// Takes a worker back that has nothing under way.
    pub fn rest(&self, node: NodeId, worker: PageStore<Channel>) {
        if let Some(desk) = self.desks().get_mut(&node) {
            desk.resting.push(worker);
        }
    }
}

/// A directory that handles share.
#[derive(Clone)]
pub(crate) struct Pages(pub Arc<Directory>);

impl Handled for Pages {
    type Opaque = rackweave_pages;
    const KIND: Kind = Kind::Pages;
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
        PageSetUpError::TooSmall { .. }
        | PageSetUpError::Lane(_)
        | PageSetUpError::Region { .. }
        | PageSetUpError::Target { .. }
        | PageSetUpError::Table(_) => Status::NoRoom,
        PageSetUpError::PageSize(_)
        | PageSetUpError::OtherPageSize { .. }
        | PageSetUpError::OutOfRange { .. } => Status::BadArgument,
        PageSetUpError::Exists => Status::Exists,
        PageSetUpError::NoTarget(_) => Status::Gone,
        PageSetUpError::Refused { .. } => Status::Refused,
    }
}

/// What a store's blocks lie in, and the pages that it has room for.
fn backend(
    path: Option<&str>,
    pages: u64,
    page_size: u32,
) -> Result<(Box<dyn Backend>, u64), Fault> {
    let per_page = u64::from(page_size / BLOCK);
    let blocks = |pages: u64| {
        let blocks = pages.checked_mul(per_page);
        blocks.ok_or_else(|| Fault::argument(format!("a store of {pages} pages")))
    };
    let Some(path) = path else {
        let pages = if pages == 0 { 1024 } else { pages };
        let memory = MemoryBackend::new(BLOCK, blocks(pages)?);
        return Ok((Box::new(memory), pages));
    };
    let (path, options) = (Path::new(path), FileOptions::default());
    let opened = match pages {
        0 => FileBackend::open(path, BLOCK, None, &options),
        pages => FileBackend::create(path, BLOCK, blocks(pages)?, &options),
    };
    let file = opened.map_err(|error| Fault::new(file_status(&error), error))?;
    let pages = file.blocks() / per_page;
    Ok((Box::new(file), pages))
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
    let or = |given: u16, usual| if given == 0 { usual } else { given };
    let page_size = rack.config().switch.page_size;
    if rack.config().switch.page_entries == 0 {
        let detail = "the switch has no page directory; set switch.page_entries in the \
                      configuration of the rack";
        return Err(Fault::new(Status::Refused, detail));
    }
    let storage = rack.node_or_first(storage, Role::Storage)?;
    let fallback = match fallback {
        Some(name) => Some(rack.node_named(name)?),
        None => rack.config().nodes_of(Role::Memory).first().copied(),
    };
    let compute = rack.config().nodes_of(Role::Compute);
    if compute.is_empty() {
        let detail = "the rack has no compute node to have buffer frames";
        return Err(Fault::new(Status::NotFound, detail));
    }
    let frames = if options.frames == 0 {
        256
    } else {
        options.frames
    };
    // Another target would end the one that is there; and of two callers one comes first.
    let _alone = CREATING.lock().unwrap_or_else(PoisonError::into_inner);
    if compute.iter().any(|&node| rack.page_ends(node).is_some()) {
        let detail = "this rack has a page directory already";
        return Err(Fault::new(Status::Exists, detail));
    }
    let member = |&node: &NodeId| PageNode {
        node,
        frames,
        workers: or(options.workers, 2),
        slots: or(options.requests, 16),
    };
    let members = compute.iter().map(member).collect();
    let (backend, pages) = backend(path, options.pages, page_size)?;
    let target = rack.add_target(storage, TargetOptions::default(), vec![backend]);
    target.map_err(|error| rack.fault(Status::NoRoom, &error))?;
    let store = PageStoreSpec {
        target: storage,
        nsid: 1,
        block_size: BLOCK,
        pages,
    };
    let made = rack.create_pages(rack.page_spec(members, vec![store], fallback));
    made.map_err(|error| rack.fault(set_up_status(&error), &error))?;
    let mut desks = HashMap::new();
    for node in compute {
        let ends = rack.page_ends(node);
        let ends = ends.ok_or_else(|| rack.fault(Status::Gone, &format!("{node:?} is dead")))?;
        let config = PoolConfig {
            seed: rack.config().seed,
            ..PoolConfig::new(node.0, page_size, ends.count)
        };
        let pool = Pool::new(ends.frames, config);
        let desk = Desk {
            pool: pool.map_err(|error| Fault::new(Status::BadArgument, error))?,
            parts: ends.channels.into_iter().rev().collect(),
            resting: Vec::new(),
        };
        desks.insert(node, desk);
    }
    Ok(Pages(Arc::new(Directory {
        rack,
        pages,
        desks: Mutex::new(desks),
    })))
}

/// Gives a rack a page directory and a store of pages. A rack has one at most, for as long as it
/// lives. All compute nodes get buffer frames.
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
    call(|| {
        // SAFETY: as the caller promises.
        let out = unsafe { Out::new(pages, "pages")? };
        let options = match options.is_null() {
            true => USUAL,
            // SAFETY: as the caller promises.
            false => unsafe { read(options, "options")? },
        };
        let rack = handle::shared::<Rack>(rack)?;
        // SAFETY: as the caller promises.
        let made = unsafe { create(rack, &options)? };
        out.set(handle::insert(made)?);
        Ok(())
    })
}

/// Ends a handle of a page directory. It stays in the rack. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_pages_destroy(pages: *mut rackweave_pages) -> Status {
    call(|| {
        if !pages.is_null() {
            drop(handle::remove_shared::<Pages>(pages)?);
        }
        Ok(())
    })
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
        let Pages(directory) = handle::shared::<Pages>(pages)?;
        if !pages_max.is_null() {
            // SAFETY: as the caller promises.
            unsafe { Out::new(pages_max, "pages_max")?.set(directory.pages) };
        }
        if !page_bytes.is_null() {
            let bytes = directory.rack.config().switch.page_size;
            // SAFETY: as the caller promises.
            unsafe { Out::new(page_bytes, "page_bytes")?.set(bytes) };
        }
        Ok(())
    })
}
