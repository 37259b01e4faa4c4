//! Servers, queue pairs, loads.

mod servers;

use super::IndexNetworkError;
use super::outlines::Outlines;
use crate::Rack;
use crate::index::agent::{EndpointName, EndpointReply, EndpointRequest};
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_controller::ask::{
    ActivateIndex, BeginIndexLoad, IndexCountersOf, IndexLoading, LoadIndex, OpenIndexNetwork,
    TakeIndexHits,
};
use rackweave_controller::index::{
    Adapter, IndexPlan, KeyWeights, PlanLimits, PlanSummary, Target, Verdict, plan,
};
use rackweave_programs::index::entries::IndexCounters;
use rackweave_wire::fabric::tree::NodePointer;

/// Tree nodes that one request pins, at most: a message on a control connection has a mebibyte.
const PINS_MAX: usize = 4096;

/// What an index loads into the network, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexNetworkSpec {
    /// Limits of what is loaded; `None`: the capacity of all switches.
    pub limits: Option<PlanLimits>,
    /// Maximum inner tree nodes in an endpoint's outline.
    pub outline_max: usize,
    /// Tree nodes that one step loads into each switch.
    pub step: usize,
    /// Maximum lifetime of a packet in the network.
    pub grace: Duration,
}

impl Default for IndexNetworkSpec {
    fn default() -> Self {
        Self {
            limits: None,
            outline_max: 1 << 20,
            step: 512,
            grace: Duration::from_millis(100),
        }
    }
}

/// The progress of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadProgress {
    /// There is nothing to do.
    Rest,
    /// Earlier queries may be in flight until this moment; nothing can be done before.
    Wait(Instant),
    /// There is more to load.
    More,
    /// The loaded plan serves since this step.
    Serves,
}

/// What the switches have been loaded with.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NetworkSummary {
    /// Plans that have been put into service.
    pub loads: u64,
    /// Tree nodes that an entry leads to.
    pub targets: usize,
    /// Of all plans: tree nodes that no longer existed when they were to be pinned.
    pub gone: u64,
    /// The most recent plan.
    pub plan: PlanSummary,
}

#[derive(Debug)]
struct Server {
    number: u16,
    at: (EndpointName, NodeId),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Rest,
    Loading,
    /// The previous plan may still lead queries.
    Retiring(Instant),
}

/// An index in the network. Its requests to the switches go to the controller of the rack that is
/// passed in; always the same one.
#[derive(Debug)]
pub struct IndexNetwork {
    /// The number of the index.
    index: u64,
    spec: IndexNetworkSpec,
    limits: PlanLimits,
    /// By endpoint; `None` for those that are down.
    servers: Vec<Option<Server>>,
    /// The set of pins of the plan that is loaded, or serves.
    pins: usize,
    state: State,
    /// The plan that is being loaded, and the one that serves.
    loading: Option<Box<IndexPlan>>,
    active: Option<Box<IndexPlan>>,
    /// Numbers of servers that plans may name.
    named: Vec<u16>,
    /// Keys that clients were seen to ask for since weights were taken.
    asked: KeyWeights,
    summary: NetworkSummary,
}

impl IndexNetwork {
    /// An index without endpoints; no query is led.
    ///
    /// # Errors
    /// If no switch of the rack leads queries.
    pub(crate) fn new(
        rack: &Rack,
        index: u64,
        spec: IndexNetworkSpec,
    ) -> Result<Self, IndexNetworkError> {
        let grace = spec.grace;
        let room = rack.ask(OpenIndexNetwork { grace });
        let room = room.ok_or(IndexNetworkError::NoProgram)?;
        Ok(Self {
            index,
            limits: spec.limits.unwrap_or(room),
            spec,
            servers: Vec::new(),
            pins: 0,
            state: State::Rest,
            loading: None,
            active: None,
            named: Vec::new(),
            asked: KeyWeights::default(),
            summary: NetworkSummary::default(),
        })
    }

    /// Limits of what is loaded.
    pub fn limits(&self) -> &PlanLimits {
        &self.limits
    }

    /// What the switches have been loaded with.
    pub fn summary(&self) -> &NetworkSummary {
        &self.summary
    }

