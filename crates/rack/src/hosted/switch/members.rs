//! Nodes that have joined: requests, heartbeats, and cleanup when one leaves.

use super::arenas::Arena;
use super::{SwitchCore, SwitchEvent};
use crate::address::Address;
use crate::hosted::messages::{NodeReply, NodeRequest, ServiceCall};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use rackweave_base::NodeId;
use rackweave_control::{Closer, Connection};
use rackweave_verbs::Mtu;
use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration as Time, Instant};

/// Time limit for a service's answer.
const SERVICE_LIMIT: Time = Time::from_secs(10);

/// Time that a node's process has to offer its services again after the switch's was replaced.
const SERVES_AGAIN: Time = Time::from_secs(2);

/// How often that is checked.
const LOOK_EVERY: Time = Time::from_millis(10);

/// A node that has joined.
pub(in crate::hosted) struct Member {
    pub node: NodeId,
    pub pid: u32,
    pub mtu: Mtu,
    /// Its memory, if it shares it.
    pub shared: Option<Shared>,
    connection: Mutex<Connection>,
    closer: Closer,
    alive: AtomicBool,
    /// Time limit for a reply.
    patience: Time,
    delays: Mutex<Delays>,
    /// Threads whose requests are about to be sent or replied to, and counted.
    waiting: AtomicU32,
    /// The memories of others that it has been given, by their origins.
    pub(super) given: Mutex<BTreeSet<u16>>,
    /// Held while descriptors are on their way to it or from it, with the request for them.
    pub(super) handing: Mutex<()>,
    /// The connection on which its services are asked.
    services: Mutex<Option<Connection>>,
    /// Close its other connections, also while a reply is awaited.
    closers: Mutex<Vec<Closer>>,
    /// Why it gets no more requests, if that is so.
    cause: OnceLock<String>,
}

/// How long a node's replies have delayed the flows that it is a member of, and the time until
/// which that was counted. A quarter of the elapsed time is deducted.
struct Delays {
    total: Time,
    at: Instant,
}

impl Delays {
    /// What is not deducted yet.
    fn left(&self) -> Time {
        self.total.saturating_sub(self.at.elapsed() / 4)
    }
}

/// A node's shared memory.
pub(in crate::hosted) struct Shared {
    pub arena: Arc<Arena>,
    /// The channel on which others' descriptors are sent to it.
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
            waiting: AtomicU32::new(0),
            given: Mutex::default(),
            handing: Mutex::default(),
            services: Mutex::new(None),
            closers: Mutex::default(),
            cause: OnceLock::new(),
        }
    }

    pub fn is_alive(&self) -> bool {
        self.alive.load(Ordering::Relaxed)
    }

    /// Sends the node a request of the controller for which others wait: the flows that the node is
    /// a member of. `None` if it does not reply in time, or was slow at too many requests: then it
    /// counts as dead.
    pub fn ask_counted(&self, request: &NodeRequest) -> Option<NodeReply> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let reply = self.ask(request);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        reply.ok()
    }

    /// Sends the node a request.
    ///
    /// # Errors
    /// Why it has not replied in time: then it counts as dead.
    pub fn ask(&self, request: &NodeRequest) -> Result<NodeReply, String> {
        let mut connection = self.connection.lock().expect("no holder panics");
        if !self.is_alive() {
            return Err("it has gone".into());
        }
        let asked = Instant::now();
        let reply = connection.request(request, self.limit()).map_err(|error| {
            let why = error.to_string();
            let _first = self.cause.set(why.clone());
            self.alive.store(false, Ordering::Relaxed);
            why
        })?;
        // A heartbeat that is answered late delays waiting threads as well. Requests are sent one
        // after the other, so no time is counted twice.
        let is_counted = self.waiting.load(Ordering::Relaxed) > 0;
        // A request ends after `patience`. If a reply took longer, this process stood still.
        let took = Some(asked.elapsed()).filter(|took| *took <= self.patience);
        if is_counted && took.is_some_and(|took| self.count(took)) {
            self.cut_because("it took too long to answer, question after question");
        }
        Ok(reply)
    }

    /// Takes the connection on which its services are asked from now on.
    pub fn serve_on(&self, connection: Connection) {
        self.close_with_it(&connection);
        *self.services.lock().expect("no holder panics") = Some(connection);
    }

    /// Passes a request on to one of its services. Nothing else of the node waits for that. After
    /// the switch's process was replaced, names are known before the processes that have them have
    /// dialled again, so it waits for that.
    ///
    /// # Errors
    /// The service's, or that it does not answer.
    pub fn call(&self, call: &ServiceCall) -> Result<Value, String> {
        let deadline = Instant::now() + SERVES_AGAIN;
        let mut services = loop {
            let services = self.services.lock().expect("no holder panics");
            if services.is_some() || !self.is_alive() || Instant::now() > deadline {
                break services;
            }
            drop(services);
            std::thread::sleep(LOOK_EVERY);
        };
        let connection = services.as_mut().ok_or("its process serves nothing")?;
        let reply: Result<Result<Value, String>, _> = connection.request(call, SERVICE_LIMIT);
        reply.unwrap_or_else(|error| {
            *services = None;
            Err(error.to_string())
        })
    }

    /// Time limit for the reply to the next request: if others wait for it, what the delays so far
    /// have left of the patience.
    fn limit(&self) -> Time {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return self.patience;
        }
        let delays = self.delays.lock().expect("no holder panics");
        self.patience.saturating_sub(delays.left()) + self.unnoticed()
    }

    /// On a busy machine any reply may take so long.
    fn unnoticed(&self) -> Time {
        self.patience / 64
    }

    /// Counts a delay. Returns whether the node's delays have become too long.
    fn count(&self, took: Time) -> bool {
        let mut delays = self.delays.lock().expect("no holder panics");
        delays.total = delays.left() + took.saturating_sub(self.unnoticed());
        delays.at = Instant::now();
        delays.total > self.patience
    }

    /// As [`Self::cut`]. The cause is set first: a thread that waits for a reply sees the end at
    /// once.
    fn cut_because(&self, why: &str) {
        let _first = self.cause.set(why.to_owned());
        self.cut();
    }

    /// Ends its connections now; no more requests are sent, and nobody waits for its replies.
    pub fn cut(&self) {
        self.alive.store(false, Ordering::Relaxed);
        self.closer.close();
        let closers = self.closers.lock().expect("no holder panics");
        closers.iter().for_each(Closer::close);
    }

    /// Has another connection of the node end when this one does.
    pub fn close_with_it(&self, connection: &Connection) {
        let mut closers = self.closers.lock().expect("no holder panics");
        closers.retain(|closer| !closer.is_gone());
        closers.push(connection.closer());
        drop(closers);
        if !self.is_alive() {
            self.cut();
        }
    }
}

