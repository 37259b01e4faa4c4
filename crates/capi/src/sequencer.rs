//! Sequencers in the switch: ranges of unique numbers.

use crate::error::{Fault, call};
use crate::handle::{self, Handled, Kind};
use crate::pointer::{Out, give};
use crate::rack::{Rack, rackweave_rack};
use crate::status::Status;
use ::rackweave_rack::services::{SequencerClient, SequencerService, SequencerServiceError};
use core::time::Duration;
use rackweave_controller::ask::AskError;
use rackweave_controller::{LaneError, SequencerSetUpError};
use rackweave_endpoint::sequencer::{BeginError, SequencerError};

/// A sequencer in the switch of a rack. Any thread, several at a time.
pub struct rackweave_sequencer {
    _opaque: (),
}

/// A client of a sequencer. One thread at a time.
pub struct rackweave_sequencer_client {
    _opaque: (),
}

/// A sequencer shared by handles.
#[derive(Clone)]
struct SharedSequencer {
    rack: Rack,
    service: SequencerService,
}

impl Handled for SharedSequencer {
    type Opaque = rackweave_sequencer;
    const KIND: Kind = Kind::Sequencer;
    const IS_SHARED: bool = true;
}

struct Client {
    rack: Rack,
    client: SequencerClient,
}

impl Handled for Client {
    type Opaque = rackweave_sequencer_client;
    const KIND: Kind = Kind::SequencerClient;
}

impl From<SequencerError> for Fault {
    fn from(error: SequencerError) -> Self {
        let status = match error {
            SequencerError::Exhausted => Status::NoRoom,
            SequencerError::BadAnswer(_) => Status::Corrupt,
            _ => Status::Gone,
        };
        Self::new(status, error)
    }
}

impl From<BeginError> for Fault {
    fn from(error: BeginError) -> Self {
        match error {
            BeginError::BadCount(_) => Self::new(Status::BadArgument, error),
            BeginError::Full(_) => Self::new(Status::NoRoom, error),
            BeginError::Broken(source) => source.into(),
        }
    }
}

fn set_up_fault(rack: &Rack, error: SequencerServiceError) -> Fault {
    let Fault { status, .. } = error.clone().into();
    rack.fault(status, &error)
}

impl From<SequencerServiceError> for Fault {
    fn from(error: SequencerServiceError) -> Self {
        let status = match error {
            SequencerServiceError::Begin(source) => return source.into(),
            SequencerServiceError::Failed(source) => return source.into(),
            SequencerServiceError::Switch(SequencerSetUpError::Lane(LaneError::Controller(
                AskError::NoAnswer,
            ))) => Status::Gone,
            SequencerServiceError::TimedOut { .. } => return Self::quiet(Status::TimedOut),
            SequencerServiceError::Switch(SequencerSetUpError::OutOfRange { .. })
            | SequencerServiceError::Counter(_) => Status::BadArgument,
            SequencerServiceError::Switch(SequencerSetUpError::Unknown(_))
            | SequencerServiceError::NoNode(_) => Status::NotFound,
            _ => Status::NoRoom,
        };
        Self::new(status, error)
    }
}

/// Makes a sequencer in the switch, whose first number is `first`.
///
/// NO_ROOM: the switch of this rack has no space for one (switch.sequencers).
///
/// # Safety
/// `sequencer` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_sequencer_create(
    rack: *const rackweave_rack,
    first: u64,
    sequencer: *mut *mut rackweave_sequencer,
) -> Status {
    let make = || {
        let rack = handle::shared::<Rack>(rack)?;
        let made = SequencerService::new(&rack, first);
        let service = made.map_err(|error| set_up_fault(&rack, error))?;
        Ok(SharedSequencer { rack, service })
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(sequencer, "sequencer", make) }
}

/// Ends a handle of a sequencer. The sequencer goes with its last client. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_sequencer_destroy(sequencer: *mut rackweave_sequencer) -> Status {
    handle::destroy::<SharedSequencer>(sequencer)
}

