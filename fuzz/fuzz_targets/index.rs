//! Queries to a switch that leads them through a B+tree, forged and altered ones too.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::index(data));
