//! Refused access: the requester gets an error, both queue pairs break, nothing is written.

use super::Bench;
use super::connection::{Action, REGION_LEN, Remote, SOURCE, Setup, Side, TARGET};
use super::receiver::fresh;
use crate::failure::{FailureContext, Outcome, expect_eq};
use crate::pattern::pattern;
use rackweave_verbs::{Access, CompletionStatus};

const LEN: u32 = 64;

/// The error in a request.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Key,
    Bounds,
    BeforeStart,
    RegionPermission,
    QpPermission,
}

/// Every refusal, for every operation that can be refused for this reason.
pub fn refused(bench: &mut Bench<'_>, side: Side) -> Outcome {
    let actions = [
        ("write", Action::Write(None), Access::REMOTE_WRITE),
        ("read", Action::Read, Access::REMOTE_READ),
        ("fetch-and-add", Action::FetchAdd(1), Access::REMOTE_ATOMIC),
        (
            "compare-and-swap",
            Action::CompareSwap(0, 1),
            Access::REMOTE_ATOMIC,
        ),
    ];
    let wrongs = [
        Wrong::Key,
        Wrong::Bounds,
        Wrong::BeforeStart,
        Wrong::RegionPermission,
        Wrong::QpPermission,
    ];
    for (name, action, right) in actions {
        for wrong in wrongs {
            one(bench, side, action, right, wrong).at(format!("{name}, {wrong:?}"))?;
        }
    }
    fresh(bench, side)
}

fn one(bench: &mut Bench<'_>, side: Side, action: Action, right: Access, wrong: Wrong) -> Outcome {
    let mut setup = Setup::default();
    match wrong {
        Wrong::RegionPermission => setup.region.remove(right),
        Wrong::QpPermission => setup.qp.remove(right),
        _ => {}
    }
    let mut connection = bench.connect(&setup)?;
    let start = connection.remote(side, 0);
    let len = if right == Access::REMOTE_ATOMIC {
        8
    } else {
        LEN
    };
    let at = |offset: u64| Remote {
        address: start.address.wrapping_add(offset),
        rkey: start.rkey,
    };
    let remote = match wrong {
        Wrong::Key => Remote {
            rkey: start.rkey ^ 0x0101,
            ..at(TARGET)
        },
        Wrong::Bounds if len == 8 => at(REGION_LEN),
        Wrong::Bounds => at(REGION_LEN - u64::from(len) + 1),
        Wrong::BeforeStart => at(0u64.wrapping_sub(8)),
        Wrong::RegionPermission | Wrong::QpPermission => at(TARGET),
    };
    connection.fill(side.other(), TARGET, LEN, 5)?;
    connection.fill(side, SOURCE, LEN, 6)?;
    connection.post(side, action, SOURCE, len, remote)?;
    let failed = connection.poll(side)?;
    let expected = match wrong {
        // Linux answers as the specification requires for an operation that a queue pair does not
        // support (9.7.4.1.5): invalid request.
        Wrong::QpPermission => CompletionStatus::RemoteInvalidRequest,
        _ => CompletionStatus::RemoteAccess,
    };
    expect_eq("the status", failed.status, expected)?;
    for end in Side::ALL {
        expect_eq("the end in error", connection.is_broken(end)?, true).at(format!("{end:?}"))?;
    }
    let word = connection.load(side.other(), TARGET)?;
    expect_eq("the target", &word.to_le_bytes()[..], pattern(5, 8))
}
