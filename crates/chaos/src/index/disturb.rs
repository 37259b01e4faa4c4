//! What goes wrong, and who gets other keys, at which time.

use crate::wrong::{self, nanos};
use rackweave_base::{Instant, NodeId, Rng};

/// Something that happens at a certain time. Endpoints by their numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Disturbance {
    /// The boundary between this endpoint and the next one goes to so many thousandths of the keys.
    Move(u16, u16),
    /// Whoever moves ranges dies, and another has to end what was left half done.
    KillCoordinator,
    /// A node with clients dies.
    Crash(NodeId),
    /// It is there again, with new clients.
    Return(NodeId),
    /// The process of an endpoint ends, or, if true, its whole node dies.
    StopEndpoint(u16, bool),
    /// Another takes its place, with what it had, or with nothing.
    StartEndpoint(u16, bool),
    CutCable(NodeId),
    MendCable(NodeId),
    /// A switch loses everything that it knew.
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
            // The ends too: then one of the two has nothing.
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
        let (stop, at) = (some_time(rng), rng.below(endpoints.len() as u64) as u16);
        let down = nanos(rng, 1000, 500_000);
        all.push((stop, Disturbance::StopEndpoint(at, rng.chance(0.4))));
        let keeps = rng.chance(0.4);
        all.push((stop + down, Disturbance::StartEndpoint(at, keeps)));
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
