//! The engine that submits requests to the kernel through io_uring.
//!
//! A request enters the ring when it is submitted and reaches the kernel when the engine is next
//! polled, so that several share a system call. Buffers and file are not registered: the transfer
//! buffers are many and belong to the target. A rack may be driven by changing threads, and the
//! kernel cancels the requests of a thread that ends; such requests are submitted again.

use super::requests::{ZEROES, error, filled, given, has_no_holes, is_passing, range};
use crate::{Io, IoDone, IoError, IoKind};
use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// The ring and its requests.
pub(super) struct Uring {
    ring: IoUring,
    file: File,
    block_size: u32,
    /// Requests in flight, by the number that the kernel returns.
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    /// Entries in the ring not yet submitted to the kernel.
    unsubmitted: u32,
}

/// A request in flight. It holds the buffer's memory block, so that the memory stays while the
/// kernel has its address.
#[derive(Debug)]
struct Flight {
    io: Io,
    /// Bytes completed.
    done: usize,
    /// Whether zeroes are written because a hole cannot be punched.
    no_hole: bool,
}

impl core::fmt::Debug for Uring {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let under_way = self.flights.len() - self.free.len();
        write!(f, "Uring({:?}, {under_way} under way)", self.file)
    }
}

impl Uring {
    /// Creates a ring for `file`, which is returned if the system cannot provide one.
    pub(super) fn start(
        file: File,
        block_size: u32,
        depth: u32,
    ) -> Result<Self, (File, io::Error)> {
        match ring(depth) {
            Ok(ring) => Ok(Self {
                ring,
                file,
                block_size,
                flights: (0..depth).map(|_| None).collect(),
                free: (0..depth).rev().collect(),
                unsubmitted: 0,
            }),
            Err(error) => Err((file, error)),
        }
    }

    pub(super) fn submit(&mut self, io: Io) -> Result<(), Io> {
        let Some(number) = self.free.pop() else {
            return Err(io);
        };
        self.flights[number as usize] = Some(Flight {
            io,
            done: 0,
            no_hole: false,
        });
        self.push(number);
        Ok(())
    }

    pub(super) fn is_busy(&self) -> bool {
        self.free.len() < self.flights.len()
    }

    pub(super) fn poll(&mut self, done: &mut Vec<IoDone>) {
        if !self.is_busy() {
            return;
        }
        self.tell();
        self.reap(done);
    }

    /// Submits the entries in the ring to the kernel. If it is too busy, the next poll retries.
    fn tell(&mut self) {
        if self.unsubmitted > 0
            && let Ok(reported) = self.ring.submit()
        {
            self.unsubmitted = self.unsubmitted.saturating_sub(reported as u32);
        }
    }

    fn reap(&mut self, done: &mut Vec<IoDone>) {
        while let Some(entry) = self.next() {
            let number = entry.user_data() as u32;
            let Some(result) = self.landed(number, entry.result()) else {
                self.push(number);
                continue;
            };
            let flight = self.flights[number as usize].take();
            let flight = flight.expect("a completion is of something under way");
            self.free.push(number);
            done.push(IoDone {
                tag: flight.io.tag,
                result,
            });
        }
    }

    fn next(&mut self) -> Option<cqueue::Entry> {
        self.ring.completion().next()
    }

    /// Handles the completion of a request with this result. Returns its outcome, or nothing if
    /// more has to be done.
    fn landed(&mut self, number: u32, result: i32) -> Option<Result<(), IoError>> {
        let flight = self.flights[number as usize].as_mut();
        let flight = flight.expect("a completion is of something under way");
        let (offset, len) = range(&flight.io, self.block_size);
        if result < 0 {
            let errno = Errno::from_raw_os_error(-result);
            if is_passing(errno) {
                return None;
            }
            let hole = flight.io.kind == IoKind::WriteZeroes && !flight.no_hole;
            if hole && has_no_holes(errno) {
                flight.no_hole = true;
                return None;
            }
            return Some(Err(error(errno)));
        }
        let moves_data = matches!(flight.io.kind, IoKind::Read | IoKind::Write);
        if moves_data && flight.io.buffer.is_none() {
            return Some(Err(IoError::Other));
        }
        let moved = result as usize;
        match flight.io.kind {
            IoKind::Flush => Some(Ok(())),
            IoKind::WriteZeroes if !flight.no_hole => Some(Ok(())),
            IoKind::Write | IoKind::WriteZeroes if moved == 0 => Some(Err(IoError::Other)),
            IoKind::Read if moved == 0 || is_end(&self.file, offset, flight.done + moved, len) => {
                // Past the end of the file there are zeroes.
                let at = flight.done + moved;
                if let Some(place) = &flight.io.buffer
                    && at < len
                {
                    filled(place, len).slice(at..).fill(0);
                }
                Some(Ok(()))
            }
            _ => {
                flight.done += moved;
                (flight.done >= len).then_some(Ok(()))
            }
        }
    }

