//! Members that join, leave or die while a flow runs.
//!
//! A consumer that joins a balanced flow gets a thread of its own, and the others need not pause.
//! Any other change sets the flow up again from its rings with the current members, as after a
//! restart of the switch (`recover`). Other members' rings are not changed, so producers and
//! consumers only see a pause.

use super::flow::{ConsumerMember, Flow, ProducerMember};
use super::set_up::{End, forget_ring};
use super::{AbortReason, FlowError, FlowId, FlowShape, FlowState, LossPolicy, Ring};
use crate::{Fabric, Site};
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
    /// Items that were given to a consumer of a balanced flow, that it had not confirmed as
    /// consumed, and that no other consumer gets. Some of them it may have consumed.
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

impl Fabric {
    /// Lost members of a flow so far.
    pub fn losses(&self, id: FlowId) -> Vec<Loss> {
        let losses = self.flows.with(id, |flow| flow.losses.clone());
        losses.unwrap_or_default()
    }

    /// Calls `act` with a running flow.
    fn change<R>(
        &self,
        id: FlowId,
        act: impl FnOnce(&mut Flow) -> Result<R, FlowError>,
    ) -> Result<R, FlowError> {
        let done = self.flows.with_running(id, act);
        done.unwrap_or(Err(FlowError::NotRunning))
    }

    /// Adds a consumer: in a balanced flow, it gets its share from now on; in a replicated one,
    /// every item that is published from now on. Returns its number in the flow and its ring.
    ///
    /// # Errors
    /// If the shape forbids it, the flow is not running, or the switch or the node lacks capacity.
    /// If the flow could not be set up again it is aborted; else nothing changes.
    pub fn add_consumer(
        &self,
        site: &mut dyn Site,
        id: FlowId,
        node: NodeId,
    ) -> Result<(usize, Ring), FlowError> {
        self.change(id, |flow| {
            let shape = changeable(flow, "take another consumer")?;
            if shape == FlowShape::Replicate && flow.live_consumers().count() >= REPLICAS_MAX {
                return Err(FlowError::BadSpec {
                    what: "the number of consumers",
                    value: REPLICAS_MAX as u64 + 1,
                    rule: "at most 32 replicas are possible",
                });
            }
            let member = self.flows.admit_consumer(id, node)?;
            let added = self.add_consumer_at(site, flow, node, member);
            added.inspect_err(|_| {
                if !flow.consumers.iter().any(|it| it.id == member.id) {
                    self.flows.lock().give_back_consumer(member);
                }
            })
        })
    }

    fn add_consumer_at(
        &self,
        site: &mut dyn Site,
        flow: &mut Flow,
        node: NodeId,
        member: ConsumerMember,
    ) -> Result<(usize, Ring), FlowError> {
        let shape = flow.spec.shape;
        let ring = self.make_ring(site, &flow.spec, node, flow.spec.consumer_slots, 0)?;
        if shape == FlowShape::Balance {
            return self.join_balanced(site, flow, ring, member);
        }
        self.detach(site, flow);
        if self.has_ended_meanwhile(site, flow) {
            forget_ring(site, &ring);
            return Err(FlowError::NotRunning);
        }
        if shape == FlowShape::Replicate {
            // All have the same head now.
            let other = flow.live_consumers().next();
            let head = other.and_then(|at| flow.rings.consumers[at].switch(site));
            ring.open(site, head.map_or(0, |word| word.counter));
        }
        let index = flow.join_consumer(member, ring.clone());
        self.attach(site, flow)?;
        Ok((index, ring))
    }

    /// Adds a consumer with a thread of its own: the others need not pause.
    fn join_balanced(
        &self,
        site: &mut dyn Site,
        flow: &mut Flow,
        ring: Ring,
        member: ConsumerMember,
    ) -> Result<(usize, Ring), FlowError> {
        let nodes = site.nodes();
        let lanes_before = flow.lanes.len();
        let connected = self.connect_ring(site, flow, &ring, End::Consumer, &nodes);
        let place = match connected {
            Ok(place) => place,
            Err(error) => {
                for lane in flow.lanes.split_off(lanes_before) {
                    self.disconnect_lane(site, &lane);
                }
                forget_ring(site, &ring);
                return Err(error.into());
            }
        };
        let index = flow.join_consumer(member, ring.clone());
        self.enter_balanced(site, flow, place)?;
        Ok((index, ring))
    }

