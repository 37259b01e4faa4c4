//! The circles of a flow's members in the switch's tables, closed again while the flow runs.

use crate::LaneError;
use crate::flows::flow::Flow;
use crate::flows::tables::{close_group, mask, next};
use crate::flows::{FlowError, FlowShape};
use rackweave_base::{Instant, Psn};
use rackweave_programs::Pipeline;
use rackweave_programs::flows::{
    ConsumerEntry, ConsumerId, Counters, FlowTask, Flows, ProducerEntry, ProducerId, RingPlace,
    ThreadEntry, ThreadId,
};
use rackweave_programs::pipeline::Task;
use rackweave_switch::Switch;
use rackweave_switch::table::TableError;
use rackweave_switch::transfer::LaneId;

/// Closes the circles of a flow's threads and producers again, after one was entered or removed:
/// each entry gets its successor, threads get the new counts. Registers and lanes are not changed.
/// Then all threads are woken, since a task that was passing round a circle may have missed one.
pub(super) fn close_circles(now: Instant, switch: &mut Switch<Pipeline>, flow: &Flow) {
    let flows = &mut switch.program_mut().flows;
    let is_shared = flow.spec.shape == FlowShape::Balance;
    let threads: Vec<(ThreadId, usize)> = flow.threads().collect();
    let circle: Vec<ThreadId> = threads.iter().map(|&(thread, _)| thread).collect();
    // No task or register may lead to a thread outside of the circle.
    for member in &flow.consumers {
        let thread = ThreadId(member.id.0);
        if !circle.contains(&thread) {
            flows.remove_thread(thread);
        }
    }
    for (at, &(thread, consumer)) in threads.iter().enumerate() {
        let ids = producer_ids(flows, flow, flow.ring_at(consumer));
        if !is_shared || at == 0 {
            for (turn, &id) in ids.iter().enumerate() {
                flows.change_producer(id, |entry| {
                    entry.next = next(&ids, turn);
                    if !circle.contains(&entry.thread) {
                        entry.thread = thread;
                    }
                });
            }
        }
        flows.change_thread(thread, |entry| {
            entry.batch_items = flow.spec.batch_items();
            entry.producers = ids.len() as u16;
            if !ids.contains(&entry.first_producer) && !ids.is_empty() {
                entry.first_producer = ids[consumer % ids.len()];
            }
            if is_shared {
                (entry.next, entry.threads) = (next(&circle, at), circle.len() as u16);
            }
        });
    }
    wake_all(now, switch, &circle, is_shared);
}

/// The rings of the live producers that the threads of `ring` take from.
fn producer_ids(flows: &Flows, flow: &Flow, ring: usize) -> Vec<ProducerId> {
    let ids = flow.live_producers().map(|at| flow.producers[at].ids[ring]);
    ids.filter(|&id| flows.producer(id).is_some()).collect()
}

fn wake_all(now: Instant, switch: &mut Switch<Pipeline>, circle: &[ThreadId], is_shared: bool) {
    let Some(&thread) = circle.first() else {
        return;
    };
    if !is_shared {
        for &thread in circle {
            switch.inject(now, Task::Flow(FlowTask::Wake(thread)));
        }
        return;
    }
    let (left, slot) = (circle.len() as u16, 0);
    let wake = FlowTask::WakeRing { thread, left };
    let commit = FlowTask::TryCommit { thread, left, slot };
    switch.inject(now, Task::Flow(wake));
    switch.inject(now, Task::Flow(commit));
}

/// Enters the newest consumer of a balanced flow with a thread of its own, and starts it.
pub(super) fn enter_balanced(
    now: Instant,
    switch: &mut Switch<Pipeline>,
    flow: &Flow,
    place: RingPlace,
) -> Result<(), TableError> {
    let flows = &mut switch.program_mut().flows;
    let mut threads: Vec<ThreadId> = flow.threads().map(|(thread, _)| thread).collect();
    let Some(newest) = threads.pop() else {
        return Ok(());
    };
    let Some(model) = threads.iter().find_map(|&id| flows.thread(id)) else {
        return Ok(());
    };
    let id = ConsumerId(newest.0);
    let thread = ThreadEntry {
        lanes_first: place.lanes_first,
        items: place.items,
        rkey: place.rkey,
        first_consumer: id,
        pause_at: None,
        weight: None,
        ..model
    };
    let consumer = ConsumerEntry {
        ring: place,
        thread: newest,
        bit: 0,
        next: id,
    };
    flows.set_thread(newest, thread, Some(0))?;
    flows.set_consumer(id, consumer, 0)?;
    switch.inject(now, Task::Flow(FlowTask::Poll(place.poll)));
    close_circles(now, switch, flow);
    Ok(())
}