    /// The counters of all switches since they started.
    pub fn counters(&self, rack: &Rack) -> IndexCounters {
        rack.ask(IndexCountersOf {})
    }

    /// Records that clients have asked for these keys; each stands for `each` queries.
    pub fn note_asked(&mut self, keys: &[u64], each: u32) {
        let mut asked = KeyWeights::from_samples(keys);
        asked.fade(each.into());
        self.asked.add(&asked);
    }

    /// The counts of the switches since the last call, and the keys of requests and those that
    /// clients were seen to ask for.
    pub fn take_weights(&mut self, rack: &Rack) -> KeyWeights {
        let mut weights = rack.ask(TakeIndexHits {});
        weights.add(&core::mem::take(&mut self.asked));
        let mut keys = Vec::new();
        for server in self.servers.iter().flatten() {
            // An endpoint that is gone has seen no requests.
            if let Ok(EndpointReply::Keys(sample)) = server.ask(rack, EndpointRequest::Sample) {
                keys.extend(sample);
            }
        }
        keys.sort_unstable();
        weights.add(&KeyWeights::from_samples(&keys));
        weights
    }

    /// Plans what to load into the switches, pins it, and begins to load it: [`step`](Self::step)
    /// continues. [`LoadProgress::Wait`] if the previous plan has not been retired yet.
    ///
    /// # Errors
    /// If a load is in progress, or there is no capacity.
    pub fn begin_load(
        &mut self,
        rack: &Rack,
        weights: &KeyWeights,
    ) -> Result<LoadProgress, IndexNetworkError> {
        if self.state == State::Loading {
            return Err(IndexNetworkError::Loading);
        }
        if let wait @ LoadProgress::Wait(_) = self.retire(rack) {
            return Ok(wait);
        }
        let outlines = self.outlines(rack);
        let plan = plan(&outlines.trees, weights, &self.limits)?;
        self.place(rack, plan, &outlines)
    }

    /// Continues as [`step`](Self::step) does; when idle, and when the adapter's interval is over,
    /// passes it the weights, and begins to load what it finds worthwhile.
    ///
    /// # Errors
    /// As for [`begin_load`](Self::begin_load) and [`step`](Self::step).
    pub fn adapt(
        &mut self,
        rack: &Rack,
        adapter: &mut Adapter,
    ) -> Result<LoadProgress, IndexNetworkError> {
        let progress = self.step(rack)?;
        let now = rack.now();
        if progress != LoadProgress::Rest || now < adapter.poll_timeout() {
            return Ok(progress);
        }
        adapter.handle_weights(now, &self.take_weights(rack));
        let outlines = self.outlines(rack);
        let verdict = adapter.judge(self.active.as_deref(), &outlines.trees, &self.limits)?;
        match verdict {
            Verdict::Replace { plan, .. } => self.place(rack, *plan, &outlines),
            Verdict::Keep { .. } | Verdict::Unknown => Ok(progress),
        }
    }

    /// The outlines of the trees of all endpoints that have keys.
    fn outlines(&self, rack: &Rack) -> Outlines {
        let servers = self.servers.iter().flatten();
        Outlines::of(servers.filter_map(|server| {
            let (bounds, nodes) = server.outline(rack, self.spec.outline_max)?;
            Some((server.number, bounds, nodes))
        }))
    }

    /// Pins what a plan leads to, and begins to load it.
    fn place(
        &mut self,
        rack: &Rack,
        plan: IndexPlan,
        outlines: &Outlines,
    ) -> Result<LoadProgress, IndexNetworkError> {
        let bank = 1 - self.pins;
        let gone = self.pin(rack, bank, &plan.targets(), outlines);
        self.summary.gone += gone.len() as u64;
        let plan = plan.without(&gone);
        let begun = rack.ask(BeginIndexLoad {
            plan: Box::new(plan.clone()),
        });
        if let Err(error) = begun {
            self.unpin(rack, bank);
            return Err(error.into());
        }
        self.pins = bank;
        self.state = State::Loading;
        self.name(&plan);
        self.summary.targets = plan.targets().len();
        self.summary.plan = plan.summary();
        self.loading = Some(Box::new(plan));
        Ok(LoadProgress::More)
    }

