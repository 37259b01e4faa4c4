//! Receivers that are not ready: late, never, or with too short a receive.

use super::Bench;
use super::connection::{Action, Connection, SOURCE, Setup, Side, TARGET};
use super::transfers::{Kind, one};
use crate::failure::{Failure, FailureContext, Outcome, expect, expect_eq};
use rackweave_verbs::CompletionStatus;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LEN: u32 = 5000;

/// SEND and WRITE with immediate find no receive at first; they wait for one and lose nothing.
pub fn posted_late(bench: &mut Bench<'_>, side: Side) -> Outcome {
    let mut connection = bench.connect(&Setup {
        rnr_retries: 7,
        ..Setup::default()
    })?;
    let sent = connection.counter(side.other(), "send_rnr_err")?;
    for (action, seed) in [(Action::Send(Some(9)), 1), (Action::Write(Some(9)), 2)] {
        connection.fill(side, SOURCE, LEN, seed)?;
        connection.mark(side.other(), TARGET, LEN)?;
        let remote = connection.remote(side, TARGET);
        connection.post(side, action, SOURCE, LEN, remote)?;
        wait_for_nak(&mut connection, side)?;
        connection.receive(side.other(), TARGET, LEN)?;
        let received = connection.poll_success(side.other()).at("the responder")?;
        expect_eq("the length received", received.length, LEN)?;
        expect_eq("the immediate data", received.immediate, Some(9))?;
        connection.poll_success(side).at("the requester")?;
        connection.expect(side.other(), TARGET, LEN, seed)?;
    }
    let sent = connection.counter(side.other(), "send_rnr_err")? - sent;
    expect(sent >= 2, || format!("receiver-not-ready sent: {sent}"))
}

/// Waits until the requester has got a NAK that its receiver is not ready.
fn wait_for_nak(connection: &mut Connection<'_>, side: Side) -> Outcome {
    let before = connection.counter(side, "rcvd_rnr_err")?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while connection.counter(side, "rcvd_rnr_err")? == before {
        if Instant::now() > deadline {
            return Err(Failure::Timeout("a receiver-not-ready".to_owned()));
        }
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The requester gives up after its retries; requests posted after it are flushed.
pub fn never_posted(bench: &mut Bench<'_>, side: Side) -> Outcome {
    {
        let mut connection = bench.connect(&Setup {
            rnr_retries: 2,
            ..Setup::default()
        })?;
        let remote = connection.remote(side, TARGET);
        connection.post(side, Action::Send(None), SOURCE, LEN, remote)?;
        connection.post(side, Action::Write(None), SOURCE, LEN, remote)?;
        let failed = connection.poll(side)?;
        let expected = CompletionStatus::RnrRetriesExceeded;
        expect_eq("the status", failed.status, expected)?;
        let behind = connection.poll(side)?;
        let expected = CompletionStatus::Flushed;
        expect_eq("the status of the next", behind.status, expected)?;
        let broken = connection.is_broken(side)?;
        expect_eq("the requester in error", broken, true)?;
    }
    fresh(bench, side)
}

/// A SEND longer than its receive fails at both ends.
pub fn too_short(bench: &mut Bench<'_>, side: Side) -> Outcome {
    {
        let mut connection = bench.connect(&Setup::default())?;
        connection.mark(side.other(), TARGET, LEN - 1)?;
        connection.receive(side.other(), TARGET, LEN - 1)?;
        let remote = connection.remote(side, TARGET);
        connection.post(side, Action::Send(None), SOURCE, LEN, remote)?;
        let failed = connection.poll(side).at("the requester")?;
        // The specification requires "invalid request" (9.7.5.2.4); Linux reports "operation
        // error".
        let expected = match side {
            Side::Ours => CompletionStatus::RemoteOperation,
            Side::Guest => CompletionStatus::RemoteInvalidRequest,
        };
        expect_eq("the status", failed.status, expected)?;
        let received = connection.poll(side.other()).at("the responder")?;
        let expected = CompletionStatus::LocalLength;
        expect_eq("the receiver's status", received.status, expected)?;
        for end in Side::ALL {
            expect_eq("the end in error", connection.is_broken(end)?, true)
                .at(format!("{end:?}"))?;
        }
    }
    fresh(bench, side)
}

/// After a failure, a new pair of queue pairs works.
pub fn fresh(bench: &mut Bench<'_>, side: Side) -> Outcome {
    let mut connection = bench.connect(&Setup::default())?;
    for kind in [Kind::Send, Kind::Write, Kind::Read] {
        one(&mut connection, kind, side, LEN, 77).at(format!("{} afterwards", kind.name()))?;
    }
    Ok(())
}
