//! Exchange streams between the nodes of a rack.
//!
//! An [`Exchange`] is a node's end of all its streams. It has a thread, which listens, moves
//! frames between the connections' buffers and the streams, and wakes tasks. Programs send and
//! receive by futures, which need no runtime of their own, or by the calls that wait.
//!
//! Nodes connect when the first stream between them is opened. The node that opens streams dials;
//! two nodes that open streams to each other have two connections. `endpoint::exchange` has the
//! rules of streams, `docs/exchange.md` what programs may rely on.

mod agent;
mod broadcast;
mod connection;
mod counters;
mod handles;
mod link;
mod pump;

use crate::config::choices::Kind;
use crate::messaging::{ConnectError, Listener, PeerQuota, dial};
use crate::rack::AgentError;
use crate::services::FOREVER;
use crate::{Node, ProcessError, Rack};
use agent::{AddressRequest, ExchangeAgent};
use broadcast::{Broadcasts, Joining};
use core::future::poll_fn;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker};
use counters::Counts;
use link::Link;
use rackweave_base::NodeId;
use rackweave_endpoint::exchange::{Budget, OpenError, StreamConfig};
use rackweave_endpoint::messaging::MessagingConfig;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

pub use broadcast::BroadcastSender;
pub use counters::ExchangeCounters;
pub use handles::{Incoming, StreamReceiver, StreamSender, wait_for};

/// Settings of an [`Exchange`].
#[derive(Clone, Debug)]
pub struct ExchangeOptions {
    /// Where other nodes' connections are accepted. Nodes connect to this address, so on several
    /// machines it must be one that all of them reach; port 0 selects a free port.
    pub listen: SocketAddr,
    /// Sizes of streams.
    pub streams: StreamConfig,
    /// Sizes of connections.
    pub messaging: MessagingConfig,
    /// Whether streams of other nodes are accepted; otherwise they end with
    /// `StreamError::NotAccepted`.
    pub accepts: bool,
    /// Whether [`Exchange::broadcast`] uses a flow that the switch replicates. Otherwise it takes
    /// no streams.
    pub broadcasts: bool,
    /// Time limit of connecting to a node.
    pub connect_within: Duration,
}

impl Default for ExchangeOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0),
            streams: StreamConfig::default(),
            messaging: MessagingConfig::default(),
            accepts: true,
            broadcasts: true,
            connect_within: Duration::from_secs(3),
        }
    }
}

/// Why an exchange was not made.
#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    /// The rack runs in virtual time.
    #[error("a simulated rack has no exchange: it runs on a thread of its own, in real time")]
    Simulated,
    /// The node has one already.
    #[error("{0} has an exchange already")]
    Exists(String),
    /// It can't listen.
    #[error(transparent)]
    Listen(#[from] ConnectError),
    /// Other processes would not find it: its address could not be offered to them.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The system has no thread for it.
    #[error("no thread for the exchange: {0}")]
    Thread(std::io::Error),
}

/// A node's end of all its streams. Clones are the same; the last one that is dropped ends all
/// streams.
#[derive(Clone)]
pub struct Exchange(Arc<Owner>);

/// Ends the thread when it is dropped.
struct Owner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread and the handles share.
struct Shared {
    rack: Rack,
    node: Node,
    options: ExchangeOptions,
    /// The budget of streams that were accepted.
    accepted: Budget,
    links: Mutex<Links>,
    arrivals: Mutex<Arrivals>,
    counts: Counts,
    broadcasts: Broadcasts,
    /// Whether the thread may be asleep.
    is_asleep: AtomicBool,
    is_stopping: AtomicBool,
}

#[derive(Default)]
struct Links {
    /// Those dialed, by peer.
    dialed: BTreeMap<NodeId, Arc<Link>>,
    /// All of them, with those accepted.
    all: Vec<Arc<Link>>,
    /// Connections for the thread.
    connected: Vec<(Arc<Link>, crate::messaging::MessageConnection)>,
    /// Consumers of other nodes' broadcasts, for the thread.
    joined: Vec<Joining>,
}

