//! The sending end of a channel: messages of any length, in pieces.

use crate::channel::{rackweave_channel_counters, tell_closed};
use crate::connection::Connection;
use crate::error::{Fault, call};
use crate::handle::{self, Handled, Kind};
use crate::messaging::rackweave_connection;
use crate::pointer::{Out, slice, tell};
use crate::rack::Rack;
use crate::region::{SharedRegion, rackweave_region};
use crate::status::Status;
use crate::wait::wait;
use ::rackweave_rack::Node;
use rackweave_endpoint::messaging::{MessageSender, SendError};

/// Sends messages on one channel. One thread at a time; ends of one connection may be in several.
pub struct rackweave_sender {
    _opaque: (),
}

/// The fields are dropped in this order.
struct SendingEnd {
    sender: MessageSender,
    /// Regions of messages in flight.
    pinned: Vec<SharedRegion>,
    node: Node,
    number: u16,
    /// It lasts as long as this.
    _rack: Rack,
}

impl Handled for SendingEnd {
    type Opaque = rackweave_sender;
    const KIND: Kind = Kind::Sender;
}

impl From<SendError> for Fault {
    fn from(error: SendError) -> Self {
        let status = match error {
            SendError::TooLong { .. } | SendError::NotInOnePiece { .. } => Status::TooLong,
            SendError::Unfinished { .. } => Status::Refused,
            SendError::Finished => Status::Finished,
            SendError::Closed(closed) => return closed.into(),
        };
        Self::new(status, error)
    }
}

/// Whether everything is in the peer's memory; if not, nothing is held back for batching. A sender
/// that is not polled posts nothing, so blocking calls continue until then: the caller may go on to
/// wait for an answer, which would never come if the message stayed here.
fn arrived(sender: &mut MessageSender) -> bool {
    let machine = sender.machine();
    machine.flush();
    machine.is_delivered()
}

impl SendingEnd {
    /// Posts what is ready.
    fn poll(&mut self) -> Result<bool, Fault> {
        let happened = self.sender.poll()?;
        if !self.pinned.is_empty() && self.sender.machine().is_delivered() {
            self.pinned.clear();
        }
        Ok(happened)
    }

    /// Waits until `done` returns a value.
    fn wait<T>(
        &mut self,
        timeout_ns: u64,
        mut done: impl FnMut(&mut MessageSender) -> Result<Option<T>, Fault>,
    ) -> Result<T, Fault> {
        let node = self.node.clone();
        wait(&node, timeout_ns, || {
            self.poll()?;
            done(&mut self.sender)
        })
    }

    fn send(&mut self, opcode: u32, bytes: &[u8], timeout_ns: u64) -> Result<(), Fault> {
        let in_one_piece = bytes.len() <= self.sender.machine().piece_max();
        if !in_one_piece {
            self.sender.machine().begin(opcode, bytes.len() as u64)?;
        }
        let (mut written, mut taken) = (0, false);
        self.wait(timeout_ns, |sender| {
            if !taken {
                taken = if in_one_piece {
                    sender.try_send(opcode, bytes)?
                } else {
                    written += sender.machine().write(&bytes[written..]);
                    written == bytes.len()
                };
            }
            Ok((taken && arrived(sender)).then_some(()))
        })
    }
}

/// Takes the sending end of a channel of a connection, counted from 0. Each can be taken once.
///
/// NOT_FOUND: no such channel. IN_USE: it was taken before. REFUSED: not connected yet.
///
/// # Safety
/// `sender` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_sender_create(
    connection: *mut rackweave_connection,
    channel: u32,
    sender: *mut *mut rackweave_sender,
) -> Status {
    let take = |connection: &mut Connection| {
        Ok(SendingEnd {
            sender: connection.take_sender(channel)?,
            pinned: Vec::new(),
            node: connection.place()?,
            number: connection.node(),
            _rack: connection.rack.clone(),
        })
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(sender, "sender", || handle::with(connection, take)) }
}

/// Ends a sender. If it has finished and everything was released, that is all; else the connection
/// is closed. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_sender_destroy(sender: *mut rackweave_sender) -> Status {
    handle::destroy::<SendingEnd>(sender)
}

