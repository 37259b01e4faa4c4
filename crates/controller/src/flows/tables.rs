//! Fills the switch's tables with a flow: threads, consumers and producers, each circle closed.

use super::flow::Flow;
use super::set_up::RingPlacements;
use super::{FlowShape, LossPolicy, Ring};
use crate::{Fabric, Site};
use rackweave_base::Rkey;
use rackweave_programs::flows::{
    ConsumerEntry, ConsumerId, Counters, Flows, ProducerEntry, ProducerId, RingPlace, ThreadEntry,
    ThreadId,
};
use rackweave_switch::table::TableError;
use rackweave_switch::transfer::{Lane, LaneId, LaneKind};

/// All table entries of one flow.
#[derive(Default)]
struct Entries {
    threads: Vec<(ThreadId, ThreadEntry, u32)>,
    consumers: Vec<(ConsumerId, ConsumerEntry, u32)>,
    producers: Vec<(ProducerId, ProducerEntry, Counters)>,
}

impl Entries {
    /// Enters all of them.
    fn enter(&self, flows: &mut Flows) -> Result<(), TableError> {
        for &(id, entry, counters) in &self.producers {
            flows.set_producer(id, entry, counters)?;
        }
        for &(id, entry, tail) in &self.consumers {
            flows.set_consumer(id, entry, tail)?;
        }
        for &(id, entry, head) in &self.threads {
            flows.set_thread(id, entry, Some(head))?;
        }
        Ok(())
    }
}

/// The element after `at`, cyclically.
pub(super) fn next<T: Copy>(all: &[T], at: usize) -> T {
    all[(at + 1) % all.len()]
}

impl Fabric {
    /// Enters a flow whose rings are connected.
    pub(super) fn fill_tables(
        &self,
        site: &mut dyn Site,
        flow: &Flow,
        places: &RingPlacements,
    ) -> Result<(), TableError> {
        let mut entries = Entries::default();
        let threads: Vec<(ThreadId, usize)> = flow.threads().collect();
        for at in 0..threads.len() {
            enter_thread(site, flow, places, &threads, at, &mut entries);
        }
        let groups = flow.groups.map(|(first, lanes)| {
            let members: Vec<RingPlace> = places.consumers.iter().flatten().copied().collect();
            (first, lanes, members)
        });
        let mut entered = Ok(());
        site.switch(&mut |_, switch| {
            if let Some((first, lanes, members)) = &groups {
                for lane in 0..u16::from(*lanes) {
                    let psn = places.psns[usize::from(lane)];
                    let members: Vec<LaneId> = members
                        .iter()
                        .map(|ring| LaneId(ring.lanes_first.0 + lane))
                        .collect();
                    entered = close_group(switch, LaneId(first.0 + lane), psn, &members);
                    if entered.is_err() {
                        return;
                    }
                }
            }
            entered = entries.enter(&mut switch.program_mut().flows);
        });
        entered
    }
}

/// Enters a group and closes the circle of its members.
pub(super) fn close_group(
    switch: &mut rackweave_switch::Switch<rackweave_programs::Pipeline>,
    group: LaneId,
    psn: rackweave_base::Psn,
    members: &[LaneId],
) -> Result<(), TableError> {
    let engine = &mut switch.program_mut().engine;
    let mut copies = Vec::new();
    for (at, &id) in members.iter().enumerate() {
        let Some(&Lane { kind, port, .. }) = engine.lane(id) else {
            continue;
        };
        if let LaneKind::Member {
            group,
            address,
            rkey,
            ..
        } = kind
        {
            let kind = LaneKind::Member {
                group,
                next: next(members, at),
                bit: at as u8,
                address,
                rkey,
            };
            engine.set_kind(id, kind);
            copies.push((port, id.0));
        }
    }
    if let Some(&lane) = members.first().and_then(|&id| engine.lane(id)) {
        let kind = LaneKind::Group {
            first: members[0],
            members: mask(members.len()),
        };
        engine.set_group(group, psn, Lane { kind, ..lane })?;
    }
    switch.set_group(group.0, copies);
    Ok(())
}

