//! Anonymous files that several processes of a host map: creating, sealing and opening them.
//!
//! A segment is sealed against shrinking and growing before any other process sees it, and a
//! descriptor without these seals is refused: a mapping of sealed length can never fault because
//! the file became shorter. When the last process that has it ends, for whatever reason, the memory
//! is freed.

use super::copy;
use core::ptr::{self, NonNull};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::os::fd::{AsFd, OwnedFd};

/// The seals that every segment has.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// The accesses that a mapping allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Loads only.
    Read,
    /// Loads and stores.
    ReadWrite,
}

/// Why a descriptor was not mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Its length may still change, or it is not a memory segment at all.
    #[error("it is no sealed memory segment")]
    NotSealed,
    /// The segment is empty, or longer than the processor can address.
    #[error("its length of {0} bytes cannot be mapped")]
    Length(u64),
    /// The system refused.
    #[error("the system refused it: {0}")]
    System(Errno),
}

/// A segment in the memory of this process; unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    pointer: NonNull<u8>,
    len: usize,
    access: Access,
}

// SAFETY: a mapping belongs to the process, not to a thread; the code that turns the pointer into
// accesses is responsible for them.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Creates a segment of `len` zero bytes, mapped for writing. `name` shows in `/proc/PID/maps`.
/// `others` is the access of processes that receive the descriptor.
///
/// # Errors
/// If the system refuses; `len` of zero is an invalid argument to it.
pub fn create(name: &str, len: usize, others: Access) -> Result<(OwnedFd, Mapping), Errno> {
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    rustix::fs::ftruncate(&fd, len as u64)?;
    let mapping = Mapping::new(&fd, len, Access::ReadWrite)?;
    let seals = match others {
        // Existing mappings stay writable, including the one just made.
        Access::Read => SEALS | SealFlags::FUTURE_WRITE,
        Access::ReadWrite => SEALS,
    };
    rustix::fs::fcntl_add_seals(&fd, seals | SealFlags::SEAL)?;
    Ok((fd, mapping))
}

/// Maps the whole segment behind `fd`, which may come from any process.
///
/// # Errors
/// If it is not sealed, or the system refuses.
pub fn open(fd: impl AsFd, access: Access) -> Result<Mapping, OpenError> {
    // Files other than anonymous ones have no seals: the query itself fails for them.
    let seals = rustix::fs::fcntl_get_seals(&fd).map_err(|_| OpenError::NotSealed)?;
    if !seals.contains(SEALS) {
        return Err(OpenError::NotSealed);
    }
    let stat = rustix::fs::fstat(&fd).map_err(OpenError::System)?;
    let len = u64::try_from(stat.st_size).unwrap_or(0);
    let fits = usize::try_from(len).ok().filter(|len| *len > 0);
    let mappable = fits.ok_or(OpenError::Length(len))?;
    Mapping::new(&fd, mappable, access).map_err(OpenError::System)
}

/// Requests huge pages for `len` bytes from `pointer` on, both multiples of a page. A system
/// without them uses small ones.
///
/// # Safety
/// The range must be mapped.
pub(super) unsafe fn advise_huge(pointer: *mut u8, len: usize) {
    // SAFETY: mapped, by contract, and the advice changes no byte.
    let _small_pages = unsafe { rustix::mm::madvise(pointer.cast(), len, Advice::LinuxHugepage) };
}

impl Mapping {
    /// Maps `len` bytes of `fd`.
    fn new(fd: impl AsFd, len: usize, access: Access) -> Result<Self, Errno> {
        let protection = match access {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        let flags = MapFlags::SHARED | MapFlags::NORESERVE;
        // SAFETY: the system chooses an address where nothing is mapped yet.
        let pointer = unsafe { rustix::mm::mmap(ptr::null_mut(), len, protection, flags, fd, 0) }?;
        let pointer = NonNull::new(pointer.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self {
            pointer,
            len,
            access,
        })
    }

    /// The start of the mapping, which is the start of a page.
    pub fn pointer(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    /// Its length in bytes, never zero.
    #[expect(clippy::len_without_is_empty, reason = "a mapping is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Copies the bytes from `at` on, which other processes may write meanwhile.
    ///
    /// # Panics
    /// If they are not all in the mapping.
    #[inline]
    pub fn read(&self, at: usize, target: &mut [u8]) {
        let source = self.range(at, target.len());
        // SAFETY: checked above, and only the caller has access to `target`.
        unsafe { copy::load_shared(source, target.as_mut_ptr(), target.len()) };
    }

    /// Sets the bytes from `at` on, which other processes may read or write meanwhile. A word that
    /// is only partly in the range is loaded and stored whole.
    ///
    /// # Panics
    /// If they are not all in the mapping, or it was mapped for loads only.
    #[inline]
    pub fn write(&self, at: usize, source: &[u8]) {
        assert!(self.access == Access::ReadWrite, "it is mapped for loads");
        let target = self.range(at, source.len());
        // SAFETY: checked above, and `source` is borrowed.
        unsafe { copy::store_shared(source.as_ptr(), target, source.len()) };
    }

    #[inline]
    fn range(&self, at: usize, len: usize) -> *mut u8 {
        assert!(
            at <= self.len && len <= self.len - at,
            "outside of the mapping"
        );
        // SAFETY: within the mapping. It consists of whole pages, and so of whole words.
        unsafe { self.pointer().add(at) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was mapped by `new`, and all users of its bytes hold the mapping.
        let _never_fails = unsafe { rustix::mm::munmap(self.pointer.as_ptr().cast(), self.len) };
    }
}
