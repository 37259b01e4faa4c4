//! Verbs operations and faults on two connected NICs.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::nic_ops(data));
