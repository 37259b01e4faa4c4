//! Sets up flows: allocate, register, connect, fill, start. Also removes their lanes.

use super::flow::Flow;
use super::{
    AbortReason, Bell, FlowError, FlowId, FlowRings, FlowShape, FlowSpec, FlowState, Ring,
};
use crate::lanes::{PASSIVE_TIMEOUT, Wanted, destroy_qp};
use crate::{Fabric, LaneError, NodeAddress, RegionPurpose, Site};
use rackweave_base::{NodeId, Psn};
use rackweave_programs::flows::{ConsumerId, FlowTask, LANES_MAX, ProducerId, RingPlace, ThreadId};
use rackweave_programs::pipeline::Task;
use rackweave_switch::transfer::{LaneId, LaneKind};
use rackweave_verbs::{Access, QpCapabilities};
use rackweave_wire::fabric::ring::{COMMIT_RECORD, ITEMS, NODE_WORD, SWITCH_WORD};

/// Doorbells of a node in flight at a time; beyond that, the next one sends the newest word.
const BELLS: u32 = 16;

/// The end of a flow that a ring belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Producer,
    Consumer,
    /// One of several consumers of the same items: the groups of its data lanes, and the PSNs of
    /// the next transfers to all members.
    Replica {
        groups: LaneId,
        psns: [Psn; LANES_MAX],
    },
}

/// The places of a flow's connected rings.
pub(super) struct RingPlacements {
    /// By number in the flow.
    pub consumers: Vec<Option<RingPlace>>,
    /// In the order of [`FlowRings::producers`].
    pub producers: Vec<Vec<Option<RingPlace>>>,
    /// The initial PSNs of replicas.
    pub psns: [Psn; LANES_MAX],
}

impl Fabric {
    /// Sets up a flow and starts it. Each node allocates its rings.
    ///
    /// # Errors
    /// If the specification is out of range, or the switch or a node lacks capacity; then nothing
    /// is left behind.
    pub fn create_flow(
        &self,
        site: &mut dyn Site,
        spec: FlowSpec,
    ) -> Result<(FlowId, FlowRings), FlowError> {
        spec.check()?;
        self.flows.enter(spec, None, |flow| {
            let made = self
                .make_rings(site, flow)
                .and_then(|()| Ok(self.connect_flow(site, flow)?));
            if let Err(error) = made {
                self.take_down(site, flow, FlowState::Aborted(AbortReason::Closed));
                return Err(error);
            }
            Ok((flow.id, flow.rings.clone()))
        })?
    }

    fn make_rings(&self, site: &mut dyn Site, flow: &mut Flow) -> Result<(), FlowError> {
        let Flow { spec, rings, .. } = flow;
        for &node in &spec.consumers {
            let ring = self.make_ring(site, spec, node, spec.consumer_slots, 0)?;
            rings.consumers.push(ring);
        }
        for rings in &mut rings.producers {
            for &node in &spec.producers {
                let ring = self.make_ring(site, spec, node, spec.producer_slots, 0)?;
                rings.push(ring);
            }
        }
        Ok(())
    }

    /// Makes a ring on a node, whose first item has number `counter`.
    pub(super) fn make_ring(
        &self,
        site: &mut dyn Site,
        spec: &FlowSpec,
        node: NodeId,
        slots: u32,
        counter: u32,
    ) -> Result<Ring, FlowError> {
        let (pd, cq) = self.home(site, node)?;
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let len = Ring::bytes(spec.item_size, slots);
        let region = site
            .make_region(node, pd, len, access, RegionPurpose::Ring)
            .map_err(|error| FlowError::Region { node, error })?;
        let mut bell = Ok(None);
        if spec.doorbells {
            bell = Err(LaneError::NoNode(node));
            site.node(node, &mut |verbs| {
                let capabilities = QpCapabilities {
                    send_max: BELLS,
                    receive_max: 1,
                    segments_max: 1,
                };
                let made = verbs.create_qp(pd, cq, cq, capabilities);
                bell = made
                    .map(|qpn| Some(Bell { qpn }))
                    .map_err(|error| LaneError::Qp { node, error });
            });
        }
        let ring = Ring {
            node,
            region,
            item_size: spec.item_size,
            slots,
            order: self.flows.order(node),
            bell: match bell {
                Ok(bell) => bell,
                Err(error) => {
                    site.remove_region(node, &region);
                    return Err(error.into());
                }
            },
        };
        ring.open(site, counter);
        Ok(ring)
    }

