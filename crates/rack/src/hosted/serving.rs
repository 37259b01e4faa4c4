//! A node's process that also serves what programs make at its node.

use super::joined::JoinedRack;
use super::{HostedError, NodeEvent, NodeProcess, abort_on_panic};
use crate::Rack;
use crate::services::others;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::Duration as Time;

/// How often the thread looks whether the node has joined, until it has.
const LOOK_EVERY: Time = Time::from_millis(50);

impl NodeProcess {
    /// As [`NodeProcess::run`]. Programs of the rack may have endpoints of indexes, and words and
    /// counters of sequencers, at this node. A thread of this process serves them.
    ///
    /// # Errors
    /// As for [`NodeProcess::run`].
    pub fn run_serving(
        self,
        stop: &AtomicBool,
        watch: &dyn Fn(NodeEvent),
    ) -> Result<(), HostedError> {
        let process = Arc::new(self);
        let joined = JoinedRack::of(process.clone());
        let (has_joined, has_ended) = (&AtomicBool::new(false), joined.stop.clone());
        let rack = Rack::new(Arc::new(joined));
        std::thread::scope(|scope| {
            let has_left = has_ended.clone();
            // It leaves the rack's services before the node leaves the rack.
            let serving = scope.spawn(move || {
                let ends = || stop.load(Ordering::Relaxed) || has_left.load(Ordering::Relaxed);
                abort_on_panic(|| serve(&rack, has_joined, &ends));
            });
            let note = |event| {
                has_joined.fetch_or(matches!(event, NodeEvent::Joined { .. }), Ordering::Relaxed);
                watch(event);
            };
            let result = process.run(stop, &note);
            // Nobody admits what the thread may be dialling any more.
            has_ended.store(true, Ordering::Relaxed);
            serving.thread().unpark();
            result
        })
    }
}

/// Serves programs once the node has joined.
fn serve(rack: &Rack, has_joined: &AtomicBool, ends: &dyn Fn() -> bool) {
    while !ends() {
        // If the controller is lost meanwhile, it is tried again with the next one.
        if has_joined.load(Ordering::Relaxed) && others::offer(rack).is_ok() {
            return others::serve(rack, ends);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
