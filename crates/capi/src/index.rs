//! Indexes: a B+tree in the memory of a node, whose server answers requests.

use crate::error::{Fault, call};
use crate::handle::{self, Handled, Kind};
use crate::pointer::{Out, optional_text, read};
use crate::rack::{Rack, rackweave_rack};
use crate::status::Status;
use ::rackweave_rack::config::Role;
use ::rackweave_rack::{
    Index, IndexEndpointSpec, IndexSetUpError, IndexSpec, NodeHandle, SharedServer,
};
use core::ffi::c_char;
use rackweave_base::NodeId;
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::btree::TreeConfig;
use rackweave_endpoint::index::{EndpointId, PartitionMap};
use rackweave_endpoint::page_store::NodeAccess;
use rackweave_endpoint::rpc::ServerConfig;
use rackweave_verbs::Mtu;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// Keys that it has room for, about; 0: 65536.
    pub keys: u64,
    /// Bytes of the longest value, 8 to 65000; 0: 64. With 8, all values have eight bytes, and
    /// lie in the tree nodes.
    pub value_max: u32,
    /// Bytes of a tree node: 512, 1024, 2048 or 4096; 0: 1024.
    pub node_bytes: u32,
    /// Clients at a time; 0: 16.
    pub clients: u16,
}

/// The longest value: a request holds 65535 bytes, its own header among them.
const VALUE_MAX: u32 = 65_000;
/// Bytes of a request beside its value, more or less.
const REQUEST_BYTES: u32 = 64;

/// An index with its server.
pub(crate) struct Served {
    pub rack: Rack,
    index: Mutex<Index>,
    server: SharedServer,
    node: NodeHandle,
    pub value_max: u32,
}

impl Served {
    pub fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the server carry out what has come.
    pub fn serve(&self) -> bool {
        let now = self.node.now();
        self.node.peek(|nic| self.server.poll(now, nic))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let index = self.index.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.rack.kill_index_endpoint(index, EndpointId(0));
    }
}

/// An index that handles share.
#[derive(Clone)]
pub(crate) struct SharedIndex(pub Arc<Served>);

impl Handled for SharedIndex {
    type Opaque = rackweave_index;
    const KIND: Kind = Kind::Index;
}

pub(crate) fn set_up_fault(rack: &Rack, error: &IndexSetUpError) -> Fault {
    let status = match error {
        IndexSetUpError::Tree(_) | IndexSetUpError::Shard(_) => Status::BadArgument,
        IndexSetUpError::NoNode(_) | IndexSetUpError::NoEndpoint(_) => Status::Gone,
        _ => Status::NoRoom,
    };
    rack.fault(status, error)
}

fn spec(
    rack: &Rack,
    node: NodeId,
    options: &rackweave_index_options,
) -> Result<(IndexSpec, u32), Fault> {
    let or = |given: u32, usual: u32| if given == 0 { usual } else { given };
    let value_max = or(options.value_max, 64);
    if !(8..=VALUE_MAX).contains(&value_max) {
        let detail = format!("value_max is {value_max}; 8 to {VALUE_MAX} is possible");
        return Err(Fault::argument(detail));
    }
    let keys = if options.keys == 0 {
        1 << 16
    } else {
        options.keys
    };
    if keys > 1 << 31 {
        let detail = format!("{keys} keys in one tree; 2^31 at most are possible");
        return Err(Fault::argument(detail));
    }
    let tree = TreeConfig::for_keys(keys, or(options.node_bytes, 1024), value_max);
    tree.check().map_err(Fault::argument)?;
    let server = ServerConfig::new(1);
    let server = ServerConfig {
        clients_max: or(options.clients.into(), 16) as u16,
        payload_max: server.payload_max.max(value_max + REQUEST_BYTES),
        ..server
    };
    let endpoint = IndexEndpointSpec {
        server,
        ..IndexEndpointSpec::new(node, tree)
    };
    let map = PartitionMap::split(&[]);
    let spec = IndexSpec {
        endpoints: vec![endpoint],
        map: map.map_err(|error| Fault::new(Status::Internal, error))?,
        attributes: PairAttributes {
            mtu: Mtu::from_bytes(rack.config().nic.mtu).unwrap_or_default(),
            ..PairAttributes::default()
        },
    };
    Ok((spec, value_max))
}

/// # Safety
/// The texts of the options are NULL or end with a zero byte.
unsafe fn create(rack: Rack, options: &rackweave_index_options) -> Result<SharedIndex, Fault> {
    // SAFETY: as the caller promises.
    let name = unsafe { optional_text(options.node, "node")? };
    let node = rack.node_or_first(name, Role::Storage)?;
    let (spec, value_max) = spec(&rack, node, options)?;
    let index = rack.create_index(spec);
    let index = index.map_err(|error| set_up_fault(&rack, &error))?;
    let server = index.servers(EndpointId(0)).first().cloned();
    let server = server.ok_or_else(|| Fault::new(Status::Internal, "no server was made"))?;
    let node = rack.node(node);
    Ok(SharedIndex(Arc::new(Served {
        rack,
        index: Mutex::new(index),
        server,
        node,
        value_max,
    })))
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
    };
    call(|| {
        // SAFETY: as the caller promises.
        let out = unsafe { Out::new(index, "index")? };
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

/// Ends a handle of an index. The index goes with its last client. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_index_destroy(index: *mut rackweave_index) -> Status {
    call(|| {
        if !index.is_null() {
            drop(handle::remove_shared::<SharedIndex>(index)?);
        }
        Ok(())
    })
}

/// Has the index's server carry out requests that have come: OK if there were any, else PENDING.
/// Clients that wait or poll do this themselves; a program may give the server a thread of its own
/// that calls this and `rackweave_rack_drive` in turn.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_index_serve(index: *const rackweave_index) -> Status {
    call(|| {
        let SharedIndex(served) = handle::shared::<SharedIndex>(index)?;
        match served.serve() {
            true => Ok(()),
            false => Err(Fault::quiet(Status::Pending)),
        }
    })
}
