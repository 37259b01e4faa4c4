//! The text of the last failure, copied into a buffer of the caller's.

use crate::error::{Fault, kept};
use crate::pointer::{space, tell};
use crate::status::Status;
use core::ffi::c_char;
use std::panic::catch_unwind;

/// Copies that text into `buffer`, with a zero byte behind it, and its bytes without the zero byte
/// into `length`, which may be NULL. With `capacity` 0, `buffer` may be NULL.
///
/// TOO_LONG: the buffer has less than `length + 1` bytes; it has been given what fits.
///
/// # Safety
/// `buffer` has `capacity` bytes that may be written; `length` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_error_detail_copy(
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Status {
    // A fault of this call must not replace the requested text.
    let text = kept();
    let copied = catch_unwind(|| {
        // SAFETY: as the caller promises.
        unsafe { copy_text(text.as_bytes(), buffer, capacity, length) }
    });
    match copied {
        Ok(Ok(())) => Status::Ok,
        Ok(Err(fault)) => fault.status,
        Err(_) => Status::Internal,
    }
}

/// Copies a text into a buffer of the caller, with the semantics of
/// [`rackweave_error_detail_copy`].
///
/// # Safety
/// As for [`rackweave_error_detail_copy`].
pub(crate) unsafe fn copy_text(
    text: &[u8],
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> Result<(), Fault> {
    // SAFETY: the caller guarantees that the buffer has `capacity` bytes.
    let room = unsafe { space(buffer.cast::<u8>(), capacity, "buffer")? };
    // SAFETY: the caller guarantees that it may be written.
    unsafe { tell(length, "length", text.len())? };
    if let Some((last, room)) = room.split_last_mut() {
        let fitting = text.len().min(room.len());
        room[..fitting].copy_from_slice(&text[..fitting]);
        room[fitting..].fill(0);
        *last = 0;
    }
    if text.len() < capacity {
        return Ok(());
    }
    let needs = text.len() + 1;
    Err(Fault::new(
        Status::TooLong,
        format!("the buffer has {capacity} bytes, the text takes {needs}"),
    ))
}
