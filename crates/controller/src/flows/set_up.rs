//! Setting a flow up: check, allocate, register, connect, fill, start.

use super::{Flow, FlowError, FlowId, FlowRings, FlowSpec, FlowState, Ring};
use crate::lanes::Connected;
use crate::{Controller, LaneError, NodeAddress, Site};
use rackweave_base::NodeId;
use rackweave_programs::flows::{
    Counters, FlowTask, LANES_MAX, ProducerEntry, ProducerId, RingPlace, ThreadEntry, ThreadId,
};
use rackweave_programs::pipeline::Task;
use rackweave_switch::transfer::{LaneId, LaneKind};
use rackweave_verbs::Access;
use rackweave_wire::fabric::ring::{
    COMMIT_RECORD, ITEMS, SLOTS_MAX as RING_SLOTS_MAX, SWITCH_WORD, UNIT_WORD,
};

/// Which end of a flow a ring is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Producer,
    Consumer,
}

fn rule(
    holds: bool,
    what: &'static str,
    value: impl Into<u64>,
    rule: &'static str,
) -> Result<(), FlowError> {
    if holds {
        Ok(())
    } else {
        Err(FlowError::BadSpec {
            what,
            value: value.into(),
            rule,
        })
    }
}

impl FlowSpec {
    /// Checks everything that does not depend on the rack.
    ///
    /// # Errors
    /// The first value that is out of range.
    pub fn check(&self) -> Result<(), FlowError> {
        rule(
            !self.producers.is_empty(),
            "the number of producers",
            0u32,
            "at least one is needed",
        )?;
        rule(
            !self.consumers.is_empty(),
            "the number of consumers",
            0u32,
            "at least one is needed",
        )?;
        let item = self.item_size;
        rule(
            item > 0 && item.is_multiple_of(8),
            "item_size",
            item,
            "a multiple of 8 bytes is needed",
        )?;
        for (what, slots) in [
            ("producer_slots", self.producer_slots),
            ("consumer_slots", self.consumer_slots),
        ] {
            let fits = slots.is_power_of_two() && (2..=RING_SLOTS_MAX).contains(&slots);
            rule(fits, what, slots, "a power of two from 2 to 2^30 is needed")?;
            let bytes = Ring::bytes(item, slots);
            rule(
                bytes <= 1 << 40,
                what,
                slots,
                "a ring may have 2^40 bytes at most",
            )?;
        }
        let batch = self.batch_bytes;
        rule(
            batch >= item,
            "batch_bytes",
            batch,
            "at least one item must fit a transfer",
        )?;
        rule(
            batch <= 1 << 30,
            "batch_bytes",
            batch,
            "at most 2^30 bytes are allowed",
        )?;
        let transfers = self.transfers;
        let fits = transfers.is_power_of_two() && usize::from(transfers) <= LANES_MAX;
        rule(fits, "transfers", transfers, "1, 2 or 4 are possible")
    }
}

/// The first of `count` free neighbours, taken.
fn take_run(taken: &mut [bool], count: usize) -> Option<u16> {
    let first = taken
        .windows(count)
        .position(|run| run.iter().all(|&used| !used))?;
    taken[first..first + count].fill(true);
    Some(first as u16)
}

impl Controller {
    /// Sets a flow up and starts it. Each node allocates its rings.
    ///
    /// # Errors
    /// If the specification is out of range, or the switch or a node lacks room; then nothing is
    /// left behind.
    pub fn create_flow(
        &mut self,
        site: &mut dyn Site,
        spec: FlowSpec,
    ) -> Result<(FlowId, FlowRings), FlowError> {
        spec.check()?;
        let id = self.enter_flow(spec)?;
        let made = self.make_rings(site, id).and_then(|()| {
            self.connect_flow(site, id)?;
            Ok(())
        });
        if let Err(error) = made {
            self.take_down(site, id, FlowState::Aborted(super::AbortReason::Closed));
            return Err(error);
        }
        Ok((id, self.flows.flows[id.0 as usize].rings.clone()))
    }

