//! Accepts connections of nodes and commands, and decides which of them may join the rack.

use super::claims::NameClaim;
use super::ends::{End, Waiting, seal_keys};
use super::restoring::Return;
use super::{Admitted, Member, SwitchCore, SwitchEvent};
use crate::address::Address;
use crate::config::LinkKind;
use crate::hosted::messages::{
    NodeHello, NodeReply, NodeRequest, NodeWelcome, PURPOSE_COMMAND, PURPOSE_MEMBER, PURPOSE_NODE,
    PURPOSE_SERVER,
};
use crate::hosted::ports::{self, NodePlacement};
use crate::hosted::{LOOK_EVERY, OPERATOR_NAME, abort_on_panic};
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::memory::Origin;
use rackweave_base::{KeyRng, NodeId};
use rackweave_control::{Connection, Hello, Incoming, Listener, Pending};
use rackweave_link::shared_memory::handover;
use rackweave_link::udp::SealKeys;
use rackweave_link::{Link, rdma_mtu, wait};
use rackweave_verbs::Mtu;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::Scope;
use std::time::{Duration as Time, Instant};

/// How often the acceptor checks whether to stop; it wakes the other threads of the process.
const STOP_LOOK_EVERY: Time = Time::from_millis(100);

/// Time limit for a connection to authenticate itself.
const HANDSHAKE_LIMIT: Time = Time::from_secs(2);

/// The acceptor of a switch process.
pub(super) struct Acceptor<'a> {
    pub core: &'a Arc<SwitchCore>,
    pub listener: &'a Listener,
    pub handovers: &'a UnixListener,
    pub waiting: Waiting,
    pub watch: &'a (dyn Fn(SwitchEvent) + Sync),
}

/// Why a connection is refused, and the remedy for its user.
struct Refusal {
    reason: String,
    remedy: &'static str,
}

fn refusal(reason: impl Into<String>, remedy: &'static str) -> Refusal {
    Refusal {
        reason: reason.into(),
        remedy,
    }
}

