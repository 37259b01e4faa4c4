//! What a single thread of this machine copies: the measure of everything that moves bytes here.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// How long is measured.
const SPAN: Duration = Duration::from_millis(250);

/// Bytes per second that one thread copies from one buffer of `ring_bytes` to another, in pieces of
/// `copy_bytes`.
pub fn bytes_per_second(ring_bytes: usize, copy_bytes: usize) -> f64 {
    let copy_bytes = copy_bytes.clamp(1, ring_bytes.max(1));
    let whole = ring_bytes.max(1) / copy_bytes * copy_bytes;
    let source = vec![1u8; whole];
    let mut target = vec![2u8; whole];
    let start = Instant::now();
    let mut bytes = 0u64;
    while start.elapsed() < SPAN {
        for (to, from) in target.chunks_mut(copy_bytes).zip(source.chunks(copy_bytes)) {
            to.copy_from_slice(black_box(from));
        }
        black_box(&mut target);
        bytes += whole as u64;
    }
    bytes as f64 / start.elapsed().as_secs_f64()
}
