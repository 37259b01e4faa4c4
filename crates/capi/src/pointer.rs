//! Pointers given by a caller: checked as far as possible, then used once.

use crate::error::{Fault, call};
use crate::status::Status;
use core::ffi::{CStr, c_char};
use core::ptr::NonNull;

fn null(name: &str) -> Fault {
    Fault::new(
        Status::NullPointer,
        format!("{name} is NULL or not aligned"),
    )
}

/// The destination of a result.
pub(crate) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// Checks the pointer for a result before any work is done.
    ///
    /// # Safety
    /// If it is neither NULL nor misaligned, a `T` may be written there until this is used.
    pub unsafe fn new(pointer: *mut T, name: &str) -> Result<Self, Fault> {
        let pointer = NonNull::new(pointer).filter(|pointer| pointer.is_aligned());
        pointer.map(Self).ok_or_else(|| null(name))
    }

    /// Writes the result.
    pub fn set(self, value: T) {
        // SAFETY: guaranteed to `new`; the previous content need not be a valid `T`, and is not
        // dropped.
        unsafe { self.0.write(value) };
    }
}

/// A call that writes to `out` the result of `act`.
///
/// # Safety
/// As for [`Out::new`].
pub(crate) unsafe fn give<T>(
    out: *mut T,
    name: &str,
    act: impl FnOnce() -> Result<T, Fault>,
) -> Status {
    call(|| {
        // SAFETY: as the caller promises.
        let out = unsafe { Out::new(out, name)? };
        out.set(act()?);
        Ok(())
    })
}

/// Writes an optional result: the pointer may be NULL.
///
/// # Safety
/// As for [`Out::new`].
pub(crate) unsafe fn tell<T>(pointer: *mut T, name: &str, value: T) -> Result<(), Fault> {
    if !pointer.is_null() {
        // SAFETY: as the caller promises.
        unsafe { Out::new(pointer, name)?.set(value) };
    }
    Ok(())
}

/// Reads the value at a pointer.
///
/// # Safety
/// If it is neither NULL nor misaligned, it points to a `T` that does not change during the call.
pub(crate) unsafe fn read<T: Copy>(pointer: *const T, name: &str) -> Result<T, Fault> {
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(null(name));
    }
    // SAFETY: neither NULL nor misaligned, so as guaranteed by the caller.
    Ok(unsafe { pointer.read() })
}

fn check<T>(pointer: *const T, count: usize, name: &str) -> Result<bool, Fault> {
    if count == 0 {
        return Ok(false);
    }
    if pointer.is_null() || !pointer.is_aligned() {
        return Err(null(name));
    }
    if count > isize::MAX as usize / size_of::<T>() {
        let detail = format!("{name}: {count} are more than any memory has");
        return Err(Fault::argument(detail));
    }
    Ok(true)
}

/// The values at a pointer, which may be NULL if there are none.
///
/// # Safety
/// If it is neither NULL nor misaligned, it points to `count` values that do not change for the
/// lifetime, which must not exceed the call.
pub(crate) unsafe fn slice<'a, T: Copy>(
    pointer: *const T,
    count: usize,
    name: &str,
) -> Result<&'a [T], Fault> {
    if !check(pointer, count, name)? {
        return Ok(&[]);
    }
    // SAFETY: checked, and the rest as guaranteed by the caller.
    Ok(unsafe { core::slice::from_raw_parts(pointer, count) })
}

/// Bytes to be written. The pointer may be NULL if there are none.
///
/// # Safety
/// If it is not NULL, it points to `count` bytes that only the callee accesses for the lifetime,
/// which must not exceed the call.
pub(crate) unsafe fn space<'a>(
    pointer: *mut u8,
    count: usize,
    name: &str,
) -> Result<&'a mut [u8], Fault> {
    if !check(pointer, count, name)? {
        return Ok(&mut []);
    }
    // SAFETY: checked, and the rest as guaranteed by the caller. Every byte is a valid `u8`,
    // written or not: the callees only write.
    Ok(unsafe { core::slice::from_raw_parts_mut(pointer, count) })
}

/// Options; the defaults if the pointer is NULL.
///
/// # Safety
/// As for [`read`].
pub(crate) unsafe fn options<T: Copy>(pointer: *const T, usual: T) -> Result<T, Fault> {
    match pointer.is_null() {
        true => Ok(usual),
        // SAFETY: as the caller promises.
        false => unsafe { read(pointer, "options") },
    }
}

/// A text that ends with a zero byte.
///
/// # Safety
/// If it is not NULL, it points to such a text, which does not change for the lifetime, which must
/// not exceed the call.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Fault> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: not NULL, so as guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|error| {
        let at = error.valid_up_to();
        Fault::argument(format!("{name} is not UTF-8 from byte {at} on"))
    })
}

/// As [`text`]; `None` if it is NULL.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn optional_text<'a>(
    pointer: *const c_char,
    name: &str,
) -> Result<Option<&'a str>, Fault> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: as guaranteed by the caller.
    unsafe { text(pointer, name) }.map(Some)
}
