//! Sequencers in the switch: ranges of numbers that nobody else ever gets.

use crate::error::{Fault, call};
use crate::handle::{self, Handled, Kind};
use crate::pointer::Out;
use crate::rack::{Rack, rackweave_rack};
use crate::status::Status;
use crate::wait::wait;
use ::rackweave_rack::NodeHandle;
use rackweave_base::NodeId;
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::{SequencerId, SequencerSetUpError, SequencerSpec};
use rackweave_endpoint::page_store::NodeAccess;
use rackweave_endpoint::sequencer::{
    AtomicSequencer, BeginError, Done, Sequencer, SequencerConfig, SequencerError, Ticket,
};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// A sequencer in the switch of a rack. Any thread, several at a time.
pub struct rackweave_sequencer {
    _opaque: (),
}

/// A client of a sequencer. One thread at a time.
pub struct rackweave_sequencer_client {
    _opaque: (),
}

struct Made {
    rack: Rack,
    id: SequencerId,
}

impl Drop for Made {
    fn drop(&mut self) {
        self.rack.close_sequencer(self.id);
    }
}

/// A sequencer that handles share.
#[derive(Clone)]
struct SharedSequencer(Arc<Made>);

impl Handled for SharedSequencer {
    type Opaque = rackweave_sequencer;
    const KIND: Kind = Kind::Sequencer;
}

struct Client {
    /// Always there, until it is dropped.
    client: Option<AtomicSequencer>,
    sequencer: Arc<Made>,
    node: NodeId,
    access: NodeHandle,
    /// Calls that ended while another one was waited for.
    done: VecDeque<Done>,
    /// Calls that nobody waits for any more.
    given_up: HashSet<u64>,
}

impl Handled for Client {
    type Opaque = rackweave_sequencer_client;
    const KIND: Kind = Kind::SequencerClient;
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            let end = (self.node, client.qpn());
            self.sequencer.rack.detach_sequencer(end);
            self.access.with(|nic| client.close(nic));
        }
    }
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

fn set_up_fault(rack: &Rack, error: &SequencerSetUpError) -> Fault {
    let status = match error {
        SequencerSetUpError::OutOfRange { .. } => Status::BadArgument,
        SequencerSetUpError::Unknown(_) => Status::NotFound,
        SequencerSetUpError::NoRoom { .. }
        | SequencerSetUpError::Lane(_)
        | SequencerSetUpError::Table(_) => Status::NoRoom,
    };
    rack.fault(status, error)
}

impl Client {
    fn client(&mut self) -> Result<&mut AtomicSequencer, Fault> {
        let ended = || Fault::new(Status::Internal, "the client is ending");
        self.client.as_mut().ok_or_else(ended)
    }

    fn connect(&mut self) -> Result<(), Fault> {
        let end = (self.node, self.client()?.qpn());
        let Made { rack, id } = &*self.sequencer;
        let place = rack.attach_sequencer(*id, end, &PairAttributes::default());
        let place = place.map_err(|error| set_up_fault(rack, &error))?;
        self.client()?.connected(place);
        Ok(())
    }

    fn submit(&mut self, count: u64) -> Result<u64, Fault> {
        let Ticket(ticket) = self.client()?.begin(count)?;
        Ok(ticket)
    }

    fn collect(&mut self) -> Result<(), Fault> {
        let (access, now) = (self.access.clone(), self.access.now());
        loop {
            let client = self.client()?;
            let Some(done) = access.with(|nic| client.poll(now, nic)) else {
                return Ok(());
            };
            if !self.given_up.remove(&done.ticket.0) {
                self.done.push_back(done);
            }
        }
    }
}

