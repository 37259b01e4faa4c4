//! Joins and departures that wait until nothing that they concern is in flight.
//!
//! A thread is *paused* at a ring counter of its consumers: it issues nothing beyond, and what it
//! has issued is committed as ever. Only then a consumer of it joins or leaves, so nothing in
//! flight has to be taken back, and no lane of another member is touched. The switch reports the
//! moment ([`FlowDigest::Quiet`](rackweave_programs::flows::FlowDigest)); if nothing is in flight,
//! it is now. If the switch restarts or the flow is set up again for another reason, members that
//! were about to leave have left, and a replica joins when its ring's counter is reached.

use super::circles::{close_circles, close_replicas};
use super::loss::Loss;
use crate::flows::flow::Flow;
use crate::flows::set_up::{End, forget_ring};
use crate::flows::{AbortReason, FlowError, FlowShape, FlowState, Ring};
use crate::{Fabric, LaneError, Site};
use rackweave_base::{Instant, Psn};
use rackweave_programs::Pipeline;
use rackweave_programs::flows::{ConsumerEntry, FlowTask, LANES_MAX, RingPlace, ThreadId};
use rackweave_programs::pipeline::Task;
use rackweave_switch::Switch;
use rackweave_switch::table::TableError;
use rackweave_switch::transfer::LaneId;
use rackweave_wire::fabric::ring::SwitchState;

/// The ring of a member that has left the tables, and its place there.
type Gone = (Ring, Option<RingPlace>);

/// Pauses a thread where it is. Returns the ring counter of its consumers, or none if its stream
/// has ended or it cannot continue.
pub(super) fn pause(site: &mut dyn Site, thread: ThreadId) -> Option<u32> {
    let mut paused = None;
    site.switch(&mut |now, switch| {
        let flows = &switch.program().flows;
        if flows.thread(thread).is_none() || flows.is_over(thread) {
            return;
        }
        // A transfer that has been decided on but not issued is not started.
        let is_its = |task: &Task| match *task {
            Task::Flow(FlowTask::Issue {
                thread: its,
                producer,
                ..
            }) if its == thread => Some(producer),
            _ => None,
        };
        for task in switch.purge_if(|_, task| is_its(task).is_some()) {
            if let Some(producer) = is_its(&task) {
                let then = None;
                let unlock = FlowTask::Unlock {
                    producer,
                    thread,
                    then,
                };
                switch.inject(now, Task::Flow(unlock));
            }
        }
        let flows = &mut switch.program_mut().flows;
        let at = flows.reserved(thread);
        let mut retain = false;
        flows.change_thread(thread, |entry| {
            entry.pause_at = Some(at);
            retain = entry.retain;
        });
        if retain {
            // It may be waiting for its consumer.
            switch.inject(now, Task::Flow(FlowTask::CommitTail(thread)));
        }
        switch.inject(now, Task::Flow(FlowTask::Wake(thread)));
        paused = Some(at);
    });
    paused
}

impl Fabric {
    /// Completes the joins and departures that can be completed now. A replica whose lanes cannot
    /// be connected is lost, which is no error: the caller may have asked for something else.
    ///
    /// # Errors
    /// If the switch's tables are too small. Then the flow is aborted.
    pub(in crate::flows) fn settle(
        &self,
        site: &mut dyn Site,
        flow: &mut Flow,
    ) -> Result<(), FlowError> {
        for at in flow.live_producers().collect::<Vec<_>>() {
            if flow.producers[at].leaves {
                self.drop_producer(site, flow, at);
            }
        }
        if flow.spec.shape == FlowShape::Replicate {
            return self.settle_replicas(site, flow);
        }
        for at in flow.live_consumers().collect::<Vec<_>>() {
            if flow.consumers[at].leaves {
                self.drop_balanced(site, flow, at);
            }
        }
        Ok(())
    }