/// The longest message, and the longest that `rackweave_sender_try_send` takes. Both may be NULL.
///
/// # Safety
/// Both are NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_sender_limits(
    sender: *const rackweave_sender,
    message_max: *mut u64,
    piece_max: *mut usize,
) -> Status {
    handle::on(sender, |end: &mut SendingEnd| {
        let machine = end.sender.machine();
        // SAFETY: as the caller promises.
        unsafe {
            tell(message_max, "message_max", machine.message_max())?;
            tell(piece_max, "piece_max", machine.piece_max())
        }
    })
}

/// Copies a message that fits one piece into the send buffer. It is sent at once, or, while others
/// are under way, by a later `rackweave_sender_poll`, together with those that follow; with
/// `rackweave_sender_delivered` it is not left there. PENDING: there is no space now; poll and
/// drive the rack.
///
/// TOO_LONG: it does not fit one piece. CLOSED, GONE: the connection is closed, or broke. FINISHED,
/// REFUSED: after `finish`, or within a message that was begun.
///
/// # Safety
/// `bytes` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_sender_try_send(
    sender: *mut rackweave_sender,
    opcode: u32,
    bytes: *const u8,
    length: usize,
) -> Status {
    handle::on(sender, |end: &mut SendingEnd| {
        // SAFETY: as the caller promises.
        let bytes = unsafe { slice(bytes, length, "bytes")? };
        let taken = end.sender.try_send(opcode, bytes)?;
        end.poll()?;
        Fault::unless(taken)
    })
}

/// Sends a message of any length and waits until it is in the peer's memory, at most `timeout_ns`
/// nanoseconds; drives the rack meanwhile. The bytes are copied.
///
/// TIMED_OUT: a message that fits one piece was either not taken, or is there but not yet at the
/// peer (`rackweave_sender_get_counters` tells how many were taken); a longer one was begun, and if
/// `rackweave_sender_remaining` is not 0, go on with the last so many bytes by
/// `rackweave_sender_write`, or close. Others as for `rackweave_sender_try_send`.
///
/// # Safety
/// `bytes` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_sender_send(
    sender: *mut rackweave_sender,
    opcode: u32,
    bytes: *const u8,
    length: usize,
    timeout_ns: u64,
) -> Status {
    handle::on(sender, |end: &mut SendingEnd| {
        // SAFETY: as the caller promises.
        let bytes = unsafe { slice(bytes, length, "bytes")? };
        end.send(opcode, bytes, timeout_ns)
    })
}

/// Sends bytes of a region as a message, without copying them, and waits until they are in the
/// peer's memory. The region is the one that the options of the connection named.
///
/// TIMED_OUT: the connection can only be closed. BAD_ARGUMENT: another region, or not all bytes lie
/// in it.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_sender_send_region(
    sender: *mut rackweave_sender,
    opcode: u32,
    region: *const rackweave_region,
    offset: u64,
    length: u64,
    timeout_ns: u64,
) -> Status {
    call(|| {
        let shared = handle::shared::<SharedRegion>(region)?;
        handle::with(sender, |end: &mut SendingEnd| {
            let from = &shared.0;
            if from.node.0 != end.number || from.region.pd != end.sender.machine().pd() {
                let detail = "the region is none that this connection sends from; name it in \
                              the options of the connection";
                return Err(Fault::argument(detail));
            }
            let last = offset.checked_add(length);
            if last.is_none_or(|last| last > from.length) {
                let has = from.length;
                let detail = format!("{length} bytes from byte {offset} on of a region of {has}");
                return Err(Fault::argument(detail));
            }
            end.sender.machine().begin(opcode, length)?;
            end.pinned.push(shared.clone());
            let mut written = 0;
            end.wait(timeout_ns, |sender| {
                let machine = sender.machine();
                let (at, left) = (offset + written, length - written);
                written += machine.write_region(&from.region, at, left);
                let taken = written == length && !machine.is_writing();
                Ok((taken && arrived(sender)).then_some(()))
            })
        })
    })
}

/// Begins a message of `total` bytes, which are written afterwards. REFUSED: the one before lacks
/// bytes. TOO_LONG, FINISHED, CLOSED, GONE: as they say.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_sender_begin(
    sender: *mut rackweave_sender,
    opcode: u32,
    total: u64,
) -> Status {
    handle::on(sender, |end: &mut SendingEnd| {
        Ok(end.sender.machine().begin(opcode, total)?)
    })
}

