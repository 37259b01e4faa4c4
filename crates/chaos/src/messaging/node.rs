//! A node: it makes and accepts calls, and exchanges messages on its connections.

use super::forger::{Forged, Forger};
use super::misbehaviour::{Misbehaviour, Nonsense};
use super::shared::{Call, Shared};
use super::side::Side;
use super::stream::{Came, Cut, Stream};
use crate::campaign::count;
use rackweave_base::{Duration, Instant, KeyRng, NodeId, Rng};
use rackweave_endpoint::messaging::handshake::{
    Handshake as Sound, HandshakeError, RefusalCode, Step as Shaken,
};
use rackweave_endpoint::messaging::{Connection, MessagingConfig, NodeTerms, Role};
use rackweave_rack::Address;
use rackweave_sim::checkers::messages::Peer;
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_verbs::{Mtu, Verbs};
use std::rc::Rc;

/// Interval at which a node looks for incoming calls.
const LOOK: Duration = Duration::from_micros(5);

/// The program of a node.
pub(super) struct NodeActor {
    shared: Rc<Shared>,
    node: NodeId,
    peer: Peer,
    role: Role,
    config: MessagingConfig,
    terms: NodeTerms,
    rng: Rng,
    keys: KeyRng,
    handshakes: Vec<Handshake>,
    sides: Vec<Side>,
}

enum Machine {
    Sound(Box<Sound>),
    Forger(Box<Forger>),
}

struct Handshake {
    call: Rc<Call>,
    stream: Rc<Stream>,
    machine: Machine,
    /// When the node gives up the handshake.
    until: Option<Instant>,
}

/// The result of a handshake.
enum Outcome {
    Waiting,
    Connected(Box<Side>),
    Over,
}

impl NodeActor {
    pub fn new(shared: Rc<Shared>, now: Instant, node: NodeId) -> Self {
        let plan = &shared.plan.nodes[usize::from(node.0)];
        let (role, config) = (plan.role, plan.config.clone());
        let mut rng = Rng::new(shared.plan.seed ^ now.as_nanos() << 8 ^ u64::from(node.0));
        let address = Address::of_node(node);
        let mtu =
            Mtu::from_bytes(shared.plan.config.nic.mtu).expect("a configuration has one of these");
        // All nodes of a rack know its name, or accept any.
        let fabric = shared.plan.seed | 1;
        let terms = NodeTerms::new(&config, fabric, address.ip, address.mac, mtu);
        Self {
            peer: match role {
                Role::Compute => Peer::Compute,
                Role::Storage => Peer::Storage,
            },
            rng: rng.fork("unit"),
            keys: KeyRng::seeded(rng.fork("keys")),
            shared,
            node,
            role,
            config,
            terms,
            handshakes: Vec::new(),
            sides: Vec::new(),
        }
    }

    /// Begins the calls that are due and accepts incoming ones.
    fn meet(&mut self, now: Instant) {
        while let Some(call) = self.shared.next_call(self.node)
            && call.plan.at <= now
        {
            let rng = self.rng.fork("stream");
            let stream = Rc::new(Stream::new(call.plan.stream, rng));
            *call.stream.borrow_mut() = Some(stream.clone());
            if self.shared.is_dead(call.plan.to) {
                let how = *self.rng.pick(&[Cut::Silent, Cut::End]);
                stream.kill(now, Peer::Storage, how);
                call.set_over(Peer::Storage);
            }
            self.begin(now, call, stream);
        }
        while let Some(call) = self.shared.waiting(self.node) {
            call.accepted.set(true);
            let stream = call.stream.borrow().clone();
            if let Some(stream) = stream {
                self.begin(now, call, stream);
            }
        }
    }

    fn begin(&mut self, now: Instant, call: Rc<Call>, stream: Rc<Stream>) {
        let deadline = now + call.plan.patience;
        let (config, terms) = (self.config.clone(), self.terms);
        let misbehaviour = call
            .plan
            .misbehaviour
            .filter(|(peer, _)| *peer == self.peer);
        let machine = match (misbehaviour, self.role) {
            (Some((_, misbehaviour)), role) => Machine::Forger(Box::new(Forger::new(
                role,
                config,
                terms,
                misbehaviour,
                deadline,
            ))),
            (None, role) => {
                let sound = Sound::new(now, role, config, terms, deadline);
                Machine::Sound(Box::new(sound))
            }
        };
        let gives_up = call.plan.gives_up.filter(|(peer, _)| *peer == self.peer);
        self.handshakes.push(Handshake {
            call,
            stream,
            machine,
            until: gives_up.map(|(_, after)| now + after),
        });
    }

