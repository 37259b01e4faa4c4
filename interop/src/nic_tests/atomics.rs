//! Atomics: the returned value, the stored value, and wrap-around.

use super::Bench;
use super::connection::{Action, Connection, SOURCE, Setup, Side, TARGET};
use crate::failure::{FailureContext, Outcome, expect_eq};

/// Executes a fetch-and-add or compare-and-swap on the word at [`TARGET`]; returns its former
/// value.
pub fn one(connection: &mut Connection<'_>, side: Side, action: Action) -> Outcome<u64> {
    let remote = connection.remote(side, TARGET);
    connection.post(side, action, SOURCE, 8, remote)?;
    connection.poll_success(side)?;
    connection.load(side, SOURCE)
}

/// Sums, with wrap-around.
pub fn fetch_and_add(bench: &mut Bench<'_>, side: Side) -> Outcome {
    let mut connection = bench.connect(&Setup::default())?;
    let mut word = 0x0123_4567_89ab_cdef;
    connection.store(side.other(), TARGET, word)?;
    for add in [1, 0, 0xffff_ffff, 1 << 63, u64::MAX, 0xfedc_ba98_7654_3211] {
        let before =
            one(&mut connection, side, Action::FetchAdd(add)).at(format!("adding {add:#x}"))?;
        expect_eq("the word before", before, word)?;
        word = word.wrapping_add(add);
        let after = connection.load(side.other(), TARGET)?;
        expect_eq("the word after", after, word)?;
    }
    Ok(())
}

/// Swaps that find the expected value, and swaps that do not.
pub fn compare_and_swap(bench: &mut Bench<'_>, side: Side) -> Outcome {
    let mut connection = bench.connect(&Setup::default())?;
    let mut word = 0x8877_6655_4433_2211;
    connection.store(side.other(), TARGET, word)?;
    let attempts = [
        (word, 7),
        (word, 8),
        (7, u64::MAX),
        (u64::MAX - 1, 0),
        (u64::MAX, 0),
        (0, 0x1122_3344_5566_7788),
    ];
    for (compare, swap) in attempts {
        let action = Action::CompareSwap(compare, swap);
        let place = format!("{swap:#x} for {compare:#x}");
        let before = one(&mut connection, side, action).at(&place)?;
        expect_eq("the word before", before, word).at(&place)?;
        if word == compare {
            word = swap;
        }
        let after = connection.load(side.other(), TARGET)?;
        expect_eq("the word after", after, word).at(&place)?;
    }
    Ok(())
}
