//! The ends of a flow. They load and store in memory of their node, and post no work requests.

use crate::error::{Fault, call};
use crate::flow::{Running, SharedFlow, rackweave_flow};
use crate::handle::{self, Handled, Kind};
use crate::pointer::{Out, slice, space};
use crate::status::Status;
use crate::wait::wait;
use rackweave_controller::FlowShape;
use rackweave_endpoint::flow::{Consumer, Producer, PushError, Taken};
use std::sync::Arc;

/// A producer's ring. One thread at a time.
pub struct rackweave_flow_producer {
    _opaque: (),
}

/// A consumer's ring. One thread at a time.
pub struct rackweave_flow_consumer {
    _opaque: (),
}

struct ProducerEnd {
    producer: Producer,
    /// Slots that were reserved and not committed.
    reserved: u32,
    flow: Arc<Running>,
}

struct ConsumerEnd {
    consumer: Consumer,
    /// Items that were peeked at and not released.
    peeked: u32,
    flow: Arc<Running>,
}

impl Handled for ProducerEnd {
    type Opaque = rackweave_flow_producer;
    const KIND: Kind = Kind::FlowProducer;
}

impl Handled for ConsumerEnd {
    type Opaque = rackweave_flow_consumer;
    const KIND: Kind = Kind::FlowConsumer;
}

impl From<PushError> for Fault {
    fn from(error: PushError) -> Self {
        match error {
            PushError::Full => Self::quiet(Status::Pending),
            PushError::Aborted => Self::new(Status::Aborted, error),
            PushError::Finished => Self::new(Status::Finished, error),
            PushError::TooLong { .. } => Self::new(Status::TooLong, error),
        }
    }
}

fn taken<T>(taken: Taken<T>) -> Result<T, Fault> {
    match taken {
        Taken::Items(items) => Ok(items),
        Taken::Empty => Err(Fault::quiet(Status::Pending)),
        Taken::Ended => Err(Fault::quiet(Status::End)),
        Taken::Aborted => Err(Fault::new(Status::Aborted, "the flow was broken off")),
    }
}

impl Running {
    /// Tries something once; or, with a limit in nanoseconds, until it is no longer pending.
    fn attempt<T>(
        &self,
        limit: Option<u64>,
        mut act: impl FnMut() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let pending = |result: Result<T, Fault>| match result {
            Err(fault) if fault.status == Status::Pending => Ok(None),
            other => other.map(Some),
        };
        match (act(), limit) {
            (Err(fault), Some(timeout_ns)) if fault.status == Status::Pending => {
                wait(&self.rack.any_node(), timeout_ns, || pending(act()))
            }
            (result, _) => result,
        }
    }
}

fn beyond(what: &str, number: u32, has: u32) -> Fault {
    let detail = format!("there is no {what} {number}; the flow has {has}, counted from 0");
    Fault::new(Status::NotFound, detail)
}

fn produce(SharedFlow(flow): SharedFlow, number: u32, consumer: u32) -> Result<ProducerEnd, Fault> {
    if number >= flow.producers {
        return Err(beyond("producer", number, flow.producers));
    }
    let rings = match flow.shape {
        FlowShape::Shuffle => flow.consumers,
        _ => 1,
    };
    if consumer >= rings {
        return Err(beyond("ring to consumer", consumer, rings));
    }
    let (number, consumer) = (number as usize, consumer as usize);
    Ok(ProducerEnd {
        producer: flow.flow.take_producer_to(number, consumer)?,
        reserved: 0,
        flow,
    })
}

/// Copies an item into the ring, and with a limit waits for a free slot.
///
/// # Safety
/// `item` has `length` bytes.
unsafe fn push(
    producer: *mut rackweave_flow_producer,
    (item, length): (*const u8, usize),
    limit: Option<u64>,
) -> Status {
    handle::on(producer, |end: &mut ProducerEnd| {
        // SAFETY: as the caller promises.
        let item = unsafe { slice(item, length, "item")? };
        end.reserved = 0;
        let producer = &mut end.producer;
        end.flow.attempt(limit, || Ok(producer.push(item)?))
    })
}

