//! A stream of control messages, cut anywhere.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::control(data));
