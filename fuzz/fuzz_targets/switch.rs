//! Packets and faults to a switch that runs flows.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::switch(data));
