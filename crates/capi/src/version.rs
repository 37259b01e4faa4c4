//! Versions of the header, and of the loaded library.

use core::ffi::c_char;

/// The version of this header: a program that was built against another major version, or while
/// that is 0 against another minor one, is to be built anew.
pub const RACKWEAVE_VERSION_MAJOR: u32 = 0;
/// The minor version.
pub const RACKWEAVE_VERSION_MINOR: u32 = 1;
/// The patch.
pub const RACKWEAVE_VERSION_PATCH: u32 = 0;

/// The version of the library that is loaded, as "major.minor.patch". Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

// The header is generated from the numbers above; they must equal the package's version.
const _: () = {
    const fn is(text: &str, number: u32) -> bool {
        let bytes = text.as_bytes();
        let (mut at, mut value) = (0, 0);
        while at < bytes.len() {
            value = value * 10 + (bytes[at] - b'0') as u32;
            at += 1;
        }
        value == number
    }
    assert!(is(env!("CARGO_PKG_VERSION_MAJOR"), RACKWEAVE_VERSION_MAJOR));
    assert!(is(env!("CARGO_PKG_VERSION_MINOR"), RACKWEAVE_VERSION_MINOR));
    assert!(is(env!("CARGO_PKG_VERSION_PATCH"), RACKWEAVE_VERSION_PATCH));
};