    /// Removes a producer, if nothing of it is in flight.
    fn drop_producer(&self, site: &mut dyn Site, flow: &mut Flow, index: usize) {
        let mut heads = Vec::new();
        for ring in flow.rings.of_producer(index) {
            heads.push(ring.node_word(site).map_or(0, |word| word.counter));
        }
        let mut gone = Vec::new();
        site.switch(&mut |now, switch| {
            let flows = &mut switch.program_mut().flows;
            let rings: Vec<_> = flow.producers[index].ids.iter().zip(&heads).collect();
            let is_quiet = |&(&id, &head)| flows.producer(id).is_none() || flows.is_quiet(id, head);
            if !rings.iter().all(is_quiet) {
                return;
            }
            for (at, &(&id, _)) in rings.iter().enumerate() {
                let ring = flow.rings.producers[at][index].clone();
                gone.push((ring, flows.producer(id).map(|entry| entry.ring)));
                flows.remove_producer(id);
            }
            flow.producers[index].gone = true;
            close_circles(now, switch, flow);
        });
        if !gone.is_empty() {
            self.release(site, flow, gone);
        }
    }

    /// Removes a consumer of a balanced flow, if nothing is in flight to it.
    fn drop_balanced(&self, site: &mut dyn Site, flow: &mut Flow, index: usize) {
        let id = flow.consumers[index].id;
        let mut gone = None;
        site.switch(&mut |now, switch| {
            let flows = &mut switch.program_mut().flows;
            if flows.is_paused(ThreadId(id.0)) {
                let place = flows.consumer(id).map(|entry| entry.ring);
                gone = Some((flow.rings.consumers[index].clone(), place));
                flows.remove_consumer(id);
                flow.consumers[index].gone = true;
                close_circles(now, switch, flow);
            }
        });
        if let Some(gone) = gone {
            self.release(site, flow, vec![gone]);
        }
    }

    /// Lets replicas join and leave, if their thread has reached its pause.
    fn settle_replicas(&self, site: &mut dyn Site, flow: &mut Flow) -> Result<(), FlowError> {
        let Some((thread, _)) = flow.threads().next() else {
            return Ok(());
        };
        let Some((at, psns)) = paused_at(site, flow, thread) else {
            return Ok(());
        };
        self.connect_joiners(site, flow, (at, psns));
        let mut gone = Vec::new();
        let mut entered = Ok(());
        let lanes = flow.groups.map_or(0, |(_, lanes)| usize::from(lanes));
        site.switch(&mut |now, switch| {
            if !switch.program().flows.is_paused(thread) {
                // The stream ends, or the thread is just looking; then it reports again.
                return;
            }
            entered = enter_joiners(now, switch, flow, (thread, at));
            gone = remove_leavers(switch, flow);
            let closed = close_replicas(now, switch, flow, (thread, at), &psns[..lanes]);
            entered = entered.and(closed);
        });
        self.release(site, flow, gone);
        if let Err(error) = entered {
            let reason = AbortReason::NotRecovered(LaneError::from(error));
            self.take_down(site, flow, FlowState::Aborted(reason));
            return Err(LaneError::from(error).into());
        }
        Ok(())
    }

    /// Connects the lanes of the replicas that join at a ring counter. One that cannot be connected
    /// is lost.
    fn connect_joiners(
        &self,
        site: &mut dyn Site,
        flow: &mut Flow,
        (at, psns): (u32, [Psn; LANES_MAX]),
    ) {
        let nodes = site.nodes();
        for index in flow.live_consumers().collect::<Vec<_>>() {
            let is_entering = flow.entering.iter().any(|&(known, _)| known == index);
            let Some((groups, _)) = flow.groups else {
                break;
            };
            if flow.consumers[index].joins_at != Some(at) || is_entering {
                continue;
            }
            let ring = flow.rings.consumers[index].clone();
            let end = End::Replica { groups, psns };
            match self.connect_ring_or_nothing(site, flow, &ring, end, &nodes) {
                Ok(place) => flow.entering.push((index, place)),
                Err(error) => {
                    flow.consumers[index].gone = true;
                    ring.tell(site, SwitchState::Aborted);
                    forget_ring(site, &ring);
                    // One that was leaving is no loss of the flow.
                    if flow.consumers[index].leaves {
                        continue;
                    }
                    flow.losses.push(Loss {
                        node: ring.node,
                        role: "consumer",
                        index,
                        items: 0,
                        reason: AbortReason::NotRecovered(error),
                    });
                }
            }
        }
    }