    /// Pins what a plan leads to; returns what cannot be pinned.
    fn pin(
        &self,
        rack: &Rack,
        bank: usize,
        targets: &[Target],
        outlines: &Outlines,
    ) -> Vec<Target> {
        let mut gone = Vec::new();
        for targets in targets.chunk_by(|a, b| a.server == b.server) {
            let number = targets[0].server;
            let mut servers = self.servers.iter().flatten();
            let server = servers.find(|server| server.number == number);
            let (Some(epochs), Some(server)) = (outlines.epochs(number), server) else {
                gone.extend_from_slice(targets);
                continue;
            };
            let wanted = targets.iter().map(|target| {
                let epoch = epochs.get(&target.node).copied().unwrap_or(0);
                let index = target.node;
                (NodePointer { index, epoch }, target.low)
            });
            let wanted: Vec<_> = wanted.collect();
            for (wanted, targets) in wanted.chunks(PINS_MAX).zip(targets.chunks(PINS_MAX)) {
                let wanted = wanted.to_vec();
                match server.ask(rack, EndpointRequest::Pin { bank, wanted }) {
                    Ok(EndpointReply::NotPinned(failed)) => {
                        let failed = failed.into_iter().filter_map(|at| targets.get(at));
                        gone.extend(failed.copied());
                    }
                    // The endpoint is gone, and its tree nodes with it.
                    _ => gone.extend_from_slice(targets),
                }
            }
        }
        gone
    }

    fn unpin(&self, rack: &Rack, bank: usize) {
        for server in self.servers.iter().flatten() {
            // An endpoint that is gone has pinned nothing.
            let _ = server.ask(rack, EndpointRequest::Unpin { bank });
        }
    }

    /// Records the servers that plans may name, so that their numbers are not reused.
    fn name(&mut self, plan: &IndexPlan) {
        let ranges = plan.fat_root.ranges.iter();
        self.named.extend(ranges.map(|range| range.server));
        self.named.sort_unstable();
        self.named.dedup();
    }

    /// Advances a load in progress; also reloads switches that have restarted.
    ///
    /// # Errors
    /// If a switch refuses an entry: then the load is aborted.
    pub fn step(&mut self, rack: &Rack) -> Result<LoadProgress, IndexNetworkError> {
        let loading = self.state == State::Loading;
        if !loading && let wait @ LoadProgress::Wait(_) = self.retire(rack) {
            self.catch_up(rack)?;
            return Ok(wait);
        }
        let step = self.catch_up(rack);
        match step {
            Err(error) => {
                if loading {
                    self.unpin(rack, self.pins);
                    self.pins = 1 - self.pins;
                    self.loading = None;
                    self.state = State::Rest;
                }
                Err(error)
            }
            Ok(IndexLoading::Wait(span)) => Ok(LoadProgress::Wait(rack.now() + span)),
            Ok(IndexLoading::More) => Ok(LoadProgress::More),
            Ok(IndexLoading::Done) if loading => self.activate(rack),
            Ok(IndexLoading::Done) => Ok(LoadProgress::Rest),
        }
    }

    fn catch_up(&self, rack: &Rack) -> Result<IndexLoading, IndexNetworkError> {
        let budget = self.spec.step;
        Ok(rack.ask(LoadIndex { budget })?)
    }

    fn activate(&mut self, rack: &Rack) -> Result<LoadProgress, IndexNetworkError> {
        let span = rack.ask(ActivateIndex {})?;
        let until = rack.now() + span;
        self.active = self.loading.take();
        self.state = State::Retiring(until);
        self.summary.loads += 1;
        Ok(LoadProgress::Serves)
    }

    /// Once no query can be led by the previous plan, unpins what it had pinned.
    fn retire(&mut self, rack: &Rack) -> LoadProgress {
        let State::Retiring(until) = self.state else {
            return LoadProgress::Rest;
        };
        if rack.now() < until {
            return LoadProgress::Wait(until);
        }
        self.unpin(rack, 1 - self.pins);
        self.state = State::Rest;
        self.named.clear();
        if let Some(active) = self.active.take() {
            self.name(&active);
            self.active = Some(active);
        }
        LoadProgress::Rest
    }
}
