//! Copies agree with those of slices, and the last word comes last.

use super::*;

/// Whole words, as shared memory is.
type Shared = [u64; 64];

fn bytes(shared: &Shared) -> Vec<u8> {
    shared.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn pattern() -> Shared {
    core::array::from_fn(|at| (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Lengths to test; fewer under Miri, which is slow.
fn lengths() -> Vec<usize> {
    match cfg!(miri) {
        true => vec![3, 24],
        false => (0..80).chain([127, 128, 129, 190, 191, 192, 193]).collect(),
    }
}

fn starts() -> impl Iterator<Item = usize> {
    (0..9).step_by(if cfg!(miri) { 5 } else { 1 })
}

/// Copies of many lengths at every alignment agree with the equivalent slice method.
#[test]
fn copies_agree_with_those_of_slices() {
    for len in lengths() {
        for from in starts() {
            for to in starts().chain([from + 8, from + 16, 200]) {
                for copy in [copy_shared, copy_words] {
                    let mut shared = pattern();
                    let mut expect = bytes(&shared);
                    expect.copy_within(from..from + len, to);
                    let pointer = shared.as_mut_ptr().cast::<u8>();
                    // SAFETY: both ranges are in `shared`, which nothing else accesses.
                    unsafe { copy(pointer.add(from), pointer.add(to), len) };
                    assert_eq!(bytes(&shared), expect, "{len} bytes from {from} to {to}");
                }
                let mut own = [0xee; 512];
                for load in [load_shared, load_words] {
                    let mut expect = own;
                    expect[to..to + len].copy_from_slice(&bytes(&pattern())[from..from + len]);
                    let mut shared = pattern();
                    let source = shared.as_mut_ptr().cast::<u8>().cast_const();
                    // SAFETY: one range is in `shared`, the other in `own`.
                    unsafe { load(source.add(from), own.as_mut_ptr().add(to), len) };
                    assert_eq!(own, expect, "{len} bytes from {from} to {to}");
                }
                let stream = |source: *const u8, target: *mut u8, len| {
                    // SAFETY: as the caller promises.
                    unsafe { stream_shared(core::slice::from_raw_parts(source, len), target) };
                };
                for way in 0..3 {
                    let mut shared = pattern();
                    let mut expect = bytes(&shared);
                    expect[to..to + len].copy_from_slice(&own[from..from + len]);
                    let target = shared.as_mut_ptr().cast::<u8>();
                    // SAFETY: one range is in `shared`, the other in `own`.
                    unsafe {
                        let (source, target) = (own.as_ptr().add(from), target.add(to));
                        match way {
                            0 => store_shared(source, target, len),
                            1 => store_words(source, target, len),
                            _ => stream(source, target, len),
                        }
                    };
                    assert_eq!(bytes(&shared), expect, "{len} bytes from {from} to {to}");
                }
            }
        }
    }
}

/// A thread that finds the last word of a range finds the bytes before it.
#[test]
fn the_last_word_publishes_the_bytes_before_it() {
    const LEN: usize = 104;
    let rounds = if cfg!(miri) { 3 } else { 2000 };
    let shared = [(); 2 * LEN / WORD].map(|()| AtomicU64::new(0));
    let pointer = |at: usize| shared.as_ptr().cast::<u8>().cast_mut().wrapping_add(at);
    let word = |at: usize| &shared[at / WORD];
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=rounds {
                let bytes = [round as u8; LEN];
                // SAFETY: both ranges are in `shared`, which is accessed atomically; the
                // second half belongs to this thread.
                unsafe {
                    if round % 2 == 0 {
                        store_shared(bytes.as_ptr(), pointer(0), LEN);
                    } else {
                        store_shared(bytes.as_ptr(), pointer(LEN), LEN);
                        copy_shared(pointer(LEN), pointer(0), LEN);
                    }
                }
                while done.load(Ordering::Acquire) != round {
                    std::thread::yield_now();
                }
            }
        });
        for round in 1..=rounds {
            let expect = u64::from_ne_bytes([round as u8; WORD]);
            while word(LEN - WORD).load(Ordering::Acquire) != expect {
                std::thread::yield_now();
            }
            for at in (0..LEN).step_by(WORD) {
                assert_eq!(word(at).load(Ordering::Relaxed), expect, "byte {at}");
            }
            done.store(round, Ordering::Release);
        }
    });
}

#[test]
fn fills_reach_exactly_as_far_as_they_should() {
    for len in lengths() {
        for at in starts() {
            let mut shared = pattern();
            let mut expect = bytes(&shared);
            expect[at..at + len].fill(9);
            // SAFETY: within `shared`.
            unsafe { fill_shared(shared.as_mut_ptr().cast::<u8>().add(at), 9, len) };
            assert_eq!(bytes(&shared), expect, "{len} bytes at {at}");
        }
    }
}
