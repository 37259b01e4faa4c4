//! Connections between compute and storage nodes: listening and dialing.

use crate::connection::{Connection, fault};
use crate::detail::copy_text;
use crate::error::Fault;
use crate::handle::{self, Handled, Kind};
use crate::pointer::{read, tell, text};
use crate::rack::{Rack, rackweave_rack};
use crate::region::{SharedRegion, rackweave_region};
use crate::status::Status;
use crate::wait::{RACKWEAVE_FOREVER, wait};
use ::rackweave_rack::messaging::{Dialing, Listener};
use core::ffi::c_char;
use rackweave_base::Duration;
use rackweave_endpoint::messaging::MessagingConfig;
use std::net::SocketAddr;

/// A storage node that compute nodes connect to. One thread at a time.
pub struct rackweave_listener {
    _opaque: (),
}

/// One node's side of a connection, or of one that is being made. One thread at a time.
pub struct rackweave_connection {
    _opaque: (),
}

/// How a node wants its connections. What is 0 or NULL is as by default. Sizes and numbers of
/// buffers are each node's own; of the rest, the smaller of what both say holds.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rackweave_messaging_options {
    /// Receive buffers of a connection, 1 to 7; 0: 4.
    pub receive_buffers: u32,
    /// Bytes of each, a multiple of 64 from 1 KiB to 1 GiB; 0: 256 KiB.
    pub receive_bytes: u32,
    /// Bytes of the send buffer, a multiple of 64; 0: what the peer's receive buffers hold.
    pub send_bytes: u64,
    /// The longest message in bytes; 0: 4 GiB.
    pub message_max: u64,
    /// Channels from the compute to the storage node, 1 to 7; 0: 1.
    pub channels_up: u32,
    /// Channels from the storage to the compute node, 1 to 7; 0: 1.
    pub channels_down: u32,
    /// Nanoseconds after which a silent peer is asked for a sign of life; 0: half a second;
    /// RACKWEAVE_FOREVER: it never is.
    pub keepalive_ns: u64,
    /// A region of this node that `rackweave_sender_send_region` is to send from; else NULL.
    pub region: *const rackweave_region,
}

/// A listener with its rack. The fields are dropped in this order.
struct Listening {
    listener: Listener,
    node: u16,
    rack: Rack,
}

impl Handled for Listening {
    type Opaque = rackweave_listener;
    const KIND: Kind = Kind::Listener;
}

impl Handled for Connection {
    type Opaque = rackweave_connection;
    const KIND: Kind = Kind::Connection;
}

/// # Safety
/// As for [`text`].
unsafe fn address_of(address: *const c_char) -> Result<SocketAddr, Fault> {
    // SAFETY: as the caller promises.
    let text = unsafe { text(address, "address")? };
    text.parse().map_err(|_| {
        let detail = format!("{text} is no address; one looks like 127.0.0.1:7000 or [::1]:7000");
        Fault::argument(detail)
    })
}

/// # Safety
/// If `options` is neither NULL nor misaligned, it points to options.
unsafe fn config(
    rack: &Rack,
    node: u16,
    options: *const rackweave_messaging_options,
) -> Result<MessagingConfig, Fault> {
    rack.node_id(node)?;
    let mut config = MessagingConfig::default();
    if options.is_null() {
        return Ok(config);
    }
    // SAFETY: as the caller promises.
    let options = unsafe { read(options, "options")? };
    let small = |what: &str, given: u32, usual: u8| match given {
        0 => Ok(usual),
        _ => u8::try_from(given).map_err(|_| Fault::argument(format!("{what} is {given}"))),
    };
    let buffers = small(
        "receive_buffers",
        options.receive_buffers,
        config.receive_buffers,
    );
    config.receive_buffers = buffers?;
    config.channels_up = small("channels_up", options.channels_up, config.channels_up)?;
    config.channels_down = small("channels_down", options.channels_down, config.channels_down)?;
    config.send_bytes = options.send_bytes;
    if options.receive_bytes != 0 {
        config.receive_bytes = options.receive_bytes;
    }
    if options.message_max != 0 {
        config.message_max = options.message_max;
    }
    match options.keepalive_ns {
        0 => {}
        RACKWEAVE_FOREVER => config.keepalive = Duration::ZERO,
        given => config.keepalive = Duration::from_nanos(given),
    }
    if !options.region.is_null() {
        let SharedRegion(region) = handle::shared::<SharedRegion>(options.region)?;
        if region.node.0 != node {
            let detail = "the region is on another node than the connection";
            return Err(Fault::argument(detail));
        }
        config.pd = Some(region.region.pd);
    }
    Ok(config)
}

/// Has a storage node listen at an address, such as "127.0.0.1:7000"; port 0 takes a free one.
/// `options` may be NULL.
///
/// BAD_ARGUMENT: address or options make no sense. NOT_FOUND: no such node. SYSTEM: the system does
/// not let it listen there.
///
/// # Safety
/// `address` ends with a zero byte; `options` is NULL or points to options; `listener` may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_listener_create(
    rack: *const rackweave_rack,
    node: u16,
    address: *const c_char,
    options: *const rackweave_messaging_options,
    listener: *mut *mut rackweave_listener,
) -> Status {
    let make = || {
        let rack = handle::shared::<Rack>(rack)?;
        // SAFETY: as the caller promises.
        let (at, config) = unsafe { (address_of(address)?, config(&rack, node, options)?) };
        let bound = Listener::bind(&rack, rack.node_id(node)?, at, config);
        let listener = bound.map_err(|error| fault(&rack, &error))?;
        Ok(Listening {
            listener,
            node,
            rack,
        })
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(listener, "listener", make) }
}

