//! Bytes of one packet to the parser.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::parse(data));
