//! Clients of an index: operations that are submitted and polled, or executed synchronously.

use crate::error::{Fault, keep};
use crate::handle::{self, Handled, Kind};
use crate::index::{SharedIndex, rackweave_index, set_up_fault};
use crate::pointer::{read, slice};
use crate::status::Status;
use ::rackweave_rack::services::IndexConnection;
use core::time::Duration;
use rackweave_endpoint::btree::Direction;
use rackweave_endpoint::index::{Access, Answer, BeginError, IndexError, Op, Reply, Ticket, Value};
use std::collections::HashMap;

/// A client of an index. One thread at a time.
pub struct rackweave_index_client {
    _opaque: (),
}

/// How a client reads. Writes are requests all the same.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum rackweave_index_access {
    /// By requests to the server.
    Rpc = 0,
    /// By READs of the memory of the index.
    OneSided = 1,
}

/// What is asked of an index.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum rackweave_index_operation_kind {
    /// The value of `key`: OK or NOT_FOUND.
    Lookup = 0,
    /// A value for a key that has none: OK, or EXISTS and nothing is changed.
    Insert = 1,
    /// Another value for a key that has one: OK or NOT_FOUND.
    Update = 2,
    /// A value, whether or not the key has one: OK.
    Put = 3,
    /// No value any more: OK or NOT_FOUND.
    Delete = 4,
    /// The entries from `key` to `last`, both inclusive, at most `limit`, ascending.
    Scan = 5,
    /// The same from the other end, descending.
    ScanBackward = 6,
}

/// An operation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rackweave_index_operation {
    /// A `rackweave_index_operation_kind`.
    pub kind: u32,
    /// Of scans: entries at most.
    pub limit: u32,
    /// The key; of scans the least one.
    pub key: u64,
    /// Of scans: the greatest key.
    pub last: u64,
    /// Of inserts, updates and puts: the value's bytes, which are copied.
    pub value: *const u8,
    /// How many.
    pub value_length: usize,
}

/// An entry of an index.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rackweave_index_entry {
    /// The key.
    pub key: u64,
    /// The value's bytes.
    pub value: *const u8,
    /// How many.
    pub value_length: usize,
}

/// How an operation ended. The pointers are good until the next call with the client.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rackweave_index_reply {
    /// Which operation.
    pub ticket: u64,
    /// How it ended: as its kind says, or with an error. NO_ROOM, TOO_LONG, GONE, REFUSED and
    /// CORRUPT: nothing was changed. OUTCOME_UNKNOWN: of a write that was not answered.
    pub status: Status,
    /// What was found: of a lookup one entry, of a scan in its order.
    pub entries: *const rackweave_index_entry,
    /// How many.
    pub entry_count: usize,
}

pub(crate) struct Client {
    connection: IndexConnection,
    asked: HashMap<Ticket, Asked>,
    /// The targets of the last reply's pointers.
    pub values: Vec<(u64, Value)>,
    entries: Vec<rackweave_index_entry>,
}

// SAFETY: the raw pointers in `entries` point to `values` of the same object; they are only written
// out, never dereferenced.
unsafe impl Send for Client {}

impl Handled for Client {
    type Opaque = rackweave_index_client;
    const KIND: Kind = Kind::IndexClient;
}

impl From<BeginError> for Fault {
    fn from(error: BeginError) -> Self {
        let status = match error {
            BeginError::Full { .. } => Status::NoRoom,
            BeginError::ValueTooLarge { .. } => Status::TooLong,
            BeginError::Backwards { .. } => Status::BadArgument,
        };
        Self::new(status, error)
    }
}

impl From<IndexError> for Fault {
    fn from(error: IndexError) -> Self {
        let status = match error {
            IndexError::Gone(_) => Status::Gone,
            IndexError::OutcomeUnknown(_) => Status::OutcomeUnknown,
            IndexError::Full(_) => Status::NoRoom,
            IndexError::ValueTooLarge(_) => Status::TooLong,
            IndexError::Refused(_) | IndexError::Unsettled { .. } => Status::Refused,
            IndexError::Malformed(_) | IndexError::Corrupt(_) => Status::Corrupt,
        };
        Self::new(status, error)
    }
}