    /// Removes a consumer: it may still take the items that it has been shown, then its stream
    /// ends. Items in flight to it go to others.
    ///
    /// # Errors
    /// If the shape forbids it, it is the last one or none of the flow's, or the flow is not
    /// running.
    pub fn remove_consumer(
        &self,
        site: &mut dyn Site,
        id: FlowId,
        index: usize,
    ) -> Result<(), FlowError> {
        self.change(id, |flow| {
            changeable(flow, "let a consumer go")?;
            let role = "consumer";
            if !flow.live_consumers().any(|at| at == index) {
                return Err(FlowError::NoSuchMember { role, index });
            }
            if !others_wait(site, flow, &[index]) {
                return Err(FlowError::LastMember { role });
            }
            self.detach(site, flow);
            flow.consumers[index].gone = true;
            let ring = &flow.rings.consumers[index];
            ring.tell(site, SwitchState::Ended);
            forget_ring(site, ring);
            self.attach(site, flow)
        })
    }

    /// Adds a producer. Returns its number in the flow and its rings.
    ///
    /// # Errors
    /// If the stream of a consumer of a shuffle has ended, the flow is not running, or the switch
    /// or the node lacks capacity.
    pub fn add_producer(
        &self,
        site: &mut dyn Site,
        id: FlowId,
        node: NodeId,
    ) -> Result<(usize, Vec<Ring>), FlowError> {
        self.change(id, |flow| {
            let mut members = flow.consumers.iter().zip(&flow.rings.consumers);
            if flow.spec.shape == FlowShape::Shuffle
                && members.any(|(member, ring)| !member.running || ring.has_ended(site))
            {
                // The new producer's items for that consumer would never be taken.
                return Err(FlowError::ShapeForbids {
                    shape: flow.spec.shape,
                    change: "take another producer",
                    rule: "one of its consumers has seen the end of its stream",
                });
            }
            let rings = flow.rings.producers.len();
            let member = self.flows.admit_producer(id, node, rings)?;
            let added = self.add_producer_at(site, flow, node, &member);
            added.inspect_err(|_| {
                if !flow.producers.contains(&member) {
                    self.flows.lock().give_back_producer(&member);
                }
            })
        })
    }

    fn add_producer_at(
        &self,
        site: &mut dyn Site,
        flow: &mut Flow,
        node: NodeId,
        member: &ProducerMember,
    ) -> Result<(usize, Vec<Ring>), FlowError> {
        let mut rings = Vec::new();
        for _ in &flow.rings.producers {
            match self.make_ring(site, &flow.spec, node, flow.spec.producer_slots, 0) {
                Ok(ring) => rings.push(ring),
                Err(error) => {
                    rings.iter().for_each(|ring| forget_ring(site, ring));
                    return Err(error);
                }
            }
        }
        self.detach(site, flow);
        if self.has_ended_meanwhile(site, flow) {
            rings.iter().for_each(|ring| forget_ring(site, ring));
            return Err(FlowError::NotRunning);
        }
        flow.producers.push(member.clone());
        flow.spec.producers.push(node);
        for (all, ring) in flow.rings.producers.iter_mut().zip(&rings) {
            all.push(ring.clone());
        }
        let index = flow.producers.len() - 1;
        self.attach(site, flow)?;
        Ok((index, rings))
    }

    /// Removes a producer that has finished: its rings are freed.
    ///
    /// # Errors
    /// If it has not finished or its items are not all delivered, it is the last one or none of the
    /// flow's, or the flow is not running.
    pub fn remove_producer(
        &self,
        site: &mut dyn Site,
        id: FlowId,
        index: usize,
    ) -> Result<(), FlowError> {
        self.change(id, |flow| {
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
            self.detach(site, flow);
            flow.producers[index].gone = true;
            for ring in &rings {
                ring.tell(site, SwitchState::Ended);
                forget_ring(site, ring);
            }
            self.attach(site, flow)
        })
    }

    /// Whether the rings of a detached flow show an end that has not been reported yet.
    fn has_ended_meanwhile(&self, site: &mut dyn Site, flow: &mut Flow) -> bool {
        let has_ended = !flow.has_work();
        if has_ended {
            self.take_down(site, flow, FlowState::Ended);
        }
        has_ended
    }

