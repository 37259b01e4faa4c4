//! Copies of memory by one thread.

use serde_json::{Value, json};
use std::hint::black_box;
use std::time::{Duration, Instant};

const SPAN: Duration = Duration::from_millis(300);
/// Buffers begin with a page, as those of racks and of UCX do: some processors copy ten times
/// slower to an address that is a few bytes further in its page than the source.
const PAGE: usize = 4096;

/// Copies `chunk` bytes at a time between two buffers of `buffer` bytes, over and over.
pub fn measure(chunk: usize, buffer: usize) -> Value {
    let chunk = chunk.clamp(1, buffer.max(1));
    let (mut source, mut target) = (vec![1u8; buffer + PAGE], vec![2u8; buffer + PAGE]);
    let source = &*aligned(&mut source, buffer);
    let target = aligned(&mut target, buffer);
    let mut pass = || {
        for (to, from) in target.chunks_mut(chunk).zip(source.chunks(chunk)) {
            to.copy_from_slice(black_box(from));
        }
        black_box(&mut *target);
    };
    // The first pass has the page faults.
    pass();
    let begun = Instant::now();
    let mut passes = 0u64;
    while begun.elapsed() < SPAN {
        // Reading the clock takes as long as a short copy.
        for _ in 0..16 {
            pass();
        }
        passes += 16;
    }
    let bytes = passes as f64 * buffer as f64;
    json!({"gigabytes_per_s": bytes / begun.elapsed().as_secs_f64() / 1e9})
}

/// The part of this length that begins with a page.
fn aligned(memory: &mut [u8], len: usize) -> &mut [u8] {
    let skip = memory.as_ptr().align_offset(PAGE);
    &mut memory[skip..skip + len]
}
