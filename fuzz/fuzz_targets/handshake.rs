//! Bytes of a peer, or of a stranger, to both machines of the messaging handshake.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::handshake(data));
