//! What the controller remembers of flows.

use super::{FlowId, FlowRings, FlowSpec, FlowState, Loss, Ring, RingCounters};
use crate::lanes::Connected;
use rackweave_base::NodeId;
use rackweave_programs::flows::{ConsumerId, ProducerId, ThreadId, Whose};
use rackweave_switch::transfer::LaneId;
use rackweave_wire::fabric::ring::ByteOrder;

use super::FlowShape;

/// All flows, and which table entries are free.
pub(crate) struct FlowBook {
    pub flows: Vec<Flow>,
    /// Which numbers of threads and consumers are taken.
    pub threads: Vec<bool>,
    /// Which numbers of producer rings are taken.
    pub producers: Vec<bool>,
    orders: Vec<(NodeId, ByteOrder)>,
}

/// A flow as the controller knows it. Members keep their numbers; those that have left stay in the
/// lists.
pub(crate) struct Flow {
    pub spec: FlowSpec,
    pub state: FlowState,
    pub rings: FlowRings,
    pub consumers: Vec<ConsumerSeat>,
    pub producers: Vec<ProducerSeat>,
    /// Lanes to the nodes.
    pub lanes: Vec<Connected>,
    /// Lanes that stand for groups: the first, and how many.
    pub groups: Option<(LaneId, u8)>,
    pub losses: Vec<Loss>,
    /// What its rings said when it was taken down.
    pub rings_at_end: Option<RingCounters>,
}

/// A consumer of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ConsumerSeat {
    pub id: ConsumerId,
    /// Whether its stream has not ended.
    pub running: bool,
    pub gone: bool,
}

/// A producer of a flow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ProducerSeat {
    /// Its rings: one per consumer in a shuffle, one else.
    pub ids: Vec<ProducerId>,
    pub gone: bool,
}

impl FlowBook {
    pub fn new(threads: u16, producers: u16) -> Self {
        Self {
            flows: Vec::new(),
            threads: vec![false; usize::from(threads)],
            producers: vec![false; usize::from(producers)],
            orders: Vec::new(),
        }
    }

    /// The byte order of a node's memory: little-endian, unless told otherwise.
    pub fn order(&self, node: NodeId) -> ByteOrder {
        let known = self.orders.iter().find(|(id, _)| *id == node);
        known.map_or(ByteOrder::Little, |&(_, order)| order)
    }

    pub fn set_order(&mut self, node: NodeId, order: ByteOrder) {
        self.orders.retain(|(id, _)| *id != node);
        self.orders.push((node, order));
    }

    fn running(&self) -> impl Iterator<Item = (FlowId, &Flow)> {
        let flows = self.flows.iter().enumerate();
        flows
            .filter(|(_, flow)| flow.state == FlowState::Running)
            .map(|(at, flow)| (FlowId(at as u32), flow))
    }

    pub fn of_thread(&self, thread: ThreadId) -> Option<FlowId> {
        let has = |flow: &Flow| flow.threads().any(|(id, _)| id == thread);
        self.running().find(|(_, flow)| has(flow)).map(|(id, _)| id)
    }

    /// The flow, the role and the number in the flow of a member that has not left.
    pub fn member(&self, whose: Whose) -> Option<(FlowId, &'static str, usize)> {
        self.running().find_map(|(id, flow)| match whose {
            Whose::Consumer(consumer) => {
                let is = |seat: &ConsumerSeat| seat.id == consumer && !seat.gone;
                let index = flow.consumers.iter().position(is)?;
                Some((id, "consumer", index))
            }
            Whose::Producer(producer) => {
                let is = |seat: &ProducerSeat| seat.ids.contains(&producer) && !seat.gone;
                let index = flow.producers.iter().position(is)?;
                Some((id, "producer", index))
            }
        })
    }
}

/// A free number, taken.
pub(super) fn take_number(taken: &mut [bool]) -> Option<u16> {
    let free = taken.iter().position(|&used| !used)?;
    taken[free] = true;
    Some(free as u16)
}

impl Flow {
    /// The threads of the flow that have work, each with the number of the consumer that it is for;
    /// the one thread of a replicated flow is for all.
    pub fn threads(&self) -> impl Iterator<Item = (ThreadId, usize)> {
        let all = self.consumers.iter().enumerate();
        let is_one = self.spec.shape == FlowShape::Replicate;
        let has_work = self.has_work();
        all.filter(move |&(at, seat)| match is_one {
            true => at == 0 && has_work,
            false => seat.running && !seat.gone,
        })
        .map(|(at, seat)| (ThreadId(seat.id.0), at))
    }

    /// The consumers that a thread serves, by their number in the flow.
    pub fn served_by(&self, at: usize) -> Vec<usize> {
        match self.spec.shape {
            FlowShape::Replicate => self.live_consumers().collect(),
            FlowShape::Shuffle | FlowShape::Balance => vec![at],
        }
    }

    /// Consumers that have not left and whose stream has not ended.
    pub fn live_consumers(&self) -> impl Iterator<Item = usize> {
        let seats = self.consumers.iter().enumerate();
        seats
            .filter(|(_, seat)| seat.running && !seat.gone)
            .map(|(at, _)| at)
    }

    /// Producers that have not left.
    pub fn live_producers(&self) -> impl Iterator<Item = usize> {
        let seats = self.producers.iter().enumerate();
        seats.filter(|(_, seat)| !seat.gone).map(|(at, _)| at)
    }

    /// The rings of a producer that belong to the thread of a consumer.
    pub fn ring_at(&self, consumer: usize) -> usize {
        match self.spec.shape {
            FlowShape::Shuffle => consumer,
            FlowShape::Balance | FlowShape::Replicate => 0,
        }
    }

    /// Whether the stream of any consumer has not ended.
    pub fn has_work(&self) -> bool {
        self.live_consumers().next().is_some()
    }

    pub fn thread_ended(&mut self, thread: ThreadId) {
        let is_one = self.spec.shape == FlowShape::Replicate;
        for seat in &mut self.consumers {
            if is_one || seat.id.0 == thread.0 {
                seat.running = false;
            }
        }
    }

    /// The consumers and producers on a node that have not left.
    pub fn members_on(&self, node: NodeId) -> (Vec<usize>, Vec<usize>) {
        let seats = self.consumers.iter().enumerate();
        let consumers = seats
            .filter(|&(at, seat)| !seat.gone && self.spec.consumers[at] == node)
            .map(|(at, _)| at);
        let producers = self
            .live_producers()
            .filter(|&at| self.spec.producers[at] == node);
        (consumers.collect(), producers.collect())
    }

    /// The rings of members that have not left.
    pub fn rings_left(&self) -> impl Iterator<Item = &Ring> {
        let consumers = self.consumers.iter().zip(&self.rings.consumers);
        let consumers = consumers.filter(|(seat, _)| !seat.gone).map(|(_, r)| r);
        let producers = self.rings.producers.iter().flat_map(|rings| {
            let rings = self.producers.iter().zip(rings);
            rings.filter(|(seat, _)| !seat.gone).map(|(_, ring)| ring)
        });
        consumers.chain(producers)
    }

    /// Gives back all numbers.
    pub fn free_numbers(&self, threads: &mut [bool], producers: &mut [bool]) {
        for seat in &self.consumers {
            threads[usize::from(seat.id.0)] = false;
        }
        for id in self.producers.iter().flat_map(|seat| &seat.ids) {
            producers[usize::from(id.0)] = false;
        }
    }
}