    /// Puts the rest of a request into the ring.
    fn push(&mut self, number: u32) {
        let flight = self.flights[number as usize].as_ref();
        let flight = flight.expect("what is pushed is under way");
        let fd = types::Fd(self.file.as_raw_fd());
        let entry = entry(fd, flight, self.block_size).user_data(number.into());
        // SAFETY: the entry's buffer is in the block that the flight holds, or is static, and the
        // flight stays until the kernel has completed the entry (`landed`, `drop`). Meanwhile no
        // other thread accesses these bytes: the NIC does so only before or after.
        while unsafe { self.ring.submission().push(&entry) }.is_err() {
            // There are as many entries as flights, but the kernel may not have consumed some.
            self.tell();
        }
        self.unsubmitted += 1;
    }
}

impl Drop for Uring {
    /// Waits for requests in flight: the kernel must not write into memory that is reused.
    fn drop(&mut self) {
        let mut done = Vec::new();
        while self.is_busy() {
            let _interrupted = self.ring.submit_and_wait(1);
            self.reap(&mut done);
        }
    }
}

/// A ring, if the system supports all required operations.
fn ring(depth: u32) -> io::Result<IoUring> {
    let ring = IoUring::new(depth.next_power_of_two())?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let needed = [
        opcode::Read::CODE,
        opcode::Write::CODE,
        opcode::Fsync::CODE,
        opcode::Fallocate::CODE,
    ];
    if needed.iter().all(|code| probe.is_supported(*code)) {
        Ok(ring)
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Whether a read that returned `done` of `len` bytes at `offset` reached the end of the file.
fn is_end(file: &File, offset: u64, done: usize, len: usize) -> bool {
    done < len
        && rustix::fs::fstat(file)
            .is_ok_and(|stat| stat.st_size > 0 && offset + done as u64 >= stat.st_size as u64)
}

/// The kernel operation for the part of a request that is not done.
fn entry(fd: types::Fd, flight: &Flight, block_size: u32) -> squeue::Entry {
    let (offset, len) = range(&flight.io, block_size);
    let at = offset + flight.done as u64;
    let left = len - flight.done;
    match (flight.io.kind, &flight.io.buffer) {
        (IoKind::Read, Some(place)) => {
            let pointer = filled(place, len).slice(flight.done..).as_mut_ptr();
            let read = opcode::Read::new(fd, pointer, left as u32);
            read.offset(at).build()
        }
        (IoKind::Write, Some(place)) => {
            let pointer = given(place, len).slice(flight.done..).as_ptr();
            let write = opcode::Write::new(fd, pointer, left as u32);
            write.offset(at).build()
        }
        (IoKind::WriteZeroes, _) if flight.no_hole => {
            let count = left.min(ZEROES.0.len());
            let write = opcode::Write::new(fd, ZEROES.0.as_ptr(), count as u32);
            write.offset(at).build()
        }
        (IoKind::WriteZeroes, _) => {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let punch = opcode::Fallocate::new(fd, len as u64);
            punch.offset(offset).mode(hole.bits() as i32).build()
        }
        (IoKind::Flush, _) => {
            let sync = opcode::Fsync::new(fd);
            sync.flags(types::FsyncFlags::DATASYNC).build()
        }
        // The trait requires a buffer; a request without one does nothing, and that is reported.
        (IoKind::Read | IoKind::Write, None) => opcode::Nop::new().build(),
    }
}
