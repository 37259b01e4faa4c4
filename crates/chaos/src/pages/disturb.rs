//! Faults and actions of the controller, with their times.

use super::plan::Indexing;
use crate::wrong::{self, nanos};
use rackweave_base::{Duration, Instant, NodeId, Rng};
use rackweave_controller::PageNode;
use std::collections::BTreeMap;

/// An event at a certain time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Disturbance {
    /// A node crashes; the controller does not know yet.
    Crash(NodeId),
    /// The controller learns of the crash.
    Tell(NodeId),
    /// The node returns, with empty buffer frames.
    Return(NodeId),
    /// Earlier losses are accepted.
    Accept,
    /// A live node is presumed dead, and ends when it notices.
    Presume(NodeId),
    /// The memory server crashes, and the controller is notified.
    CrashServer(NodeId),
    /// The switch loses all state.
    RestartSwitch,
    /// The power fails everywhere, including the device.
    CutPower,
    CutCable(NodeId),
    /// So long that queue pairs give up.
    LongCut(NodeId),
    MendCable(NodeId),
    /// The NVMe target's process ends.
    StopTarget,
    /// Another takes its place, over the same medium.
    StartTarget,
    /// The device has space for this many new blocks, and no more.
    Fill(u64),
    /// It has space again.
    Free,
    /// The device answers nothing for this time.
    Stall(Duration),
    /// Reads and writes of a page's home start or stop failing.
    Break(u64),
    Mend(u64),
    /// A block of a page's home, given by its number, is damaged.
    Tear(u64, u64),
    Zero(u64, u64),
    /// The controller makes the switch index a page, or stop indexing it.
    Promote(u64),
    Demote(u64),
}

/// Most runs last hundreds of microseconds to a few milliseconds; early is as likely as late.
pub(super) fn some_time(rng: &mut Rng) -> Instant {
    wrong::some_time(rng, 13, 22)
}

/// A time at which more changes have been made.
fn later(rng: &mut Rng) -> Instant {
    some_time(rng).max(some_time(rng))
}

/// Time until a node's crash is noticed.
fn unnoticed(rng: &mut Rng) -> Duration {
    let most = *rng.pick(&[0, 10_000, 1_000_000, 4_000_000]);
    nanos(rng, 0, most)
}

pub(super) fn plan(
    rng: &mut Rng,
    nodes: &[PageNode],
    storage: NodeId,
    server: Option<NodeId>,
    indexing: Indexing,
    pages: u64,
) -> Vec<(Instant, Disturbance)> {
    let mut all = Vec::new();
    if rng.chance(0.35) {
        crashes(rng, nodes, &mut all);
    }
    let mut outage = None;
    if rng.chance(0.2) {
        for _ in 0..rng.between(1, 2) {
            let stop = later(rng);
            let down = nanos(rng, 1000, 5_000_000);
            outage = Some((stop, down));
            all.push((stop, Disturbance::StopTarget));
            all.push((stop + down, Disturbance::StartTarget));
        }
    }
    if rng.chance(0.15) {
        let full = some_time(rng);
        let lasts = nanos(rng, 10_000, 8_000_000);
        all.push((full, Disturbance::Fill(rng.below(4))));
        all.push((full + lasts, Disturbance::Free));
    }
    if rng.chance(if outage.is_some() { 0.8 } else { 0.2 }) {
        for _ in 0..rng.between(1, 2) {
            // While the target is down, the content of a page's home cannot be read.
            let at = match outage.filter(|_| rng.chance(0.7)) {
                Some((stop, down)) => stop + Duration::from_nanos(rng.below(down.as_nanos())),
                None => later(rng),
            };
            all.push((at, Disturbance::RestartSwitch));
        }
    }
    if rng.chance(0.1) {
        let (at, node) = (some_time(rng), rng.pick(nodes).node);
        all.push((at, Disturbance::Presume(node)));
        if rng.chance(0.6) {
            all.push((at + nanos(rng, 0, 2_000_000), Disturbance::Return(node)));
        }
    }
    if let Some(server) = server.filter(|_| rng.chance(0.15)) {
        all.push((some_time(rng), Disturbance::CrashServer(server)));
    }
    if rng.chance(0.15) {
        // The double-write area is allocated from the beginning, as in files.
        all.retain(|(_, other)| !matches!(other, Disturbance::Fill(_) | Disturbance::Free));
        all.push((some_time(rng), Disturbance::CutPower));
    }
    if rng.chance(0.2) {
        let ends = nodes.iter().map(|node| node.node);
        let ends: Vec<_> = ends.chain([storage]).chain(server).collect();
        let (cut, node) = (some_time(rng), *rng.pick(&ends));
        // A few so long that queue pairs give up, after 8 timeouts of 0.5 to 4 ms.
        let (short, long) = ((1000, 1_500_000), (30_000_000, 60_000_000));
        let (least, most) = *rng.pick(&[short, short, long]);
        let lasts = nanos(rng, least, most);
        let kind = match least > short.0 {
            true => Disturbance::LongCut,
            false => Disturbance::CutCable,
        };
        all.push((cut, kind(node)));
        all.push((cut + lasts, Disturbance::MendCable(node)));
    }
    let moves = matches!(indexing, Indexing::Hot(_)) || server.is_some() && rng.chance(0.3);
    if moves {
        for _ in 0..rng.between(1, 40) {
            let (at, page) = (some_time(rng), rng.below(pages));
            all.push((at, index(rng, page)));
        }
    }
    all
}

