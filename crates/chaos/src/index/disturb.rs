//! Faults and moves of key ranges, with their times.

use crate::wrong::{self, nanos};
use rackweave_base::{Instant, NodeId, Rng};

/// An event at a certain time. Endpoints are given by index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Disturbance {
    /// The boundary between this endpoint and the next one moves to this many thousandths of the
    /// keys.
    Move(u16, u16),
    /// The coordinator crashes, and another has to finish its incomplete moves.
    KillCoordinator,
    /// A node with clients crashes.
    Crash(NodeId),
    /// It returns, with new clients.
    Return(NodeId),
    /// The process of the node that had an endpoint first ends, or, if true, the whole node
    /// crashes.
    StopEndpoint(u16, bool),
    /// Another takes its place. Endpoints that had their place there start again, with the former
    /// state, or with none.
    StartEndpoint(u16, bool),
    CutCable(NodeId),
    MendCable(NodeId),
    /// A switch loses all its state.
    RestartSwitch(u16),
    /// The same for a cable between switches.
    CutTrunk(u16),
    MendTrunk(u16),
}

/// Most runs last hundreds of microseconds to some milliseconds; early is as likely as late.
pub(super) fn some_time(rng: &mut Rng) -> Instant {
    wrong::some_time(rng, 14, 21)
}

pub(super) fn plan(
    rng: &mut Rng,
    compute: &[NodeId],
    endpoints: &[NodeId],
) -> Vec<(Instant, Disturbance)> {
    let mut all = Vec::new();
    if endpoints.len() > 1 && rng.chance(0.6) {
        for _ in 0..rng.between(1, 6) {
            let left = rng.below(endpoints.len() as u64 - 1) as u16;
            // Includes both ends: then one of the two endpoints owns nothing.
            let within = 1 + rng.below(999);
            let place = *rng.pick(&[0, 1000, within, within]);
            all.push((some_time(rng), Disturbance::Move(left, place as u16)));
        }
        if rng.chance(0.3) {
            all.push((some_time(rng), Disturbance::KillCoordinator));
        }
    }
    if rng.chance(0.3) {
        for _ in 0..rng.between(1, 2) {
            let (at, node) = (some_time(rng), *rng.pick(compute));
            all.push((at, Disturbance::Crash(node)));
            all.push((at + nanos(rng, 0, 300_000), Disturbance::Return(node)));
        }
    }
    if rng.chance(0.25) {
        add_stop(rng, &mut all, endpoints.len());
    }
    if rng.chance(0.2) {
        let ends = [compute, endpoints].concat();
        let (cut, node) = (some_time(rng), *rng.pick(&ends));
        let lasts = nanos(rng, 1000, 800_000);
        all.push((cut, Disturbance::CutCable(node)));
        all.push((cut + lasts, Disturbance::MendCable(node)));
    }
    all
}

/// More deaths of endpoints, which may have replicas.
pub(super) fn add_stops(rng: &mut Rng, all: &mut Vec<(Instant, Disturbance)>, endpoints: usize) {
    for _ in 0..rng.between(1, 4) {
        add_stop(rng, all, endpoints);
    }
}

fn add_stop(rng: &mut Rng, all: &mut Vec<(Instant, Disturbance)>, endpoints: usize) {
    let (stop, at) = (some_time(rng), rng.below(endpoints as u64) as u16);
    let down = nanos(rng, 1000, 500_000);
    all.push((stop, Disturbance::StopEndpoint(at, rng.chance(0.4))));
    let keeps = rng.chance(0.4);
    all.push((stop + down, Disturbance::StartEndpoint(at, keeps)));
}
