//! The controller's registry of flows, and its locks.
//!
//! A *flow's lock* is held for the whole of an operation on it, also while its members are asked:
//! only operations on the same flow wait for them. State of a flow that is needed without waiting
//! is in its [`Entry`], behind the *registry's lock*, which is held briefly: no node is asked
//! meanwhile.
//!
//! The order of locks: a flow's; then a node's home ([`crate::lanes`]), held while that node is
//! asked for it; then one of the short ones: the registry, free lanes, hosts, keys. The switch
//! comes last: no thread that holds it waits for any of these.

use super::flow::{ConsumerMember, Flow, ProducerMember};
use super::weights::Share;
use super::{AbortReason, FlowError, FlowId, FlowRings, FlowSpec, FlowState, Ring};
use crate::Site;
use rackweave_base::NodeId;
use rackweave_programs::Digest;
use rackweave_programs::flows::{ConsumerId, FlowDigest, ProducerId, ThreadId, Whose};
use rackweave_wire::fabric::ring::ByteOrder;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};

/// All flows, and which table entries are free.
pub(crate) struct FlowRegistry(Mutex<Registry>);

pub(super) struct Registry {
    pub entries: Vec<Entry>,
    /// The flow that has each number of threads and consumers.
    threads: Vec<Option<FlowId>>,
    /// The flow that has each number of producer rings.
    producers: Vec<Option<FlowId>>,
    /// Rings of flows that are running or are about to be taken over or freed.
    rings: BTreeSet<(NodeId, u32)>,
    orders: Vec<(NodeId, ByteOrder)>,
}

/// A flow, and the state of it that is known without its lock.
pub(super) struct Entry {
    flow: Arc<Mutex<Flow>>,
    /// Whether resources of it are left at nodes or in the switch.
    is_left: bool,
    /// Every node that is or was a member. A new member is entered before it is asked, so that no
    /// death is overlooked.
    nodes: BTreeSet<NodeId>,
    /// Its threads in the switch.
    pub threads: Vec<ThreadId>,
    /// Its share, if it has a weight.
    pub share: Option<Share>,
    /// The flow after the last operation on it; `None` during the first.
    saved: Option<Flow>,
}

impl FlowRegistry {
    pub fn new(threads: u16, producers: u16) -> Self {
        Self(Mutex::new(Registry {
            entries: Vec::new(),
            threads: vec![None; usize::from(threads)],
            producers: vec![None; usize::from(producers)],
            rings: BTreeSet::new(),
            orders: Vec::new(),
        }))
    }

