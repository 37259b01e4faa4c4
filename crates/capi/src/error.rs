//! Errors of calls: the status, and the text that is kept for the caller.

use crate::status::Status;
use core::cell::RefCell;
use core::ffi::c_char;
use core::fmt::Display;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a call failed.
#[derive(Debug)]
pub(crate) struct Fault {
    pub status: Status,
    pub detail: String,
}

impl Fault {
    pub fn new(status: Status, detail: impl Display) -> Self {
        Self {
            status,
            detail: detail.to_string(),
        }
    }

    /// A fault without a text, for statuses that are returned in polling loops.
    pub const fn quiet(status: Status) -> Self {
        Self {
            status,
            detail: String::new(),
        }
    }

    pub fn argument(detail: impl Display) -> Self {
        Self::new(Status::BadArgument, detail)
    }

    /// PENDING unless `is_ready`.
    pub const fn unless(is_ready: bool) -> Result<(), Self> {
        match is_ready {
            true => Ok(()),
            false => Err(Self::quiet(Status::Pending)),
        }
    }
}

thread_local! {
    static DETAIL: RefCell<CString> = RefCell::new(CString::default());
}

/// Keeps a text for [`rackweave_error_detail`].
pub(crate) fn keep(detail: &str) {
    // Texts of this crate have no zero byte; one with parts of a user's text might.
    let text = CString::new(detail.replace('\0', "?")).unwrap_or_default();
    // In a thread that is ending, the thread-local is already destroyed.
    let _ended = DETAIL.try_with(|kept| kept.replace(text));
}

/// The boundary: turns an error or a panic of `act` into a status and a text.
pub(crate) fn call(act: impl FnOnce() -> Result<(), Fault>) -> Status {
    match catch_unwind(AssertUnwindSafe(act)) {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(fault)) => {
            if !fault.detail.is_empty() {
                keep(&fault.detail);
            }
            fault.status
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            keep(text.unwrap_or("a panic without a text"));
            // Dropping the panic payload could panic again.
            core::mem::forget(panic);
            Status::Internal
        }
    }
}

/// What was wrong with the last call of this thread that did not end with OK, in English: what,
/// where, and what to do about it. PENDING, END and those like them leave no text.
///
/// The text is the library's, and stays until the next call of this thread fails. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_error_detail() -> *const c_char {
    let kept = DETAIL.try_with(|kept| kept.borrow().as_ptr());
    kept.unwrap_or(c"".as_ptr())
}

/// The text that is kept for this thread.
pub(crate) fn kept() -> CString {
    DETAIL
        .try_with(|kept| kept.borrow().clone())
        .unwrap_or_default()
}
