//! Writes of a hostile peer into the memory of a messaging connection, at any time.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::messaging(data));
