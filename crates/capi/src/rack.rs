//! Racks: all nodes and the switch in this process, or one node of a rack of processes.

use crate::detail::copy_text;
use crate::error::{Fault, call};
use crate::handle::{self, Handled, Kind};
use crate::pointer::{give, optional_text, tell, text};
use crate::status::Status;
use ::rackweave_rack::config::Role;
use ::rackweave_rack::hosted::HostedError;
use ::rackweave_rack::{EmbeddedRack, Node, RackConfig, RackError};
use core::ffi::c_char;
use core::fmt::Display;
use core::ops::Deref;
use rackweave_base::NodeId;
use rackweave_verbs::Progress;
use std::path::Path;
use std::sync::Arc;

/// A rack in this process: nodes with NICs and memory, and the switch between them. Any thread,
/// several at a time.
pub struct rackweave_rack {
    _opaque: (),
}

/// What a node is for.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum rackweave_role {
    /// Runs queries.
    Compute = 0,
    /// Lends memory.
    Memory = 1,
    /// Holds tables.
    Storage = 2,
    /// A data processing unit.
    Dpu = 3,
    /// A place for a program that joins a rack of processes without a name of its own.
    Guest = 4,
}

/// A rack shared by handles.
#[derive(Clone)]
pub(crate) struct Rack {
    pub rack: ::rackweave_rack::Rack,
    /// What a waiting caller drives.
    progress: Arc<dyn Progress>,
}

impl Handled for Rack {
    type Opaque = rackweave_rack;
    const KIND: Kind = Kind::Rack;
    const IS_SHARED: bool = true;
}

impl Deref for Rack {
    type Target = ::rackweave_rack::Rack;

    fn deref(&self) -> &::rackweave_rack::Rack {
        &self.rack
    }
}

impl Rack {
    /// The node with this number.
    pub fn node_id(&self, node: u16) -> Result<NodeId, Fault> {
        let nodes = self.config().node.len();
        if usize::from(node) < nodes {
            return Ok(NodeId(node));
        }
        let detail = format!("there is no node {node}; the rack has {nodes}, counted from 0");
        Err(Fault::new(Status::NotFound, detail))
    }

    /// The node with this number, which has to be in this process.
    pub fn node_in_process(&self, node: NodeId) -> Result<Node, Fault> {
        self.node_here(node).ok_or_else(|| {
            let name = &self.config().node[usize::from(node.0)].name;
            let detail = format!("{name} is in another process");
            Fault::new(Status::NotFound, detail)
        })
    }

    /// The node with this name.
    pub fn node_named(&self, name: &str) -> Result<NodeId, Fault> {
        let nodes = &self.config().node;
        let at = nodes.iter().position(|node| node.name == name);
        at.map(|at| NodeId(at as u16)).ok_or_else(|| {
            let names: Vec<_> = nodes.iter().map(|node| &*node.name).collect();
            let names = names.join(", ");
            let detail = format!("there is no node {name}; there are {names}");
            Fault::new(Status::NotFound, detail)
        })
    }

    /// The node with this name, or the first of a role.
    pub fn node_or_first(&self, name: Option<&str>, role: Role) -> Result<NodeId, Fault> {
        if let Some(name) = name {
            return self.node_named(name);
        }
        let first = self.config().nodes_of(role).first().copied();
        first.ok_or_else(|| {
            let detail = format!("the rack has no node of role {role:?}; name another node");
            Fault::new(Status::NotFound, detail)
        })
    }

    /// A fault whose text names nodes instead of numbering them.
    pub fn fault(&self, status: Status, error: &dyn Display) -> Fault {
        Fault::new(status, self.config().name_nodes(&error.to_string()))
    }
}