    /// Connects all lanes of a flow's members, fills the tables and starts the polling. Counters
    /// are read from the rings, so that this serves new and recovered flows alike.
    pub(super) fn connect_flow(
        &self,
        site: &mut dyn Site,
        flow: &mut Flow,
    ) -> Result<(), LaneError> {
        let places = self.connect_rings(site, flow)?;
        self.fill_tables(site, flow, &places)?;
        self.flows.lock().note(flow);
        self.share_out(site);
        let threads: Vec<ThreadId> = flow.threads().map(|(thread, _)| thread).collect();
        let rings = places
            .consumers
            .iter()
            .chain(places.producers.iter().flatten());
        let polls: Vec<LaneId> = rings.flatten().map(|ring| ring.poll).collect();
        site.switch(&mut |now, switch| {
            for &lane in &polls {
                switch.inject(now, Task::Flow(FlowTask::Poll(lane)));
            }
            // After a recovery the mirrors may already show pending work.
            for &thread in &threads {
                switch.inject(now, Task::Flow(FlowTask::Wake(thread)));
            }
        });
        Ok(())
    }

    fn connect_rings(
        &self,
        site: &mut dyn Site,
        flow: &mut Flow,
    ) -> Result<RingPlacements, LaneError> {
        let nodes = site.nodes();
        let psns = core::array::from_fn(|_| self.random_psn());
        let (rings, transfers) = (flow.rings.clone(), flow.spec.transfers);
        let consumers: Vec<usize> = flow.connected_consumers().collect();
        let producers: Vec<usize> = flow.live_producers().collect();
        let used: Vec<usize> = consumers.iter().map(|&at| flow.ring_at(at)).collect();
        let mut groups = None;
        if flow.spec.shape == FlowShape::Replicate {
            let first = self.lanes.take(u16::from(transfers))?;
            flow.groups = Some((first, transfers));
            groups = Some(first);
        }
        let mut places = RingPlacements {
            consumers: vec![None; rings.consumers.len()],
            producers: rings
                .producers
                .iter()
                .map(|r| vec![None; r.len()])
                .collect(),
            psns,
        };
        for &at in &consumers {
            let end = groups.map_or(End::Consumer, |groups| End::Replica { groups, psns });
            let place = self.connect_ring(site, flow, &rings.consumers[at], end, &nodes)?;
            places.consumers[at] = Some(place);
        }
        for at in 0..rings.producers.len() {
            if !used.contains(&at) {
                continue;
            }
            for &producer in &producers {
                let ring = &rings.producers[at][producer];
                let place = self.connect_ring(site, flow, ring, End::Producer, &nodes)?;
                places.producers[at][producer] = Some(place);
            }
        }
        Ok(places)
    }

    /// Connects the lanes of one ring: its words, its data, its doorbell.
    pub(super) fn connect_ring(
        &self,
        site: &mut dyn Site,
        flow: &mut Flow,
        ring: &Ring,
        end: End,
        nodes: &[(NodeId, NodeAddress)],
    ) -> Result<RingPlace, LaneError> {
        let (lanes, mtu) = (flow.spec.transfers, flow.spec.mtu);
        let node = nodes
            .iter()
            .find(|(node, _)| *node == ring.node)
            .copied()
            .ok_or(LaneError::NoNode(ring.node))?;
        let bells = u16::from(ring.bell.is_some());
        let first = self.lanes.take(u16::from(lanes) + 2 + bells)?;
        let lane = |offset: u16| LaneId(first.0 + offset);
        let (poll, publish, data) = (lane(0), lane(1), lane(2));
        let bell = ring.bell.map(|_| lane(2 + u16::from(lanes)));
        let wanted = self.wanted_lanes(ring, end, lanes, lane, bell);
        for (at, &(lane, kind, access, psn)) in wanted.iter().enumerate() {
            let is_bell = matches!(kind, LaneKind::Doorbell { .. });
            let wish = Wanted {
                reads: 1,
                timeout: PASSIVE_TIMEOUT,
                kind,
                access,
                mtu,
                psn: psn.unwrap_or_else(|| self.random_psn()),
                qpn: ring.bell.filter(|_| is_bell).map(|bell| bell.qpn),
            };
            match self.connect_lane(site, lane, node, wish) {
                Ok(made) => flow.lanes.push(made),
                Err(error) => {
                    for (lane, ..) in &wanted[at..] {
                        self.lanes.give_back(*lane);
                    }
                    return Err(error);
                }
            }
        }
        Ok(RingPlace {
            items: ring.region.address + ITEMS,
            rkey: ring.region.rkey,
            slots: ring.slots,
            order: ring.order,
            poll,
            publish,
            bell,
            lanes_first: data,
            lanes,
        })
    }

