//! Nodes that have joined: asking them, hearing their heartbeats, and what happens when one goes.

use super::{SwitchCore, SwitchEvent};
use crate::awake::try_lock;
use crate::build::Address;
use crate::hosted::messages::{NodeReply, NodeRequest};
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::NodeId;
use rackweave_base::memory::Origin;
use rackweave_control::{Closer, Connection};
use rackweave_verbs::Mtu;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration as Time, Instant};

/// Interval at which a waiting thread checks whether another's question is answered.
const LOOK_EVERY: Time = Time::from_millis(1);

/// A node that has joined.
pub(in crate::hosted) struct Member {
    pub node: NodeId,
    pub pid: u32,
    pub mtu: Mtu,
    /// Its memory, if it shares it: the name in packets and the descriptor.
    pub shared: Option<Shared>,
    connection: Mutex<Connection>,
    closer: Closer,
    alive: AtomicBool,
    /// How long an answer may take.
    patience: Time,
    delays: Mutex<Delays>,
    /// Why it is no longer asked, if that is so.
    cause: OnceLock<String>,
}

/// For how long a node's answers have delayed others, since a lock was held meanwhile, and until
/// when that was counted. A quarter of the time that passes is deducted.
struct Delays {
    total: Time,
    at: Instant,
}

/// Asks nodes while a lock is held, so that others wait. All questions together may take no longer
/// than a single one may otherwise, and a node that is slow at many of them counts as dead.
pub(in crate::hosted) struct Asking<'a> {
    pub core: &'a SwitchCore,
    spent: Cell<Time>,
}

impl<'a> Asking<'a> {
    pub fn new(core: &'a SwitchCore) -> Self {
        Self {
            core,
            spent: Cell::new(Time::ZERO),
        }
    }

    /// Asks a node. Nothing if it does not answer in time, or has been slow for too long: then it
    /// counts as dead.
    pub fn ask(&self, member: &Member, request: &NodeRequest) -> Option<NodeReply> {
        let asked = Instant::now();
        // Other nodes may have used up the time. One that is well needs little.
        let left = member.patience.saturating_sub(self.spent.get());
        let limit = left.max(member.patience / 4);
        let reply = member.ask_within(request, limit);
        let took = asked.elapsed();
        self.spent.set(self.spent.get() + took);
        match &reply {
            Ok(_) if member.charge(took) => member.cut_because("it was slow at too many questions"),
            Ok(_) => {}
            Err(_) => member.cut(),
        }
        reply.ok()
    }
}

/// A node's shared memory.
pub(in crate::hosted) struct Shared {
    pub origin: Origin,
    pub descriptor: OwnedFd,
    /// On which others' descriptors go to it.
    pub channel: UnixStream,
}

impl Member {
    pub fn new(
        node: NodeId,
        (pid, mtu): (u32, Mtu),
        shared: Option<Shared>,
        connection: Connection,
        patience: Time,
    ) -> Self {
        Self {
            node,
            pid,
            mtu,
            shared,
            closer: connection.closer(),
            connection: Mutex::new(connection),
            alive: AtomicBool::new(true),
            patience,
            delays: Mutex::new(Delays {
                total: Time::ZERO,
                at: Instant::now(),
            }),
            cause: OnceLock::new(),
        }
    }

    pub fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    /// Asks the node. Nothing if it does not answer in time: then it counts as dead.
    pub fn ask(&self, request: &NodeRequest) -> Option<NodeReply> {
        self.try_ask(request).ok()
    }

    fn try_ask(&self, request: &NodeRequest) -> Result<NodeReply, String> {
        if !self.is_alive() {
            return Err("it has gone".into());
        }
        let connection = self.connection.lock().expect("no holder panics");
        self.exchange(connection, request, self.patience)
    }