/// Streams that other nodes have opened.
#[derive(Default)]
struct Arrivals {
    waiting: VecDeque<Incoming>,
    wakers: Vec<Waker>,
    is_closed: bool,
}

fn held<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Exchange {
    /// Starts the exchange of a node that is here; other nodes find it by the node's name.
    ///
    /// # Errors
    /// If the rack is simulated, the node has an exchange, or the address can't be had.
    pub fn start(
        rack: &Rack,
        node: &Node,
        options: ExchangeOptions,
    ) -> Result<Self, ExchangeError> {
        if rack.backend().kind() == Kind::Simulated {
            return Err(ExchangeError::Simulated);
        }
        let messaging = options.messaging.clone();
        let mut listener = Listener::bind(rack, node, options.listen, messaging)?;
        // Every other node may dial, and all of them are trusted with memory.
        listener.set_peer_quota(PeerQuota {
            connections: rack.config().node.len().max(8),
            bytes: u64::MAX,
        });
        let agent = rack.agent::<ExchangeAgent>();
        if !agent.add(node.id(), listener.local_addr()) {
            return Err(ExchangeError::Exists(node.name().to_owned()));
        }
        let started = Self::start_with(rack, node, options, listener);
        if started.is_err() {
            agent.remove(node.id());
        }
        started
    }

    fn start_with(
        rack: &Rack,
        node: &Node,
        options: ExchangeOptions,
        listener: Listener,
    ) -> Result<Self, ExchangeError> {
        match rack.offer_agent::<ExchangeAgent>() {
            Ok(()) | Err(ProcessError::OneProcess) => {}
            Err(error) => return Err(error.into()),
        }
        let shared = Arc::new(Shared {
            rack: rack.clone(),
            node: node.clone(),
            options,
            accepted: Budget::new(u64::MAX),
            links: Mutex::default(),
            arrivals: Mutex::default(),
            counts: Counts::default(),
            broadcasts: Broadcasts::default(),
            is_asleep: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
        });
        let on_thread = shared.clone();
        let named = std::thread::Builder::new().name("exchange".into());
        let thread = named.spawn(move || pump::run(&on_thread, listener));
        let thread = Some(thread.map_err(ExchangeError::Thread)?);
        Ok(Self(Arc::new(Owner { shared, thread })))
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.0.shared.node
    }

    /// Its settings.
    pub fn options(&self) -> &ExchangeOptions {
        &self.0.shared.options
    }

    /// Opens a stream to a node with a request, and returns its two directions: messages to the
    /// node, and messages from there, which count against `budget`. If there is no such node or it
    /// can't be reached, both end with `StreamError::Gone`.
    ///
    /// # Errors
    /// If the request is too long, or too many streams are open.
    pub fn open(
        &self,
        peer: &str,
        request: impl Into<Vec<u8>>,
        budget: &Budget,
    ) -> Result<(StreamSender, StreamReceiver), OpenError> {
        let request = request.into();
        let shared = &self.0.shared;
        let link = shared.link_to(peer);
        let opened = link.multiplexer().open(request, budget);
        let stream = opened?;
        shared.wake();
        Ok(handles::pair(shared, &link, stream))
    }

    /// The next stream that another node has opened; `None`: the exchange has been closed.
    pub async fn accept(&self) -> Option<Incoming> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// As [`Self::accept`], for the caller's own futures.
    pub fn poll_accept(&self, context: &mut Context<'_>) -> Poll<Option<Incoming>> {
        let mut arrivals = held(&self.0.shared.arrivals);
        if let Some(incoming) = arrivals.waiting.pop_front() {
            return Poll::Ready(Some(incoming));
        }
        if arrivals.is_closed {
            return Poll::Ready(None);
        }
        let waker = context.waker();
        if !arrivals.wakers.iter().any(|known| known.will_wake(waker)) {
            arrivals.wakers.push(waker.clone());
        }
        Poll::Pending
    }

    /// As [`Self::accept`], but the thread waits, for up to `limit`. `None`: none was opened, or
    /// the exchange has been closed.
    pub fn accept_within(&self, limit: Duration) -> Option<Incoming> {
        wait_for(limit, |context| self.poll_accept(context)).flatten()
    }

    /// As [`Self::accept`], but the thread waits.
    pub fn accept_wait(&self) -> Option<Incoming> {
        self.accept_within(FOREVER)
    }

    /// Closes the exchange: all streams end, and nothing is accepted any more.
    pub fn close(&self) {
        self.0.shared.is_stopping.store(true, Ordering::SeqCst);
        self.0.shared.wake();
    }

    /// Its counters.
    pub fn counters(&self) -> ExchangeCounters {
        let Shared { counts, links, .. } = &*self.0.shared;
        counts.read(&held(links).all)
    }
}

