//! Members that join, leave or die while a flow runs.
//!
//! A member that joins or leaves touches its own rings, queue pairs and lanes, and in the switch's
//! tables its own entries and the circles that they are part of. Registers, lanes and queue pairs
//! of other members stay as they are:
//!
//! - a consumer joins a balanced flow with a thread of its own;
//! - a producer's rings enter the circles of the threads that take from them;
//! - whatever needs a moment at which nothing is in flight is `settle`d then: replicas that join,
//!   consumers and producers that leave.
//!
//! A member that is lost (`loss`) may leave a transfer in the middle of a message, which only fresh
//! queue pairs end: then the flow is set up again from its rings with the members that are left, as
//! after a restart of the switch (`recover`).

mod circles;
mod loss;
mod settle;

pub use loss::Loss;

use super::flow::{ConsumerMember, Flow, ProducerMember};
use super::set_up::{End, forget_ring};
use super::{AbortReason, FlowError, FlowId, FlowShape, FlowState, Ring};
use crate::{Fabric, LaneError, NodeAddress, Site};
use circles::{ended_for_one, enter_balanced, enter_producer};
use loss::{others_are_served, others_wait};
use rackweave_base::NodeId;
use rackweave_programs::flows::{REPLICAS_MAX, RingPlace, ThreadId};
use rackweave_wire::fabric::ring::NodeState;
use settle::pause;

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
    /// every item that the switch moves from now on; its lanes are connected when nothing is in
    /// flight. Returns its number in the flow and its ring.
    ///
    /// # Errors
    /// If the shape forbids it, the flow is not running, or the switch or the node lacks capacity.
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
            self.recover_failed(site, flow)?;
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
        let ring = self.make_ring(site, &flow.spec, node, flow.spec.consumer_slots, 0)?;
        if flow.spec.shape == FlowShape::Balance {
            return self.join_balanced(site, flow, ring, member);
        }
        let thread = flow.threads().next();
        let Some(at) = thread.and_then(|(thread, _)| pause(site, thread)) else {
            forget_ring(site, &ring);
            return Err(FlowError::NotRunning);
        };
        ring.open(site, at);
        let joins_at = Some(at);
        let index = flow.join_consumer(ConsumerMember { joins_at, ..member }, ring.clone());
        self.flows.lock().note(flow);
        self.settle(site, flow)?;
        let is_its = |loss: &&Loss| loss.role == "consumer" && loss.index == index;
        match flow.losses.iter().find(is_its).map(|loss| loss.reason) {
            Some(AbortReason::NotRecovered(error)) => Err(error.into()),
            _ => Ok((index, ring)),
        }
    }

    /// Sets a flow up again if a thread of it has failed and that has not been handled.
    fn recover_failed(&self, site: &mut dyn Site, flow: &mut Flow) -> Result<(), FlowError> {
        let mut has_failed = false;
        site.switch(&mut |_, switch| {
            let flows = &switch.program().flows;
            has_failed = flow.threads().any(|(thread, _)| flows.has_failed(thread));
        });
        if has_failed {
            self.detach(site, flow);
            self.attach(site, flow)?;
        }
        match flow.state {
            FlowState::Running => Ok(()),
            FlowState::Ended | FlowState::Aborted(_) => Err(FlowError::NotRunning),
        }
    }

    /// Adds a consumer with a thread of its own.
    fn join_balanced(
        &self,
        site: &mut dyn Site,
        flow: &mut Flow,
        ring: Ring,
        member: ConsumerMember,
    ) -> Result<(usize, Ring), FlowError> {
        let nodes = site.nodes();
        let connected = self.connect_ring_or_nothing(site, flow, &ring, End::Consumer, &nodes);
        let place = connected.inspect_err(|_| forget_ring(site, &ring))?;
        let index = flow.join_consumer(member, ring.clone());
        let mut entered = Ok(());
        site.switch(&mut |now, switch| entered = enter_balanced(now, switch, flow, place));
        self.flows.lock().note(flow);
        self.share_out(site);
        entered.map_err(LaneError::from)?;
        Ok((index, ring))
    }

    /// Connects the lanes of a ring of a flow that runs, all or none.
    fn connect_ring_or_nothing(
        &self,
        site: &mut dyn Site,
        flow: &mut Flow,
        ring: &Ring,
        end: End,
        nodes: &[(NodeId, NodeAddress)],
    ) -> Result<RingPlace, LaneError> {
        let before = flow.lanes.len();
        let connected = self.connect_ring(site, flow, ring, end, nodes);
        connected.inspect_err(|_| self.disconnect_since(site, flow, before))
    }

    /// Disconnects the lanes of a flow that were connected after the first `count`.
    fn disconnect_since(&self, site: &mut dyn Site, flow: &mut Flow, count: usize) {
        for lane in flow.lanes.split_off(count) {
            self.disconnect_lane(site, &lane);
        }
    }

    /// Removes a consumer: it gets the items that are in flight to it, then its stream ends. Items
    /// of a flow with [`LossPolicy::Redeliver`](super::LossPolicy) that it has been shown count as
    /// consumed.
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
            if !flow.live_consumers().any(|at| at == index) || flow.consumers[index].leaves {
                return Err(FlowError::NoSuchMember { role, index });
            }
            let is_balanced = flow.spec.shape == FlowShape::Balance;
            if !others_wait(site, flow, &[index])
                || (is_balanced && !others_are_served(site, flow, index))
            {
                return Err(FlowError::LastMember { role });
            }
            flow.consumers[index].leaves = true;
            self.recover_failed(site, flow)?;
            let thread = match flow.spec.shape {
                FlowShape::Replicate => flow.threads().next().map(|(thread, _)| thread),
                _ => Some(ThreadId(flow.consumers[index].id.0)),
            };
            // If there is nothing to pause, its stream is ending.
            if thread.and_then(|thread| pause(site, thread)).is_some() {
                self.settle(site, flow)?;
            }
            Ok(())
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
                return Err(ended_for_one(flow.spec.shape));
            }
            self.recover_failed(site, flow)?;
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
        let lanes = flow.lanes.len();
        let joined = self.join_producer(site, flow, member, &rings);
        if joined.is_err() {
            self.disconnect_since(site, flow, lanes);
            rings.iter().for_each(|ring| forget_ring(site, ring));
        }
        Ok((joined?, rings))
    }

    /// Connects the rings of a producer and enters them; all or nothing, but for the lanes.
    fn join_producer(
        &self,
        site: &mut dyn Site,
        flow: &mut Flow,
        member: &ProducerMember,
        rings: &[Ring],
    ) -> Result<usize, FlowError> {
        let nodes = site.nodes();
        let mut places = Vec::new();
        for ring in rings {
            places.push(self.connect_ring(site, flow, ring, End::Producer, &nodes)?);
        }
        let index = flow.join_producer(member.clone(), rings);
        let mut entered = Ok(());
        site.switch(&mut |now, switch| {
            entered = enter_producer(now, switch, flow, &places);
            if entered.is_err() {
                flow.undo_join_producer();
            }
        });
        entered?;
        self.flows.lock().note(flow);
        self.share_out(site);
        Ok(index)
    }

    /// Removes a producer that has finished: its rings are freed when the switch has heard that
    /// its words are written.
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
            let stays = |&at: &usize| !flow.producers[at].leaves;
            if !flow.live_producers().filter(stays).any(|at| at == index) {
                return Err(FlowError::NoSuchMember { role, index });
            }
            if flow.live_producers().filter(stays).count() == 1 {
                return Err(FlowError::LastMember { role });
            }
            let rings = flow.rings.of_producer(index);
            if !rings.iter().all(|ring| is_delivered(ring, site)) {
                return Err(FlowError::ProducerBusy { index });
            }
            flow.producers[index].leaves = true;
            let ids = &flow.producers[index].ids;
            site.switch(&mut |_, switch| {
                let flows = &mut switch.program_mut().flows;
                for &id in ids {
                    flows.change_producer(id, |entry| entry.leaves = true);
                }
            });
            self.settle(site, flow)
        })
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
