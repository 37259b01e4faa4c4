//! Fixed pages.

use crate::error::{Fault, call};
use crate::handle::{self, Handled, Kind};
use crate::pointer::{Out, tell};
use crate::status::Status;
use ::rackweave_rack::services::{ReadGuard, WriteGuard};
use core::ops::Deref;
use core::time::Duration;
use rackweave_endpoint::page_store::Mode;
use rackweave_wire::fabric::page::PageId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A fixed page. One thread at a time; it may be another than that of its page store.
pub struct rackweave_page_guard {
    _opaque: (),
}

/// How a page is fixed.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum rackweave_page_mode {
    /// To be read: what was the newest version at some moment of the call.
    Shared = 0,
    /// To be changed: the newest version, which nobody else in the rack changes meanwhile.
    Exclusive = 1,
}

pub(crate) fn mode(mode: u32) -> Result<Mode, Fault> {
    match mode {
        0 => Ok(Mode::Shared),
        1 => Ok(Mode::Exclusive),
        other => Err(Fault::argument(format!("there is no page mode {other}"))),
    }
}

/// The pages that a worker has fixed or is fixing, so that it never waits for itself.
#[derive(Clone, Default)]
pub(crate) struct Fixed(Arc<Mutex<HashMap<PageId, (u32, bool)>>>);

/// An entry of [`Fixed`], removed on drop.
pub(crate) struct Entry {
    fixed: Fixed,
    page: PageId,
}

impl Fixed {
    /// Enters a page, unless a fix of it in this mode would make the worker wait for itself.
    pub fn enter(&self, page: PageId, mode: Mode) -> Result<Entry, Fault> {
        let mut fixed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, exclusive) = fixed.entry(page).or_insert((0, false));
        if *exclusive || (*count > 0 && mode == Mode::Exclusive) {
            let detail = format!(
                "this page store has fixed {page} already, or is fixing it, in a conflicting mode; \
                 destroy that guard first"
            );
            return Err(Fault::new(Status::Conflict, detail));
        }
        *count += 1;
        *exclusive = mode == Mode::Exclusive;
        drop(fixed);
        let fixed = self.clone();
        Ok(Entry { fixed, page })
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut fixed = self.fixed.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((count, _)) = fixed.get_mut(&self.page) {
            *count -= 1;
            if *count == 0 {
                fixed.remove(&self.page);
            }
        }
    }
}

/// A guard and its entry, which are dropped in this order.
pub(crate) struct Guarded {
    pub guard: Guard,
    pub entry: Entry,
}

/// A guard of either kind. It keeps the rack's memory.
pub(crate) enum Guard {
    Read(ReadGuard),
    Write(WriteGuard),
}

impl Deref for Guard {
    type Target = ReadGuard;

    fn deref(&self) -> &ReadGuard {
        match self {
            Self::Read(guard) => guard,
            Self::Write(guard) => guard,
        }
    }
}

impl Handled for Guarded {
    type Opaque = rackweave_page_guard;
    const KIND: Kind = Kind::PageGuard;
}

/// Ends a guard. The page's latch, if it was fixed exclusively, is given back with its change by
/// whichever page store of the node polls, waits or settles next, and nobody hears whether the
/// change was taken: `rackweave_page_guard_commit` says so. Pointers to the page's bytes are of no
/// use from now on. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_page_guard_destroy(guard: *mut rackweave_page_guard) -> Status {
    handle::destroy::<Guarded>(guard)
}

/// The page's number and the version that was fixed. Both may be NULL.
///
/// # Safety
/// `page` and `version` are NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_page_guard_page(
    guard: *const rackweave_page_guard,
    page: *mut u64,
    version: *mut u64,
) -> Status {
    handle::on(guard, |Guarded { guard, .. }: &mut Guarded| {
        // SAFETY: as the caller promises.
        unsafe {
            tell(page, "page", guard.page().number())?;
            tell(version, "version", guard.version())
        }
    })
}

/// The page's bytes, to be read until the guard ends.
///
/// # Safety
/// `data` and `length` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_page_guard_data(
    guard: *const rackweave_page_guard,
    data: *mut *const u8,
    length: *mut usize,
) -> Status {
    call(|| {
        // SAFETY: as the caller promises.
        let (data, length) = unsafe { (Out::new(data, "data")?, Out::new(length, "length")?) };
        handle::with(guard, |guarded: &mut Guarded| {
            let bytes = guarded.guard.data();
            data.set(bytes.as_ptr());
            length.set(bytes.len());
            Ok(())
        })
    })
}

/// The page's bytes, to be changed until the guard ends: the page gets a new version by this call,
/// whether or not something is written.
///
/// REFUSED: the page is fixed shared.
///
/// # Safety
/// `data` and `length` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_page_guard_data_mut(
    guard: *mut rackweave_page_guard,
    data: *mut *mut u8,
    length: *mut usize,
) -> Status {
    call(|| {
        // SAFETY: as the caller promises.
        let (data, length) = unsafe { (Out::new(data, "data")?, Out::new(length, "length")?) };
        handle::with(guard, |guarded: &mut Guarded| {
            let page = guarded.guard.page();
            let Guard::Write(guard) = &mut guarded.guard else {
                let detail = format!("{page} is fixed shared and cannot be changed");
                return Err(Fault::new(Status::Refused, detail));
            };
            let mut bytes = guard.data_mut();
            data.set(bytes.as_mut_ptr());
            length.set(bytes.len());
            Ok(())
        })
    })
}

/// Ends a guard, publishes the change and opens the latch, waiting at most `timeout_ns` nanoseconds
/// for the directory's answer: OK means that nobody sees an older version any more. The guard has
/// ended in every case but a bad argument.
///
/// LOST: the change was not taken, since the latch had been taken away from this node. CLOSED: the
/// same, and this node was declared dead, as for `rackweave_page_store_fix`. REFUSED: the same,
/// since the store was closed to this node. TIMED_OUT: nobody has answered, or the engine's log is
/// behind; the page stays latched, and its page store goes on asking when it is polled.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_page_guard_commit(
    guard: *mut rackweave_page_guard,
    timeout_ns: u64,
) -> Status {
    call(|| {
        let Guarded { guard, entry } = handle::remove::<Guarded>(guard)?;
        let committed = match guard {
            Guard::Read(_) => Ok(()),
            Guard::Write(guard) => guard.commit_within(Duration::from_nanos(timeout_ns)),
        };
        drop(entry);
        Ok(committed?)
    })
}

/// Whether the version that a guard has is still the newest.
///
/// # Safety
/// `newest` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_page_guard_is_newest(
    guard: *const rackweave_page_guard,
    newest: *mut bool,
) -> Status {
    let is_newest = |guarded: &mut Guarded| Ok(guarded.guard.is_newest()?);
    // SAFETY: as the caller promises.
    unsafe { handle::get(guard, newest, "newest", is_newest) }
}
