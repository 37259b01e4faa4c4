//! What this machine can do without a rack: the limits that systems are compared with.

use crate::measure::{MediumQueue, memcpy_bandwidth};
use crate::outcome::CliError;
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering};
use rackweave_base::Rng;
use rackweave_target::{Backend, IoKind};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Duration of a measurement, if nothing else ends it.
const MEASURE: Duration = Duration::from_millis(300);

/// Bytes of both buffers of memcpy: far more than caches hold.
const BUFFER: usize = 64 << 20;

/// Bytes that a store's medium is measured with.
const TRIED_BYTES: u64 = 64 << 20;

/// Additions, and messages, between two readings of the clock.
const PER_LOOK: u64 = 1024;

/// Capacity of a channel in messages.
const CHANNEL: usize = 4096;

/// Gigabytes per second of one thread's memcpy, `chunk` bytes at a time.
pub fn memcpy_gigabytes(chunk: usize) -> f64 {
    memcpy_bandwidth(BUFFER, chunk) / 1e9
}

/// Messages or pages of this many bytes that one thread copies per second.
pub fn copied(bytes: usize) -> f64 {
    memcpy_bandwidth(BUFFER, bytes) / bytes as f64
}

/// Additions per second by this many threads to one word.
pub fn fetch_add(threads: usize) -> f64 {
    let word = AtomicU64::new(0);
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while started.elapsed() < MEASURE {
                    for _ in 0..PER_LOOK {
                        black_box(word.fetch_add(1, Ordering::Relaxed));
                    }
                }
            });
        }
    });
    word.into_inner() as f64 / started.elapsed().as_secs_f64()
}

/// Messages of `N` bytes per second from one thread to another through a channel of the standard
/// library; the receiver compares each with what was sent. None if they differ.
pub fn channel<const N: usize>(bytes: &[u8]) -> Option<f64> {
    let messages = bytes.as_chunks::<N>().0;
    let (sender, receiver) = mpsc::sync_channel::<[u8; N]>(CHANNEL);
    let started = Instant::now();
    let (count, sound) = std::thread::scope(|scope| {
        let receiving = scope.spawn(move || {
            let (mut count, mut sound) = (0u64, true);
            for message in receiver {
                sound &= message == messages[count as usize % messages.len()];
                count += 1;
            }
            (count, sound)
        });
        let mut number = 0u64;
        while started.elapsed() < MEASURE {
            for _ in 0..PER_LOOK {
                let message = messages[number as usize % messages.len()];
                // The receiver exits only when there are no more senders.
                let _taken = sender.send(message);
                number += 1;
            }
        }
        drop(sender);
        receiving.join().unwrap_or((0, false))
    });
    sound.then(|| count as f64 / started.elapsed().as_secs_f64())
}

/// The rates of a store's medium alone.
#[derive(Clone, Copy, Debug)]
pub struct MediumRates {
    /// Pages per second.
    pub reads: f64,
    /// Pages per second.
    pub writes: f64,
}

/// Writes pages from the beginning of a medium on and reads them in random order, with this many in
/// flight, each for a limited time. The written pages are zero: earlier content is lost.
///
/// # Errors
/// If the medium fails, or memory for the pages is not available.
pub fn medium(
    backend: &mut dyn Backend,
    page_size: u32,
    depth: usize,
    seed: u64,
) -> Result<MediumRates, CliError> {
    let pages = backend.blocks() * u64::from(backend.block_size()) / u64::from(page_size);
    let pages = pages.min(TRIED_BYTES / u64::from(page_size)).max(1);
    let mut rng = Rng::new(seed).fork("medium");
    let mut trial = MediumQueue::new(backend, page_size, depth)?;
    let mut bytes = vec![0; trial.buffers.len()];
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&rng.next_u64().to_le_bytes());
    }
    trial.buffers.write(0, &bytes);
    // Each page is written once, so that no read finds a hole.
    let (started, mut written) = (Instant::now(), 0);
    let writes = trial.run(IoKind::Write, |number| {
        written = number;
        let goes_on = number == 0 || started.elapsed() < MEASURE;
        (number < pages && goes_on).then_some(number)
    })?;
    let started = Instant::now();
    let reads = trial.run(IoKind::Read, |number| {
        let goes_on = number == 0 || started.elapsed() < MEASURE;
        goes_on.then(|| rng.below(written))
    })?;
    trial.run(IoKind::WriteZeroes, |number| {
        (number < written).then_some(number)
    })?;
    Ok(MediumRates { reads, writes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_target::MemoryBackend;

    #[test]
    fn yardsticks_measure_something() {
        assert!(fetch_add(2) > 0.0);
        let bytes: Vec<u8> = (0..6400).map(|at| at as u8).collect();
        assert!(channel::<64>(&bytes).is_some_and(|rate| rate > 0.0));
        let mut backend = MemoryBackend::new(4096, 64);
        let rates = medium(&mut backend, 16 << 10, 4, 1).expect("memory does not fail");
        assert!(rates.reads > 0.0 && rates.writes > 0.0, "{rates:?}");
        assert_eq!(backend.bytes(63), vec![0; 4096], "nothing is left");
    }
}