    /// Disconnects and frees the rings of members that have left the tables, and announces it.
    fn release(&self, site: &mut dyn Site, flow: &mut Flow, gone: Vec<Gone>) {
        let is_gone = |lane: LaneId| {
            let mut places = gone.iter().filter_map(|(_, place)| place.as_ref());
            places.any(|place| uses(place, lane))
        };
        let lanes = core::mem::take(&mut flow.lanes);
        let (left, stay): (Vec<_>, Vec<_>) = lanes.into_iter().partition(|it| is_gone(it.lane));
        flow.lanes = stay;
        for lane in &left {
            self.disconnect_lane(site, lane);
        }
        // Only the flow's own tasks can refer to these lanes.
        site.switch(&mut |_, switch| _ = switch.purge());
        for (ring, _) in &gone {
            ring.tell(site, SwitchState::Ended);
            forget_ring(site, ring);
        }
        self.flows.lock().note(flow);
        self.share_out(site);
    }
}

/// Enters the replicas whose lanes have been connected.
fn enter_joiners(
    now: Instant,
    switch: &mut Switch<Pipeline>,
    flow: &mut Flow,
    (thread, at): (ThreadId, u32),
) -> Result<(), TableError> {
    for (index, ring) in core::mem::take(&mut flow.entering) {
        let member = &mut flow.consumers[index];
        member.joins_at = None;
        let entry = ConsumerEntry {
            ring,
            thread,
            bit: 0,
            next: member.id,
        };
        let flows = &mut switch.program_mut().flows;
        flows.set_consumer(member.id, entry, at)?;
        switch.inject(now, Task::Flow(FlowTask::Poll(ring.poll)));
    }
    Ok(())
}

/// Removes the replicas that leave, unless none would be left.
fn remove_leavers(switch: &mut Switch<Pipeline>, flow: &mut Flow) -> Vec<Gone> {
    let flows = &mut switch.program_mut().flows;
    let mut gone = Vec::new();
    if flow.staying_consumers().next().is_none() {
        return gone;
    }
    for index in flow.connected_consumers().collect::<Vec<_>>() {
        if flow.consumers[index].leaves {
            let id = flow.consumers[index].id;
            let place = flows.consumer(id).map(|entry| entry.ring);
            gone.push((flow.rings.consumers[index].clone(), place));
            flows.remove_consumer(id);
            flow.consumers[index].gone = true;
        }
    }
    gone
}

/// The ring counter at which a replicated flow's thread has paused, and the PSNs of its next
/// transfers.
fn paused_at(
    site: &mut dyn Site,
    flow: &Flow,
    thread: ThreadId,
) -> Option<(u32, [Psn; LANES_MAX])> {
    let (first, lanes) = flow.groups?;
    let mut paused = None;
    site.switch(&mut |_, switch| {
        let program = switch.program();
        if program.flows.is_paused(thread) {
            let mut psns = [Psn::new(0); LANES_MAX];
            for (lane, psn) in psns.iter_mut().enumerate().take(usize::from(lanes)) {
                *psn = program.engine.group_psn(LaneId(first.0 + lane as u16));
            }
            paused = Some((program.flows.reserved(thread), psns));
        }
    });
    paused
}

/// Whether a ring uses a lane.
fn uses(place: &RingPlace, lane: LaneId) -> bool {
    let lanes = 2 + u16::from(place.lanes) + u16::from(place.bell.is_some());
    (place.poll.0..place.poll.0 + lanes).contains(&lane.0)
}
