//! This machine's memcpy, the yardstick for all data movement.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Duration of the measurement, after a warm-up round.
const MEASURE: Duration = Duration::from_millis(200);

/// Bytes per second that one thread copies between two buffers of `buffer` bytes, `chunk` bytes at
/// a time: the best of several rounds.
pub fn bandwidth(buffer: usize, chunk: usize) -> f64 {
    let chunk = chunk.clamp(1, buffer);
    let source = vec![1u8; buffer];
    let mut target = vec![2u8; buffer];
    let mut round = || {
        let started = Instant::now();
        for (to, from) in target.chunks_mut(chunk).zip(source.chunks(chunk)) {
            to.copy_from_slice(black_box(from));
        }
        black_box(&mut target);
        buffer as f64 / started.elapsed().as_secs_f64()
    };
    round();
    let started = Instant::now();
    let mut best = 0.0f64;
    while started.elapsed() < MEASURE {
        best = best.max(round());
    }
    best
}