/// An operation, and the number of its kind.
///
/// # Safety
/// If the pointer is neither NULL nor misaligned, it points to an operation whose value has its
/// stated length.
pub(crate) unsafe fn decode<'a>(
    operation: *const rackweave_index_operation,
) -> Result<(Op<'a>, u32), Fault> {
    // SAFETY: as the caller promises.
    let operation = unsafe { read(operation, "operation")? };
    let rackweave_index_operation {
        kind,
        limit,
        key,
        last,
        ..
    } = operation;
    let scan = |direction| Op::Scan {
        low: key,
        last,
        direction,
        limit,
    };
    // SAFETY: as the caller promises.
    let value = || unsafe { slice(operation.value, operation.value_length, "value") };
    let op = match kind {
        0 => Op::Get { key },
        INSERT => Op::Insert {
            key,
            value: value()?,
        },
        UPDATE => Op::Update {
            key,
            value: value()?,
        },
        PUT => Op::Put {
            key,
            value: value()?,
        },
        DELETE => Op::Delete { key },
        5 => scan(Direction::Forward),
        6 => scan(Direction::Backward),
        other => {
            let detail = format!("there is no index operation {other}");
            return Err(Fault::argument(detail));
        }
    };
    Ok((op, kind))
}

/// The data of a pending operation that is needed to report its result.
#[derive(Clone, Copy)]
struct Asked {
    kind: u32,
    key: u64,
}

impl Client {
    fn submit(&mut self, op: &Op<'_>, kind: u32) -> Result<Ticket, Fault> {
        let ticket = self.connection.begin(op)?;
        let key = op.key();
        self.asked.insert(ticket, Asked { kind, key });
        Ok(ticket)
    }

    /// A reply in its C form, and the fault to report.
    fn show(&mut self, reply: Reply) -> (rackweave_index_reply, Option<Fault>) {
        let asked = self.asked.remove(&reply.ticket);
        let (kind, key) = asked.map_or((0, 0), |asked| (asked.kind, asked.key));
        let (mut status, mut fault) = (Status::Ok, None);
        self.values.clear();
        match reply.result {
            Ok(Answer::Value(None)) => status = Status::NotFound,
            Ok(Answer::Value(Some(value))) => self.values.push((key, value)),
            Ok(Answer::Entries(entries)) => self.values = entries,
            // For a write of this kind, whether the index had the key shows whether it took effect.
            Ok(Answer::Found(true)) if kind == INSERT => status = Status::Exists,
            Ok(Answer::Found(false)) if kind == UPDATE || kind == DELETE => {
                status = Status::NotFound;
            }
            Ok(Answer::Found(_)) => {}
            Err(error) => {
                let error = Fault::from(error);
                status = error.status;
                fault = Some(error);
            }
        }
        let entry = |(key, value): &(u64, Value)| rackweave_index_entry {
            key: *key,
            value: value.as_ptr(),
            value_length: value.len(),
        };
        self.entries = self.values.iter().map(entry).collect();
        let shown = rackweave_index_reply {
            ticket: reply.ticket.0,
            status,
            entries: self.entries.as_ptr(),
            entry_count: self.entries.len(),
        };
        (shown, fault)
    }

    /// Submits an operation and waits for its reply. An error of the operation becomes that of this
    /// call.
    pub fn execute(
        &mut self,
        op: &Op<'_>,
        kind: u32,
        timeout_ns: u64,
    ) -> Result<rackweave_index_reply, Fault> {
        let ticket = self.submit(op, kind)?;
        let limit = Duration::from_nanos(timeout_ns);
        let Some(reply) = self.connection.wait(ticket, limit) else {
            self.connection.abandon(ticket);
            self.asked.remove(&ticket);
            return Err(Fault::quiet(Status::TimedOut));
        };
        match self.show(reply) {
            (shown, None) => Ok(shown),
            (_, Some(fault)) => Err(fault),
        }
    }
}

