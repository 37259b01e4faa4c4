//! A B+tree whose memory has been overwritten, to its remote readers and its owner.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::tree_node(data));
