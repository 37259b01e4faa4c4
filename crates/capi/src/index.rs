//! Indexes: a B+tree in the memory of a node, whose server answers requests.

use crate::error::{Fault, call};
use crate::handle::{self, Handled, Kind};
use crate::pointer::{self, optional_text};
use crate::rack::{Rack, rackweave_rack};
use crate::status::Status;
use ::rackweave_rack::IndexSetUpError;
use ::rackweave_rack::config::Role;
use ::rackweave_rack::services::{IndexOptions, IndexService, IndexServiceError};
use core::ffi::c_char;

/// An index: keys are 64-bit numbers, values bytes. Any thread, several at a time.
pub struct rackweave_index {
    _opaque: (),
}

/// What an index is to be. What is 0 or NULL is as by default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rackweave_index_options {
    /// The node whose memory has it, by name; NULL: the first storage node.
    pub node: *const c_char,
    /// Keys that it has space for, about; 0: 65536.
    pub keys: u64,
    /// Bytes of the longest value, 8 to 65000; 0: 64. With 8, all values have eight bytes, and
    /// lie in the tree nodes.
    pub value_max: u32,
    /// Bytes of a tree node: 512, 1024, 2048 or 4096; 0: 1024.
    pub node_bytes: u32,
    /// Clients at a time; 0: 16.
    pub clients: u16,
    /// Copies of every value, 1 or 2, the second at another storage node: then the death of either
    /// node loses none; 0: 1.
    pub copies: u16,
}

/// An index shared by handles.
#[derive(Clone)]
pub(crate) struct SharedIndex {
    pub rack: Rack,
    pub service: IndexService,
}

impl Handled for SharedIndex {
    type Opaque = rackweave_index;
    const KIND: Kind = Kind::Index;
    const IS_SHARED: bool = true;
}

pub(crate) fn set_up_fault(rack: &Rack, error: &IndexServiceError) -> Fault {
    use IndexServiceError as Error;
    let status = match error {
        Error::SetUp(IndexSetUpError::Tree(_) | IndexSetUpError::Shard(_)) => Status::BadArgument,
        Error::SetUp(IndexSetUpError::NoNode(_) | IndexSetUpError::NoEndpoint(_)) => Status::Gone,
        Error::SetUp(_) | Error::Network(_) => Status::NoRoom,
        Error::OutOfRange { .. }
        | Error::Boundaries { .. }
        | Error::Tree(_)
        | Error::Map(_)
        | Error::Load { .. } => Status::BadArgument,
        Error::BeginMove(_) | Error::Move(_) => Status::Refused,
        Error::Process(_) => Status::Gone,
        Error::NoStorage | Error::NoReplicaNode => Status::NotFound,
        Error::TimedOut { .. } => Status::TimedOut,
    };
    rack.fault(status, error)
}

/// # Safety
/// The texts of the options are NULL or end with a zero byte.
unsafe fn create(rack: Rack, options: &rackweave_index_options) -> Result<SharedIndex, Fault> {
    // SAFETY: as the caller promises.
    let name = unsafe { optional_text(options.node, "node")? };
    let node = rack.node_or_first(name, Role::Storage)?;
    let usual = IndexOptions::default();
    let or = |given: u32, usual: u32| if given == 0 { usual } else { given };
    let wanted = IndexOptions {
        nodes: vec![node],
        keys: match options.keys {
            0 => usual.keys,
            given => given,
        },
        value_max: or(options.value_max, usual.value_max),
        node_bytes: or(options.node_bytes, usual.node_bytes),
        clients: or(options.clients.into(), usual.clients.into()) as u16,
        copies: or(options.copies.into(), usual.copies.into()) as u16,
        ..usual
    };
    let made = IndexService::new(&rack, &wanted);
    let service = made.map_err(|error| set_up_fault(&rack, &error))?;
    Ok(SharedIndex { rack, service })
}

/// Makes an index, which is empty.
///
/// BAD_ARGUMENT: the options make no sense. NOT_FOUND: no such node. NO_ROOM: the rack's memory, or
/// a NIC.
///
/// # Safety
/// `options` is NULL or points to options whose texts end with a zero byte; `index` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_index_create(
    rack: *const rackweave_rack,
    options: *const rackweave_index_options,
    index: *mut *mut rackweave_index,
) -> Status {
    const USUAL: rackweave_index_options = rackweave_index_options {
        node: core::ptr::null(),
        keys: 0,
        value_max: 0,
        node_bytes: 0,
        clients: 0,
        copies: 0,
    };
    let make = || {
        // SAFETY: as the caller promises.
        let options = unsafe { pointer::options(options, USUAL)? };
        // SAFETY: as the caller promises.
        unsafe { create(handle::shared(rack)?, &options) }
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(index, "index", make) }
}

/// Ends a handle of an index. The index goes with its last client. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_index_destroy(index: *mut rackweave_index) -> Status {
    handle::destroy::<SharedIndex>(index)
}

/// Has the index's server carry out requests that have come: OK if there were any, else PENDING.
/// Clients that wait or poll do this themselves; a program may give the server a thread of its own
/// that calls this and `rackweave_rack_drive` in turn.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_index_serve(index: *const rackweave_index) -> Status {
    call(|| Fault::unless(handle::shared::<SharedIndex>(index)?.service.serve()))
}