    /// Asks within `limit`, also if somebody else waits for an answer.
    fn ask_within(&self, request: &NodeRequest, limit: Time) -> Result<NodeReply, String> {
        let until = Instant::now() + limit;
        while self.is_alive() {
            if let Some(connection) = try_lock(&self.connection) {
                let left = until.saturating_duration_since(Instant::now());
                return self.exchange(connection, request, left);
            }
            if Instant::now() >= until {
                let why = "it has not answered another question";
                self.cut_because(why);
                return Err(why.into());
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Err("it has gone".into())
    }

    fn exchange(
        &self,
        mut connection: MutexGuard<'_, Connection>,
        request: &NodeRequest,
        limit: Time,
    ) -> Result<NodeReply, String> {
        connection.request(request, limit).map_err(|error| {
            let why = error.to_string();
            let _first = self.cause.set(why.clone());
            self.alive.store(false, Ordering::Relaxed);
            why
        })
    }

    /// Counts a delay. Returns whether the node's delays have become too long.
    fn charge(&self, took: Time) -> bool {
        let mut delays = self.delays.lock().expect("no holder panics");
        let deducted = delays.at.elapsed() / 4;
        // Any answer may take so long on a busy machine.
        let slow = took.saturating_sub(self.patience / 64);
        delays.total = delays.total.saturating_sub(deducted) + slow;
        delays.at = Instant::now();
        delays.total > self.patience
    }

    /// As [`Self::cut`]. The cause comes first: who waits for an answer sees the end at once.
    fn cut_because(&self, why: &str) {
        let _first = self.cause.set(why.to_owned());
        self.cut();
    }

    /// No more questions: the connection ends now.
    pub fn cut(&self) {
        self.alive.store(false, Ordering::Relaxed);
        self.closer.close();
    }
}

impl SwitchCore {
    /// Hears a member's heartbeats until it goes or the switch stops, then cleans up after it.
    pub fn keep(&self, member: &Arc<Member>, watch: &(dyn Fn(SwitchEvent) + Sync)) {
        let heartbeat = self.config.hosted().heartbeat();
        let why = loop {
            if self.is_stopped() {
                // It joins again when a switch is back.
                let _ = member.ask(&NodeRequest::Farewell);
                break None;
            }
            match member.try_ask(&NodeRequest::Ping) {
                Ok(NodeReply::Pong { leaving: false }) => {}
                Ok(NodeReply::Pong { leaving: true }) => break None,
                Ok(_) => break Some("it answered something else than it was asked".to_owned()),
                Err(why) => break Some(member.cause.get().cloned().unwrap_or(why)),
            }
            std::thread::sleep(heartbeat);
        };
        member.cut();
        if !self.is_stopped() {
            self.lose(member);
        }
        let name = &self.config.node[usize::from(member.node.0)].name;
        watch(SwitchEvent::Left {
            node: name.clone(),
            why,
        });
    }

    /// A member has gone: its port is unplugged, its flows end, its memory is forgotten.
    fn lose(&self, member: &Arc<Member>) {
        let node = member.node;
        let port = Address::of_node(node).port;
        self.pump.relink(|machine| machine.plug(port, None));
        self.control(|controller, site| {
            controller.node_died(site, node);
            controller.remove_host(site, node);
        });
        self.dismiss(member);
    }

    /// Ends a member's connection, and everybody forgets its memory; its name is free, if it had
    /// it.
    pub(super) fn dismiss(&self, member: &Arc<Member>) {
        member.cut();
        if let Some(shared) = &member.shared {
            let _held = self.introductions.lock().expect("no holder panics");
            self.memory.forget(shared.origin);
            let origin = shared.origin.0;
            let asking = Asking::new(self);
            for other in self.others(member.node) {
                let _ = asking.ask(&other, &NodeRequest::Forget { origin });
            }
        }
        let place = &self.members[usize::from(member.node.0)];
        let mut place = place.lock().expect("no holder panics");
        place.take_if(|other| Arc::ptr_eq(other, member));
    }

    /// The members beside `node`.
    pub(super) fn others(&self, node: NodeId) -> Vec<Arc<Member>> {
        let ids = (0..self.members.len()).map(|at| NodeId(at as u16));
        ids.filter(|&id| id != node)
            .filter_map(|id| self.member(id))
            .collect()
    }
}
