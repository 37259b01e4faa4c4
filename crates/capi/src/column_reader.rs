//! Columns that a compute node requests over a connection.

use crate::columns::rackweave_column_data;
use crate::connection::Connection;
use crate::error::Fault;
use crate::handle::{self, Handled, Kind};
use crate::messaging::rackweave_connection;
use crate::pointer::{Out, give, text};
use crate::rack::Rack;
use crate::status::Status;
use crate::wait::wait;
use ::rackweave_rack::Node;
use ::rackweave_rack::messaging::ColumnReader;
use core::ffi::c_char;
use rackweave_endpoint::messaging::columns::{
    Answer, AskError, ColumnClientConfig, ColumnData, RefusalCode, Reply, RequestError, Ticket,
};
use std::sync::Arc;

/// Requests columns over one connection. One thread at a time.
pub struct rackweave_column_reader {
    _opaque: (),
}

/// A column that has arrived. Any thread, several at a time.
pub struct rackweave_column {
    _opaque: (),
}

/// A column shared by handles.
#[derive(Clone)]
struct SharedColumn(Arc<ColumnData>);

impl Handled for SharedColumn {
    type Opaque = rackweave_column;
    const KIND: Kind = Kind::Column;
    const IS_SHARED: bool = true;
}

/// A reader with its rack. The fields are dropped in this order.
struct Reading {
    reader: ColumnReader,
    /// The requests under way, and their numbers in C.
    tickets: Vec<(Ticket, u64)>,
    next: u64,
    /// Answers that arrived while the caller waited for another one.
    answers: Vec<(u64, Result<Reply, RequestError>)>,
    node: Node,
    _rack: Rack,
}

impl Handled for Reading {
    type Opaque = rackweave_column_reader;
    const KIND: Kind = Kind::ColumnReader;
}

impl From<RequestError> for Fault {
    fn from(error: RequestError) -> Self {
        let status = match &error {
            RequestError::Refused { code, .. } if *code == RefusalCode::UNKNOWN_COLUMN => {
                Status::NotFound
            }
            RequestError::Refused { .. } => Status::Refused,
            RequestError::TooLarge { .. } => Status::TooLong,
            RequestError::NoMemory { .. } => Status::NoRoom,
            RequestError::Closed(closed) => return (*closed).into(),
            RequestError::BadAnswer(_) => Status::Corrupt,
        };
        Self::new(status, error)
    }
}

impl From<AskError> for Fault {
    fn from(error: AskError) -> Self {
        let status = match error {
            AskError::WindowFull { .. } => Status::NoRoom,
            AskError::Name(_) => Status::BadArgument,
            AskError::Finished => Status::Finished,
            AskError::Broken(error) => return error.into(),
        };
        Self::new(status, error)
    }
}

impl Reading {
    fn submit(&mut self, name: &str) -> Result<u64, Fault> {
        let ticket = self.reader.begin(name, None)?;
        let number = self.next;
        self.next += 1;
        self.tickets.push((ticket, number));
        Ok(number)
    }

    /// The next answer, with its request's number.
    fn poll(&mut self) -> Option<(u64, Result<Reply, RequestError>)> {
        loop {
            let Answer { ticket, result } = self.reader.poll()?;
            // Otherwise nobody waits for it any more.
            if let Some(at) = self.tickets.iter().position(|(known, _)| *known == ticket) {
                return Some((self.tickets.swap_remove(at).1, result));
            }
        }
    }

    /// Waits for the answer to a request, and gives it up at the time limit.
    fn wait(&mut self, number: u64, timeout_ns: u64) -> Result<SharedColumn, Fault> {
        let node = self.node.clone();
        let found = wait(&node, timeout_ns, || {
            while let Some((answered, result)) = self.poll() {
                if answered == number {
                    return Ok(Some(result));
                }
                self.answers.push((answered, result));
            }
            Ok(None)
        });
        let result = found.inspect_err(|_| self.tickets.retain(|(_, at)| *at != number))?;
        column(result)
    }
}

fn column(result: Result<Reply, RequestError>) -> Result<SharedColumn, Fault> {
    match result? {
        Reply::Column(column) => Ok(SharedColumn(Arc::new(column))),
        other => unreachable!("a column was asked for: {other:?}"),
    }
}