    /// Takes the table entries of a flow, which has no rings yet.
    pub(super) fn enter_flow(&mut self, spec: FlowSpec) -> Result<FlowId, FlowError> {
        let (threads, producers) = (
            spec.consumers.len(),
            spec.consumers.len() * spec.producers.len(),
        );
        let full = |taken: &[bool], what, asked, setting| {
            let free = taken.iter().filter(|&&used| !used).count();
            FlowError::TablesFull {
                what,
                asked,
                free,
                setting,
            }
        };
        let book = &mut self.flows;
        let threads_first = take_run(&mut book.threads, threads)
            .ok_or_else(|| full(&book.threads, "consumer rings", threads, "consumer_rings"))?;
        let Some(producers_first) = take_run(&mut book.producers, producers) else {
            book.threads[usize::from(threads_first)..][..threads].fill(false);
            return Err(full(
                &book.producers,
                "producer rings",
                producers,
                "producer_rings",
            ));
        };
        let id = FlowId(self.flows.flows.len() as u32);
        self.flows.flows.push(Flow {
            threads_running: vec![true; threads],
            spec,
            state: FlowState::Running,
            rings: FlowRings {
                consumers: Vec::new(),
                producers: Vec::new(),
            },
            threads_first: ThreadId(threads_first),
            producers_first: ProducerId(producers_first),
            lanes: Vec::new(),
        });
        Ok(id)
    }

    fn make_rings(&mut self, site: &mut dyn Site, id: FlowId) -> Result<(), FlowError> {
        let spec = self.flows.flows[id.0 as usize].spec.clone();
        for &consumer in &spec.consumers {
            let ring = self.make_ring(site, &spec, consumer, End::Consumer)?;
            self.flows.flows[id.0 as usize].rings.consumers.push(ring);
            self.flows.flows[id.0 as usize]
                .rings
                .producers
                .push(Vec::new());
            for &producer in &spec.producers {
                let ring = self.make_ring(site, &spec, producer, End::Producer)?;
                let rings = &mut self.flows.flows[id.0 as usize].rings.producers;
                rings.last_mut().expect("pushed just above").push(ring);
            }
        }
        Ok(())
    }

    fn make_ring(
        &mut self,
        site: &mut dyn Site,
        spec: &FlowSpec,
        node: NodeId,
        end: End,
    ) -> Result<Ring, FlowError> {
        let (pd, _) = self.home(site, node)?;
        let slots = match end {
            End::Producer => spec.producer_slots,
            End::Consumer => spec.consumer_slots,
        };
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let region = site
            .make_region(node, pd, Ring::bytes(spec.item_size, slots), access)
            .map_err(|error| FlowError::Region { node, error })?;
        let order = self.flows.order(node);
        let ring = Ring {
            node,
            region,
            item_size: spec.item_size,
            slots,
            order,
        };
        ring.open(site);
        Ok(ring)
    }

    /// Connects all lanes of a flow's running threads, fills the tables and starts the polling.
    /// Counters are read from the rings, so that this serves a new flow and a recovered one alike.
    pub(super) fn connect_flow(
        &mut self,
        site: &mut dyn Site,
        id: FlowId,
    ) -> Result<(), LaneError> {
        let flow = &self.flows.flows[id.0 as usize];
        let running = flow.threads_running.clone();
        let nodes = site.nodes();
        let mut polls = Vec::new();
        for (at, _) in running.iter().enumerate().filter(|&(_, &runs)| runs) {
            self.connect_thread(site, id, at, &nodes, &mut polls)?;
        }
        let first = self.flows.flows[id.0 as usize].threads_first.0;
        site.switch(&mut |now, switch| {
            for &lane in &polls {
                switch.inject(now, Task::Flow(FlowTask::Poll(lane)));
            }
            // After a recovery there may be work that the mirrors know already.
            for thread in first..first + running.len() as u16 {
                switch.inject(now, Task::Flow(FlowTask::Wake(ThreadId(thread))));
            }
        });
        Ok(())
    }