fn build(config: &RackConfig) -> Result<Rack, Fault> {
    if config.hosted.is_some() {
        let detail = "the configuration is of a rack of processes ([hosted]), which is joined as \
                      one of its nodes (rackweave_rack_join); leave that section out for a rack \
                      in this process";
        return Err(Fault::new(Status::BadConfig, detail));
    }
    match EmbeddedRack::new(config) {
        Ok(rack) => Ok(Rack {
            progress: rack.progress(),
            rack: rack.into(),
        }),
        Err(error @ RackError::Thread(_)) => Err(Fault::new(Status::System, error)),
        Err(error) => Err(Fault::new(Status::BadConfig, error)),
    }
}

/// Builds and starts a rack.
///
/// `toml` is the text of a configuration (docs/capi.md says what is in it), or NULL for the
/// default of this library: nodes `storage0`, `storage1`, `compute0`, `compute1`, `memory0`, and a
/// switch that has space for flows, pages and sequencers together.
///
/// The rack ends when its handle and all that was made with it are destroyed, in any order.
///
/// BAD_CONFIG: the configuration makes no sense. SYSTEM: no threads.
///
/// # Safety
/// `toml` is NULL or ends with a zero byte; `rack` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_rack_create(
    toml: *const c_char,
    rack: *mut *mut rackweave_rack,
) -> Status {
    let make = || {
        // SAFETY: as the caller promises.
        let config = match unsafe { optional_text(toml, "toml")? } {
            None => RackConfig::with_all_programs(),
            Some(toml) => RackConfig::parse(toml, "configuration")
                .map_err(|error| Fault::new(Status::BadConfig, error))?,
        };
        build(&config)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(rack, "rack", make) }
}

/// Builds and starts a rack from a configuration in a file. As [`rackweave_rack_create`].
///
/// # Safety
/// `path` ends with a zero byte; `rack` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_rack_create_from_file(
    path: *const c_char,
    rack: *mut *mut rackweave_rack,
) -> Status {
    let make = || {
        // SAFETY: as the caller promises.
        let path = unsafe { text(path, "path")? };
        let config = RackConfig::read(Path::new(path));
        build(&config.map_err(|error| Fault::new(Status::BadConfig, error))?)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(rack, "rack", make) }
}

/// Joins a running rack of processes as one of its nodes, or several. `path` is the file with its
/// configuration, `node` the name of the node, or names with commas between them, which no other
/// process may be, or NULL for a place of a section `[[guest]]` that is free. The process has the
/// memory and NICs of these nodes, and every service of the rack; other nodes are in other
/// processes.
///
/// The process leaves the rack when the handle and all that was made with it are destroyed.
///
/// BAD_CONFIG: the configuration makes no sense, or has no such node. GONE: no rack runs there, or
/// it does not admit the node; the detail says why. SYSTEM: no key, no folder for sockets.
///
/// # Safety
/// `path` ends with a zero byte, `node` too, or is NULL; `rack` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_rack_join(
    path: *const c_char,
    node: *const c_char,
    rack: *mut *mut rackweave_rack,
) -> Status {
    let join = || {
        // SAFETY: as the caller promises.
        let (path, node) = unsafe { (text(path, "path")?, optional_text(node, "node")?) };
        let joined = match node {
            Some(names) => {
                let config = RackConfig::read(Path::new(path));
                let config = config.map_err(|error| Fault::new(Status::BadConfig, error))?;
                let names: Vec<&str> = names.split(',').collect();
                ::rackweave_rack::Rack::join_as(&config, &names)
            }
            None => ::rackweave_rack::Rack::join_guest(path),
        };
        let rack = joined.map_err(|error| Fault::new(join_status(&error), error))?;
        Ok(Rack {
            progress: Arc::new(rack.any_node()),
            rack,
        })
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(rack, "rack", join) }
}

fn join_status(error: &HostedError) -> Status {
    match error {
        HostedError::Rack(_) | HostedError::NoSuchNode { .. } | HostedError::NoPlace { .. } => {
            Status::BadConfig
        }
        HostedError::Key(_)
        | HostedError::Directory { .. }
        | HostedError::System { .. }
        | HostedError::Link { .. } => Status::System,
        _ => Status::Gone,
    }
}

