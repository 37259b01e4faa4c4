//! Packets and faults to a switch with pages and sequencers.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::programs(data));