    /// The lanes of a ring: two for its words, those for its data, its doorbell's.
    fn wanted_lanes(
        &self,
        ring: &Ring,
        end: End,
        lanes: u8,
        lane: impl Fn(u16) -> LaneId,
        bell: Option<LaneId>,
    ) -> Vec<(LaneId, LaneKind, Access, Option<Psn>)> {
        let word = |offset: u64| LaneKind::Word {
            address: ring.region.address + offset,
            rkey: ring.region.rkey,
        };
        let write = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let published = match end {
            End::Producer => SWITCH_WORD,
            End::Consumer | End::Replica { .. } => COMMIT_RECORD,
        };
        let mut wanted = vec![
            (lane(0), word(NODE_WORD), Access::REMOTE_READ, None),
            (lane(1), word(published), write, None),
        ];
        for at in 0..u16::from(lanes) {
            wanted.push(match end {
                End::Producer => (lane(2 + at), LaneKind::Source, Access::REMOTE_READ, None),
                End::Consumer => (lane(2 + at), LaneKind::Target, write, None),
                End::Replica { groups, psns } => {
                    let kind = LaneKind::Member {
                        group: LaneId(groups.0 + at),
                        // Entered with the other members.
                        next: lane(2 + at),
                        bit: 0,
                        address: ring.region.address + ITEMS,
                        rkey: ring.region.rkey,
                    };
                    (lane(2 + at), kind, write, Some(psns[usize::from(at)]))
                }
            });
        }
        if let Some(bell) = bell {
            let first = self.random_psn();
            let kind = LaneKind::Doorbell { first };
            wanted.push((bell, kind, Access::empty(), Some(first)));
        }
        wanted
    }

    /// Removes a flow from the tables and disconnects its lanes. Its rings are not changed.
    pub(super) fn disconnect_flow(&self, site: &mut dyn Site, flow: &mut Flow) {
        self.flows.suspend(flow.id);
        let lanes = core::mem::take(&mut flow.lanes);
        let groups = flow.groups.take();
        flow.entering.clear();
        let consumers: Vec<ConsumerId> = flow.consumers.iter().map(|member| member.id).collect();
        let members = flow.producers.iter();
        let producers: Vec<ProducerId> = members.flat_map(|member| member.ids.clone()).collect();
        let of_groups = || {
            let (first, count) = groups.unwrap_or_default();
            (first.0..first.0 + u16::from(count)).map(LaneId)
        };
        site.switch(&mut |_, switch| {
            let program = switch.program_mut();
            for &id in &consumers {
                program.flows.remove_thread(ThreadId(id.0));
                program.flows.remove_consumer(id);
            }
            for &id in &producers {
                program.flows.remove_producer(id);
            }
            for group in of_groups() {
                program.engine.remove_group(group);
            }
            for group in of_groups() {
                switch.set_group(group.0, Vec::new());
            }
        });
        for lane in &lanes {
            self.disconnect_lane(site, lane);
        }
        of_groups().for_each(|group| self.lanes.give_back(group));
        // Only the flow's own tasks can refer to its lanes.
        site.switch(&mut |_, switch| _ = switch.purge());
    }
}

/// Frees the resources of a ring on its node.
pub(super) fn forget_ring(site: &mut dyn Site, ring: &Ring) {
    if let Some(bell) = ring.bell {
        destroy_qp(site, ring.node, bell.qpn);
    }
    site.remove_region(ring.node, &ring.region);
}