/// Makes a sequencer in the switch, whose first number is `first`.
///
/// NO_ROOM: the switch of this rack has no room for one (switch.sequencers).
///
/// # Safety
/// `sequencer` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_sequencer_create(
    rack: *const rackweave_rack,
    first: u64,
    sequencer: *mut *mut rackweave_sequencer,
) -> Status {
    call(|| {
        // SAFETY: as the caller promises.
        let out = unsafe { Out::new(sequencer, "sequencer")? };
        let rack = handle::shared::<Rack>(rack)?;
        let spec = SequencerSpec {
            first,
            ..SequencerSpec::default()
        };
        let made = rack.create_sequencer(spec);
        let id = made.map_err(|error| set_up_fault(&rack, &error))?;
        let made = SharedSequencer(Arc::new(Made { rack, id }));
        out.set(handle::insert(made)?);
        Ok(())
    })
}

/// Ends a handle of a sequencer. The sequencer goes with its last client. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_sequencer_destroy(sequencer: *mut rackweave_sequencer) -> Status {
    call(|| {
        if !sequencer.is_null() {
            drop(handle::remove_shared::<SharedSequencer>(sequencer)?);
        }
        Ok(())
    })
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
    call(|| {
        // SAFETY: as the caller promises.
        let out = unsafe { Out::new(reserved, "reserved")? };
        let SharedSequencer(made) = handle::shared::<SharedSequencer>(sequencer)?;
        let reserved = made.rack.sequencer_reserved(made.id);
        out.set(reserved.ok_or_else(|| Fault::new(Status::NotFound, "it was closed"))?);
        Ok(())
    })
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
    call(|| {
        // SAFETY: as the caller promises.
        let out = unsafe { Out::new(client, "client")? };
        let SharedSequencer(sequencer) = handle::shared::<SharedSequencer>(sequencer)?;
        let rack = sequencer.rack.clone();
        let node = rack.node_id(node)?;
        let access = rack.node(node);
        let made =
            access.with(|nic| AtomicSequencer::new(nic, rack.memory(), SequencerConfig::default()));
        let made = made.map_err(|error| rack.fault(Status::NoRoom, &error))?;
        let mut client = Client {
            client: Some(made),
            sequencer,
            node,
            access,
            done: VecDeque::new(),
            given_up: HashSet::new(),
        };
        client.connect()?;
        out.set(handle::insert(client)?);
        Ok(())
    })
}

/// Ends a client. Numbers that were asked for and not polled are a gap. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_sequencer_client_destroy(
    client: *mut rackweave_sequencer_client,
) -> Status {
    call(|| {
        if !client.is_null() {
            drop(handle::remove::<Client>(client)?);
        }
        Ok(())
    })
}

/// Connects a client anew whose calls end with GONE. What was under way has failed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_sequencer_client_reconnect(
    client: *mut rackweave_sequencer_client,
) -> Status {
    call(|| handle::with(client, |client: &mut Client| client.connect()))
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
    call(|| {
        // SAFETY: as the caller promises.
        let out = unsafe { Out::new(first, "first")? };
        handle::with(client, |client: &mut Client| {
            let ticket = client.submit(count)?;
            let progress = client.sequencer.rack.progress();
            let came = wait(&*progress, timeout_ns, || {
                client.collect()?;
                let at = client.done.iter().position(|done| done.ticket.0 == ticket);
                Ok(at.and_then(|at| client.done.remove(at)))
            });
            match came {
                Ok(done) => out.set(done.result?.start),
                Err(fault) => {
                    client.given_up.insert(ticket);
                    return Err(fault);
                }
            }
            Ok(())
        })
    })
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
    call(|| {
        // SAFETY: as the caller promises.
        let out = unsafe { Out::new(ticket, "ticket")? };
        out.set(handle::with(client, |client: &mut Client| {
            client.submit(count)
        })?);
        Ok(())
    })
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
            if client.done.is_empty() {
                client.collect()?;
            }
            let done = client.done.pop_front();
            let done = done.ok_or(Fault::quiet(Status::Pending))?;
            ticket.set(done.ticket.0);
            let numbers = done.result?;
            first.set(numbers.start);
            count.set(numbers.end - numbers.start);
            Ok(())
        })
    })
}
