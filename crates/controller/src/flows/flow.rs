//! The controller's state of a flow: its members, rings and lanes.

use super::{FlowId, FlowRings, FlowShape, FlowSpec, FlowState, Loss, Ring, RingCounters};
use crate::lanes::Connected;
use rackweave_base::{NodeId, Rkey};
use rackweave_programs::flows::{ConsumerId, ProducerId, RingPlace, ThreadId, Whose};
use rackweave_switch::transfer::LaneId;
use serde::{Deserialize, Serialize};

/// A flow. Members keep their numbers; removed ones stay in the lists.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Flow {
    pub id: FlowId,
    pub spec: FlowSpec,
    pub state: FlowState,
    pub rings: FlowRings,
    pub consumers: Vec<ConsumerMember>,
    pub producers: Vec<ProducerMember>,
    /// Lanes to the nodes.
    pub lanes: Vec<Connected>,
    /// Lanes that stand for groups: the first, and how many.
    pub groups: Option<(LaneId, u8)>,
    /// Replicas whose lanes are connected and that the switch does not know yet, by their numbers
    /// in the flow.
    pub entering: Vec<(usize, RingPlace)>,
    pub losses: Vec<Loss>,
    /// The counters of its rings when it was taken down.
    pub rings_at_end: Option<RingCounters>,
}

/// A consumer of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ConsumerMember {
    pub id: ConsumerId,
    /// Whether its stream is still running.
    pub running: bool,
    pub gone: bool,
    /// Where a replica joins: when the switch has moved all items before this one, its lanes are
    /// connected.
    pub joins_at: Option<u32>,
    /// Whether it leaves once nothing is in flight to it.
    pub leaves: bool,
}

/// A producer of a flow.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct ProducerMember {
    /// Its rings: one per consumer in a shuffle, else one.
    pub ids: Vec<ProducerId>,
    pub gone: bool,
    /// Whether it leaves once nothing of it is in flight.
    pub leaves: bool,
}

impl Flow {
    /// The lanes that it has in the switch.
    pub fn lane_numbers(&self) -> impl Iterator<Item = LaneId> {
        let (first, count) = self.groups.unwrap_or_default();
        let groups = (first.0..first.0 + u16::from(count)).map(LaneId);
        self.lanes.iter().map(|lane| lane.lane).chain(groups)
    }

    /// The threads of the flow that have work, each with the number of its consumer; the one thread
    /// of a replicated flow serves all.
    pub fn threads(&self) -> impl Iterator<Item = (ThreadId, usize)> {
        let all = self.consumers.iter().enumerate();
        let is_one = self.spec.shape == FlowShape::Replicate;
        let has_work = self.has_work();
        all.filter(move |&(at, member)| match is_one {
            true => at == 0 && has_work,
            false => member.running && !member.gone,
        })
        .map(|(at, member)| (ThreadId(member.id.0), at))
    }

    /// The consumers that a thread serves, by their number in the flow.
    pub fn served_by(&self, at: usize) -> Vec<usize> {
        match self.spec.shape {
            FlowShape::Replicate => self.connected_consumers().collect(),
            FlowShape::Shuffle | FlowShape::Balance => vec![at],
        }
    }

    /// Consumers that have not left and whose stream has not ended.
    pub fn live_consumers(&self) -> impl Iterator<Item = usize> {
        let members = self.consumers.iter().enumerate();
        members
            .filter(|(_, member)| member.running && !member.gone)
            .map(|(at, _)| at)
    }

    /// The live consumers without those that have yet to join.
    pub fn connected_consumers(&self) -> impl Iterator<Item = usize> {
        let is_connected = |&at: &usize| self.consumers[at].joins_at.is_none();
        self.live_consumers().filter(is_connected)
    }

    /// The connected consumers without those that are about to leave.
    pub fn staying_consumers(&self) -> impl Iterator<Item = usize> {
        self.connected_consumers()
            .filter(|&at| !self.consumers[at].leaves)
    }

    /// The ring counter at which the next consumer joins, if its thread is at `head`.
    pub fn next_pause(&self, head: u32) -> Option<u32> {
        let joins = self
            .live_consumers()
            .filter_map(|at| self.consumers[at].joins_at);
        joins.min_by_key(|at| at.wrapping_sub(head))
    }

