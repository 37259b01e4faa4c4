//! Capsules into an NVMe-oF target, from hosts that say anything.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rackweave_fuzz_harness::nvme(data));