    /// Never held while a node is asked.
    pub(super) fn lock(&self) -> MutexGuard<'_, Registry> {
        self.0.lock().expect("no holder panics")
    }

    /// The number of flows set up so far.
    pub fn len(&self) -> usize {
        self.lock().entries.len()
    }

    /// The byte order of a node's memory; little-endian by default.
    pub fn order(&self, node: NodeId) -> ByteOrder {
        let registry = self.lock();
        let known = registry.orders.iter().find(|(id, _)| *id == node);
        known.map_or(ByteOrder::Little, |&(_, order)| order)
    }

    pub fn set_order(&self, node: NodeId, order: ByteOrder) {
        let orders = &mut self.lock().orders;
        orders.retain(|(id, _)| *id != node);
        orders.push((node, order));
    }

    /// Enters a flow, with numbers for all its members, and calls `act` with it while it is locked:
    /// other operations that find it wait for that.
    ///
    /// # Errors
    /// If too few numbers are free, or another flow has one of the rings.
    pub fn enter<R>(
        &self,
        spec: FlowSpec,
        rings: Option<FlowRings>,
        act: impl FnOnce(&mut Flow) -> R,
    ) -> Result<R, FlowError> {
        let mut registry = self.lock();
        let id = FlowId(registry.entries.len() as u32);
        let per_producer = spec.rings_per_producer();
        registry.check_free(spec.consumers.len(), spec.producers.len() * per_producer)?;
        if let Some(rings) = &rings {
            registry.claim(&rings.all().collect::<Vec<_>>())?;
        }
        let members = spec.consumers.iter();
        let consumers = members.filter_map(|_| registry.take_consumer(id)).collect();
        let members = spec.producers.iter();
        let producers = members
            .map(|_| registry.take_producer(id, per_producer))
            .collect();
        let nodes = spec.consumers.iter().chain(&spec.producers);
        let nodes = nodes.copied().collect();
        let flow = Arc::new(Mutex::new(Flow {
            id,
            rings: rings.unwrap_or_else(|| FlowRings {
                consumers: Vec::new(),
                producers: vec![Vec::new(); per_producer],
            }),
            spec,
            state: FlowState::Running,
            consumers,
            producers,
            lanes: Vec::new(),
            groups: None,
            entering: Vec::new(),
            losses: Vec::new(),
            rings_at_end: None,
        }));
        let mut flow_held = flow.lock().expect("nobody else knows it");
        registry.entries.push(Entry {
            flow: flow.clone(),
            is_left: true,
            nodes,
            threads: Vec::new(),
            share: None,
            saved: None,
        });
        drop(registry);
        let result = act(&mut flow_held);
        self.save(&flow_held);
        Ok(result)
    }

    /// Calls `act` with a flow while it is locked, after waiting for the lock. `None` if there is
    /// no such flow.
    pub fn with<R>(&self, id: FlowId, act: impl FnOnce(&mut Flow) -> R) -> Option<R> {
        let flow = {
            let registry = self.lock();
            registry.entries.get(id.0 as usize)?.flow.clone()
        };
        let mut flow = flow.lock().expect("no holder panics");
        Some(act(&mut flow))
    }

    /// The same for a running flow. `None` if it is not running.
    pub fn with_running<R>(&self, id: FlowId, act: impl FnOnce(&mut Flow) -> R) -> Option<R> {
        let if_running = |flow: &mut Flow| {
            let result = (flow.state == FlowState::Running).then(|| act(flow))?;
            self.save(flow);
            Some(result)
        };
        self.with(id, if_running).flatten()
    }

    fn save(&self, flow: &Flow) {
        self.lock().entries[flow.id.0 as usize].saved = Some(flow.snapshot());
    }

    /// All flows, each as it was after the last operation on it.
    pub fn state(&self) -> Vec<Option<Flow>> {
        let registry = self.lock();
        let entries = registry.entries.iter();
        entries.map(|entry| entry.saved.clone()).collect()
    }

    /// Takes over flows of another registry.
    pub fn restore(&self, flows: Vec<Option<Flow>>) {
        let mut registry = self.lock();
        for (id, flow) in (0..).map(FlowId).zip(flows) {
            let lost = FlowState::Aborted(AbortReason::ControllerLost);
            let flow =
                flow.unwrap_or_else(|| Flow::ended(id, lost, FlowSpec::new(&[], &[], 8, 16)));
            registry.restore(id, flow);
        }
    }

    /// The flows that may have members on a node.
    pub fn of_node(&self, node: NodeId) -> Vec<FlowId> {
        let has = |entry: &Entry| entry.is_left && entry.nodes.contains(&node);
        self.lock().find(has)
    }

    /// The flows with resources left.
    pub fn left(&self) -> Vec<FlowId> {
        self.lock().find(|entry| entry.is_left)
    }

    /// Reserves a number for a node that is about to become a consumer of a flow.
    pub fn admit_consumer(&self, id: FlowId, node: NodeId) -> Result<ConsumerMember, FlowError> {
        let mut registry = self.lock();
        registry.check_free(1, 0)?;
        registry.entries[id.0 as usize].nodes.insert(node);
        Ok(registry.take_consumer(id).expect("one is free"))
    }

    /// Reserves numbers for a node that is about to become a producer of a flow, with `rings`
    /// rings.
    pub fn admit_producer(
        &self,
        id: FlowId,
        node: NodeId,
        rings: usize,
    ) -> Result<ProducerMember, FlowError> {
        let mut registry = self.lock();
        registry.check_free(0, rings)?;
        registry.entries[id.0 as usize].nodes.insert(node);
        Ok(registry.take_producer(id, rings))
    }

    /// Records that a flow is about to leave the switch's tables.
    pub fn suspend(&self, id: FlowId) {
        self.lock().entries[id.0 as usize].threads.clear();
    }

    /// Frees the numbers of a flow without resources.
    pub fn retire(&self, flow: &Flow) {
        let mut registry = self.lock();
        let entry = &mut registry.entries[flow.id.0 as usize];
        entry.is_left = false;
        entry.threads.clear();
        entry.share = None;
        for member in &flow.consumers {
            registry.threads[usize::from(member.id.0)] = None;
        }
        for id in flow.producers.iter().flat_map(|member| &member.ids) {
            registry.producers[usize::from(id.0)] = None;
        }
        registry.release(flow.rings.all());
    }

    /// The switch's next report, and the flow that it is about, if that flow exists.
    pub fn poll_digest(&self, site: &mut dyn Site) -> Option<(Digest, Option<FlowId>)> {
        // Held meanwhile, so that the number cannot get another owner.
        let registry = self.lock();
        let mut digest = None;
        site.switch(&mut |_, switch| digest = switch.poll_digest());
        let digest = digest?;
        let owner = match digest {
            Digest::Flow(digest) => registry.owner(whose(digest)),
            Digest::Page(_) | Digest::Sequencer(_) => None,
        };
        Some((digest, owner))
    }

    /// The flow that a report is about.
    pub fn owner(&self, digest: FlowDigest) -> Option<FlowId> {
        self.lock().owner(whose(digest))
    }
}

