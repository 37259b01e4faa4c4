//! Two packets of a hundred lost, both ways: everything arrives, once.

use super::Bench;
use super::atomics;
use super::connection::{Action, Connection, SOURCE, Setup, Side, TARGET};
use super::transfers::{Kind, one};
use crate::failure::{Outcome, Place, expect, expect_eq};
use rackweave_base::Duration;
use rackweave_verbs::Mtu;

/// The probability that a packet is lost.
const LOSS: f64 = 0.02;

/// Messages of each kind, besides the large one.
const ROUNDS: u64 = 10;

fn setup() -> Setup {
    Setup {
        mtu: Mtu::B4096,
        rnr_retries: 7,
        timeout: Duration::from_millis(250),
        ..Setup::default()
    }
}

/// Messages small and large.
pub fn transfers(bench: &mut Bench<'_>, side: Side) -> Outcome {
    let host = bench.host;
    let mut connection = bench.connect(&setup())?;
    let again = connection.counter(side, "completer_retry_err")?;
    let lost = host.with(|station| station.cable.lost());
    host.with(|station| station.cable.set_loss(LOSS));
    let result = all_kinds(&mut connection, side);
    host.with(|station| station.cable.set_loss(0.0));
    result?;
    let now = host.with(|station| station.cable.lost());
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

/// Atomics: each counts once.
pub fn atomics(bench: &mut Bench<'_>, side: Side) -> Outcome {
    const COUNT: u64 = 100;
    let host = bench.host;
    let mut connection = bench.connect(&setup())?;
    let duplicates = connection.counter(side.other(), "duplicate_request")?;
    connection.store(side.other(), TARGET, 0)?;
    host.with(|station| station.cable.set_loss(2.0 * LOSS));
    let result = count(&mut connection, side, COUNT);
    host.with(|station| station.cable.set_loss(0.0));
    result?;
    let word = connection.load(side.other(), TARGET)?;
    expect_eq("the count", word, COUNT)?;
    let duplicates = connection.counter(side.other(), "duplicate_request")? - duplicates;
    expect(duplicates > 0, || {
        "no answer was lost, so nothing was asked for twice".to_owned()
    })
}

/// Adds one, and swaps one more in, by turns.
fn count(connection: &mut Connection<'_>, side: Side, count: u64) -> Outcome {
    for number in 0..count {
        let action = match number % 2 {
            0 => Action::FetchAdd(1),
            _ => Action::CompareSwap(number, number + 1),
        };
        connection.store(side, SOURCE, u64::MAX)?;
        let before = atomics::one(connection, side, action).at(format!("number {number}"))?;
        expect_eq("the word before", before, number)?;
    }
    Ok(())
}
