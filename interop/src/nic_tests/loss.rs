//! Two packets of a hundred are lost, in both directions: everything arrives, once.

use super::Bench;
use super::atomics;
use super::connection::{Action, Connection, SOURCE, Setup, Side, TARGET};
use super::transfers::{Kind, one};
use crate::failure::{Failure, FailureContext, Outcome, expect, expect_eq};
use rackweave_base::Duration;
use rackweave_verbs::Mtu;

/// The probability that a packet is lost.
const LOSS: f64 = 0.02;

/// Messages of each kind, besides the large one.
const ROUNDS: u64 = 10;

/// The minimum number of atomics, and how many of them must be retransmitted; and the maximum
/// number.
const ATOMICS_MIN: u64 = 60;
const DUPLICATES_MIN: u64 = 3;
const ATOMICS_MAX: u64 = 600;

fn setup() -> Setup {
    Setup {
        mtu: Mtu::B4096,
        rnr_retries: 7,
        timeout: Duration::from_millis(250),
        ..Setup::default()
    }
}

/// Small and large messages.
pub fn transfers(bench: &mut Bench<'_>, side: Side) -> Outcome {
    let host = bench.host;
    let mut connection = bench.connect(&setup())?;
    let again = connection.counter(side, "completer_retry_err")?;
    let lost = host.with(|test_node| test_node.link.lost());
    host.with(|test_node| test_node.link.set_loss(LOSS));
    let result = all_kinds(&mut connection, side);
    host.with(|test_node| test_node.link.set_loss(0.0));
    result?;
    let now = host.with(|test_node| test_node.link.lost());
    expect(now.0 > lost.0 && now.1 > lost.1, || {
        "no packet was lost".to_owned()
    })?;
    let again = connection.counter(side, "completer_retry_err")? - again;
    expect(again > 0, || "nothing was sent again".to_owned())
}

fn all_kinds(connection: &mut Connection<'_>, side: Side) -> Outcome {
    for kind in Kind::ALL {
        for round in 0..ROUNDS {
            let len = (round * 3001) as u32;
            one(connection, kind, side, len, round)
                .at(format!("{} of {len} bytes", kind.name()))?;
        }
        one(connection, kind, side, 1 << 20, 99).at(format!("{} of 1 MiB", kind.name()))?;
    }
    Ok(())
}

/// Atomics: each counts once, even when its answer was lost and it was retransmitted.
pub fn atomics(bench: &mut Bench<'_>, side: Side) -> Outcome {
    let host = bench.host;
    let mut connection = bench.connect(&setup())?;
    connection.store(side.other(), TARGET, 0)?;
    host.with(|test_node| test_node.link.set_loss(2.0 * LOSS));
    let result = count(&mut connection, side);
    host.with(|test_node| test_node.link.set_loss(0.0));
    let word = connection.load(side.other(), TARGET)?;
    expect_eq("the count", word, result?)
}

/// Adds one by fetch-and-add and compare-and-swap in turn, until some have been retransmitted;
/// returns the number of atomics.
fn count(connection: &mut Connection<'_>, side: Side) -> Outcome<u64> {
    let other = side.other();
    let before = connection.counter(other, "duplicate_request")?;
    for number in 0..ATOMICS_MAX {
        let action = match number % 2 {
            0 => Action::FetchAdd(1),
            _ => Action::CompareSwap(number, number + 1),
        };
        connection.store(side, SOURCE, u64::MAX)?;
        let found = atomics::one(connection, side, action).at(format!("number {number}"))?;
        expect_eq("the word before", found, number)?;
        let duplicates = connection.counter(other, "duplicate_request")? - before;
        if number >= ATOMICS_MIN && duplicates >= DUPLICATES_MIN {
            return Ok(number + 1);
        }
    }
    Err(Failure::Timeout("atomics that are sent again".to_owned()))
}
