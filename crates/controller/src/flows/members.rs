//! Members that join, leave or die while a flow runs.
//!
//! A consumer that joins a balanced flow gets a thread of its own, and the others need not pause.
//! Any other change sets the flow up again from what its rings say, as after a restart of the
//! switch (`recover`): with the members that there are now. Nobody else's ring is touched, so
//! producers and consumers notice nothing but a pause.

use super::set_up::{End, forget_ring, take_consumer, take_producer};
use super::{AbortReason, FlowError, FlowId, FlowShape, FlowState, LossPolicy, Ring};
use crate::{Controller, Site};
use rackweave_base::NodeId;
use rackweave_base::text::Text;
use rackweave_programs::flows::{REPLICAS_MAX, ThreadId};
use rackweave_wire::fabric::ring::{CommitRecord, SwitchState, UnitState};
use serde::{Deserialize, Serialize};

/// A member that was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Loss {
    /// Its node.
    pub node: NodeId,
    /// Producer or consumer.
    #[serde(with = "rackweave_base::text")]
    pub role: Text,
    /// Its number in the flow.
    pub index: usize,
    /// Items that a consumer of a balanced flow had been given, that it had not said to have
    /// consumed, and that nobody else gets. Some of them it may have consumed.
    pub items: u64,
    /// Why it was lost.
    pub reason: AbortReason,
}

/// Whether a producer has finished and all its items are delivered.
fn is_delivered(ring: &Ring, site: &mut dyn Site) -> bool {
    let (unit, switch) = (ring.unit(site), ring.switch(site));
    unit.zip(switch).is_some_and(|(unit, switch)| {
        unit.state == UnitState::Finished && unit.counter == switch.counter
    })
}

impl Controller {
    /// Members of a flow that were lost so far.
    pub fn losses(&self, id: FlowId) -> &[Loss] {
        let flow = self.flows.flows.get(id.0 as usize);
        flow.map_or(&[], |flow| &flow.losses)
    }

    /// A consumer joins: of a balanced flow, it gets its share from now on; of a replicated one, it
    /// gets every item that is published from now on. Returns its number in the flow and its ring.
    ///
    /// # Errors
    /// If the shape forbids it, the flow does not run, or the switch or the node lacks room. If the
    /// flow could not be set up again it is broken off; else nothing changes.
    pub fn add_consumer(
        &mut self,
        site: &mut dyn Site,
        id: FlowId,
        node: NodeId,
    ) -> Result<(usize, Ring), FlowError> {
        let shape = self.changeable(id, "take another consumer")?;
        let flow = &self.flows.flows[id.0 as usize];
        if shape == FlowShape::Replicate && flow.live_consumers().count() >= REPLICAS_MAX {
            return Err(FlowError::BadSpec {
                what: "the number of consumers",
                value: REPLICAS_MAX as u64 + 1,
                rule: "at most 32 replicas are possible",
            });
        }
        self.check_room(1, 0)?;
        let spec = flow.spec.clone();
        let ring = self.make_ring(site, &spec, node, spec.consumer_slots, 0)?;
        if shape == FlowShape::Balance {
            return self.join_balanced(site, id, ring);
        }
        self.detach(site, id);
        if self.has_ended_meanwhile(site, id) {
            forget_ring(site, &ring);
            return Err(FlowError::NotRunning);
        }
        if shape == FlowShape::Replicate {
            // All have the same head now.
            let flow = &self.flows.flows[id.0 as usize];
            let other = flow.live_consumers().next();
            let head = other.and_then(|at| flow.rings.consumers[at].switch(site));
            ring.open(site, head.map_or(0, |word| word.counter));
        }
        let flow = &mut self.flows.flows[id.0 as usize];
        flow.consumers
            .extend(take_consumer(&mut self.flows.threads));
        flow.spec.consumers.push(node);
        flow.rings.consumers.push(ring.clone());
        self.attach(site, id)?;
        let flow = &self.flows.flows[id.0 as usize];
        Ok((flow.consumers.len() - 1, ring))
    }