/// Requests columns over a connection, whose ends belong to the reader from now on: none of them
/// may have been taken. The other side is a column server.
///
/// IN_USE: an end was taken before. REFUSED: not connected yet.
///
/// # Safety
/// `reader` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_column_reader_create(
    connection: *mut rackweave_connection,
    reader: *mut *mut rackweave_column_reader,
) -> Status {
    let make = |connection: &mut Connection| {
        let (node, rack) = (connection.place()?, connection.rack.clone());
        let config = ColumnClientConfig {
            verify: true,
            ..ColumnClientConfig::default()
        };
        Ok(Reading {
            reader: ColumnReader::new(connection.take_all()?, config),
            tickets: Vec::new(),
            next: 0,
            answers: Vec::new(),
            node,
            _rack: rack,
        })
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(reader, "reader", || handle::with(connection, make)) }
}

/// Closes the connection. Columns that have arrived stay. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_column_reader_destroy(reader: *mut rackweave_column_reader) -> Status {
    handle::destroy::<Reading>(reader)
}

/// Fetches a column, and waits for it at most `timeout_ns` nanoseconds. The server must be in
/// another thread or process, or nobody would answer.
///
/// NOT_FOUND: the server has none of this name. TOO_LONG, NO_ROOM: it is too large for this node.
/// CORRUPT: the server sent something else. CLOSED, GONE: the connection is closed, or broken.
///
/// # Safety
/// `name` ends with a zero byte; `column` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_column_reader_fetch(
    reader: *mut rackweave_column_reader,
    name: *const c_char,
    timeout_ns: u64,
    column: *mut *mut rackweave_column,
) -> Status {
    let fetch = |reading: &mut Reading| {
        // SAFETY: as the caller promises.
        let number = reading.submit(unsafe { text(name, "name")? })?;
        reading.wait(number, timeout_ns)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(column, "column", || handle::with(reader, fetch)) }
}

/// Begins to fetch a column, and tells a number for it. NO_ROOM: 32 are under way; poll first.
///
/// # Safety
/// `name` ends with a zero byte; `ticket` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_column_reader_submit(
    reader: *mut rackweave_column_reader,
    name: *const c_char,
    ticket: *mut u64,
) -> Status {
    let submit = |reading: &mut Reading| {
        // SAFETY: as the caller promises.
        reading.submit(unsafe { text(name, "name")? })
    };
    // SAFETY: as the caller promises.
    unsafe { give(ticket, "ticket", || handle::with(reader, submit)) }
}

/// Gives a column that `rackweave_column_reader_submit` began to fetch and its number, if one has
/// arrived. PENDING: none yet; drive the rack. Otherwise, as `rackweave_column_reader_fetch`, why
/// the column of this number does not come.
///
/// # Safety
/// `ticket` and `column` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_column_reader_poll(
    reader: *mut rackweave_column_reader,
    ticket: *mut u64,
    column: *mut *mut rackweave_column,
) -> Status {
    let poll = |reading: &mut Reading| {
        // SAFETY: as the caller promises.
        let ticket = unsafe { Out::new(ticket, "ticket")? };
        let kept = reading.answers.pop();
        let answer = kept.or_else(|| reading.poll());
        let (number, result) = answer.ok_or(Fault::quiet(Status::Pending))?;
        ticket.set(number);
        self::column(result)
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(column, "column", || handle::with(reader, poll)) }
}

/// Says that no more requests follow, and waits, at most `timeout_ns` nanoseconds, until the server
/// has heard it.
///
/// REFUSED: columns are under way. CLOSED, GONE: the connection was closed before, or broke.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_column_reader_finish(
    reader: *mut rackweave_column_reader,
    timeout_ns: u64,
) -> Status {
    handle::on(reader, |reading: &mut Reading| {
        if !reading.tickets.is_empty() {
            let detail = "columns are under way; take them first";
            return Err(Fault::new(Status::Refused, detail));
        }
        let Reading { reader, node, .. } = reading;
        reader.finish();
        wait(node, timeout_ns, || {
            reader.poll();
            match (reader.is_finished(), reader.broken()) {
                (true, _) => Ok(Some(())),
                (false, Some(error)) => Err(error.clone().into()),
                (false, None) => Ok(None),
            }
        })
    })
}

/// Ends a handle of a column. Pointers into it are of no use from now on. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_column_destroy(column: *mut rackweave_column) -> Status {
    handle::destroy::<SharedColumn>(column)
}

/// The column's shape, and its buffers, at multiples of 64 bytes, until its handle is destroyed.
///
/// # Safety
/// `data` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_column_get_data(
    column: *const rackweave_column,
    data: *mut rackweave_column_data,
) -> Status {
    let get = || {
        let SharedColumn(column) = handle::shared(column)?;
        Ok(rackweave_column_data::of(&column))
    };
    // SAFETY: as the caller promises.
    unsafe { give(data, "data", get) }
}
