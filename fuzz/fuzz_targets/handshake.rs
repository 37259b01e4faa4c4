//! Bytes of a peer, or of another protocol, to both state machines of the messaging handshake.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::handshake(data));