    /// Producers that have not left.
    pub fn live_producers(&self) -> impl Iterator<Item = usize> {
        let members = self.producers.iter().enumerate();
        members.filter(|(_, member)| !member.gone).map(|(at, _)| at)
    }

    /// The rings of a producer that belong to the thread of a consumer.
    pub fn ring_at(&self, consumer: usize) -> usize {
        match self.spec.shape {
            FlowShape::Shuffle => consumer,
            FlowShape::Balance | FlowShape::Replicate => 0,
        }
    }

    /// Whether any consumer's stream is still running.
    pub fn has_work(&self) -> bool {
        self.live_consumers().next().is_some()
    }

    /// Adds a consumer, and returns its number in the flow.
    pub fn join_consumer(&mut self, member: ConsumerMember, ring: Ring) -> usize {
        self.consumers.push(member);
        self.spec.consumers.push(ring.node);
        self.rings.consumers.push(ring);
        self.consumers.len() - 1
    }

    /// Adds a producer, and returns its number in the flow.
    pub fn join_producer(&mut self, member: ProducerMember, rings: &[Ring]) -> usize {
        self.producers.push(member);
        self.spec.producers.extend(rings.first().map(|it| it.node));
        for (all, ring) in self.rings.producers.iter_mut().zip(rings) {
            all.push(ring.clone());
        }
        self.producers.len() - 1
    }

    /// Removes the newest producer, which could not be entered.
    pub fn undo_join_producer(&mut self) {
        self.producers.pop();
        self.spec.producers.pop();
        self.rings
            .producers
            .iter_mut()
            .for_each(|all| _ = all.pop());
    }

    pub fn thread_ended(&mut self, thread: ThreadId) {
        let is_one = self.spec.shape == FlowShape::Replicate;
        for member in &mut self.consumers {
            if is_one || member.id.0 == thread.0 {
                member.running = false;
            }
        }
    }

    /// The consumers and producers on a node that have not left.
    pub fn members_on(&self, node: NodeId) -> (Vec<usize>, Vec<usize>) {
        let members = self.consumers.iter().enumerate();
        let consumers = members
            .filter(|&(at, member)| !member.gone && self.spec.consumers[at] == node)
            .map(|(at, _)| at);
        let producers = self
            .live_producers()
            .filter(|&at| self.spec.producers[at] == node);
        (consumers.collect(), producers.collect())
    }

    /// The rings of members that have not left.
    pub fn rings_left(&self) -> impl Iterator<Item = &Ring> {
        let consumers = self.consumers.iter().zip(&self.rings.consumers);
        let consumers = consumers.filter(|(member, _)| !member.gone).map(|(_, r)| r);
        let producers = self.rings.producers.iter().flat_map(|rings| {
            let rings = self.producers.iter().zip(rings);
            rings
                .filter(|(member, _)| !member.gone)
                .map(|(_, ring)| ring)
        });
        consumers.chain(producers)
    }

    /// The role and the number in the flow of a member that has not left.
    pub fn member(&self, whose: Whose) -> Option<(&'static str, usize)> {
        match whose {
            Whose::Consumer(consumer) => {
                let is = |member: &ConsumerMember| member.id == consumer && !member.gone;
                let index = self.consumers.iter().position(is)?;
                Some(("consumer", index))
            }
            Whose::Producer(producer) => {
                let is = |member: &ProducerMember| member.ids.contains(&producer) && !member.gone;
                let index = self.producers.iter().position(is)?;
                Some(("producer", index))
            }
        }
    }

    /// Whether one of the rings of a member has this key.
    pub fn has_ring(&self, whose: Whose, index: usize, key: Rkey) -> bool {
        let is = |ring: &Ring| ring.region.rkey == key;
        match whose {
            Whose::Consumer(_) => self.rings.consumers.get(index).is_some_and(is),
            Whose::Producer(_) => {
                let mut rings = self.rings.producers.iter();
                rings.any(|rings| rings.get(index).is_some_and(is))
            }
        }
    }
}
