//! A rogue's handshake: it builds the protocol messages itself, so that it can send anything, and
//! learns the peer's keys at the end.

use super::misbehaviour::{Misbehaviour, Nonsense};
use rackweave_base::{Instant, KeyRng, Memory};
use rackweave_endpoint::messaging::handshake::{terms_from_wire, terms_to_wire};
use rackweave_endpoint::messaging::{
    Agreed, Connection, MessagingConfig, NodeTerms, Prepared, Role,
};
use rackweave_verbs::{PdId, Verbs};
use rackweave_wire::fabric::message::handshake::{Keys, Message, Terms};

/// The progress of a rogue.
pub(super) enum Forged {
    Waiting,
    /// It has sent its invalid bytes, or the peer has refused.
    Over,
    Connected(Box<Rogue>),
}

/// A rogue's connection, with data that an honest node would not know.
pub(super) struct Rogue {
    pub connection: Connection,
    pub agreed: Agreed,
    /// The peer's.
    pub keys: Keys,
    /// The protection domain in which it registers its own writes.
    pub pd: PdId,
}

/// A rogue in a handshake.
pub(super) struct Forger {
    role: Role,
    config: MessagingConfig,
    mine: NodeTerms,
    nonsense: Option<Nonsense>,
    came: Vec<u8>,
    send: Vec<u8>,
    deadline: Instant,
    /// What it has created once terms are agreed. A storage node has only this, and no `prepared`.
    agreed: Option<(Agreed, PdId)>,
    prepared: Option<Prepared>,
}

impl Forger {
    pub fn new(
        role: Role,
        config: MessagingConfig,
        mine: NodeTerms,
        misbehaviour: Misbehaviour,
        deadline: Instant,
    ) -> Self {
        let nonsense = match misbehaviour {
            Misbehaviour::Nonsense(nonsense) => Some(nonsense),
            Misbehaviour::Lie(..) => None,
        };
        let mut forger = Self {
            role,
            config,
            mine,
            nonsense,
            came: Vec::new(),
            send: Vec::new(),
            deadline,
            agreed: None,
            prepared: None,
        };
        if role == Role::Compute {
            forger.say_terms();
        }
        forger
    }

    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.came.extend_from_slice(bytes);
    }

    pub fn poll_send(&mut self) -> Option<Vec<u8>> {
        (!self.send.is_empty()).then(|| core::mem::take(&mut self.send))
    }

    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the stream is to end after what it has sent.
    pub fn ends(&self) -> bool {
        self.nonsense.is_some_and(Nonsense::ends)
    }

    fn say_terms(&mut self) {
        let first = match self.role {
            Role::Compute => Message::hello as fn(Terms) -> Message,
            Role::Storage => Message::Offer,
        };
        let terms = terms_to_wire(&self.mine);
        self.send = match self.nonsense {
            Some(nonsense) => nonsense.first(terms, first),
            None => first(terms).emit(),
        };
    }

    fn say_keys(&mut self, keys: Keys) {
        let second = match self.role {
            Role::Compute => Message::Open as fn(Keys) -> Message,
            Role::Storage => Message::Accept,
        };
        self.send = match self.nonsense {
            Some(nonsense) => nonsense.second(keys, second),
            None => second(keys).emit(),
        };
    }

    /// Whether its invalid bytes are sent: then it does nothing more.
    fn is_said(&self) -> bool {
        let of_first = |nonsense: Nonsense| !nonsense.is_second();
        let said_terms = self.role == Role::Compute || self.agreed.is_some();
        self.nonsense.is_some_and(of_first) && said_terms
    }

    pub fn poll(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        memory: &Memory,
        rng: &mut KeyRng,
    ) -> Forged {
        if now >= self.deadline || self.is_said() {
            self.abandon(verbs);
            return Forged::Over;
        }
        let message = match Message::take(&self.came) {
            Ok(Some((message, len))) => {
                self.came.drain(..len);
                message
            }
            Ok(None) => return Forged::Waiting,
            Err(_) => return Forged::Over,
        };
        match message {
            Message::Hello { terms, .. } if self.role == Role::Storage => {
                self.agree(&terms, verbs);
                self.say_terms();
            }
            Message::Offer(terms) if self.role == Role::Compute => {
                self.agree(&terms, verbs);
                if let Some(keys) = self.prepare(verbs, memory, rng) {
                    self.say_keys(keys);
                }
            }
            Message::Open(keys) if self.role == Role::Storage => {
                if let Some(mine) = self.prepare(verbs, memory, rng) {
                    self.say_keys(mine);
                    return self.connect(now, keys, verbs);
                }
            }
            Message::Accept(keys) if self.role == Role::Compute => {
                return self.connect(now, keys, verbs);
            }
            _ => {
                self.abandon(verbs);
                return Forged::Over;
            }
        }
        match self.is_said() || self.agreed.is_none() {
            true => {
                self.abandon(verbs);
                Forged::Over
            }
            false => Forged::Waiting,
        }
    }

    fn agree(&mut self, terms: &Terms, verbs: &mut dyn Verbs) {
        let agreed = Agreed::new(self.role, self.mine, terms_from_wire(terms));
        self.agreed = agreed.ok().map(|agreed| (agreed, verbs.create_pd()));
    }

    fn prepare(
        &mut self,
        verbs: &mut dyn Verbs,
        memory: &Memory,
        rng: &mut KeyRng,
    ) -> Option<Keys> {
        let (agreed, pd) = self.agreed?;
        let config = MessagingConfig {
            pd: Some(pd),
            ..self.config.clone()
        };
        let prepared = Prepared::new(verbs, memory, &config, &agreed, rng).ok();
        self.agreed = self.agreed.filter(|_| prepared.is_some());
        self.prepared = prepared;
        self.prepared.as_ref().map(Prepared::keys)
    }

    fn connect(&mut self, now: Instant, keys: Keys, verbs: &mut dyn Verbs) -> Forged {
        if self.nonsense.is_some() {
            self.abandon(verbs);
            return Forged::Over;
        }
        let (Some(prepared), Some((agreed, pd))) = (self.prepared.take(), self.agreed) else {
            return Forged::Over;
        };
        match prepared.connect(now, verbs, &keys) {
            Ok(connection) => Forged::Connected(Box::new(Rogue {
                connection,
                agreed,
                keys,
                pd,
            })),
            Err(_) => Forged::Over,
        }
    }

    /// Frees what it has created.
    pub fn abandon(&mut self, verbs: &mut dyn Verbs) {
        if let Some(prepared) = self.prepared.take() {
            prepared.abandon(verbs);
        }
    }
}