/// A mask with a bit for each of `members` members.
pub(super) fn mask(members: usize) -> u32 {
    u32::MAX
        .checked_shr(32 - members.clamp(1, 32) as u32)
        .unwrap_or(0)
}

fn enter_thread(
    site: &mut dyn Site,
    flow: &Flow,
    places: &RingPlacements,
    threads: &[(ThreadId, usize)],
    at: usize,
    entries: &mut Entries,
) {
    let spec = &flow.spec;
    let (thread, first) = threads[at];
    let consumers = flow.served_by(first);
    let producers: Vec<usize> = flow.live_producers().collect();
    let ring = flow.ring_at(first);
    let is_shared = spec.shape == FlowShape::Balance;
    let sharing: Vec<ThreadId> = if is_shared {
        threads.iter().map(|&(thread, _)| thread).collect()
    } else {
        vec![thread]
    };
    let group = sharing[0];
    let ids: Vec<ConsumerId> = consumers.iter().map(|&c| flow.consumers[c].id).collect();
    let mut head = 0;
    for (bit, &consumer) in consumers.iter().enumerate() {
        let Some(place) = places.consumers[consumer] else {
            continue;
        };
        let counters = counters(site, &flow.rings.consumers[consumer]);
        head = counters.published;
        let entry = ConsumerEntry {
            ring: place,
            thread,
            bit: bit as u8,
            next: next(&ids, bit),
        };
        entries.consumers.push((ids[bit], entry, counters.node));
    }
    let ring_id = |producer: usize| flow.producers[producer].ids[ring];
    let ids_of_producers: Vec<ProducerId> = producers.iter().map(|&p| ring_id(p)).collect();
    if !is_shared || at == 0 {
        for (turn, &producer) in producers.iter().enumerate() {
            let of_thread = (thread, group, next(&ids_of_producers, turn));
            enter_producer(site, flow, places, (ring, producer), of_thread, entries);
        }
    }
    let target =
        places.consumers[first].or_else(|| places.consumers.iter().flatten().next().copied());
    let Some(target) = target else { return };
    let (lanes_first, items, rkey) = match flow.groups {
        Some((groups, _)) => (groups, 0, Rkey::default()),
        None => (target.lanes_first, target.items, target.rkey),
    };
    let entry = ThreadEntry {
        lanes_first,
        lanes: spec.transfers,
        items,
        rkey,
        slots: spec.consumer_slots,
        first_consumer: ids[0],
        consumers: ids.len() as u16,
        members: mask(ids.len()),
        item_size: spec.item_size,
        batch_items: spec.batch_items(),
        first_producer: ids_of_producers[first % ids_of_producers.len()],
        producers: ids_of_producers.len() as u16,
        next: if is_shared {
            next(&sharing, at)
        } else {
            thread
        },
        threads: sharing.len() as u16,
        group,
        retain: is_shared && spec.on_loss == LossPolicy::Redeliver,
        pause_at: flow.next_pause(head),
        // Entered when all flows are known.
        weight: None,
        poll_interval: spec.poll_interval,
        poll_interval_max: spec.poll_interval_max,
    };
    entries.threads.push((thread, entry, head));
}

/// The entry of a producer's ring at a thread, in a group, before another producer.
fn enter_producer(
    site: &mut dyn Site,
    flow: &Flow,
    places: &RingPlacements,
    (ring, producer): (usize, usize),
    (thread, group, next): (ThreadId, ThreadId, ProducerId),
    entries: &mut Entries,
) {
    let Some(place) = places.producers[ring][producer] else {
        return;
    };
    let counters = counters(site, &flow.rings.producers[ring][producer]);
    let entry = ProducerEntry {
        ring: place,
        group,
        thread,
        next,
        place: producer as u16 + 1,
        leaves: false,
    };
    let id = flow.producers[producer].ids[ring];
    entries.producers.push((id, entry, counters));
}

/// The counters of a ring, from its own words.
fn counters(site: &mut dyn Site, ring: &Ring) -> Counters {
    Counters {
        published: ring.switch(site).map_or(0, |word| word.counter),
        node: ring.node_word(site).map_or(0, |word| word.counter),
    }
}
