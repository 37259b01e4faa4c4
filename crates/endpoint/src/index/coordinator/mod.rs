//! Moves ranges, when told to or when the rebalancer says so.
//!
//! An index has one coordinator at most at a time. It may run anywhere: at a storage node, at a
//! client, at the controller. It keeps nothing that cannot be asked of the shards again, so another
//! one may take its place at any time: its first act is to ask every endpoint where it stands, and
//! to end what its predecessor has left.
//!
//! `acting` asks, and says what answers mean.

mod acting;

use super::map::{EndpointId, PartitionMap};
use super::message::Method;
use super::mover::{Move, MoveError, Moved, Mover, Side};
use super::rebalancer::{EndpointSample, RebalanceConfig, Rebalancer, Step};
use super::server::EndpointReport;
use super::shard::{MoveId, ShardState};
use crate::rpc::{self, RpcError};
use rackweave_base::{Duration, Instant, Memory, Qpn};
use rackweave_verbs::{PdId, Verbs};
use std::collections::VecDeque;

/// How a coordinator behaves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CoordinatorConfig {
    /// Its connections. Requests must not time out: an answer that comes late would be that of a
    /// step which is thought undone.
    pub rpc: rpc::ClientConfig,
    /// Entries that change hands at a time, about: for so long writes to them wait.
    pub chunk: u32,
    /// Chunks that one step of a rebalancing moves at most.
    pub chunks_max: u32,
    /// How rebalancing behaves; nothing: there is none.
    pub rebalance: Option<RebalanceConfig>,
    /// How often endpoints are asked how they are doing.
    pub sample_every: Duration,
    /// What tells this coordinator from all others of the index: random.
    pub name: u32,
}

impl Default for CoordinatorConfig {
    fn default() -> Self {
        Self {
            rpc: rpc::ClientConfig {
                timeout: Duration::ZERO,
                window: 4,
                ..rpc::ClientConfig::default()
            },
            chunk: 4096,
            chunks_max: 64,
            rebalance: None,
            sample_every: Duration::from_millis(50),
            name: 1,
        }
    }
}

/// What a coordinator has to say.
#[derive(Clone, PartialEq, Debug)]
pub enum CoordinatorEvent {
    /// All endpoints were asked where they stand, and what was left over is ended.
    Ready,
    /// A chunk has changed hands.
    Moved(Moved),
    /// All that was to move has moved, or as many chunks as may at a time, or it has failed.
    Ended(Result<(), MoveError>),
    /// What the endpoints did in the last interval, by endpoint.
    Sampled(Vec<EndpointSample>),
    /// The rebalancer wants these keys to move, and they will.
    Rebalances(Step),
    /// An endpoint does not answer.
    Gone(EndpointId),
}

/// Why a coordinator does not begin to move something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BeginMoveError {
    /// It does not know yet how things stand, or moves something already.
    #[error("the coordinator is busy; wait for it to be ready")]
    Busy,
    /// The range cannot change hands.
    #[error(transparent)]
    Map(#[from] super::map::MapError),
}

/// What it is doing.
#[derive(Debug)]
enum Doing {
    /// Asking everybody where it stands. By endpoint.
    Asking {
        asked: Vec<bool>,
        states: Vec<Option<ShardState>>,
    },
    /// Asking who has the newest map for it.
    Fetching {
        states: Vec<Option<ShardState>>,
    },
    Waiting,
    /// Asking everybody how it is doing.
    Sampling {
        asked: Vec<bool>,
        reports: Vec<Option<EndpointReport>>,
    },
    Moving {
        mover: Box<Mover>,
        /// What is left when this chunk has moved.
        left: Option<Step>,
        chunks: u32,
        /// Ends something that another has left.
        resumed: bool,
    },
}

/// Moves ranges between the endpoints of an index.
#[derive(Debug)]
pub struct Coordinator {
    config: CoordinatorConfig,
    map: PartitionMap,
    links: Vec<Option<rpc::Client>>,
    told_gone: Vec<bool>,
    doing: Doing,
    /// Whether the next thing to ask was not asked yet.
    unasked: bool,
    /// Counts what was to be asked: an answer counts for what is being asked now only.
    asking: u32,
    /// What the requests under way were for, by endpoint and slot of the window.
    asked: Vec<Vec<u32>>,
    rebalancer: Option<Rebalancer>,
    /// The reports that the next ones are compared with, and when they came.
    before: Option<(Instant, Vec<EndpointReport>)>,
    sample_at: Instant,
    moves: u32,
    events: VecDeque<CoordinatorEvent>,
    request: Vec<u8>,
}