    /// Handles members that are gone without having left. The flow continues without them if its
    /// policy and its shape allow that.
    pub(super) fn members_lost(
        &self,
        site: &mut dyn Site,
        flow: &mut Flow,
        consumers: &[usize],
        producers: &[usize],
        reason: AbortReason,
    ) {
        if !goes_on(site, flow, consumers, producers) {
            return self.take_down(site, flow, FlowState::Aborted(reason));
        }
        let mut sent = Vec::new();
        for &index in consumers {
            let (loss, tail) = lost_with(site, flow, index, reason);
            sent.extend(tail);
            flow.losses.push(loss);
        }
        let agreed = (!consumers.is_empty())
            .then(|| being_sent_to_all(site, flow))
            .flatten();
        // From now on the contents of its rings are ignored.
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
        self.detach(site, flow);
        for (ring, tail) in sent {
            ring.raise_switch_counter(site, tail);
        }
        if let Some((head, record, (ring, tail))) = agreed {
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
        // If that fails, the flow is aborted, and its state says so.
        let _ = self.attach(site, flow);
    }
}

/// Whether any consumer except `these` can still be given items.
fn others_wait(site: &mut dyn Site, flow: &Flow, these: &[usize]) -> bool {
    let mut others = flow.live_consumers().filter(|at| !these.contains(at));
    // Its ring may show an end that has not been reported yet.
    others.any(|at| !flow.rings.consumers[at].has_ended(site))
}

/// Whether the flow continues without these members.
fn goes_on(site: &mut dyn Site, flow: &Flow, consumers: &[usize], producers: &[usize]) -> bool {
    let others = others_wait(site, flow, consumers);
    // What a dead producer had not delivered is lost for every consumer.
    let left = flow.live_producers().filter(|at| !producers.contains(at));
    let mut left = left.flat_map(|at| flow.rings.of_producer(at)).peekable();
    flow.spec.on_loss != LossPolicy::Abort
        && (consumers.is_empty() || flow.spec.shape != FlowShape::Shuffle)
        && left.peek().is_some()
        // If the others have ended before, nothing is lost if nothing is left to deliver.
        && (others || left.all(|ring| is_delivered(&ring, site)))
}

/// Whether consumers of the flow may be added and removed.
fn changeable(flow: &Flow, change: &'static str) -> Result<FlowShape, FlowError> {
    match flow.spec.shape {
        FlowShape::Shuffle => Err(FlowError::ShapeForbids {
            shape: FlowShape::Shuffle,
            change,
            rule: "its producers choose among the consumers that it began with",
        }),
        shape => Ok(shape),
    }
}

/// The head that was about to be published to all replicas, its record, and the corresponding tail
/// of the producer. A lost replica may have seen it, and all the others have the items: it is
/// published to them too, so that no replica has seen items that others never see.
fn being_sent_to_all(site: &mut dyn Site, flow: &Flow) -> Option<(u32, CommitRecord, (Ring, u32))> {
    if flow.spec.shape != FlowShape::Replicate {
        return None;
    }
    let thread = ThreadId(flow.consumers.first()?.id.0);
    let mut telling = None;
    site.switch(&mut |_, switch| {
        let flows = &switch.program().flows;
        telling = flows
            .being_sent(thread)
            .map(|sent| (flows.head(thread), sent));
    });
    let (head, (producer, tail)) = telling?;
    let mut members = flow.producers.iter();
    let at = members.position(|member| member.ids[0] == producer)?;
    let record = CommitRecord {
        producer: at as u16 + 1,
        tail,
    };
    Some((head, record, (flow.rings.producers[0][at].clone(), tail)))
}

/// The items lost with a consumer, and the producer's tail that was about to be published because
/// of it.
fn lost_with(
    site: &mut dyn Site,
    flow: &Flow,
    index: usize,
    reason: AbortReason,
) -> (Loss, Option<(Ring, u32)>) {
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
        telling = flows.being_sent(thread);
    });
    // It may have seen the newest head. With a policy that delivers no item twice, the head counts
    // as seen.
    let tail = telling.and_then(|(producer, tail)| {
        let members = flow.producers.iter();
        let at = members
            .clone()
            .position(|member| member.ids[0] == producer)?;
        Some((flow.rings.producers[0][at].clone(), tail))
    });
    (loss, tail)
}
