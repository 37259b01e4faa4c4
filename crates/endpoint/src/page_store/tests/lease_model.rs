//! A model of leases for cached pages, explored exhaustively, with planted bugs.
//!
//! A node reads a clean copy without a message while it has a lease: the lease word in its memory
//! is the token stored with the copy, and its clock is before `lease_until`. Before an exclusive
//! latch becomes a write guard, the switch ends the leases of the other nodes: it writes 0 into
//! their words. After a death or a restart it waits (`hold`) until no node can have time left.
//!
//! **What is checked** in every state: no leased read returns a version older than one that a
//! commit or another read had returned before, and a write guard whose commit would be accepted is
//! the only one and has the newest version. A read is one step.
//!
//! **What is bounded** (`Model`): the nodes, the lease time D in ticks, deaths, restarts, and the
//! requests for a lease that a node has in flight. **What is not**: time, requests, commits, and
//! delays. Times are ticks that are left, versions are distances to the newest. At most `N` commits
//! are accepted and not yet returned, so `N + 1` is enough for all older versions. States that
//! differ only in the names of the nodes are one state.
//!
//! **What is left out**, because it permits no further read:
//! - Sending, except of a request for a lease, before which the token is stored. Nobody observes
//!   that another request was sent and is not yet executed.
//! - Late answers, except grants, latches and accepted commits. All that the others do is to extend
//!   the lease, to `sent + D`. `Step::Ping` is a request that is executed and answered when it is
//!   sent, and is possible at any time; it extends the lease by at least as much.
//! - True deaths. A dead node is a falsely dead node that does nothing.
//! - Differences between states on which no read depends (`Model::forget`).
//!
//! **What is assumed.** A node's clock is behind the global clock by 0 to D ticks and never goes
//! back. A node has at most one latch, commit or fetch of the page in progress. It does not read
//! its copy under a lease while it has the write guard, nor before its commit was answered. A
//! death or a restart ends all answers and begins the hold in one step.

mod protocol;
mod search;
mod state;

use protocol::{Bug, Model};
use search::{Found, search};

const MODEL: Model = Model {
    lease: 1,
    verifies: 1,
    deaths: 0,
    restarts: 0,
    bug: Bug::None,
};

const DEATH: Model = Model { deaths: 1, ..MODEL };
const RESTART: Model = Model {
    restarts: 1,
    ..MODEL
};
const BOTH: Model = Model {
    deaths: 1,
    ..RESTART
};

fn explore(nodes: usize, model: Model) -> Found {
    let found = match nodes {
        2 => search::<2>(&model),
        3 => search::<3>(&model),
        _ => unreachable!("the rows below have 2 or 3 nodes"),
    };
    let states = found.states;
    println!("{nodes} nodes, {model:?}: {states} states");
    for line in found.violation.iter().flatten() {
        println!("    {line}");
    }
    found
}

fn check_correct(nodes: usize, model: Model) {
    let found = explore(nodes, model);
    assert_eq!(found.violation, None, "{nodes} nodes, {model:?}");
}

fn check_planted(nodes: usize, model: Model, bug: Bug) {
    let found = explore(nodes, Model { bug, ..model });
    assert!(found.violation.is_some(), "{bug:?} is not found");
}

#[test]
fn leased_reads_are_linearizable() {
    check_correct(
        2,
        Model {
            verifies: 2,
            ..MODEL
        },
    );
    check_correct(2, Model { deaths: 2, ..MODEL });
    check_correct(2, RESTART);
    check_correct(3, MODEL);
}

/// Each of these has more of something.
#[test]
#[ignore = "takes minutes, and 2 GiB of memory"]
fn leased_reads_are_linearizable_in_larger_models() {
    check_correct(
        2,
        Model {
            verifies: 2,
            deaths: 2,
            ..RESTART
        },
    );
    check_correct(2, Model { lease: 2, ..BOTH });
    check_correct(
        2,
        Model {
            restarts: 2,
            ..MODEL
        },
    );
    check_correct(3, DEATH);
    check_correct(3, RESTART);
}

#[test]
fn planted_bugs_are_found() {
    check_planted(2, MODEL, Bug::RevocationNotAwaited);
    check_planted(2, MODEL, Bug::ForgottenAtWrite);
    check_planted(2, MODEL, Bug::TokenStoredAtAnswer);
    check_planted(2, DEATH, Bug::NoHoldAfterDeath);
    check_planted(2, RESTART, Bug::NoHoldAfterRestart);
    check_planted(2, RESTART, Bug::GenerationIgnored);
    check_planted(2, DEATH, Bug::CountedFromArrival);
    check_planted(2, DEATH, Bug::HoldTooShort);
    check_planted(2, DEATH, Bug::FinishedInHold);
    check_planted(2, MODEL, Bug::TokenReused);
    check_planted(2, MODEL, Bug::VersionIgnored);
    check_planted(2, RESTART, Bug::StaleCounts);
}

/// Nothing depends on the order of the maximum. What is left of a `lease_until` of an earlier
/// generation is over before the hold is, and a token of that generation is not valid any more.
#[test]
#[ignore = "takes seconds, and documents a choice only"]
fn separate_maxima_are_harmless() {
    check_correct(
        2,
        Model {
            bug: Bug::SeparateMaxima,
            ..BOTH
        },
    );
}