/// Copies as many of the next bytes of the message begun as there is space for. PENDING: none;
/// poll and drive the rack.
///
/// # Safety
/// `bytes` has `length` bytes; `written` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_sender_write(
    sender: *mut rackweave_sender,
    bytes: *const u8,
    length: usize,
    written: *mut usize,
) -> Status {
    call(|| {
        // SAFETY: as the caller promises.
        let (out, bytes) = unsafe {
            (
                Out::new(written, "written")?,
                slice(bytes, length, "bytes")?,
            )
        };
        handle::with(sender, |end: &mut SendingEnd| {
            let count = end.sender.machine().write(bytes);
            end.poll()?;
            out.set(count);
            Fault::unless(count > 0 || length == 0)
        })
    })
}

/// Bytes of the message begun that are still to be written.
///
/// # Safety
/// `remaining` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_sender_remaining(
    sender: *const rackweave_sender,
    remaining: *mut u64,
) -> Status {
    let remains = |end: &mut SendingEnd| Ok(end.sender.machine().remaining());
    // SAFETY: as the caller promises.
    unsafe { handle::get(sender, remaining, "remaining", remains) }
}

/// Posts what is ready. OK if anything happened, else PENDING. CLOSED, GONE: as they say.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_sender_poll(sender: *mut rackweave_sender) -> Status {
    handle::on(sender, |end: &mut SendingEnd| Fault::unless(end.poll()?))
}

/// Waits until everything sent is in the peer's memory, at most `timeout_ns` nanoseconds.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_sender_delivered(
    sender: *mut rackweave_sender,
    timeout_ns: u64,
) -> Status {
    handle::on(sender, |end: &mut SendingEnd| {
        end.wait(timeout_ns, |sender| Ok(arrived(sender).then_some(())))
    })
}

/// Waits until the receiver has released everything sent, at most `timeout_ns` nanoseconds.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_sender_consumed(
    sender: *mut rackweave_sender,
    timeout_ns: u64,
) -> Status {
    handle::on(sender, |end: &mut SendingEnd| {
        end.sender.machine().flush();
        end.wait(timeout_ns, |sender| {
            Ok(sender.machine().is_consumed().then_some(()))
        })
    })
}

/// Nothing follows: the receiver sees END behind the last message. Does not wait:
/// `rackweave_sender_consumed` does. REFUSED: a message lacks bytes.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_sender_finish(sender: *mut rackweave_sender) -> Status {
    handle::on(sender, |end: &mut SendingEnd| {
        end.sender.machine().finish()?;
        end.sender.machine().flush();
        end.poll().map(drop)
    })
}

/// Closes the connection for a reason, a `rackweave_close_reason`, which the peer learns.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_sender_close(sender: *mut rackweave_sender, reason: u32) -> Status {
    handle::on(sender, |end: &mut SendingEnd| {
        let (reason, now) = (crate::channel::reason(reason)?, end.node.now());
        let machine = end.sender.machine();
        end.node.with(|nic| machine.close(now, nic, reason));
        Ok(())
    })
}

/// Who closed the connection, a `rackweave_closed_by`, and why, a `rackweave_close_reason`. Both
/// may be NULL. PENDING: it is open.
///
/// # Safety
/// Both are NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_sender_closed(
    sender: *const rackweave_sender,
    by: *mut u32,
    reason: *mut u32,
) -> Status {
    handle::on(sender, |end: &mut SendingEnd| {
        // SAFETY: as the caller promises.
        unsafe { tell_closed(end.sender.machine().closed(), by, reason) }
    })
}

/// What a sender has sent.
///
/// # Safety
/// `counters` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_sender_get_counters(
    sender: *const rackweave_sender,
    counters: *mut rackweave_channel_counters,
) -> Status {
    let count = |end: &mut SendingEnd| {
        let counters = end.sender.counters();
        Ok(rackweave_channel_counters {
            messages: counters.messages,
            bytes: counters.bytes,
            pieces: counters.pieces,
            packages: counters.packages,
            waits: counters.waits_for_buffer,
            pulses: counters.pulses,
        })
    };
    // SAFETY: as the caller promises.
    unsafe { handle::get(sender, counters, "counters", count) }
}