/// Enters the newest producer of a flow, and starts to poll its rings.
///
/// # Errors
/// If no thread is left that could take from it, or one of those that it needs.
pub(super) fn enter_producer(
    now: Instant,
    switch: &mut Switch<Pipeline>,
    flow: &Flow,
    places: &[RingPlace],
) -> Result<(), FlowError> {
    let flows = &mut switch.program_mut().flows;
    let (shape, index) = (flow.spec.shape, flow.producers.len() - 1);
    let is_open = |&(thread, at): &(ThreadId, usize)| {
        let leaves = flow.consumers[at].leaves && shape == FlowShape::Balance;
        !leaves && !flows.is_over(thread) && flows.thread(thread).is_some()
    };
    let threads: Vec<(ThreadId, usize)> = flow.threads().filter(is_open).collect();
    if shape == FlowShape::Shuffle && threads.len() < places.len() {
        return Err(ended_for_one(shape));
    }
    for (at, &ring) in places.iter().enumerate() {
        let of_ring = threads.iter().find(|&&(_, of)| flow.ring_at(of) == at);
        let &(thread, _) = of_ring.ok_or(FlowError::NotRunning)?;
        let group = flows.thread(thread).map_or(thread, |entry| entry.group);
        let next = flow.producers[index].ids[at];
        let entry = ProducerEntry {
            ring,
            group,
            thread,
            next,
            place: index as u16 + 1,
            leaves: false,
        };
        let entered = flows.set_producer(next, entry, Counters::default());
        entered.map_err(LaneError::from)?;
    }
    for ring in places {
        switch.inject(now, Task::Flow(FlowTask::Poll(ring.poll)));
    }
    close_circles(now, switch, flow);
    Ok(())
}

/// Another producer's items for a consumer whose stream has ended would never be taken.
pub(super) fn ended_for_one(shape: FlowShape) -> FlowError {
    FlowError::ShapeForbids {
        shape,
        change: "take another producer",
        rule: "one of its consumers has seen the end of its stream",
    }
}

/// Closes the circle of the replicas of a paused thread, the group of each of its lanes included,
/// and lets it go on. `psns` are the PSNs of the next transfers.
pub(super) fn close_replicas(
    now: Instant,
    switch: &mut Switch<Pipeline>,
    flow: &Flow,
    (thread, at): (ThreadId, u32),
    psns: &[Psn],
) -> Result<(), TableError> {
    let flows = &mut switch.program_mut().flows;
    let ids: Vec<ConsumerId> = flow
        .connected_consumers()
        .map(|at| flow.consumers[at].id)
        .collect();
    let entries: Vec<ConsumerEntry> = ids.iter().filter_map(|&id| flows.consumer(id)).collect();
    for (bit, &id) in ids.iter().enumerate() {
        flows.change_consumer(id, |entry| {
            (entry.bit, entry.next) = (bit as u8, next(&ids, bit));
        });
    }
    flows.change_thread(thread, |entry| {
        entry.first_consumer = ids[0];
        entry.consumers = ids.len() as u16;
        entry.members = mask(ids.len());
        entry.pause_at = flow.next_pause(at);
    });
    let first = flow.groups.map_or(0, |(first, _)| first.0);
    for (lane, &psn) in psns.iter().enumerate() {
        let lane = lane as u16;
        let members = entries.iter().map(|it| it.ring.lanes_first.0 + lane);
        let members: Vec<LaneId> = members.map(LaneId).collect();
        close_group(switch, LaneId(first + lane), psn, &members)?;
    }
    switch.inject(now, Task::Flow(FlowTask::Wake(thread)));
    Ok(())
}