impl Shared {
    /// The connection to a node, which may not have been made yet.
    fn link_to(self: &Arc<Self>, peer: &str) -> Arc<Link> {
        let ended = |why: &str| {
            let link = Link::dialing(peer, self.options.streams);
            link.end(why);
            Arc::new(link)
        };
        let Some(id) = self.rack.config().node_named(peer) else {
            return ended("the rack has no such node");
        };
        if self.is_stopping.load(Ordering::SeqCst) {
            return ended("the exchange here has been closed");
        }
        let mut links = held(&self.links);
        if let Some(link) = links.dialed.get(&id)
            && link.multiplexer().gone().is_none()
        {
            return link.clone();
        }
        let is_open = |link: &Arc<Link>| link.multiplexer().gone().is_none();
        links.all.retain(is_open);
        let link = Arc::new(Link::dialing(peer, self.options.streams));
        links.dialed.insert(id, link.clone());
        links.all.push(link.clone());
        drop(links);
        let (shared, dialed) = (self.clone(), link.clone());
        let named = std::thread::Builder::new().name("exchange-dials".into());
        let spawned = named.spawn(move || shared.dial(id, &dialed));
        if let Err(error) = spawned {
            link.end(&format!("no thread to connect on: {error}"));
        }
        link
    }

    /// Connects to a node. On a thread of its own: the controller may not answer.
    fn dial(&self, peer: NodeId, link: &Arc<Link>) {
        let asked = self
            .rack
            .ask_agent::<ExchangeAgent>(peer, AddressRequest(peer));
        let address = match asked {
            Ok(address) => address,
            Err(AgentError::Absent(_)) => return link.end("no process has an exchange there"),
            Err(AgentError::NoNode(_)) => return link.end("the rack has no such node"),
            Err(AgentError::Here(error)) => return link.end(&error.to_string()),
            Err(AgentError::Elsewhere(error)) => return link.end(&error.to_string()),
        };
        let ExchangeOptions {
            messaging,
            connect_within,
            ..
        } = &self.options;
        let dialed = dial(
            &self.rack,
            &self.node,
            address,
            messaging.clone(),
            *connect_within,
        );
        match dialed {
            Ok(connection) => held(&self.links).connected.push((link.clone(), connection)),
            Err(error) => link.end(&error.to_string()),
        }
        self.wake();
    }

    /// Wakes the thread if it sleeps.
    fn wake(&self) {
        if self.is_asleep.swap(false, Ordering::SeqCst) {
            self.node.with(|_| ());
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // A panic was reported on standard error.
            let _ = thread.join();
        }
        let agent = self.shared.rack.agent::<ExchangeAgent>();
        agent.remove(self.shared.node.id());
    }
}

impl core::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Exchange")
            .field("node", self.node())
            .finish_non_exhaustive()
    }
}