/// Makes a handle of a producer's ring. `producer` counts as the options of the flow did. In a
/// shuffle, a producer has a ring for each `consumer`; in other shapes one, and `consumer` is 0.
///
/// NOT_FOUND: no such ring. IN_USE: it has a handle already.
///
/// # Safety
/// `end` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_flow_producer_create(
    flow: *const rackweave_flow,
    producer: u32,
    consumer: u32,
    end: *mut *mut rackweave_flow_producer,
) -> Status {
    let make = || produce(handle::shared(flow)?, producer, consumer);
    // SAFETY: as the caller promises.
    unsafe { handle::create(end, "end", make) }
}

/// Ends a handle of a producer's ring. Items that were pushed are delivered all the same; the
/// stream does not end by it. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_flow_producer_destroy(
    producer: *mut rackweave_flow_producer,
) -> Status {
    handle::destroy::<ProducerEnd>(producer)
}

/// Copies an item into the ring; bytes behind it in its slot are zero. PENDING: the ring is full,
/// try again when the rack has been driven.
///
/// TOO_LONG: an item has fewer bytes. ABORTED: the flow was broken off. FINISHED: so it was.
///
/// # Safety
/// `item` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_flow_producer_try_push(
    producer: *mut rackweave_flow_producer,
    item: *const u8,
    length: usize,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { push(producer, (item, length), None) }
}

/// As [`rackweave_flow_producer_try_push`], but waits for space, at most `timeout_ns` nanoseconds,
/// and drives the rack meanwhile.
///
/// # Safety
/// `item` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_flow_producer_push(
    producer: *mut rackweave_flow_producer,
    item: *const u8,
    length: usize,
    timeout_ns: u64,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { push(producer, (item, length), Some(timeout_ns)) }
}

/// Free slots, one behind the other, to be filled and then committed: at least one and at most
/// `items_max`. `slots` points to `items` times the bytes of an item, until the next call with this
/// handle. PENDING: the ring is full.
///
/// # Safety
/// `slots` and `items` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_flow_producer_try_reserve(
    producer: *mut rackweave_flow_producer,
    items_max: u32,
    slots: *mut *mut u8,
    items: *mut u32,
) -> Status {
    call(|| {
        // SAFETY: as the caller promises.
        let (slots, items) = unsafe { (Out::new(slots, "slots")?, Out::new(items, "items")?) };
        handle::with(producer, |end: &mut ProducerEnd| {
            end.reserved = 0;
            let size = end.producer.item_size();
            let mut bytes = end.producer.reserve(items_max.max(1))?;
            let count = (bytes.len() / size as usize) as u32;
            slots.set(bytes.as_mut_ptr());
            items.set(count);
            end.reserved = count;
            Ok(())
        })
    })
}

/// Gives the first `items` reserved slots to the switch. BAD_ARGUMENT: fewer are reserved.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_flow_producer_commit(
    producer: *mut rackweave_flow_producer,
    items: u32,
) -> Status {
    handle::on(producer, |end: &mut ProducerEnd| {
        let reserved = core::mem::take(&mut end.reserved);
        if items > reserved {
            let detail = format!("{items} items are committed, {reserved} are reserved");
            return Err(Fault::argument(detail));
        }
        end.producer.commit(items);
        Ok(())
    })
}

/// No more items will come through this ring. The stream of a consumer ends when all rings to it
/// have said so.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_flow_producer_finish(producer: *mut rackweave_flow_producer) -> Status {
    handle::on(producer, |end: &mut ProducerEnd| {
        end.producer.finish();
        Ok(())
    })
}

/// Whether consumers have been shown every item: OK, or PENDING, or ABORTED.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_flow_producer_delivered(
    producer: *mut rackweave_flow_producer,
) -> Status {
    handle::on(producer, |end: &mut ProducerEnd| {
        if !end.producer.is_delivered() && end.producer.is_aborted() {
            return Err(Fault::new(Status::Aborted, "the flow was broken off"));
        }
        Fault::unless(end.producer.is_delivered())
    })
}

fn consume(SharedFlow(flow): SharedFlow, number: u32) -> Result<ConsumerEnd, Fault> {
    if number >= flow.consumers {
        return Err(beyond("consumer", number, flow.consumers));
    }
    Ok(ConsumerEnd {
        consumer: flow.flow.take_consumer(number as usize)?,
        peeked: 0,
        flow,
    })
}

