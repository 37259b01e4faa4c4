//! Servers, queue pairs, loads.

use super::IndexNetworkError;
use super::outlines::Outlines;
use super::site::Controlled;
use rackweave_base::canary::{Canary, planted};
use rackweave_base::{Duration, Instant, NodeId, Qpn, Rkey};
use rackweave_controller::Site;
use rackweave_controller::index::{
    Adapter, IndexPlan, KeyWeights, LoadStep, PlanLimits, PlanSummary, Target, Verdict, plan,
};
use rackweave_endpoint::index::{EndpointId, RemoteTree, Shard};
use rackweave_programs::index::entries::{IndexConfig, IndexCounters, QueryEntry, ServerEntry};
use rackweave_wire::fabric::tree::NodePointer;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// What an index gives to the network, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexNetworkSpec {
    /// What is loaded at most; what all switches have room for if nothing is said.
    pub limits: Option<PlanLimits>,
    /// Inner tree nodes that an endpoint tells of at most.
    pub outline_max: usize,
    /// Tree nodes that one step loads into each switch.
    pub step: usize,
    /// How long a packet may be under way in the network.
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

/// How far a load has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoadProgress {
    /// Nothing is to be done.
    Rest,
    /// Queries of before may be under way until this moment; nothing can be done before.
    Wait(Instant),
    /// There is more to load.
    More,
    /// What was loaded serves since this step.
    Serves,
}

/// What the switches have been given.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct NetworkSummary {
    /// Plans that came to serve.
    pub loads: u64,
    /// Tree nodes that some entry leads to.
    pub targets: usize,
    /// Of all plans: those that were no longer there when they were to be pinned.
    pub gone: u64,
    /// The plan that was made last.
    pub plan: PlanSummary,
}

#[derive(Debug)]
struct Server {
    number: u16,
    ip: Ipv4Addr,
    rkey: Rkey,
    shard: Arc<Shard>,
    /// The servers' ends of clients' queue pairs.
    pairs: Vec<Qpn>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Rest,
    Loading,
    /// The plan before this one may still lead somebody.
    Retiring(Instant),
}

/// An index in the network. What it says to the switches goes through the controller of the rack
/// that it is given; always the same one.
#[derive(Debug)]
pub struct IndexNetwork {
    spec: IndexNetworkSpec,
    limits: PlanLimits,
    /// By endpoint; nothing for those that are down.
    servers: Vec<Option<Server>>,
    /// By endpoint: the first key that its tree ever had. For a planted bug.
    first_rkeys: HashMap<EndpointId, Rkey>,
    /// Where the plan that is loaded, or serves, is pinned.
    pins: usize,
    state: State,
    /// Numbers of servers that plans may name.
    named: Vec<u16>,
    summary: NetworkSummary,
}

impl IndexNetwork {
    /// Nothing is known of any endpoint, and no query is led.
    ///
    /// # Errors
    /// If no switch of the rack leads queries.
    pub fn new(
        rack: &mut impl Controlled,
        spec: IndexNetworkSpec,
    ) -> Result<Self, IndexNetworkError> {
        let mut room = None;
        rack.control(&mut |controller, site| {
            controller.index_mut().set_grace(spec.grace);
            room = Some(room_of(site));
        });
        let room = room.flatten().ok_or(IndexNetworkError::NoProgram)?;
        Ok(Self {
            limits: spec.limits.unwrap_or(room),
            spec,
            servers: Vec::new(),
            first_rkeys: HashMap::new(),
            pins: 0,
            state: State::Rest,
            named: Vec::new(),
            summary: NetworkSummary::default(),
        })
    }

    /// What may be loaded at most.
    pub fn limits(&self) -> &PlanLimits {
        &self.limits
    }

    /// What the switches have been given.
    pub fn summary(&self) -> &NetworkSummary {
        &self.summary
    }

