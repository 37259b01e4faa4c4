//! The ring of received packets that a packet socket shares with the system (`packet(7)`,
//! PACKET_RX_RING). Looking for a packet is a load from memory, and the system copies a packet
//! once, to where its receiver reads it.
//!
//! The format is TPACKET_V2, whose frames arrive one by one. TPACKET_V3 hands over blocks of
//! frames: when a block is full, or else after a millisecond or more, which is longer than a whole
//! READ takes.

use super::system;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, Ordering};
use libc::{tpacket_req, tpacket2_hdr};
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::os::fd::BorrowedFd;

/// Bytes of a ring.
const RING_BYTES: usize = 4 << 20;

/// Bytes that the system allocates in one piece; a multiple of every size of a page.
const BLOCK_BYTES: usize = 64 << 10;

/// Maximum bytes of a frame before the Ethernet payload: its header, a link-layer address, and an
/// Ethernet header, each aligned to 16 bytes.
const AROUND: usize = 96;

/// A ring. It is mapped until it is dropped.
#[derive(Debug)]
pub(super) struct Ring {
    start: NonNull<u8>,
    frame_bytes: usize,
    /// Number of frames, a power of two.
    frames: usize,
    /// The frame that the system fills next, or has filled.
    next: usize,
}

// SAFETY: the mapping belongs to the ring alone, and no thread is special to it.
unsafe impl Send for Ring {}

impl Ring {
    /// The ring of `socket` for packets with an Ethernet payload of at most `mtu` bytes. Longer
    /// ones arrive truncated to a length that is still more than that.
    pub(super) fn new(socket: BorrowedFd<'_>, mtu: usize) -> io::Result<Self> {
        let frame_bytes = (AROUND + mtu).next_power_of_two();
        let block_bytes = BLOCK_BYTES.max(frame_bytes);
        let request = tpacket_req {
            tp_block_size: block_bytes as u32,
            tp_block_nr: (RING_BYTES / block_bytes) as u32,
            tp_frame_size: frame_bytes as u32,
            tp_frame_nr: (RING_BYTES / frame_bytes) as u32,
        };
        system::set_ring(socket, &request)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the system chooses an address where nothing is mapped yet.
        let start = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                RING_BYTES,
                access,
                MapFlags::SHARED,
                socket,
                0,
            )
        }?;
        Ok(Self {
            start: NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?,
            frame_bytes,
            frames: RING_BYTES / frame_bytes,
            next: 0,
        })
    }

    /// Passes the next packet that has arrived to `take`: its bytes from the Ethernet header on, as
    /// many as a frame has space for. `None` if none has arrived.
    pub(super) fn take<R>(&mut self, take: impl FnOnce(&[u8]) -> R) -> Option<R> {
        // SAFETY: the frame lies in the mapping, because `next < frames`.
        let frame = unsafe { self.start.add(self.next * self.frame_bytes) };
        // SAFETY: a frame starts with its state, aligned to 16 bytes, which the system and this
        // process access atomically.
        let state = unsafe { AtomicU32::from_ptr(frame.cast().as_ptr()) };
        if state.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let header = frame.cast::<tpacket2_hdr>();
        // SAFETY: the frame is this process's until its state says otherwise; the system writes
        // nothing in it, and what it has written is visible.
        let (at, len) = unsafe {
            let header = header.as_ref();
            (usize::from(header.tp_mac), header.tp_snaplen as usize)
        };
        assert!(at + len <= self.frame_bytes, "a packet is in its frame");
        // SAFETY: as above, and the bytes are in the frame.
        let bytes = unsafe { core::slice::from_raw_parts(frame.as_ptr().add(at), len) };
        let taken = take(bytes);
        state.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) & (self.frames - 1);
        Some(taken)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and nothing refers to it any more.
        let _unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), RING_BYTES) };
    }
}