    /// Advances a handshake.
    fn shake(&mut self, now: Instant, nic: &mut dyn Verbs, hands: &mut Handshake) -> Outcome {
        while let Some(came) = hands.stream.read(now, self.peer) {
            match (&mut hands.machine, came) {
                (Machine::Sound(sound), Came::Bytes(bytes)) => sound.handle_bytes(now, &bytes),
                (Machine::Sound(sound), Came::End) => sound.handle_end(now),
                (Machine::Forger(forger), Came::Bytes(bytes)) => forger.handle_bytes(&bytes),
                (Machine::Forger(_), Came::End) => {}
            }
        }
        let gives_up = hands.until.is_some_and(|until| until <= now);
        let (keys, memory) = (&mut self.keys, &self.shared.memory);
        let (outcome, sends, ends) = match &mut hands.machine {
            Machine::Sound(sound) if gives_up => {
                match self.role {
                    Role::Compute => sound.abandon(nic),
                    Role::Storage => sound.refuse(RefusalCode::Stopping, "the node stops"),
                }
                (Ok(None), sound.poll_send(), true)
            }
            Machine::Sound(sound) => {
                let shaken = sound.poll(now, nic, memory, keys);
                (settle(shaken), sound.poll_send(), false)
            }
            Machine::Forger(forger) => {
                let forged = forger.poll(now, nic, memory, keys);
                if let Some(bytes) = forger.poll_send() {
                    hands.stream.write(now, self.peer, &bytes);
                }
                return self.forged(now, forged, hands);
            }
        };
        if let Some(bytes) = sends {
            hands.stream.write(now, self.peer, &bytes);
        }
        match outcome {
            Ok(None) if !ends => Outcome::Waiting,
            Ok(None) => {
                count(&self.shared.counts.refused);
                hands.stream.end(now, self.peer);
                Outcome::Over
            }
            Ok(Some(connection)) => {
                if self.rng.chance(0.5) {
                    hands.stream.end(now, self.peer);
                }
                let (shared, call) = (self.shared.clone(), hands.call.clone());
                let rng = self.rng.fork("side");
                let side = Side::new(shared, call, self.peer, connection, rng);
                Outcome::Connected(Box::new(side))
            }
            Err(error) => {
                hands.stream.end(now, self.peer);
                self.judge(now, &hands.call, &error);
                Outcome::Over
            }
        }
    }

    fn forged(&mut self, now: Instant, forged: Forged, hands: &Handshake) -> Outcome {
        match forged {
            Forged::Waiting => Outcome::Waiting,
            Forged::Over => {
                if let Machine::Forger(forger) = &hands.machine
                    && forger.ends()
                {
                    hands.stream.end(now, self.peer);
                }
                Outcome::Over
            }
            Forged::Connected(rogue) => {
                let (shared, call) = (self.shared.clone(), hands.call.clone());
                let rng = self.rng.fork("side");
                let side = Side::rogue(shared, call, self.peer, *rogue, rng);
                Outcome::Connected(Box::new(side))
            }
        }
    }

    /// Checks whether a handshake of an honest node may have failed with this error.
    fn judge(&self, now: Instant, call: &Call, error: &HandshakeError) {
        let (code, plan) = (error.code(), &call.plan);
        let nonsense: Option<Nonsense> = match plan.misbehaviour {
            Some((_, Misbehaviour::Nonsense(nonsense))) => Some(nonsense),
            _ => None,
        };
        if nonsense.is_some_and(|nonsense| nonsense.code() == code) {
            return self.shared.counts.catch(code);
        }
        let interrupted = match code {
            RefusalCode::TooLate | RefusalCode::Stopping => true,
            // A node that gives up sends its refusal without waiting for its turn.
            RefusalCode::OutOfOrder => plan.gives_up.is_some(),
            _ => false,
        };
        let full = matches!(code, RefusalCode::NoRoom | RefusalCode::NoMemory);
        let tight = self.shared.plan.tight;
        let rogue = plan.misbehaviour.is_some();
        let expected = full && tight || interrupted && (plan.may_break || tight && rogue);
        count(&self.shared.counts.refused);
        if !expected {
            let number = call.number;
            self.shared.wrong.push(format!(
                "call {number} at {now:?}, {:?}: the {} says: {error} ({code:?})",
                plan.misbehaviour, self.role
            ));
        }
    }

    /// When its next step is due even if no packet arrives.
    fn due(&self, now: Instant) -> Instant {
        let calls = self.shared.next_call(self.node).map(|call| call.plan.at);
        let handshakes = self.handshakes.iter().flat_map(|hands| {
            let limit = match &hands.machine {
                Machine::Sound(sound) => sound.poll_timeout(),
                Machine::Forger(forger) => Some(forger.deadline()),
            };
            let next = hands.stream.next_at(self.peer);
            limit.into_iter().chain(next).chain(hands.until)
        });
        let sides = self.sides.iter().filter_map(|side| side.due(now));
        let all = calls.into_iter().chain(handshakes).chain(sides);
        let due = all.min().unwrap_or(now + LOOK).min(now + LOOK);
        due.max(now + Duration::from_nanos(1))
    }
}

fn settle(shaken: Shaken) -> Result<Option<Connection>, HandshakeError> {
    match shaken {
        Shaken::Waiting => Ok(None),
        Shaken::Connected(connection) => Ok(Some(connection)),
        Shaken::Failed(error) => Err(error),
    }
}

impl Actor for NodeActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        self.meet(now);
        for mut hands in core::mem::take(&mut self.handshakes) {
            match self.shake(now, context.nic(), &mut hands) {
                Outcome::Waiting => self.handshakes.push(hands),
                Outcome::Over => hands.call.set_over(self.peer),
                Outcome::Connected(side) => self.sides.push(*side),
            }
        }
        let nic = context.nic();
        self.sides.retain_mut(|side| {
            let over = side.step(now, nic);
            if over {
                side.call().set_over(side.peer());
            }
            !over
        });
        Step::WaitUntil(self.due(now))
    }
}
