//! Moves ranges, on request or by decision of the rebalancer.
//!
//! An index has at most one coordinator at a time. It may run anywhere: at a storage node, at a
//! client, at the controller. It keeps no state that the shards cannot report again, so another
//! coordinator may replace it at any time. A new coordinator first queries the state of every
//! endpoint, and ends the moves that its predecessor has left.
//!
//! `acting` makes the requests and handles the replies.

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

/// Configuration of a coordinator.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CoordinatorConfig {
    /// Its connections. Requests must not time out: a late reply would belong to a step that is
    /// believed not to have happened.
    pub rpc: rpc::ClientConfig,
    /// Approximate number of entries moved at a time. Writes to them wait that long.
    pub chunk: u32,
    /// Maximum number of chunks that one step of a rebalancing moves.
    pub chunks_max: u32,
    /// Configuration of rebalancing; `None` disables it.
    pub rebalance: Option<RebalanceConfig>,
    /// Interval between requests for the endpoints' statistics.
    pub sample_every: Duration,
    /// Distinguishes this coordinator from all others of the index: a random number.
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

/// An event reported by a coordinator.
#[derive(Clone, PartialEq, Debug)]
pub enum CoordinatorEvent {
    /// The state of all endpoints is known, and unfinished moves have been ended.
    Ready,
    /// A chunk has been moved.
    Moved(Moved),
    /// The move has ended: all keys have moved, or the maximum number of chunks, or it has failed.
    Ended(Result<(), MoveError>),
    /// The work of the endpoints in the last interval, by endpoint.
    Sampled(Vec<EndpointSample>),
    /// The rebalancer has decided to move these keys; the move begins.
    Rebalances(Step),
    /// An endpoint does not answer.
    Gone(EndpointId),
}

/// Why a coordinator does not begin a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BeginMoveError {
    /// It does not know the endpoints' states yet, or another move is in progress.
    #[error("the coordinator is busy; wait for it to be ready")]
    Busy,
    /// The range cannot be moved.
    #[error(transparent)]
    Map(#[from] super::map::MapError),
}

/// The current activity.
#[derive(Debug)]
enum Doing {
    /// Querying the state of all endpoints. By endpoint.
    Asking {
        asked: Vec<bool>,
        states: Vec<Option<ShardState>>,
    },
    /// Fetching the map from the endpoint with the newest one.
    Fetching {
        states: Vec<Option<ShardState>>,
    },
    Waiting,
    /// Requesting the statistics of all endpoints.
    Sampling {
        asked: Vec<bool>,
        reports: Vec<Option<EndpointReport>>,
    },
    Moving {
        mover: Box<Mover>,
        /// The rest of the step after this chunk.
        left: Option<Step>,
        chunks: u32,
        /// Whether this ends a move that another coordinator has left.
        resumed: bool,
    },
}

/// Moves ranges between the endpoints of an index.
#[derive(Debug)]
pub struct Coordinator {
    config: CoordinatorConfig,
    map: PartitionMap,
    links: Vec<Option<rpc::Client>>,
    gone_reported: Vec<bool>,
    doing: Doing,
    /// Whether the next requests still have to be made.
    unasked: bool,
    /// Number of the current activity: only replies to its requests count.
    asking: u32,
    /// The activity for which each pending request was made, by endpoint and slot of the window.
    asked: Vec<Vec<u32>>,
    rebalancer: Option<Rebalancer>,
    /// The reports with which the next ones are compared, and when they arrived.
    before: Option<(Instant, Vec<EndpointReport>)>,
    sample_at: Instant,
    moves: u32,
    events: VecDeque<CoordinatorEvent>,
    request: Vec<u8>,
}

impl Coordinator {
    /// A coordinator that begins with this map. It has no connection to any endpoint yet.
    pub fn new(map: PartitionMap, config: CoordinatorConfig) -> Self {
        let endpoints = map.endpoints();
        let count = usize::from(endpoints);
        Self {
            rebalancer: config
                .rebalance
                .map(|config| Rebalancer::new(endpoints, config)),
            map,
            links: (0..count).map(|_| None).collect(),
            gone_reported: vec![false; count],
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

    /// Creates the queue pair to an endpoint, replacing a former one. It must be connected to a
    /// queue pair that the endpoint's [`rpc::Server`] has accepted. When all queue pairs exist, the
    /// state of all endpoints is queried again.
    ///
    /// # Errors
    /// If the memory or the NIC has no free resources.
    ///
    /// # Panics
    /// If the endpoint does not exist.
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
        self.gone_reported[endpoint.index()] = false;
        self.begin_anew();
        Ok(qpn)
    }

    /// Releases all resources. A pending move stays as it is.
    pub fn close(self, verbs: &mut dyn Verbs) {
        for link in self.links.into_iter().flatten() {
            link.close(verbs);
        }
    }

    /// The newest map known.
    pub fn map(&self) -> &PartitionMap {
        &self.map
    }

    /// Whether a move could begin now.
    pub fn is_ready(&self) -> bool {
        matches!(self.doing, Doing::Waiting | Doing::Sampling { .. })
    }

    /// Moves a range, chunk by chunk. [`CoordinatorEvent::Ended`] reports the end.
    ///
    /// # Errors
    /// If another move is in progress, or the range cannot be moved there.
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

    /// Starts the next activity: replies to earlier requests no longer count.
    fn ask_next(&mut self) {
        self.unasked = true;
        self.asking = self.asking.wrapping_add(1);
    }

    /// Advances all pending requests and returns the next event.
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs) -> Option<CoordinatorEvent> {
        if self.events.is_empty() {
            self.advance(now, verbs);
        }
        self.events.pop_front()
    }

    /// When to call [`Coordinator::poll`] even if no completion arrives.
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
    /// The side and the method of the current request of a move, for observers.
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
