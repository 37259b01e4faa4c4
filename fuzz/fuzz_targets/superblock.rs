//! Page 0 of a page store, and the header of any page.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::superblock(data));