/// The controller makes the switch index a page, or stop indexing it.
pub(super) fn index(rng: &mut Rng, page: u64) -> Disturbance {
    match rng.chance(0.5) {
        true => Disturbance::Promote(page),
        false => Disturbance::Demote(page),
    }
}

fn crashes(rng: &mut Rng, nodes: &[PageNode], all: &mut Vec<(Instant, Disturbance)>) {
    for _ in 0..rng.between(1, 3) {
        let (at, node) = (some_time(rng), rng.pick(nodes).node);
        let reported_at = at + unnoticed(rng);
        all.push((at, Disturbance::Crash(node)));
        all.push((reported_at, Disturbance::Tell(node)));
        if rng.chance(0.6) {
            all.push((reported_at + nanos(rng, 0, 1_000_000), Disturbance::Accept));
        }
        if rng.chance(0.6) {
            all.push((
                reported_at + nanos(rng, 0, 2_000_000),
                Disturbance::Return(node),
            ));
        }
    }
}

/// Faults of the device, in addition to all others. `damage`: bytes may change, too, because pages
/// have checksums.
pub(super) fn device(
    rng: &mut Rng,
    pages: u64,
    blocks_per_page: u64,
    damage: bool,
) -> Vec<(Instant, Disturbance)> {
    let mut all = Vec::new();
    if rng.chance(0.1) {
        // The longest exceed the patience of a channel, too. They are rare, because workers that
        // poll for a second make ten million events.
        let most = match rng.chance(0.02) {
            true => 1_500_000,
            false => *rng.pick(&[100, 3_000, 40_000]),
        };
        let lasts = Duration::from_micros(rng.between(most / 2, most));
        all.push((some_time(rng), Disturbance::Stall(lasts)));
    }
    if rng.chance(0.1) {
        for _ in 0..rng.between(1, 4) {
            let (page, broken) = (rng.below(pages), some_time(rng));
            let lasts = nanos(rng, 10_000, 4_000_000);
            all.push((broken, Disturbance::Break(page)));
            all.push((broken + lasts, Disturbance::Mend(page)));
        }
    }
    if damage && rng.chance(0.15) {
        let mut zeroes = BTreeMap::new();
        for _ in 0..rng.between(1, 12) {
            let (at, page) = (later(rng), rng.below(pages));
            // The header is in the first block.
            let block = match rng.chance(0.5) {
                true => 0,
                false => rng.below(blocks_per_page),
            };
            // A home of only zeroes was never written, so one block of a page may become zero, but
            // not a second one.
            let zeroed = blocks_per_page > 1
                && rng.chance(0.5)
                && *zeroes.entry(page).or_insert(block) == block;
            let kind = match zeroed {
                true => Disturbance::Zero,
                false => Disturbance::Tear,
            };
            all.push((at, kind(page, block)));
        }
    }
    all
}