    /// An endpoint serves from now on, under a number that no plan names.
    ///
    /// # Errors
    /// If the switches have no room.
    pub fn add_server(
        &mut self,
        rack: &mut impl Controlled,
        (endpoint, node): (EndpointId, NodeId),
        shard: &Arc<Shard>,
        remote: &RemoteTree,
    ) -> Result<(), IndexNetworkError> {
        self.remove_server(rack, endpoint)?;
        let used = |number: &u16| {
            let live = self.servers.iter().flatten();
            live.map(|server| server.number).any(|used| used == *number)
                || self.named.contains(number)
        };
        let number = (0..u16::MAX).find(|number| !used(number)).unwrap_or(0);
        let mut entered = Err(IndexNetworkError::NoNode(node));
        rack.control(&mut |controller, site| {
            let nodes = site.nodes();
            let Some((_, address)) = nodes.iter().find(|(id, _)| *id == node) else {
                return;
            };
            let entry = ServerEntry {
                ip: address.ip,
                address: remote.address,
                node_shift: remote.layout.bytes().ilog2() as u8,
            };
            let book = controller.index_mut();
            let set = book.set_server(site, number, Some(entry));
            let set = set.and_then(|()| book.set_udp_server(site, address.ip, Some(number)));
            entered = set.map(|()| address.ip).map_err(Into::into);
        });
        let server = Server {
            number,
            ip: entered?,
            rkey: remote.rkey,
            shard: shard.clone(),
            pairs: Vec::new(),
        };
        self.first_rkeys.entry(endpoint).or_insert(remote.rkey);
        let at = endpoint.index();
        if self.servers.len() <= at {
            self.servers.resize_with(at + 1, || None);
        }
        self.servers[at] = Some(server);
        Ok(())
    }

    /// An endpoint does not serve any more: its clients' queue pairs are forgotten, and what plans
    /// say of it leads nobody.
    ///
    /// # Errors
    /// If a switch refuses.
    pub fn remove_server(
        &mut self,
        rack: &mut impl Controlled,
        endpoint: EndpointId,
    ) -> Result<(), IndexNetworkError> {
        let server = self.servers.get_mut(endpoint.index());
        let Some(server) = server.and_then(Option::take) else {
            return Ok(());
        };
        let mut removed = Ok(());
        rack.control(&mut |controller, site| {
            let book = controller.index_mut();
            let mut pairs = server.pairs.iter();
            removed = pairs
                .try_for_each(|&qpn| book.set_query(site, (server.ip, qpn), None))
                .and_then(|()| book.set_udp_server(site, server.ip, None))
                .and_then(|()| book.set_server(site, server.number, None));
        });
        Ok(removed?)
    }

    /// A client's queue pair is connected to an endpoint, whose end it names: queries on it are
    /// led from now on.
    ///
    /// # Errors
    /// If the switches have no room, or tree nodes do not fit packets of `mtu` bytes.
    pub fn add_pair(
        &mut self,
        rack: &mut impl Controlled,
        endpoint: EndpointId,
        qpn: Qpn,
        mtu: u32,
    ) -> Result<(), IndexNetworkError> {
        let server = self.servers.get_mut(endpoint.index());
        let server = server
            .and_then(Option::as_mut)
            .ok_or(IndexNetworkError::NotOpen)?;
        let node = server.shard.tree().layout().bytes();
        if node > mtu as usize {
            return Err(IndexNetworkError::NodeSize {
                endpoint,
                node,
                mtu,
            });
        }
        let first = self.first_rkeys.get(&endpoint);
        let rkey = match first.filter(|_| planted(Canary::IndexStaleRkey)) {
            Some(first) => *first,
            None => server.rkey,
        };
        let entry = QueryEntry {
            server: server.number,
            rkey,
        };
        let mut entered = Ok(());
        rack.control(&mut |controller, site| {
            let at = (server.ip, qpn);
            entered = controller.index_mut().set_query(site, at, Some(entry));
        });
        entered?;
        server.pairs.push(qpn);
        Ok(())
    }

    /// A client's queue pair is gone: queries on it are dropped from now on.
    ///
    /// # Errors
    /// If a switch refuses.
    pub fn remove_pair(
        &mut self,
        rack: &mut impl Controlled,
        endpoint: EndpointId,
        qpn: Qpn,
    ) -> Result<(), IndexNetworkError> {
        let server = self.servers.get_mut(endpoint.index());
        let Some(server) = server.and_then(Option::as_mut) else {
            return Ok(());
        };
        let Some(at) = server.pairs.iter().position(|&pair| pair == qpn) else {
            return Ok(());
        };
        server.pairs.swap_remove(at);
        let ip = server.ip;
        let mut removed = Ok(());
        rack.control(&mut |controller, site| {
            removed = controller.index_mut().set_query(site, (ip, qpn), None);
        });
        Ok(removed?)
    }

