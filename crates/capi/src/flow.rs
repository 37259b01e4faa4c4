//! Flows: the switch moves items from rings of producers to rings of consumers.

use crate::error::{Fault, call};
use crate::handle::{self, Handled, Kind};
use crate::pointer::{read, slice};
use crate::rack::{Rack, rackweave_rack};
use crate::status::Status;
use ::rackweave_rack::Flow;
use rackweave_base::NodeId;
use rackweave_controller::ask::AskError;
use rackweave_controller::{FlowError, FlowShape, FlowState, LaneError};
use std::sync::Arc;

/// A flow. Any thread, several at a time.
pub struct rackweave_flow {
    _opaque: (),
}

/// How items find their consumers.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum rackweave_flow_shape {
    /// A producer has a ring for each consumer and chooses. With one of each it is a 1:1 flow.
    Shuffle = 0,
    /// A producer has one ring; each item goes to one consumer, whichever has space.
    Balance = 1,
    /// A producer has one ring; each item goes to all consumers or to none, in one order
    /// everywhere.
    Replicate = 2,
}

/// What a flow is to be. What is 0 or NULL is as by default.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rackweave_flow_options {
    /// A `rackweave_flow_shape`.
    pub shape: u32,
    /// Bytes of an item, a multiple of 8. There is no default.
    pub item_bytes: u32,
    /// Bytes of a ring, about; the number of items in it is a power of two. 0: 65536.
    pub ring_bytes: u32,
    /// Its share among flows with a weight; 0: it takes what it gets.
    pub weight: u32,
    /// The nodes of the producers, `producer_count` numbers. A node may appear more than once.
    pub producers: *const u16,
    /// How many.
    pub producer_count: usize,
    /// The nodes of the consumers, `consumer_count` numbers.
    pub consumers: *const u16,
    /// How many.
    pub consumer_count: usize,
}

pub(crate) struct Running {
    pub rack: Rack,
    pub flow: Flow,
    pub shape: FlowShape,
    pub producers: u32,
    pub consumers: u32,
}

/// A flow shared by handles.
#[derive(Clone)]
pub(crate) struct SharedFlow(pub Arc<Running>);

impl Handled for SharedFlow {
    type Opaque = rackweave_flow;
    const KIND: Kind = Kind::Flow;
    const IS_SHARED: bool = true;
}

fn nodes(rack: &Rack, numbers: &[u16]) -> Result<Vec<NodeId>, Fault> {
    numbers.iter().map(|&node| rack.node_id(node)).collect()
}

/// # Safety
/// The pointers of the options match their counts.
unsafe fn create(rack: Rack, options: &rackweave_flow_options) -> Result<SharedFlow, Fault> {
    // SAFETY: as the caller promises.
    let (producers, consumers) = unsafe {
        (
            slice(options.producers, options.producer_count, "producers")?,
            slice(options.consumers, options.consumer_count, "consumers")?,
        )
    };
    let shape = match options.shape {
        0 => FlowShape::Shuffle,
        1 => FlowShape::Balance,
        2 => FlowShape::Replicate,
        other => return Err(Fault::argument(format!("there is no flow shape {other}"))),
    };
    if options.item_bytes == 0 {
        return Err(Fault::argument(
            "item_bytes is 0: an item has 8 bytes at least",
        ));
    }
    let ring_bytes = match options.ring_bytes {
        0 => 64 << 10,
        given => given,
    };
    let (producers, consumers) = (nodes(&rack, producers)?, nodes(&rack, consumers)?);
    let flow = rack
        .flow(&producers, &consumers)
        .item_bytes(options.item_bytes)
        .ring_bytes(ring_bytes)
        .shape(shape)
        .weight((options.weight != 0).then_some(options.weight))
        .build();
    let flow = flow.map_err(|error| rack.fault(flow_status(&error), &error))?;
    Ok(SharedFlow(Arc::new(Running {
        rack,
        flow,
        shape,
        producers: producers.len() as u32,
        consumers: consumers.len() as u32,
    })))
}

fn flow_status(error: &FlowError) -> Status {
    match error {
        FlowError::BadSpec { .. } => Status::BadArgument,
        FlowError::TablesFull { .. } | FlowError::Region { .. } => Status::NoRoom,
        FlowError::Lane(LaneError::Controller(AskError::NoAnswer)) => Status::Gone,
        FlowError::Taken => Status::InUse,
        FlowError::NotHere | FlowError::BadRing(_) => Status::Internal,
        _ => Status::Refused,
    }
}

impl From<FlowError> for Fault {
    fn from(error: FlowError) -> Self {
        Self::new(flow_status(&error), error)
    }
}

/// Sets a flow up.
///
/// BAD_ARGUMENT: the options make no sense. NOT_FOUND: no such node. NO_ROOM: the switch's tables
/// or the rack's memory.
///
/// # Safety
/// `options` points to options whose pointers are as their counts say; `flow` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_flow_create(
    rack: *const rackweave_rack,
    options: *const rackweave_flow_options,
    flow: *mut *mut rackweave_flow,
) -> Status {
    let make = || {
        // SAFETY: as the caller promises.
        let options = unsafe { read(options, "options")? };
        let rack = handle::shared::<Rack>(rack)?;
        // SAFETY: as the caller promises.
        unsafe { create(rack, &options) }
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(flow, "flow", make) }
}

/// Ends a handle of a flow. The flow goes when its ends are destroyed, too; it is broken off if it
/// has not ended by then. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_flow_destroy(flow: *mut rackweave_flow) -> Status {
    handle::destroy::<SharedFlow>(flow)
}

/// Breaks a flow off: its ends see ABORTED when they have taken what is there.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_flow_close(flow: *const rackweave_flow) -> Status {
    call(|| {
        let SharedFlow(running) = handle::shared::<SharedFlow>(flow)?;
        running.flow.close();
        Ok(())
    })
}

/// How a flow is doing: OK while it runs, END when all was delivered, ABORTED if it was broken off
/// (the detail text says why).
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_flow_state(flow: *const rackweave_flow) -> Status {
    call(|| {
        let SharedFlow(running) = handle::shared::<SharedFlow>(flow)?;
        match running.flow.state() {
            FlowState::Running => Ok(()),
            FlowState::Aborted(reason) => Err(running.rack.fault(Status::Aborted, &reason)),
            FlowState::Ended => Err(Fault::quiet(Status::End)),
        }
    })
}
