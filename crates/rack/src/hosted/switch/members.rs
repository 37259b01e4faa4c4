//! Nodes that have joined: asking them, hearing their heartbeats, and what happens when one goes.

use super::{SwitchCore, SwitchEvent};
use crate::build::Address;
use crate::hosted::messages::{NodeReply, NodeRequest};
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::NodeId;
use rackweave_base::memory::Origin;
use rackweave_control::{Closer, Connection};
use rackweave_verbs::Mtu;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration as Time;

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
        let mut connection = self.connection.lock().expect("no holder panics");
        let reply = connection.request(request, self.patience);
        reply.map_err(|error| {
            self.alive.store(false, Ordering::Relaxed);
            error.to_string()
        })
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
                Err(why) => break Some(why),
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
            for other in self.others(member.node) {
                let _ = other.ask(&NodeRequest::Forget { origin });
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