    /// What all switches have counted since they started.
    pub fn counters(&self, rack: &mut impl Controlled) -> IndexCounters {
        let mut all = IndexCounters::default();
        rack.control(&mut |_, site| {
            for at in 0..site.switches() {
                site.switch_at(at, &mut |_, switch| {
                    all += &switch.program().index.counters()
                });
            }
        });
        all
    }

    /// What the switches have counted since the last call, and what requests were for.
    pub fn take_weights(&mut self, rack: &mut impl Controlled) -> KeyWeights {
        let mut weights = KeyWeights::default();
        rack.control(&mut |controller, site| {
            weights = controller.index().take_hits(site);
        });
        let mut keys = Vec::new();
        for server in self.servers.iter().flatten() {
            server.shard.take_sample(&mut keys);
        }
        keys.sort_unstable();
        weights.add(&KeyWeights::from_samples(&keys));
        weights
    }

    /// Plans what is to be in the switches, pins it, and begins to load it: [`step`](Self::step)
    /// goes on. [`LoadProgress::Wait`] if the one before has not been retired yet.
    ///
    /// # Errors
    /// If a load is under way, or there is no room.
    pub fn begin_load(
        &mut self,
        rack: &mut impl Controlled,
        weights: &KeyWeights,
    ) -> Result<LoadProgress, IndexNetworkError> {
        if self.state == State::Loading {
            return Err(IndexNetworkError::Loading);
        }
        if let wait @ LoadProgress::Wait(_) = self.retire(rack) {
            return Ok(wait);
        }
        let outlines = self.outlines();
        let plan = plan(&outlines.trees, weights, &self.limits)?;
        self.place(rack, plan, &outlines)
    }

    /// Goes on as [`step`](Self::step) does; at rest, when the adapter wants to know, tells it what
    /// was asked for, and begins to load what it finds worth while.
    ///
    /// # Errors
    /// As for [`begin_load`](Self::begin_load) and [`step`](Self::step).
    pub fn adapt(
        &mut self,
        rack: &mut impl Controlled,
        adapter: &mut Adapter,
    ) -> Result<LoadProgress, IndexNetworkError> {
        let progress = self.step(rack)?;
        let (mut now, mut active) = (Instant::ZERO, None);
        rack.control(&mut |controller, site| {
            now = site.now();
            active = controller.index().active().cloned();
        });
        if progress != LoadProgress::Rest || now < adapter.poll_timeout() {
            return Ok(progress);
        }
        adapter.handle_weights(now, &self.take_weights(rack));
        let outlines = self.outlines();
        let verdict = adapter.judge(active.as_deref(), &outlines.trees, &self.limits)?;
        match verdict {
            Verdict::Replace { plan, .. } => self.place(rack, *plan, &outlines),
            Verdict::Keep { .. } | Verdict::Unknown => Ok(progress),
        }
    }

    /// What the trees of all who have keys look like.
    fn outlines(&self) -> Outlines {
        // Whoever has no keys has a tree with any bounds.
        let servers = self.servers.iter().flatten();
        let servers = servers.filter(|server| server.shard.part().is_some());
        Outlines::of(
            servers.map(|server| (server.number, server.shard.tree())),
            self.spec.outline_max,
        )
    }

    /// Pins what a plan leads to, and begins to load it.
    fn place(
        &mut self,
        rack: &mut impl Controlled,
        plan: IndexPlan,
        outlines: &Outlines,
    ) -> Result<LoadProgress, IndexNetworkError> {
        let bank = 1 - self.pins;
        let gone = self.pin(bank, &plan.targets(), outlines);
        self.summary.gone += gone.len() as u64;
        let plan = Arc::new(plan.without(&gone));
        let mut begun = Ok(());
        rack.control(&mut |controller, site| {
            begun = controller.index_mut().begin_load(site, plan.clone());
        });
        if let Err(error) = begun {
            self.unpin(bank);
            return Err(error.into());
        }
        self.pins = bank;
        self.state = State::Loading;
        self.name(&plan);
        self.summary.targets = plan.targets().len();
        self.summary.plan = plan.summary();
        Ok(LoadProgress::More)
    }

