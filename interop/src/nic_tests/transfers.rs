//! Messages of many sizes: contents, completions, and no access outside of the target.

use super::Bench;
use super::connection::{Action, Connection, SOURCE, Setup, Side, TARGET};
use crate::failure::{FailureContext, Outcome, expect_eq};
use rackweave_verbs::Mtu;

/// The sizes of messages: near zero, near a word, near both MTUs, and large.
const SIZES: [u32; 17] = [
    0, 1, 2, 3, 4, 255, 256, 1023, 1024, 1025, 4096, 4097, 12_290, 65_536, 65_537, 1_048_575,
    1_048_576,
];

/// The operation that transfers a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// SEND.
    Send,
    /// SEND with immediate.
    SendImmediate,
    /// WRITE.
    Write,
    /// WRITE with immediate.
    WriteImmediate,
    /// READ.
    Read,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [
        Kind::Send,
        Kind::SendImmediate,
        Kind::Write,
        Kind::WriteImmediate,
        Kind::Read,
    ];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Send => "send",
            Kind::SendImmediate => "send with immediate",
            Kind::Write => "write",
            Kind::WriteImmediate => "write with immediate",
            Kind::Read => "read",
        }
    }

    fn has_receive(self) -> bool {
        !matches!(self, Kind::Write | Kind::Read)
    }
}

/// One message of each size with `side` as requester.
pub fn run(bench: &mut Bench<'_>, kind: Kind, side: Side, mtu: Mtu) -> Outcome {
    let seed = bench.rng.next_u32();
    let mut connection = bench.connect(&Setup {
        mtu,
        ..Setup::default()
    })?;
    for (at, len) in SIZES.into_iter().enumerate() {
        let seed = u64::from(seed) + at as u64;
        one(&mut connection, kind, side, len, seed).at(format!("{len} bytes"))?;
    }
    Ok(())
}

/// One message, checked at both ends.
pub fn one(
    connection: &mut Connection<'_>,
    kind: Kind,
    side: Side,
    len: u32,
    seed: u64,
) -> Outcome {
    let (from, to) = match kind {
        Kind::Read => (side.other(), side),
        _ => (side, side.other()),
    };
    // Addresses of every alignment.
    let (source, target) = (SOURCE + seed % 7, TARGET + seed % 5);
    connection.fill(from, source, len, seed)?;
    connection.mark(to, target, len)?;
    if kind.has_receive() {
        connection.receive(to, target, len)?;
    }
    let immediate = 0x8000_0000 | seed as u32;
    let (action, local, remote) = match kind {
        Kind::Send => (Action::Send(None), source, target),
        Kind::SendImmediate => (Action::Send(Some(immediate)), source, target),
        Kind::Write => (Action::Write(None), source, target),
        Kind::WriteImmediate => (Action::Write(Some(immediate)), source, target),
        Kind::Read => (Action::Read, target, source),
    };
    let remote = connection.remote(side, remote);
    connection.post(side, action, local, len, remote)?;
    let sent = connection.poll_success(side).at("the requester")?;
    expect_eq("a receive at the requester", sent.receive, false)?;
    if kind == Kind::Read {
        expect_eq("the length read", sent.length, len)?;
    }
    if kind.has_receive() {
        let received = connection.poll_success(to).at("the responder")?;
        let carries = matches!(kind, Kind::SendImmediate | Kind::WriteImmediate);
        expect_eq("a receive at the responder", received.receive, true)?;
        expect_eq("the length received", received.length, len)?;
        expect_eq(
            "the immediate data",
            received.immediate,
            carries.then_some(immediate),
        )?;
    }
    connection.expect(to, target, len, seed)
}
