//! The receiving end of a channel: pieces in place, or whole messages copied out.

use crate::channel::{rackweave_channel_counters, tell_closed};
use crate::connection::Connection;
use crate::error::{Fault, call};
use crate::handle::{self, Handled, Kind};
use crate::messaging::rackweave_connection;
use crate::pointer::{Out, slice, space};
use crate::rack::Rack;
use crate::status::Status;
use crate::wait::wait;
use ::rackweave_rack::Node;
use rackweave_endpoint::messaging::{Arrived, MessageReceiver};

/// Receives the messages of one channel. One thread at a time.
pub struct rackweave_receiver {
    _opaque: (),
}

/// A part of a message, where it lies in a receive buffer.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rackweave_piece {
    /// The bytes, at an address that is a multiple of 32, until the piece is released.
    pub bytes: *const u8,
    /// How many.
    pub length: usize,
    /// Bytes of the whole message.
    pub total: u64,
    /// Bytes of the message before this piece.
    pub offset: u64,
    /// What the message is, as its sender has it.
    pub opcode: u32,
    /// The message's number on its channel, from zero, modulo 2^32.
    pub message: u32,
    /// Whether the message ends with this piece.
    pub last: bool,
}

/// A message that was copied out.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rackweave_message_info {
    /// Its bytes.
    pub length: u64,
    /// What it is, as its sender has it.
    pub opcode: u32,
    /// Its number on its channel, from zero, modulo 2^32.
    pub message: u32,
}

/// The fields are dropped in this order.
struct ReceivingEnd {
    receiver: MessageReceiver,
    has_peeked: bool,
    empty_looks: u32,
    node: Node,
    /// It lasts as long as this.
    _rack: Rack,
}

impl Handled for ReceivingEnd {
    type Opaque = rackweave_receiver;
    const KIND: Kind = Kind::Receiver;
}

/// Polls of an empty channel after which the NIC is polled, which detects the end of a connection.
const LOOKS_PER_POLL: u32 = 64;

impl ReceivingEnd {
    /// The next piece, if there is one: its address and size outlive the call.
    fn peek(&mut self) -> Result<Option<rackweave_piece>, Fault> {
        self.has_peeked = false;
        let found = match self.receiver.peek()? {
            Arrived::Piece(piece) => Some(rackweave_piece {
                bytes: piece.bytes.as_ptr(),
                length: piece.bytes.len(),
                total: piece.total,
                offset: piece.offset,
                opcode: piece.opcode,
                message: piece.message,
                last: piece.is_last(),
            }),
            Arrived::Empty => None,
            Arrived::Finished => {
                // The sender waits for the notification that all is released; a closed connection
                // does not matter here.
                let _closed = self.receiver.poll();
                return Err(Fault::quiet(Status::End));
            }
        };
        if found.is_some() {
            self.has_peeked = true;
            self.empty_looks = 0;
        } else {
            self.empty_looks = self.empty_looks.wrapping_add(1);
            if self.receiver.machine().owes() || self.empty_looks.is_multiple_of(LOOKS_PER_POLL) {
                // The next call reports why it is closed, after the pieces that have arrived
                // before.
                let _closed = self.receiver.poll();
            }
        }
        Ok(found)
    }

    fn release(&mut self) -> Result<(), Fault> {
        if !core::mem::take(&mut self.has_peeked) {
            let detail = "nothing was peeked at since the last release";
            return Err(Fault::new(Status::Refused, detail));
        }
        // Arrived pieces are taken even if the connection is closed by now; the next call reports
        // that.
        let _closed = self.receiver.release();
        Ok(())
    }
}

/// Takes the receiving end of a channel of a connection, counted from 0. Each can be taken once.
///
/// NOT_FOUND: no such channel. IN_USE: it was taken before. REFUSED: not connected yet.
///
/// # Safety
/// `receiver` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_receiver_create(
    connection: *mut rackweave_connection,
    channel: u32,
    receiver: *mut *mut rackweave_receiver,
) -> Status {
    let take = |connection: &mut Connection| {
        Ok(ReceivingEnd {
            receiver: connection.take_receiver(channel)?,
            has_peeked: false,
            empty_looks: 0,
            node: connection.place()?,
            _rack: connection.rack.clone(),
        })
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(receiver, "receiver", || handle::with(connection, take)) }
}

/// Ends a receiver. If the sender has finished and everything was released, that is all; else the
/// connection is closed. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_receiver_destroy(receiver: *mut rackweave_receiver) -> Status {
    handle::destroy::<ReceivingEnd>(receiver)
}

