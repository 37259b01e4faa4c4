//! What a program and its peer do with the connection manager.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::connections(data));