/// Stops listening. Connections that were accepted stay; others are closed. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_listener_destroy(listener: *mut rackweave_listener) -> Status {
    handle::destroy::<Listening>(listener)
}

/// Where a listener listens, with its port, as `rackweave_connection_dial` takes it: copied as
/// `rackweave_error_detail_copy` copies.
///
/// # Safety
/// `buffer` has `capacity` bytes; `length` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_listener_address(
    listener: *const rackweave_listener,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    handle::on(listener, |listening: &mut Listening| {
        let address = listening.listener.local_addr().to_string();
        // SAFETY: as the caller promises.
        unsafe { copy_text(address.as_bytes(), buffer, capacity, length) }
    })
}

/// Gets on with handshakes and gives a connection that was made, if there is one. PENDING: none
/// yet.
///
/// # Safety
/// `connection` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_listener_try_accept(
    listener: *mut rackweave_listener,
    connection: *mut *mut rackweave_connection,
) -> Status {
    // SAFETY: as the caller promises.
    let status = unsafe { rackweave_listener_accept(listener, 0, connection) };
    match status {
        Status::TimedOut => Status::Pending,
        other => other,
    }
}

/// Waits for a connection, at most `timeout_ns` nanoseconds, and drives the rack meanwhile.
///
/// # Safety
/// `connection` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_listener_accept(
    listener: *mut rackweave_listener,
    timeout_ns: u64,
    connection: *mut *mut rackweave_connection,
) -> Status {
    let accept = |listening: &mut Listening| {
        let Listening {
            listener,
            node,
            rack,
        } = listening;
        let made = wait(&rack.any_node(), timeout_ns, || {
            listener.poll();
            Ok(listener.try_accept())
        })?;
        Ok(Connection::up(rack.clone(), *node, made))
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(connection, "connection", || handle::with(listener, accept)) }
}

/// Starts to connect, as described for [`rackweave_connection_submit_dial`].
///
/// # Safety
/// As for [`rackweave_connection_submit_dial`].
unsafe fn dial(
    rack: Rack,
    node: u16,
    address: *const c_char,
    options: *const rackweave_messaging_options,
    timeout_ns: u64,
) -> Result<Connection, Fault> {
    // SAFETY: as the caller promises.
    let (at, config) = unsafe { (address_of(address)?, config(&rack, node, options)?) };
    // A handshake without an end would leave its socket open forever; an hour serves as no limit.
    let timeout = std::time::Duration::from_nanos(timeout_ns.min(3_600_000_000_000));
    let dialing = Dialing::start(&rack, rack.node_id(node)?, at, config, timeout);
    let dialing = dialing.map_err(|error| fault(&rack, &error))?;
    Ok(Connection::dialing(rack, node, dialing))
}

/// Begins to connect a compute node to the storage node that listens at an address, and
/// gives up after `timeout_ns` nanoseconds; `rackweave_connection_poll` gets on with it. `options`
/// may be NULL.
///
/// BAD_ARGUMENT: address or options make no sense. NOT_FOUND: no such node. GONE: no way to that
/// address.
///
/// # Safety
/// `address` ends with a zero byte; `options` is NULL or points to options; `connection` may be
/// written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_connection_submit_dial(
    rack: *const rackweave_rack,
    node: u16,
    address: *const c_char,
    options: *const rackweave_messaging_options,
    timeout_ns: u64,
    connection: *mut *mut rackweave_connection,
) -> Status {
    // SAFETY: as the caller promises.
    let make = || unsafe { dial(handle::shared(rack)?, node, address, options, timeout_ns) };
    // SAFETY: as the caller promises.
    unsafe { handle::create(connection, "connection", make) }
}

/// Gets on with what `rackweave_connection_submit_dial` began. OK: it is connected. PENDING: not
/// yet; drive the rack. TIMED_OUT: nobody answered in time. GONE: nobody listens there. REFUSED:
/// the other side did, and the detail text says why. NO_ROOM: the rack's memory or the NIC.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_connection_poll(connection: *mut rackweave_connection) -> Status {
    handle::on(connection, |connection: &mut Connection| {
        Fault::unless(connection.poll()?)
    })
}

/// Connects a compute node, as `rackweave_connection_submit_dial` and `rackweave_connection_poll`,
/// and waits for that. The listener must be in another thread, or nobody would answer.
///
/// # Safety
/// As for `rackweave_connection_submit_dial`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_connection_dial(
    rack: *const rackweave_rack,
    node: u16,
    address: *const c_char,
    options: *const rackweave_messaging_options,
    timeout_ns: u64,
    connection: *mut *mut rackweave_connection,
) -> Status {
    let make = || {
        // SAFETY: as the caller promises.
        let begun = unsafe { dial(handle::shared(rack)?, node, address, options, timeout_ns) };
        let mut connection = begun?;
        let node = connection.rack.any_node();
        // It ends by itself.
        wait(&node, RACKWEAVE_FOREVER, || {
            Ok(connection.poll()?.then_some(()))
        })?;
        Ok(connection)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(connection, "connection", make) }
}

/// Ends a handle of a connection. Ends that were taken go on; if one was not, the connection is
/// closed by this. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_connection_destroy(connection: *mut rackweave_connection) -> Status {
    handle::destroy::<Connection>(connection)
}

/// How many channels lead to the peer (`senders`) and here (`receivers`). Both may be NULL.
/// REFUSED: it is not connected yet.
///
/// # Safety
/// Both are NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_connection_channels(
    connection: *const rackweave_connection,
    senders: *mut u32,
    receivers: *mut u32,
) -> Status {
    handle::on(connection, |connection: &mut Connection| {
        let (up, down) = connection.channels()?;
        // SAFETY: as the caller promises.
        unsafe {
            tell(senders, "senders", up)?;
            tell(receivers, "receivers", down)
        }
    })
}