impl SwitchCore {
    /// Serves a member's heartbeats until it leaves or the switch stops, then cleans up after it.
    pub fn keep(&self, member: &Arc<Member>, watch: &(dyn Fn(SwitchEvent) + Sync)) {
        let heartbeat = self.config.hosted().heartbeat();
        let mut seen = 0;
        let why = loop {
            if self.has_ended() {
                // It rejoins when a switch is running again. An operation that needs it, such as
                // the restoring of an earlier state, ends before: it would take the node for dead.
                drop(self.controller.lock().expect("no holder panics"));
                let _ = member.ask(&NodeRequest::Farewell);
                break None;
            }
            match member.ask(&NodeRequest::Ping) {
                Ok(NodeReply::Pong { leaving: true, .. }) => break None,
                Ok(NodeReply::Pong {
                    page_alarm, wanted, ..
                }) => {
                    if page_alarm {
                        self.serve(|controller, site| controller.page_pleas(site));
                    }
                    for peer in wanted {
                        self.connect_directly(member, peer);
                    }
                }
                Ok(_) => break Some("it answered something else than it was asked".to_owned()),
                // This process has closed its connections.
                Err(_) if self.has_ended() => break None,
                Err(why) => break Some(member.cause.get().cloned().unwrap_or(why)),
            }
            if let Some(why) = self.unsaved.lock().expect("no holder panics").take() {
                watch(SwitchEvent::StateNotSaved { why });
            }
            // If this fails, the next heartbeat fails too, or packets will.
            let _ = self.introduce_to(member);
            seen = self.introductions.wait_for_change(seen, heartbeat);
        };
        member.cut();
        if !self.has_ended() {
            self.lose(member);
        }
        let name = &self.config.node[usize::from(member.node.0)].name;
        watch(SwitchEvent::Left {
            node: name.clone(),
            why,
        });
    }

    /// Handles the loss of a member: unplugs its port, ends its flows, forgets its memory.
    fn lose(&self, member: &Arc<Member>) {
        let node = member.node;
        // What is restored is told that it has no such node.
        self.restoring.note(node);
        self.wait_restored();
        let port = Address::of_node(node).port;
        self.pump.relink(|machine| machine.plug(port, None));
        self.cut_cables_to(node);
        self.serve(|controller, site| controller.services_node_died(site, node));
        // Flows that wait for another member do not delay other flows, but they do delay the node's
        // return: otherwise, resources of its successor would be removed.
        let flows = self.fabric.flows_losing(node);
        self.for_each_flow(flows, |flow| {
            self.control(|controller, site| controller.flow_node_died(site, flow, node));
        });
        let estate = self.forget_member(node);
        self.end_estate(estate);
        self.control(|controller, site| controller.remove_host(site, node));
        self.dismiss(member);
    }

    /// Ends a member's connection and frees its name, if it held it. Each of the others forgets its
    /// memory at its next request.
    pub(super) fn dismiss(&self, member: &Arc<Member>) {
        member.cut();
        let place = &self.members[usize::from(member.node.0)];
        let mut place = place.lock().expect("no holder panics");
        place.take_if(|other| Arc::ptr_eq(other, member));
        drop(place);
        self.introductions.note_change();
    }
}