impl Coordinator {
    /// A coordinator that begins with this map. It has no way to any endpoint yet.
    pub fn new(map: PartitionMap, config: CoordinatorConfig) -> Self {
        let endpoints = map.endpoints();
        let count = usize::from(endpoints);
        Self {
            rebalancer: config
                .rebalance
                .map(|config| Rebalancer::new(endpoints, config)),
            map,
            links: (0..count).map(|_| None).collect(),
            told_gone: vec![false; count],
            doing: asking(count),
            unasked: true,
            asking: 1,
            asked: vec![vec![0; usize::from(config.rpc.window)]; count],
            before: None,
            sample_at: Instant::ZERO,
            moves: 0,
            events: VecDeque::new(),
            request: Vec::new(),
            config,
        }
    }

    /// Makes the queue pair to an endpoint, to be connected to one that its [`rpc::Server`] has
    /// accepted, in place of a former one. When all are there, everybody is asked anew where it
    /// stands.
    ///
    /// # Errors
    /// If memory or NIC have no room.
    ///
    /// # Panics
    /// If there is no such endpoint.
    pub fn attach(
        &mut self,
        verbs: &mut dyn Verbs,
        memory: &Memory,
        pd: PdId,
        endpoint: EndpointId,
    ) -> Result<Qpn, RpcError> {
        let client = rpc::Client::new(verbs, memory, pd, self.config.rpc)?;
        let qpn = client.qpn();
        let link = &mut self.links[endpoint.index()];
        if let Some(former) = link.replace(client) {
            former.close(verbs);
        }
        self.told_gone[endpoint.index()] = false;
        self.begin_anew();
        Ok(qpn)
    }

    /// Gives everything back. A move under way stays as it is.
    pub fn close(self, verbs: &mut dyn Verbs) {
        for link in self.links.into_iter().flatten() {
            link.close(verbs);
        }
    }

    /// The newest map that it knows.
    pub fn map(&self) -> &PartitionMap {
        &self.map
    }

    /// Whether something could be moved now.
    pub fn is_ready(&self) -> bool {
        matches!(self.doing, Doing::Waiting | Doing::Sampling { .. })
    }

    /// Moves a range, chunk by chunk. [`CoordinatorEvent::Ended`] says when that is done.
    ///
    /// # Errors
    /// If it moves something already, or the range cannot go there.
    pub fn begin_move(&mut self, step: Step) -> Result<(), BeginMoveError> {
        if !self.is_ready() {
            return Err(BeginMoveError::Busy);
        }
        self.map
            .with_move(step.from, step.to, step.low, step.last)?;
        self.start(step, u32::MAX);
        Ok(())
    }

    fn start(&mut self, step: Step, chunks: u32) {
        self.moves += 1;
        let id = MoveId(u64::from(self.config.name) << 32 | u64::from(self.moves));
        let what = Move {
            from: step.from,
            to: step.to,
            low: step.low,
            last: step.last,
            entries_max: self.config.chunk.max(1),
        };
        let mover = Box::new(Mover::new(id, what, self.map.clone()));
        self.turn_to(Doing::Moving {
            mover,
            left: Some(step),
            chunks,
            resumed: false,
        });
    }

    fn begin_anew(&mut self) {
        self.before = None;
        self.turn_to(asking(self.links.len()));
    }

    fn turn_to(&mut self, doing: Doing) {
        self.doing = doing;
        self.ask_next();
    }

    /// What was asked before is answered or does not matter any more.
    fn ask_next(&mut self) {
        self.unasked = true;
        self.asking = self.asking.wrapping_add(1);
    }

    /// Gets on with it; what there is to say.
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Option<CoordinatorEvent> {
        if self.events.is_empty() {
            self.advance(now, verbs);
        }
        self.events.pop_front()
    }

    /// When to call [`Coordinator::poll`] even if no completion comes.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let links = self.links.iter().flatten();
        let sample = matches!(self.doing, Doing::Waiting)
            && self.rebalancer.is_some()
            && self.links.iter().all(is_there);
        let own = sample.then_some(self.sample_at);
        let unasked = self.unasked.then_some(Instant::ZERO);
        links
            .filter_map(rpc::Client::poll_timeout)
            .chain(own)
            .chain(unasked)
            .min()
    }
}

impl Coordinator {
    /// Which side of a move is asked now, for who watches.
    pub fn asks(&self) -> Option<(Side, Method)> {
        match &self.doing {
            Doing::Moving { mover, .. } => mover
                .request()
                .map(|(side, request)| (side, request.method())),
            _ => None,
        }
    }
}

fn asking(count: usize) -> Doing {
    Doing::Asking {
        asked: vec![false; count],
        states: vec![None; count],
    }
}

fn is_there(link: &Option<rpc::Client>) -> bool {
    link.as_ref().is_some_and(|link| !link.is_broken())
}
