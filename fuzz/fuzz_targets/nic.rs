//! Packets of a peer, of strangers and with unknown senders to one NIC.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::nic(data));
