//! Arbitrary capsules to an NVMe-oF target.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::nvme(data));