    /// One more consumer with a thread of its own: the others need not even pause.
    fn join_balanced(
        &mut self,
        site: &mut dyn Site,
        id: FlowId,
        ring: Ring,
    ) -> Result<(usize, Ring), FlowError> {
        let nodes = site.nodes();
        let lanes_before = self.flows.flows[id.0 as usize].lanes.len();
        let connected = self.connect_ring(site, id, &ring, End::Consumer, &nodes);
        let place = match connected {
            Ok(place) => place,
            Err(error) => {
                let flow = &mut self.flows.flows[id.0 as usize];
                for lane in flow.lanes.split_off(lanes_before) {
                    self.disconnect_lane(site, &lane);
                }
                forget_ring(site, &ring);
                return Err(error.into());
            }
        };
        let seat = take_consumer(&mut self.flows.threads);
        let flow = &mut self.flows.flows[id.0 as usize];
        flow.consumers.extend(seat);
        flow.spec.consumers.push(ring.node);
        flow.rings.consumers.push(ring.clone());
        self.enter_balanced(site, id, place)?;
        let index = self.flows.flows[id.0 as usize].consumers.len() - 1;
        Ok((index, ring))
    }

    /// A consumer leaves: what it has been shown it may still take, then its stream ends. What was
    /// under way to it goes to others.
    ///
    /// # Errors
    /// If the shape forbids it, it is the last one or none of the flow's, or the flow does not run.
    pub fn remove_consumer(
        &mut self,
        site: &mut dyn Site,
        id: FlowId,
        index: usize,
    ) -> Result<(), FlowError> {
        self.changeable(id, "let a consumer go")?;
        let flow = &self.flows.flows[id.0 as usize];
        let role = "consumer";
        if !flow.live_consumers().any(|at| at == index) {
            return Err(FlowError::NoSuchMember { role, index });
        }
        if !self.others_wait(site, id, &[index]) {
            return Err(FlowError::LastMember { role });
        }
        self.detach(site, id);
        let flow = &mut self.flows.flows[id.0 as usize];
        flow.consumers[index].gone = true;
        let ring = flow.rings.consumers[index].clone();
        ring.tell(site, SwitchState::Ended);
        forget_ring(site, &ring);
        self.attach(site, id)
    }

    /// A producer joins. Returns its number in the flow and its rings.
    ///
    /// # Errors
    /// If the stream of a consumer of a shuffle has ended, the flow does not run, or the switch or
    /// the node lacks room.
    pub fn add_producer(
        &mut self,
        site: &mut dyn Site,
        id: FlowId,
        node: NodeId,
    ) -> Result<(usize, Vec<Ring>), FlowError> {
        if self.flow_state(id) != Some(FlowState::Running) {
            return Err(FlowError::NotRunning);
        }
        let flow = &self.flows.flows[id.0 as usize];
        let spec = flow.spec.clone();
        let mut seats = flow.consumers.iter().zip(&flow.rings.consumers);
        if spec.shape == FlowShape::Shuffle
            && seats.any(|(seat, ring)| !seat.running || ring.has_ended(site))
        {
            // Nobody would take what the newcomer sends there.
            return Err(FlowError::ShapeForbids {
                shape: spec.shape,
                change: "take another producer",
                rule: "one of its consumers has seen the end of its stream",
            });
        }
        let count = flow.rings.producers.len();
        self.check_room(0, count)?;
        let mut rings = Vec::new();
        for _ in 0..count {
            match self.make_ring(site, &spec, node, spec.producer_slots, 0) {
                Ok(ring) => rings.push(ring),
                Err(error) => {
                    rings.iter().for_each(|ring| forget_ring(site, ring));
                    return Err(error);
                }
            }
        }
        self.detach(site, id);
        if self.has_ended_meanwhile(site, id) {
            rings.iter().for_each(|ring| forget_ring(site, ring));
            return Err(FlowError::NotRunning);
        }
        let seat = take_producer(&mut self.flows.producers, count);
        let flow = &mut self.flows.flows[id.0 as usize];
        flow.producers.push(seat);
        flow.spec.producers.push(node);
        for (all, ring) in flow.rings.producers.iter_mut().zip(&rings) {
            all.push(ring.clone());
        }
        let index = flow.producers.len() - 1;
        self.attach(site, id)?;
        Ok((index, rings))
    }

