//! Packets of a peer, of other nodes and of unknown senders to one NIC.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::nic(data));