pub(crate) const INSERT: u32 = rackweave_index_operation_kind::Insert as u32;
pub(crate) const PUT: u32 = rackweave_index_operation_kind::Put as u32;
pub(crate) const UPDATE: u32 = rackweave_index_operation_kind::Update as u32;
pub(crate) const DELETE: u32 = rackweave_index_operation_kind::Delete as u32;

/// Makes a client on a node, connected to the index's server. `access` is a
/// `rackweave_index_access`.
///
/// NOT_FOUND: no such node. NO_ROOM: the server has as many clients as it may have, or a NIC or the
/// rack's memory has no space.
///
/// # Safety
/// `client` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_index_client_create(
    index: *const rackweave_index,
    node: u16,
    access: u32,
    client: *mut *mut rackweave_index_client,
) -> Status {
    let make = || {
        let access = match access {
            0 => Access::Rpc,
            1 => Access::OneSided,
            other => return Err(Fault::argument(format!("there is no index access {other}"))),
        };
        let SharedIndex { rack, service } = handle::shared(index)?;
        let made = service.connect(rack.node_id(node)?, access);
        Ok(Client {
            connection: made.map_err(|error| set_up_fault(&rack, &error))?,
            asked: HashMap::new(),
            values: Vec::new(),
            entries: Vec::new(),
        })
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(client, "client", make) }
}

/// Ends a client. What is under way is not waited for: a write may or may not be done. NULL is
/// allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_index_client_destroy(client: *mut rackweave_index_client) -> Status {
    handle::destroy::<Client>(client)
}

/// Begins an operation. `rackweave_index_client_poll` gets on with it and gives its reply.
///
/// NO_ROOM: 64 are under way. TOO_LONG: the value. BAD_ARGUMENT: the operation makes no sense.
///
/// # Safety
/// `operation` points to an operation whose value is as its length says; `ticket` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_index_client_submit(
    client: *mut rackweave_index_client,
    operation: *const rackweave_index_operation,
    ticket: *mut u64,
) -> Status {
    let submit = |client: &mut Client| {
        // SAFETY: as the caller promises.
        let (op, kind) = unsafe { decode(operation)? };
        Ok(client.submit(&op, kind)?.0)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::get(client, ticket, "ticket", submit) }
}

/// Gets on with everything and gives the next reply, of any operation. OK: there is one, and
/// `reply->status` says how that operation ended. PENDING: there is none yet; drive the rack.
///
/// # Safety
/// `reply` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_index_client_poll(
    client: *mut rackweave_index_client,
    reply: *mut rackweave_index_reply,
) -> Status {
    let poll = |client: &mut Client| {
        let reply = client.connection.poll();
        let reply = reply.ok_or(Fault::quiet(Status::Pending))?;
        let (shown, fault) = client.show(reply);
        if let Some(fault) = fault {
            keep(&fault.detail);
        }
        Ok(shown)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::get(client, reply, "reply", poll) }
}

/// Submits an operation, waits for its reply, at most `timeout_ns` nanoseconds, and drives the rack
/// meanwhile. What `reply->status` says below 16 is there for the caller to see; errors are the
/// call's. TIMED_OUT: a write may or may not be done.
///
/// # Safety
/// `operation` points to an operation whose value is as its length says; `reply` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_index_client_execute(
    client: *mut rackweave_index_client,
    operation: *const rackweave_index_operation,
    timeout_ns: u64,
    reply: *mut rackweave_index_reply,
) -> Status {
    let execute = |client: &mut Client| {
        // SAFETY: as the caller promises.
        let (op, kind) = unsafe { decode(operation)? };
        client.execute(&op, kind, timeout_ns)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::get(client, reply, "reply", execute) }
}