    /// A producer that has finished leaves: its rings are given back.
    ///
    /// # Errors
    /// If it has not finished or its items are not all delivered, it is the last one or none of the
    /// flow's, or the flow does not run.
    pub fn remove_producer(
        &mut self,
        site: &mut dyn Site,
        id: FlowId,
        index: usize,
    ) -> Result<(), FlowError> {
        if self.flow_state(id) != Some(FlowState::Running) {
            return Err(FlowError::NotRunning);
        }
        let flow = &self.flows.flows[id.0 as usize];
        let role = "producer";
        if !flow.live_producers().any(|at| at == index) {
            return Err(FlowError::NoSuchMember { role, index });
        }
        if flow.live_producers().count() == 1 {
            return Err(FlowError::LastMember { role });
        }
        let rings = flow.rings.of_producer(index);
        if !rings.iter().all(|ring| is_delivered(ring, site)) {
            return Err(FlowError::ProducerBusy { index });
        }
        self.detach(site, id);
        self.flows.flows[id.0 as usize].producers[index].gone = true;
        for ring in &rings {
            ring.tell(site, SwitchState::Ended);
            forget_ring(site, ring);
        }
        self.attach(site, id)
    }

    /// Whether the rings of a detached flow say that it has ended, which nobody had heard of yet.
    fn has_ended_meanwhile(&mut self, site: &mut dyn Site, id: FlowId) -> bool {
        let has_ended = !self.flows.flows[id.0 as usize].has_work();
        if has_ended {
            self.take_down(site, id, FlowState::Ended);
        }
        has_ended
    }

    /// Whether any consumer but `these` can still be given items.
    fn others_wait(&self, site: &mut dyn Site, id: FlowId, these: &[usize]) -> bool {
        let flow = &self.flows.flows[id.0 as usize];
        let mut others = flow.live_consumers().filter(|at| !these.contains(at));
        // Its ring may tell of an end that nobody has heard of yet.
        others.any(|at| !flow.rings.consumers[at].has_ended(site))
    }

    /// Whether the flow goes on without these.
    fn goes_on(
        &self,
        site: &mut dyn Site,
        id: FlowId,
        consumers: &[usize],
        producers: &[usize],
    ) -> bool {
        let flow = &self.flows.flows[id.0 as usize];
        let others = self.others_wait(site, id, consumers);
        // What a dead producer had left is gone, whoever waits for it.
        let left = flow.live_producers().filter(|at| !producers.contains(at));
        let mut left = left.flat_map(|at| flow.rings.of_producer(at)).peekable();
        flow.spec.on_loss != LossPolicy::Abort
            && (consumers.is_empty() || flow.spec.shape != FlowShape::Shuffle)
            && left.peek().is_some()
            // Where the others have ended before, there is no harm if nothing is left to give.
            && (others || left.all(|ring| is_delivered(&ring, site)))
    }

    /// Whether consumers of the flow may come and go.
    fn changeable(&self, id: FlowId, change: &'static str) -> Result<FlowShape, FlowError> {
        if self.flow_state(id) != Some(FlowState::Running) {
            return Err(FlowError::NotRunning);
        }
        match self.flows.flows[id.0 as usize].spec.shape {
            FlowShape::Shuffle => Err(FlowError::ShapeForbids {
                shape: FlowShape::Shuffle,
                change,
                rule: "its producers choose among the consumers that it began with",
            }),
            shape => Ok(shape),
        }
    }