/// The owner that a report names.
fn whose(digest: FlowDigest) -> Whose {
    match digest {
        FlowDigest::ThreadEnded(thread) => Whose::Consumer(ConsumerId(thread.0)),
        FlowDigest::ThreadFailed { whose, .. }
        | FlowDigest::BadRingWord { whose, .. }
        | FlowDigest::Quiet(whose) => whose,
        FlowDigest::ConsumerLeft { consumer, .. } => Whose::Consumer(consumer),
    }
}

impl Registry {
    fn find(&self, is: impl Fn(&Entry) -> bool) -> Vec<FlowId> {
        let entries = self.entries.iter().enumerate();
        entries
            .filter(|(_, entry)| is(entry))
            .map(|(at, _)| FlowId(at as u32))
            .collect()
    }

    fn restore(&mut self, id: FlowId, flow: Flow) {
        for member in &flow.consumers {
            if let Some(owner) = self.threads.get_mut(usize::from(member.id.0)) {
                *owner = Some(id);
            }
        }
        for number in flow.producers.iter().flat_map(|member| &member.ids) {
            if let Some(owner) = self.producers.get_mut(usize::from(number.0)) {
                *owner = Some(id);
            }
        }
        self.rings.extend(flow.rings.all().map(Ring::name));
        let nodes = flow.spec.consumers.iter().chain(&flow.spec.producers);
        self.entries.push(Entry {
            is_left: flow.state == FlowState::Running,
            nodes: nodes.copied().collect(),
            threads: Vec::new(),
            share: None,
            saved: Some(flow.clone()),
            flow: Arc::new(Mutex::new(Flow { id, ..flow })),
        });
    }

    /// Records the current entries of a flow in the switch's tables.
    pub fn note(&mut self, flow: &Flow) {
        let entry = &mut self.entries[flow.id.0 as usize];
        entry.threads = flow.threads().map(|(thread, _)| thread).collect();
        entry.share = Share::of(flow);
        self.rings.extend(flow.rings.all().map(Ring::name));
    }

    /// Checks that the tables have this many free entries for rings.
    pub fn check_free(&self, consumers: usize, producers: usize) -> Result<(), FlowError> {
        let rings = [
            (&self.threads, consumers, "consumer rings", "consumer_rings"),
            (
                &self.producers,
                producers,
                "producer rings",
                "producer_rings",
            ),
        ];
        for (owners, asked, what, setting) in rings {
            let free = owners.iter().filter(|owner| owner.is_none()).count();
            if free < asked {
                return Err(FlowError::TablesFull {
                    what,
                    asked,
                    free,
                    setting,
                });
            }
        }
        Ok(())
    }

    /// Takes a number for a consumer.
    pub fn take_consumer(&mut self, id: FlowId) -> Option<ConsumerMember> {
        take_number(&mut self.threads, id).map(|number| ConsumerMember {
            id: ConsumerId(number),
            running: true,
            gone: false,
            joins_at: None,
            leaves: false,
        })
    }

    /// Takes numbers for the rings of a producer.
    pub fn take_producer(&mut self, id: FlowId, rings: usize) -> ProducerMember {
        let numbers = (0..rings).filter_map(|_| take_number(&mut self.producers, id));
        ProducerMember {
            ids: numbers.map(ProducerId).collect(),
            gone: false,
            leaves: false,
        }
    }

    pub fn give_back_consumer(&mut self, member: ConsumerMember) {
        self.threads[usize::from(member.id.0)] = None;
    }

    pub fn give_back_producer(&mut self, member: &ProducerMember) {
        for id in &member.ids {
            self.producers[usize::from(id.0)] = None;
        }
    }

    /// Claims rings for a flow.
    ///
    /// # Errors
    /// If one of them belongs to another flow.
    pub fn claim(&mut self, rings: &[&Ring]) -> Result<(), FlowError> {
        if let Some(ring) = rings.iter().find(|ring| self.rings.contains(&ring.name())) {
            return Err(FlowError::RingInUse { node: ring.node });
        }
        self.rings.extend(rings.iter().map(|ring| ring.name()));
        Ok(())
    }

    /// Releases claimed rings.
    pub fn release<'a>(&mut self, rings: impl Iterator<Item = &'a Ring>) {
        for ring in rings {
            self.rings.remove(&ring.name());
        }
    }

    fn owner(&self, whose: Whose) -> Option<FlowId> {
        match whose {
            Whose::Consumer(id) => *self.threads.get(usize::from(id.0))?,
            Whose::Producer(id) => *self.producers.get(usize::from(id.0))?,
        }
    }
}

/// Takes a free number.
fn take_number(owners: &mut [Option<FlowId>], id: FlowId) -> Option<u16> {
    let free = owners.iter().position(Option::is_none)?;
    owners[free] = Some(id);
    Some(free as u16)
}
