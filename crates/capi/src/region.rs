//! Regions: memory of a node that is registered with its NIC.

use crate::error::{Fault, call};
use crate::handle::{self, Handled, Kind};
use crate::pointer::{give, slice, space};
use crate::rack::{Rack, rackweave_rack};
use crate::status::Status;
use rackweave_base::NodeId;
use rackweave_verbs::{Access, Region};
use std::sync::Arc;

/// Memory of a node that its NIC has registered. Any thread, several at a time.
pub struct rackweave_region {
    _opaque: (),
}

/// Flags of `rackweave_region_create`: a peer may READ.
pub const RACKWEAVE_ACCESS_REMOTE_READ: u32 = 2;
/// Flags of `rackweave_region_create`: a peer may WRITE.
pub const RACKWEAVE_ACCESS_REMOTE_WRITE: u32 = 4;
/// Flags of `rackweave_region_create`: a peer may run atomic operations.
pub const RACKWEAVE_ACCESS_REMOTE_ATOMIC: u32 = 8;

/// What there is to know of a region.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rackweave_region_info {
    /// Its first byte in this process, at a multiple of 64. The bytes stay in place until the
    /// region is destroyed. They are shared memory: where a peer may write at the same time, read
    /// them as you would read what another thread writes.
    pub data: *mut u8,
    /// Bytes.
    pub length: u64,
    /// The address of its first byte, as peers and work requests name it.
    pub address: u64,
    /// The key for peers.
    pub rkey: u32,
    /// The key for the node's own work requests.
    pub lkey: u32,
    /// The node.
    pub node: u16,
}

pub(crate) struct Registered {
    rack: Rack,
    pub node: NodeId,
    pub region: Region,
    pub length: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        let node = self.rack.node_at(self.node);
        node.with(|nic| nic.deregister(&self.region));
    }
}

/// A region shared by handles.
#[derive(Clone)]
pub(crate) struct SharedRegion(pub Arc<Registered>);

impl Handled for SharedRegion {
    type Opaque = rackweave_region;
    const KIND: Kind = Kind::Region;
    const IS_SHARED: bool = true;
}

fn create(rack: Rack, node: u16, length: u64, access: u32) -> Result<SharedRegion, Fault> {
    const KNOWN: u32 = RACKWEAVE_ACCESS_REMOTE_READ
        | RACKWEAVE_ACCESS_REMOTE_WRITE
        | RACKWEAVE_ACCESS_REMOTE_ATOMIC;
    let node = rack.node_id(node)?;
    if access & !KNOWN != 0 {
        let detail = format!("access {access:#x}: known flags are {KNOWN:#x}");
        return Err(Fault::argument(detail));
    }
    let access = Access::from_bits_truncate(access as u8) | Access::LOCAL_WRITE;
    // Internally the bytes are accessed as words.
    let bytes = usize::try_from(length).ok();
    let bytes = bytes.and_then(|bytes| bytes.checked_next_multiple_of(8));
    let bytes = bytes.ok_or_else(|| Fault::argument(format!("a region of {length} bytes")))?;
    let block = rack.memory().allocate(bytes);
    let block = block.map_err(|error| rack.fault(memory_status(&error), &error))?;
    let region = rack.node_in_process(node)?.with(|nic| {
        let pd = nic.create_pd();
        nic.register(pd, block, access)
    });
    let region = region.map_err(|error| rack.fault(Status::NoRoom, &error))?;
    Ok(SharedRegion(Arc::new(Registered {
        rack,
        node,
        region,
        length,
    })))
}

fn memory_status(error: &rackweave_base::memory::MemoryError) -> Status {
    match error {
        rackweave_base::memory::MemoryError::Empty => Status::BadArgument,
        _ => Status::NoRoom,
    }
}

/// Gives a node so many bytes, all zero, and registers them with its NIC. `access` are flags
/// RACKWEAVE_ACCESS_* for peers; the node itself may always read and write.
///
/// NOT_FOUND: no such node. NO_ROOM: the rack's `memory_limit` or the NIC's table.
///
/// # Safety
/// `region` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_region_create(
    rack: *const rackweave_rack,
    node: u16,
    length: u64,
    access: u32,
    region: *mut *mut rackweave_region,
) -> Status {
    let make = || create(handle::shared::<Rack>(rack)?, node, length, access);
    // SAFETY: as the caller promises.
    unsafe { handle::create(region, "region", make) }
}

/// Ends a handle of a region. Its memory goes when nothing uses it any more: a message that is
/// being sent from it does. Pointers into it are of no use from now on. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_region_destroy(region: *mut rackweave_region) -> Status {
    handle::destroy::<SharedRegion>(region)
}

/// Where a region is, its keys and its bytes.
///
/// # Safety
/// `info` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_region_get_info(
    region: *const rackweave_region,
    info: *mut rackweave_region_info,
) -> Status {
    let find = || {
        let SharedRegion(shared) = handle::shared::<SharedRegion>(region)?;
        let block = &shared.region.block;
        // Atomic words, which may change through shared references, so the pointer permits writes.
        let data = block.words(0, block.len() / 8).as_ptr();
        Ok(rackweave_region_info {
            data: data.cast_mut().cast(),
            length: shared.length,
            address: shared.region.address,
            rkey: shared.region.rkey.0,
            lkey: shared.region.lkey.0,
            node: shared.node.0,
        })
    };
    // SAFETY: as the caller promises.
    unsafe { give(info, "info", find) }
}

fn range(region: &Registered, offset: u64, length: usize) -> Result<usize, Fault> {
    let end = offset.checked_add(length as u64);
    if end.is_some_and(|end| end <= region.length) {
        return Ok(offset as usize);
    }
    let has = region.length;
    let detail = format!("{length} bytes from byte {offset} on; the region has {has}");
    Err(Fault::argument(detail))
}

/// Copies bytes into a region, which a peer may be reading or writing at the same time.
///
/// BAD_ARGUMENT: not all of them lie in the region; nothing was copied.
///
/// # Safety
/// `bytes` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_region_write(
    region: *const rackweave_region,
    offset: u64,
    bytes: *const u8,
    length: usize,
) -> Status {
    call(|| {
        // SAFETY: as the caller promises.
        let bytes = unsafe { slice(bytes, length, "bytes")? };
        let SharedRegion(shared) = handle::shared::<SharedRegion>(region)?;
        let offset = range(&shared, offset, length)?;
        shared.region.block.write(offset, bytes);
        Ok(())
    })
}

/// Copies bytes out of a region, which a peer may be writing at the same time.
///
/// BAD_ARGUMENT: not all of them lie in the region; nothing was copied.
///
/// # Safety
/// `buffer` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_region_read(
    region: *const rackweave_region,
    offset: u64,
    buffer: *mut u8,
    length: usize,
) -> Status {
    call(|| {
        // SAFETY: as the caller promises.
        let buffer = unsafe { space(buffer, length, "buffer")? };
        let SharedRegion(shared) = handle::shared::<SharedRegion>(region)?;
        let offset = range(&shared, offset, length)?;
        shared.region.block.read(offset, buffer);
        Ok(())
    })
}
