//! Messages above the transport, and requests to an index server.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::rpc(data));