/// Ends a handle of a rack. What was made with the rack keeps it alive. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_rack_destroy(rack: *mut rackweave_rack) -> Status {
    handle::destroy::<Rack>(rack)
}

/// The configuration that a rack runs with, as TOML text, all defaults written out: copied as
/// `rackweave_error_detail_copy` copies.
///
/// # Safety
/// `buffer` has `capacity` bytes; `length` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_rack_config(
    rack: *const rackweave_rack,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    call(|| {
        let text = handle::shared::<Rack>(rack)?.config().to_toml();
        // SAFETY: as the caller promises.
        unsafe { copy_text(text.as_bytes(), buffer, capacity, length) }
    })
}

/// How many nodes there are. They are counted from 0, as the configuration lists them.
///
/// # Safety
/// `count` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_rack_node_count(
    rack: *const rackweave_rack,
    count: *mut u16,
) -> Status {
    let count_nodes = || Ok(handle::shared::<Rack>(rack)?.config().node.len() as u16);
    // SAFETY: as the caller promises.
    unsafe { give(count, "count", count_nodes) }
}

/// The number of the node with this name. NOT_FOUND: there is none.
///
/// # Safety
/// `name` ends with a zero byte; `node` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_rack_node_by_name(
    rack: *const rackweave_rack,
    name: *const c_char,
    node: *mut u16,
) -> Status {
    let find = || {
        // SAFETY: as the caller promises.
        let name = unsafe { text(name, "name")? };
        Ok(handle::shared::<Rack>(rack)?.node_named(name)?.0)
    };
    // SAFETY: as the caller promises.
    unsafe { give(node, "node", find) }
}

/// The name of a node, copied as `rackweave_error_detail_copy` copies. NOT_FOUND: no such node.
///
/// # Safety
/// `buffer` has `capacity` bytes; `length` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_rack_node_name(
    rack: *const rackweave_rack,
    node: u16,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    call(|| {
        let rack = handle::shared::<Rack>(rack)?;
        let node = rack.node_id(node)?;
        let name = &rack.config().node[usize::from(node.0)].name;
        // SAFETY: as the caller promises.
        unsafe { copy_text(name.as_bytes(), buffer, capacity, length) }
    })
}

/// What a node is for. NOT_FOUND: no such node.
///
/// # Safety
/// `role` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_rack_node_role(
    rack: *const rackweave_rack,
    node: u16,
    role: *mut rackweave_role,
) -> Status {
    let find = || {
        let rack = handle::shared::<Rack>(rack)?;
        let node = rack.node_id(node)?;
        Ok(match rack.config().node[usize::from(node.0)].role {
            Role::Compute => rackweave_role::Compute,
            Role::Memory => rackweave_role::Memory,
            Role::Storage => rackweave_role::Storage,
            Role::Dpu => rackweave_role::Dpu,
            Role::Guest => rackweave_role::Guest,
        })
    };
    // SAFETY: as the caller promises.
    unsafe { give(role, "role", find) }
}

/// Drives the rack a little: what is under way gets on. Calls that wait do this themselves; a
/// program that only submits and polls calls it in its loop, unless the rack has driver threads.
///
/// `moved`, which may be NULL: whether anything happened.
///
/// # Safety
/// `moved` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_rack_drive(
    rack: *const rackweave_rack,
    moved: *mut bool,
) -> Status {
    call(|| {
        let happened = handle::shared::<Rack>(rack)?.progress.drive();
        // SAFETY: as the caller promises.
        unsafe { tell(moved, "moved", happened) }
    })
}

/// Has a caller rest whom nothing has happened to for `idle_rounds` calls of
/// [`rackweave_rack_drive`] in a row: it spins at first, and sleeps for up to 2 ms later on.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_rack_relax(rack: *const rackweave_rack, idle_rounds: u32) -> Status {
    call(|| {
        handle::shared::<Rack>(rack)?.progress.relax(idle_rounds);
        Ok(())
    })
}
