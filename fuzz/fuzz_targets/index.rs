//! Queries to a switch that leads them through a B+tree, including forged and altered ones.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::index(data));