/// The oldest piece that was not released, where it lies. PENDING: none has come yet; drive the
/// rack. END: the sender has finished. CLOSED, GONE: the connection is closed, or broke, and what
/// had come was taken.
///
/// # Safety
/// `piece` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_receiver_try_peek(
    receiver: *mut rackweave_receiver,
    piece: *mut rackweave_piece,
) -> Status {
    let peek = |end: &mut ReceivingEnd| end.peek()?.ok_or(Fault::quiet(Status::Pending));
    // SAFETY: as the caller promises.
    unsafe { handle::get(receiver, piece, "piece", peek) }
}

/// As [`rackweave_receiver_try_peek`], but waits for a piece, at most `timeout_ns` nanoseconds, and
/// drives the rack meanwhile.
///
/// # Safety
/// `piece` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_receiver_peek(
    receiver: *mut rackweave_receiver,
    timeout_ns: u64,
    piece: *mut rackweave_piece,
) -> Status {
    let peek = |end: &mut ReceivingEnd| {
        let node = end.node.clone();
        wait(&node, timeout_ns, || end.peek())
    };
    // SAFETY: as the caller promises.
    unsafe { handle::get(receiver, piece, "piece", peek) }
}

/// Frees the piece that was peeked at last. REFUSED: none was.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_receiver_release(receiver: *mut rackweave_receiver) -> Status {
    handle::on(receiver, |end: &mut ReceivingEnd| end.release())
}

/// Waits for a whole message, at most `timeout_ns` nanoseconds, and copies it out.
///
/// TOO_LONG: it has more than `capacity` bytes; `info` says how many, and nothing of it was taken
/// unless an earlier call did. TIMED_OUT: a part may have been copied; call again with the same
/// buffer. Others as for `rackweave_receiver_try_peek`.
///
/// # Safety
/// `buffer` has `capacity` bytes; `info` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_receiver_receive(
    receiver: *mut rackweave_receiver,
    timeout_ns: u64,
    buffer: *mut u8,
    capacity: usize,
    info: *mut rackweave_message_info,
) -> Status {
    call(|| {
        // SAFETY: as the caller promises.
        let room = unsafe { space(buffer, capacity, "buffer")? };
        // SAFETY: as the caller promises.
        let mut out = Some(unsafe { Out::new(info, "info")? });
        handle::with(receiver, |end: &mut ReceivingEnd| {
            let node = end.node.clone();
            wait(&node, timeout_ns, || {
                while let Some(piece) = end.peek()? {
                    let info = rackweave_message_info {
                        length: piece.total,
                        opcode: piece.opcode,
                        message: piece.message,
                    };
                    if piece.total > capacity as u64 {
                        if let Some(out) = out.take() {
                            out.set(info);
                        }
                        let has = piece.total;
                        let detail = format!("a message of {has} bytes; the buffer has {capacity}");
                        return Err(Fault::new(Status::TooLong, detail));
                    }
                    // SAFETY: the piece stays where it is until it is released below.
                    let bytes = unsafe { slice(piece.bytes, piece.length, "piece")? };
                    // The checked offset of a piece is never beyond the message's end.
                    let at = piece.offset as usize;
                    room[at..at + bytes.len()].copy_from_slice(bytes);
                    end.release()?;
                    if piece.last {
                        if let Some(out) = out.take() {
                            out.set(info);
                        }
                        return Ok(Some(()));
                    }
                }
                Ok(None)
            })
        })
    })
}

/// Closes the connection for a reason, a `rackweave_close_reason`, which the peer learns.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_receiver_close(
    receiver: *mut rackweave_receiver,
    reason: u32,
) -> Status {
    handle::on(receiver, |end: &mut ReceivingEnd| {
        let (reason, now) = (crate::channel::reason(reason)?, end.node.now());
        let machine = end.receiver.machine();
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
pub unsafe extern "C" fn rackweave_receiver_closed(
    receiver: *const rackweave_receiver,
    by: *mut u32,
    reason: *mut u32,
) -> Status {
    handle::on(receiver, |end: &mut ReceivingEnd| {
        // SAFETY: as the caller promises.
        unsafe { tell_closed(end.receiver.machine().closed(), by, reason) }
    })
}

/// What a receiver has taken.
///
/// # Safety
/// `counters` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_receiver_get_counters(
    receiver: *const rackweave_receiver,
    counters: *mut rackweave_channel_counters,
) -> Status {
    let count = |end: &mut ReceivingEnd| {
        let counters = end.receiver.counters();
        Ok(rackweave_channel_counters {
            messages: counters.messages,
            bytes: counters.bytes,
            pieces: counters.pieces,
            packages: counters.packages,
            waits: 0,
            pulses: counters.pulses,
        })
    };
    // SAFETY: as the caller promises.
    unsafe { handle::get(receiver, counters, "counters", count) }
}
