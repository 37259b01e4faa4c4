//! Packets of a peer, of strangers and of nobody to one NIC.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::nic(data));