/// A number of which, and of all above it, none was ever handed out: to be kept and given to the
/// next sequencer as its first, when the rack ends.
///
/// # Safety
/// `reserved` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_sequencer_reserved(
    sequencer: *const rackweave_sequencer,
    reserved: *mut u64,
) -> Status {
    let find = || {
        let reserved = handle::shared::<SharedSequencer>(sequencer)?
            .service
            .reserved();
        reserved.ok_or_else(|| Fault::new(Status::NotFound, "it was closed"))
    };
    // SAFETY: as the caller promises.
    unsafe { give(reserved, "reserved", find) }
}

/// Makes a client on a node. NOT_FOUND: no such node. NO_ROOM: the switch or a NIC.
///
/// # Safety
/// `client` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_sequencer_client_create(
    sequencer: *const rackweave_sequencer,
    node: u16,
    client: *mut *mut rackweave_sequencer_client,
) -> Status {
    let make = || {
        let SharedSequencer { rack, service } = handle::shared(sequencer)?;
        let made = service.connect(rack.node_id(node)?);
        let client = made.map_err(|error| set_up_fault(&rack, error))?;
        Ok(Client { rack, client })
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(client, "client", make) }
}

/// Ends a client. Numbers that were asked for and not polled are a gap. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_sequencer_client_destroy(
    client: *mut rackweave_sequencer_client,
) -> Status {
    handle::destroy::<Client>(client)
}

/// Connects a client anew whose calls end with GONE. What was under way has failed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_sequencer_client_reconnect(
    client: *mut rackweave_sequencer_client,
) -> Status {
    handle::on(client, |Client { rack, client }: &mut Client| {
        let connected = client.reconnect();
        connected.map_err(|error| set_up_fault(rack, error))
    })
}

/// `count` numbers, of which `first` is the first, that nobody else ever gets. Waits for them, at
/// most `timeout_ns` nanoseconds, and drives the rack meanwhile.
///
/// BAD_ARGUMENT: no or too many numbers. GONE: the connection broke; connect anew. NO_ROOM: all
/// numbers were handed out. TIMED_OUT: numbers may be used up, as a gap.
///
/// # Safety
/// `first` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_sequencer_client_next(
    client: *mut rackweave_sequencer_client,
    count: u64,
    timeout_ns: u64,
    first: *mut u64,
) -> Status {
    let next = |client: &mut Client| {
        let limit = Duration::from_nanos(timeout_ns);
        Ok(client.client.next_within(count, limit)?.start)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::get(client, first, "first", next) }
}

/// Begins to ask for `count` numbers. Nothing is sent before the next poll, so calls that are begun
/// together travel together. NO_ROOM: too many are under way.
///
/// # Safety
/// `ticket` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_sequencer_client_submit(
    client: *mut rackweave_sequencer_client,
    count: u64,
    ticket: *mut u64,
) -> Status {
    let submit = |client: &mut Client| Ok(client.client.begin(count)?.0);
    // SAFETY: as the caller promises.
    unsafe { handle::get(client, ticket, "ticket", submit) }
}

/// The next call that has ended: which, and its numbers. PENDING: none has yet; drive the rack.
/// With an error, `ticket` says which call has failed.
///
/// # Safety
/// All three may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_sequencer_client_poll(
    client: *mut rackweave_sequencer_client,
    ticket: *mut u64,
    first: *mut u64,
    count: *mut u64,
) -> Status {
    call(|| {
        // SAFETY: as the caller promises.
        let (ticket, first, count) = unsafe {
            (
                Out::new(ticket, "ticket")?,
                Out::new(first, "first")?,
                Out::new(count, "count")?,
            )
        };
        handle::with(client, |client: &mut Client| {
            let done = client.client.poll();
            let done = done.ok_or(Fault::quiet(Status::Pending))?;
            ticket.set(done.ticket.0);
            let numbers = done.result?;
            first.set(numbers.start);
            count.set(numbers.end - numbers.start);
            Ok(())
        })
    })
}