impl Acceptor<'_> {
    /// Admits processes until `stop`.
    pub fn run<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) && !self.core.is_stopped() {
            match self.listener.accept(STOP_LOOK_EVERY) {
                Ok(Some(incoming)) => {
                    scope.spawn(move || abort_on_panic(|| self.meet(incoming)));
                }
                Ok(None) => {}
                // Too many open files, for example: it may pass.
                Err(_) => std::thread::sleep(STOP_LOOK_EVERY),
            }
        }
    }

    /// Takes the descriptors of nodes that connect to the Unix socket, each on a thread of its own:
    /// a silent one delays no other.
    pub fn take_handovers<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        while !self.core.is_stopped() {
            match self.handovers.accept() {
                Ok((channel, _)) => {
                    scope.spawn(move || abort_on_panic(|| self.take_handover(channel)));
                }
                // Nobody connects, or there are too many open files.
                Err(error) => match error.kind() == ErrorKind::WouldBlock {
                    true => drop(wait::sleep(&[self.handovers.as_fd()], LOOK_EVERY)),
                    false => std::thread::sleep(STOP_LOOK_EVERY),
                },
            }
        }
    }

    fn take_handover(&self, channel: UnixStream) {
        let ready = channel
            .set_nonblocking(false)
            .and_then(|()| ports::limit(&channel));
        let came = ready.ok().and_then(|()| handover::receive(&channel).ok());
        let Some((token, fds)) = came else {
            return self.core.count_refused("bad_handover");
        };
        if let (Ok(token), Some(memory)) = (String::from_utf8(token), fds.into_iter().next()) {
            self.waiting.put(token, channel, memory);
        }
    }

    fn refuse(&self, why: String) {
        self.core.count_refused("refused");
        (self.watch)(SwitchEvent::Refused { why });
    }

    fn meet(&self, incoming: Incoming) {
        if !self.core.term.leads() {
            // The other process answers soon.
            return;
        }
        let from = incoming.peer_addr();
        let (hello, pending) = match incoming.handshake(Instant::now() + HANDSHAKE_LIMIT) {
            Ok(met) => met,
            Err(error) => {
                self.core.count_refused("no_handshake");
                let why = error.to_string();
                return (self.watch)(SwitchEvent::Refused { why });
            }
        };
        let name = hello.name.clone();
        let turn_away = |pending: Pending, Refusal { reason, remedy }| {
            self.refuse(format!("{name:?} at {from}: {reason}"));
            pending.refuse(&reason, remedy);
        };
        let own = format!("{:016x}", self.core.config.agreement());
        if hello.rack != own {
            let reason = format!(
                "its configuration ({}) is not the switch's ({own})",
                hello.rack
            );
            let remedy = "use the same rack.toml on both sides";
            return turn_away(pending, refusal(reason, remedy));
        }
        match hello.purpose.as_str() {
            PURPOSE_COMMAND if name != OPERATOR_NAME => {
                let reason = "only the operator gives commands";
                let remedy = "use the key that `rackweave keygen` made for `operator`";
                turn_away(pending, refusal(reason, remedy));
            }
            PURPOSE_COMMAND => match pending.welcome(serde_json::Value::Null) {
                Ok(connection) => {
                    self.note_admitted(&name, &connection);
                    let session = hello.body.as_u64().unwrap_or_default();
                    self.core.serve_command(connection, session);
                }
                Err(error) => self.refuse(error.to_string()),
            },
            purpose @ (PURPOSE_MEMBER | PURPOSE_SERVER) => match self.member_of(&hello) {
                Some(member) => match pending.welcome(serde_json::Value::Null) {
                    Ok(connection) => {
                        self.note_admitted(&name, &connection);
                        match purpose {
                            PURPOSE_MEMBER => self.core.serve_member(&member, connection),
                            _ => member.serve_on(connection),
                        }
                    }
                    Err(error) => self.refuse(error.to_string()),
                },
                // It is about to join, or to join again: that is no event.
                None => {
                    self.core.count_refused("not_joined");
                    pending.refuse("no node of this name has joined", "join the rack first");
                }
            },
            PURPOSE_NODE => match self.check_node(&hello) {
                Ok((claim, returns, hello)) => self.let_in((claim, returns), &hello, pending),
                Err(refusal) => turn_away(pending, refusal),
            },
            other => {
                let reason = format!("this switch knows no purpose {other:?}");
                turn_away(
                    pending,
                    refusal(reason, "run the same release on both sides"),
                );
            }
        }
    }

    /// The member whose process opens another connection. A process that has lost a race for the
    /// name is not taken for the one that has it.
    fn member_of(&self, hello: &Hello) -> Option<Arc<Member>> {
        let core = self.core;
        let member = core.member(core.config.node_named(&hello.name)?)?;
        (hello.body == member.pid).then_some(member)
    }

    /// Records the connection so that it can be closed if its key is revoked.
    fn note_admitted(&self, name: &str, connection: &Connection) {
        let peer = Admitted {
            name: name.into(),
            credential: connection.credential(),
            closer: connection.closer(),
        };
        let mut admitted = self.core.admitted.lock().expect("no holder panics");
        admitted.retain(|peer| !peer.closer.is_gone());
        // The list of revoked keys may have been reread since the handshake.
        if self.listener.accepts(&peer.credential) {
            admitted.push(peer);
        } else {
            peer.closer.close();
        }
    }

    /// Whether a node may join.
    fn check_node(&self, hello: &Hello) -> Result<(NameClaim<'_>, Return, NodeHello), Refusal> {
        let core = self.core;
        let same = "use the same rack.toml on both sides";
        let position = core.config.node.iter().position(|n| n.name == hello.name);
        let Some(at) = position else {
            return Err(refusal("the configuration has no such node", same));
        };
        let node = NodeId(at as u16);
        let said: NodeHello = serde_json::from_value(hello.body.clone()).map_err(|_| {
            refusal(
                "its hello makes no sense",
                "run the same release on both sides",
            )
        })?;
        if said.link != core.config.node[at].link_kind(&core.config.hosted()) {
            return Err(refusal(
                "its link is of another kind than the switch's",
                same,
            ));
        }
        // The name is also taken while another process is joining, and until its previous node has
        // been cleaned up.
        let claim = NameClaim::new(core, node).ok_or_else(|| {
            refusal(
                "a node of this name has joined: the name is taken",
                "stop the other process, or give this one the name of a free [[node]]",
            )
        })?;
        let returns = core.returns(node, said.incarnation);
        if returns == Return::Later {
            return Err(refusal(
                "the name is taken until the state of an earlier switch process is restored",
                "wait a moment",
            ));
        }
        Ok((claim, returns, said))
    }

    /// Admits a node and serves it until it leaves.
    fn let_in(
        &self,
        (claim, returns): (NameClaim<'_>, Return),
        hello: &NodeHello,
        pending: Pending,
    ) {
        let (core, node) = (self.core, claim.node);
        let name = core.config.node[usize::from(node.0)].name.clone();
        let from = pending.peer_addr();
        let place = NodePlacement {
            config: &core.config,
            node,
            switch: &core.place,
            runtime: &core.runtime,
            memory: &core.memory,
            pool: &core.pool,
        };
        let failed =
            |why: &dyn std::fmt::Display| self.refuse(format!("{name:?} at {from}: {why}"));
        let end = match self.end_of(&place, hello, from) {
            Ok(end) => end,
            Err(why) => {
                failed(&why);
                return pending.refuse(&why, "see the switch's configuration");
            }
        };
        let arena = core.arenas.of(hello.memory, &core.memory);
        let origin = arena.origin;
        let (welcome, seal) = self.welcome(hello.link, returns == Return::Same, origin);
        let token = welcome.token.clone();
        let welcome = serde_json::to_value(welcome).expect("a welcome has a JSON form");
        let mut connection = match pending.welcome(welcome) {
            Ok(connection) => connection,
            Err(error) => return failed(&error),
        };
        let claim = claim; // Dropped before the connection, whose end frees the name.
        self.note_admitted(&name, &connection);
        let made = match end {
            End::Open(link) => Ok((link, None)),
            End::Udp(hub, at) => self
                .prove(hub, at, seal.as_ref(), &mut connection)
                .map(|link| (link, None))
                .inspect_err(|_| core.count_refused("udp_unproven")),
            End::Shared => self
                .share(&place, &token, arena)
                .map(|(link, shared)| (link, Some(shared))),
        };
        let (link, shared) = match made {
            Ok(made) => made,
            Err(why) => return failed(&why),
        };
        let mtu = link.properties().mtu.min(hello.mtu.unwrap_or(usize::MAX));
        let Some(mtu) = rdma_mtu(mtu).and_then(Mtu::from_bytes) else {
            // Never with shared memory, whose MTU is large enough.
            return failed(&format!("an MTU of {mtu} carries no RDMA packet"));
        };
        let patience = core.config.hosted().dead_after();
        let about = (hello.pid, mtu);
        let member = Arc::new(Member::new(node, about, shared, connection, patience));
        if let Err(why) = self.admit(&member, link, (returns, hello)) {
            core.dismiss(&member);
            return failed(&why);
        }
        core.save_member(node, hello, origin);
        drop(claim);
        match returns {
            Return::Same => core.restoring.note(node),
            Return::New | Return::Later => self.connect_stores(node, &name),
        }
        (self.watch)(SwitchEvent::Joined {
            node: name,
            link: hello.link,
        });
        core.keep(&member, self.watch);
    }

    /// Adds a node to the rack. Its first reply shows that it has made its end of the link.
    fn admit(
        &self,
        member: &Arc<Member>,
        link: Box<dyn Link>,
        (returns, hello): (Return, &NodeHello),
    ) -> Result<(), String> {
        if !matches!(member.ask(&NodeRequest::Ping), Ok(NodeReply::Pong { .. })) {
            return Err("it does not answer".into());
        }
        if returns == Return::Same {
            self.core.adopt_cables(member, hello);
        }
        self.install(member, link)
    }

    /// Connects the stores of a node that has joined again.
    fn connect_stores(&self, node: NodeId, name: &str) {
        let core = self.core;
        let stores = core.serve(|controller, site| controller.page_node_joined(site, node));
        if let Err(error) = stores {
            (self.watch)(SwitchEvent::StoresFailed {
                node: name.to_owned(),
                why: error.to_string(),
            });
        }
    }

    /// The welcome for a node with this kind of link, and the keys of its packets, if they are
    /// sealed.
    fn welcome(
        &self,
        link: LinkKind,
        keep: bool,
        origin: Origin,
    ) -> (NodeWelcome, Option<SealKeys>) {
        let core = self.core;
        let mut keys = KeyRng::system();
        let token = format!("{:016x}{:016x}", keys.next_u64(), keys.next_u64());
        let seal = (link == LinkKind::Udp && core.config.hosted().authenticates())
            .then(|| seal_keys(&mut keys));
        let welcome = NodeWelcome {
            controller: core.instance.load(Ordering::Relaxed),
            term: core.term.id,
            keep,
            origin: origin.0,
            token,
            seal: seal.map(|keys| keys.of_peer().into()),
        };
        (welcome, seal)
    }

    /// Adds a node to the rack.
    fn install(&self, member: &Arc<Member>, link: Box<dyn Link>) -> Result<(), String> {
        let core = self.core;
        let node = member.node;
        let at = usize::from(node.0);
        {
            let mut place = core.members[at].lock().expect("no holder panics");
            if place.is_some() {
                return Err("another process was faster to take its name".into());
            }
            *place = Some(member.clone());
        }
        // The others are given its memory while it is given theirs.
        core.introductions.note_change();
        let faults = core.config.faults_of(node);
        let link =
            ports::with_faults(link, faults, &core.memory).map_err(|error| error.to_string())?;
        core.introduce_to(member)?;
        // The port's guard is installed before the port opens.
        core.control(|controller, site| controller.install_host(site, node))
            .map_err(|error| error.to_string())?;
        let port = Address::of_node(node).port;
        core.pump.relink(|machine| machine.plug(port, Some(link)));
        core.joins[at].fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