    /// Members are gone without having left. The flow goes on without them if its policy and its
    /// shape allow that.
    pub(super) fn members_lost(
        &mut self,
        site: &mut dyn Site,
        id: FlowId,
        consumers: &[usize],
        producers: &[usize],
        reason: AbortReason,
    ) {
        if !self.goes_on(site, id, consumers, producers) {
            return self.take_down(site, id, FlowState::Aborted(reason));
        }
        let mut told = Vec::new();
        for &index in consumers {
            let (loss, tail) = self.lost_with(site, id, index, reason);
            told.extend(tail);
            self.flows.flows[id.0 as usize].losses.push(loss);
        }
        let agreed = (!consumers.is_empty())
            .then(|| self.being_told_to_all(site, id))
            .flatten();
        // From now on nobody asks what its rings say.
        let flow = &mut self.flows.flows[id.0 as usize];
        let mut rings = Vec::new();
        for &index in consumers {
            flow.consumers[index].gone = true;
            rings.push(flow.rings.consumers[index].clone());
        }
        for &index in producers {
            flow.producers[index].gone = true;
            rings.extend(flow.rings.of_producer(index));
            flow.losses.push(Loss {
                node: flow.spec.producers[index],
                role: "producer",
                index,
                items: 0,
                reason,
            });
        }
        self.detach(site, id);
        for (ring, tail) in told {
            ring.raise_switch_counter(site, tail);
        }
        if let Some((head, record, (ring, tail))) = agreed {
            let flow = &self.flows.flows[id.0 as usize];
            for at in flow.live_consumers() {
                let replica = &flow.rings.consumers[at];
                replica.set_record(site, record);
                replica.raise_switch_counter(site, head);
            }
            ring.raise_switch_counter(site, tail);
        }
        for ring in &rings {
            // The node may be alive after all.
            ring.tell(site, SwitchState::Aborted);
            forget_ring(site, ring);
        }
        // If that fails, the flow is broken off, and whoever asks is told.
        let _ = self.attach(site, id);
    }

    /// The head that all replicas were about to be told, what it contains, and the producer's tail
    /// that goes with it. Who is lost may have seen it, and all the others have the items: so that
    /// nobody saw what others never see, they are told, too.
    fn being_told_to_all(
        &self,
        site: &mut dyn Site,
        id: FlowId,
    ) -> Option<(u32, CommitRecord, (Ring, u32))> {
        let flow = &self.flows.flows[id.0 as usize];
        if flow.spec.shape != FlowShape::Replicate {
            return None;
        }
        let thread = ThreadId(flow.consumers.first()?.id.0);
        let mut telling = None;
        site.switch(&mut |_, switch| {
            let flows = &switch.program().flows;
            telling = flows
                .being_told(thread)
                .map(|told| (flows.head(thread), told));
        });
        let (head, (producer, tail)) = telling?;
        let mut seats = flow.producers.iter();
        let at = seats.position(|seat| seat.ids[0] == producer)?;
        let record = CommitRecord {
            producer: at as u16 + 1,
            tail,
        };
        Some((head, record, (flow.rings.producers[0][at].clone(), tail)))
    }

    /// What goes with a consumer, and the producer's tail that was about to be told because of it.
    fn lost_with(
        &mut self,
        site: &mut dyn Site,
        id: FlowId,
        index: usize,
        reason: AbortReason,
    ) -> (Loss, Option<(Ring, u32)>) {
        let flow = &self.flows.flows[id.0 as usize];
        let mut loss = Loss {
            node: flow.spec.consumers[index],
            role: "consumer",
            index,
            items: 0,
            reason,
        };
        let is_counted =
            flow.spec.shape == FlowShape::Balance && flow.spec.on_loss == LossPolicy::Report;
        if !is_counted {
            return (loss, None);
        }
        let consumer = flow.consumers[index].id;
        let thread = ThreadId(consumer.0);
        let mut telling = None;
        site.switch(&mut |_, switch| {
            let flows = &switch.program().flows;
            loss.items = u64::from(flows.unconsumed(thread, consumer));
            telling = flows.being_told(thread);
        });
        // It may have seen the newest head. Whoever shall get no item twice must take it as gone.
        let tail = telling.and_then(|(producer, tail)| {
            let seats = flow.producers.iter();
            let at = seats.clone().position(|seat| seat.ids[0] == producer)?;
            Some((flow.rings.producers[0][at].clone(), tail))
        });
        (loss, tail)
    }
}