/// Makes a handle of a consumer's ring. `consumer` counts as the options of the flow did.
///
/// NOT_FOUND: no such ring. IN_USE: it has a handle already.
///
/// # Safety
/// `end` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_flow_consumer_create(
    flow: *const rackweave_flow,
    consumer: u32,
    end: *mut *mut rackweave_flow_consumer,
) -> Status {
    let make = || consume(handle::shared(flow)?, consumer);
    // SAFETY: as the caller promises.
    unsafe { handle::create(end, "end", make) }
}

/// Ends a handle of a consumer's ring. What was not taken stays, for the next handle. NULL is
/// allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_flow_consumer_destroy(
    consumer: *mut rackweave_flow_consumer,
) -> Status {
    handle::destroy::<ConsumerEnd>(consumer)
}

/// Copies the next item out, and with a limit waits for one.
///
/// # Safety
/// `item` has `capacity` bytes.
unsafe fn pop(
    consumer: *mut rackweave_flow_consumer,
    (item, capacity): (*mut u8, usize),
    limit: Option<u64>,
) -> Status {
    handle::on(consumer, |end: &mut ConsumerEnd| {
        // SAFETY: as the caller promises.
        let item = unsafe { space(item, capacity, "item")? };
        let size = end.consumer.item_size() as usize;
        let Some(item) = item.get_mut(..size) else {
            let detail = format!("an item has {size} bytes, there is room for {capacity}");
            return Err(Fault::new(Status::TooLong, detail));
        };
        end.peeked = 0;
        let consumer = &mut end.consumer;
        end.flow.attempt(limit, || taken(consumer.pop(item)))
    })
}

/// Copies the next item out and frees its slot. PENDING: there is none yet. END: no more come.
///
/// TOO_LONG: `capacity` is less than the bytes of an item. ABORTED: the flow was broken off, and
/// what had been delivered was taken.
///
/// # Safety
/// `item` has `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_flow_consumer_try_pop(
    consumer: *mut rackweave_flow_consumer,
    item: *mut u8,
    capacity: usize,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { pop(consumer, (item, capacity), None) }
}

/// As [`rackweave_flow_consumer_try_pop`], but waits for an item, at most `timeout_ns` nanoseconds,
/// and drives the rack meanwhile.
///
/// # Safety
/// `item` has `capacity` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_flow_consumer_pop(
    consumer: *mut rackweave_flow_consumer,
    item: *mut u8,
    capacity: usize,
    timeout_ns: u64,
) -> Status {
    // SAFETY: as the caller promises.
    unsafe { pop(consumer, (item, capacity), Some(timeout_ns)) }
}

/// The next items in place, one behind the other: at least one and at most `items_max`. `bytes`
/// points to `items` times the bytes of an item, until they are released or something is popped.
/// PENDING: there is none yet. END: no more come.
///
/// # Safety
/// `bytes` and `items` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_flow_consumer_try_peek(
    consumer: *mut rackweave_flow_consumer,
    items_max: u32,
    bytes: *mut *const u8,
    items: *mut u32,
) -> Status {
    call(|| {
        // SAFETY: as the caller promises.
        let (bytes, items) = unsafe { (Out::new(bytes, "bytes")?, Out::new(items, "items")?) };
        handle::with(consumer, |end: &mut ConsumerEnd| {
            let size = end.consumer.item_size();
            end.peeked = 0;
            let found = taken(end.consumer.peek(items_max))?;
            let count = (found.len() / size as usize) as u32;
            bytes.set(found.as_ptr());
            items.set(count);
            end.peeked = count;
            Ok(())
        })
    })
}

/// Frees the slots of the first `items` items that were peeked at. BAD_ARGUMENT: fewer were.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_flow_consumer_release(
    consumer: *mut rackweave_flow_consumer,
    items: u32,
) -> Status {
    handle::on(consumer, |end: &mut ConsumerEnd| {
        let peeked = end.peeked;
        if items > peeked {
            let detail = format!("{items} items are released, {peeked} were peeked at");
            return Err(Fault::argument(detail));
        }
        end.peeked -= items;
        end.consumer.release(items);
        Ok(())
    })
}
