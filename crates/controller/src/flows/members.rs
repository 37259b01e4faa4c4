//! Members that join, leave or die while a flow runs.
//!
//! A consumer that joins a balanced flow gets a thread of its own, and the others need not pause.
//! Any other change sets the flow up again from its rings with the current members, as after a
//! restart of the switch (`recover`). Other members' rings are not changed, so producers and
//! consumers only see a pause.

mod loss;

pub use loss::Loss;

use super::flow::{ConsumerMember, Flow, ProducerMember};
use super::set_up::{End, forget_ring};
use super::{FlowError, FlowId, FlowShape, FlowState, Ring};
use crate::{Fabric, Site};
use loss::others_wait;
use rackweave_base::NodeId;
use rackweave_programs::flows::REPLICAS_MAX;
use rackweave_wire::fabric::ring::{NodeState, SwitchState};

/// Whether a producer has finished and all its items are delivered.
fn is_delivered(ring: &Ring, site: &mut dyn Site) -> bool {
    let (node, switch) = (ring.node_word(site), ring.switch(site));
    node.zip(switch).is_some_and(|(node, switch)| {
        node.state == NodeState::Finished && node.counter == switch.counter
    })
}

impl Fabric {
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