    /// Pins what a plan leads to; returns what cannot be.
    fn pin(&self, bank: usize, targets: &[Target], outlines: &Outlines) -> Vec<Target> {
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
            let failed = server.shard.tree().pin(bank, &wanted);
            gone.extend(failed.into_iter().map(|at| targets[at]));
        }
        gone
    }

    fn unpin(&self, bank: usize) {
        for server in self.servers.iter().flatten() {
            server.shard.tree().unpin(bank);
        }
    }

    /// Servers that plans may name have numbers that nobody else gets.
    fn name(&mut self, plan: &IndexPlan) {
        let ranges = plan.fat_root.ranges.iter();
        self.named.extend(ranges.map(|range| range.server));
        self.named.sort_unstable();
        self.named.dedup();
    }

    /// Goes on with what is under way; also gives switches that have restarted what they had.
    ///
    /// # Errors
    /// If a switch refuses an entry: then the load is given up.
    pub fn step(&mut self, rack: &mut impl Controlled) -> Result<LoadProgress, IndexNetworkError> {
        let loading = self.state == State::Loading;
        if !loading && let wait @ LoadProgress::Wait(_) = self.retire(rack) {
            self.catch_up(rack)?;
            return Ok(wait);
        }
        let step = self.catch_up(rack);
        match step {
            Err(error) => {
                if loading {
                    self.unpin(self.pins);
                    self.pins = 1 - self.pins;
                    self.state = State::Rest;
                }
                Err(error)
            }
            Ok(LoadStep::Wait { until }) => Ok(LoadProgress::Wait(until)),
            Ok(LoadStep::More) => Ok(LoadProgress::More),
            Ok(LoadStep::Done) if loading => self.activate(rack),
            Ok(LoadStep::Done) => Ok(LoadProgress::Rest),
        }
    }

    fn catch_up(&self, rack: &mut impl Controlled) -> Result<LoadStep, IndexNetworkError> {
        let mut step = Ok(LoadStep::Done);
        rack.control(&mut |controller, site| {
            step = controller.index_mut().load_step(site, self.spec.step);
        });
        Ok(step?)
    }

    fn activate(&mut self, rack: &mut impl Controlled) -> Result<LoadProgress, IndexNetworkError> {
        let (mut done, mut until) = (Ok(()), Instant::ZERO);
        rack.control(&mut |controller, site| {
            done = controller.index_mut().activate(site);
            until = controller.index().free_from();
        });
        done?;
        self.state = State::Retiring(until);
        self.summary.loads += 1;
        Ok(LoadProgress::Serves)
    }

    /// When nobody can be led by the plan before this one any more, what it had pinned is let go.
    fn retire(&mut self, rack: &mut impl Controlled) -> LoadProgress {
        let State::Retiring(until) = self.state else {
            return LoadProgress::Rest;
        };
        let (mut now, mut active) = (Instant::ZERO, None);
        rack.control(&mut |controller, site| {
            now = site.now();
            active = controller.index().active().cloned();
        });
        if now < until {
            return LoadProgress::Wait(until);
        }
        self.unpin(1 - self.pins);
        self.state = State::Rest;
        self.named.clear();
        if let Some(active) = active {
            self.name(&active);
        }
        LoadProgress::Rest
    }
}

/// What every switch with a part of the index has room for; nothing if there is no fat root.
fn room_of(site: &mut dyn Site) -> Option<PlanLimits> {
    let mut configs: Vec<IndexConfig> = Vec::new();
    for at in 0..site.switches() {
        site.switch_at(at, &mut |_, switch| {
            configs.push(*switch.program().index.config());
        });
    }
    let here = || configs.iter().filter(|config| config.servers > 0);
    let ranges = here().map(|config| config.fat_ranges).filter(|&n| n > 0);
    let layers = here().filter(|config| config.layers > 0);
    let ends = layers.clone().map(|c| c.first_layer + c.layers - 1);
    Some(PlanLimits {
        ranges: ranges.min()?.into(),
        nodes_per_layer: layers.map(|c| c.nodes).min().unwrap_or(0).into(),
        layers: ends.max().unwrap_or(0).into(),
    })
}