    fn connect_thread(
        &mut self,
        site: &mut dyn Site,
        id: FlowId,
        at: usize,
        nodes: &[(NodeId, NodeAddress)],
        polls: &mut Vec<LaneId>,
    ) -> Result<(), LaneError> {
        let flow = &self.flows.flows[id.0 as usize];
        let spec = flow.spec.clone();
        let consumer = flow.rings.consumers[at].clone();
        let producers = flow.rings.producers[at].clone();
        let thread = ThreadId(flow.threads_first.0 + at as u16);
        let first = ProducerId(flow.producers_first.0 + (at * spec.producers.len()) as u16);
        for (place, ring) in producers.iter().enumerate() {
            let producer = ProducerId(first.0 + place as u16);
            let place = self.connect_ring(site, id, ring, End::Producer, nodes)?;
            polls.push(place.poll);
            let entry = ProducerEntry {
                ring: place,
                thread,
            };
            let counters = counters(site, ring);
            let mut entered = Ok(());
            site.switch(&mut |_, switch| {
                let flows = &mut switch.program_mut().flows;
                entered = flows.install_producer(producer, entry, counters);
            });
            entered?;
        }
        let place = self.connect_ring(site, id, &consumer, End::Consumer, nodes)?;
        polls.push(place.poll);
        let entry = ThreadEntry {
            ring: place,
            item_size: spec.item_size,
            batch_items: batch_items(&spec),
            producers_first: first,
            producers: spec.producers.len() as u16,
            first_turn: (at % spec.producers.len()) as u16,
        };
        let counters = counters(site, &consumer);
        let mut entered = Ok(());
        site.switch(&mut |_, switch| {
            entered = switch
                .program_mut()
                .flows
                .install_thread(thread, entry, counters);
        });
        Ok(entered?)
    }

    /// Connects the lanes of one ring: its words and its data.
    fn connect_ring(
        &mut self,
        site: &mut dyn Site,
        id: FlowId,
        ring: &Ring,
        end: End,
        nodes: &[(NodeId, NodeAddress)],
    ) -> Result<RingPlace, LaneError> {
        let spec = &self.flows.flows[id.0 as usize].spec;
        let (lanes, mtu) = (spec.transfers, spec.mtu);
        let node = nodes
            .iter()
            .find(|(node, _)| *node == ring.node)
            .copied()
            .ok_or(LaneError::NoNode(ring.node))?;
        let first = self.lanes.take(u16::from(lanes) + 2)?;
        let lane = |offset: u16| LaneId(first.0 + offset);
        let (poll, publish, data) = (lane(0), lane(1), lane(2));
        let word = |offset: u64| LaneKind::Word {
            address: ring.region.address + offset,
            rkey: ring.region.rkey,
        };
        let (kind, access, published) = match end {
            End::Producer => (LaneKind::Source, Access::REMOTE_READ, SWITCH_WORD),
            End::Consumer => (
                LaneKind::Target,
                Access::LOCAL_WRITE | Access::REMOTE_WRITE,
                COMMIT_RECORD,
            ),
        };
        let write = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let mut wanted = vec![
            (poll, word(UNIT_WORD), Access::REMOTE_READ),
            (publish, word(published), write),
        ];
        wanted.extend((0..u16::from(lanes)).map(|at| (lane(2 + at), kind, access)));
        let mut connected: Vec<Connected> = Vec::new();
        for (at, &(lane, kind, access)) in wanted.iter().enumerate() {
            match self.connect_lane(site, lane, node, kind, access, mtu) {
                Ok(made) => connected.push(made),
                Err(error) => {
                    for (lane, ..) in &wanted[at..] {
                        self.lanes.give_back(*lane);
                    }
                    self.flows.flows[id.0 as usize].lanes.append(&mut connected);
                    return Err(error);
                }
            }
        }
        self.flows.flows[id.0 as usize].lanes.append(&mut connected);
        Ok(RingPlace {
            items: ring.region.address + ITEMS,
            rkey: ring.region.rkey,
            slots: ring.slots,
            order: ring.order,
            poll,
            publish,
            lanes_first: data,
            lanes,
        })
    }

    /// Forgets the regions of a flow that has ended.
    pub(super) fn deregister(&mut self, site: &mut dyn Site, id: FlowId) {
        for ring in self.flows.flows[id.0 as usize].rings.all() {
            site.remove_region(ring.node, &ring.region);
        }
    }
}

/// Items of one transfer at most: no more than lets all transfers of a ring be under way while its
/// node works on as much again.
fn batch_items(spec: &FlowSpec) -> u32 {
    let slots = spec.producer_slots.min(spec.consumer_slots);
    let share = slots / (2 * u32::from(spec.transfers));
    (spec.batch_bytes / spec.item_size).min(share).max(1)
}

/// Where a ring's counters stand, by its own words.
fn counters(site: &mut dyn Site, ring: &Ring) -> Counters {
    Counters {
        published: ring.switch(site).map_or(0, |word| word.counter),
        unit: ring.unit(site).map_or(0, |word| word.counter),
    }
}
