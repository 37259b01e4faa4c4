//! A link in shared memory to a hostile process, and the handover of its descriptors.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::shared_memory(data));
