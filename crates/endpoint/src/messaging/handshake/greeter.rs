//! The storage unit's side.

use super::keys::{check_keys, terms_from_wire, terms_to_wire};
use super::talk::Talk;
use super::{HandshakeError, Kind, RefusalCode, Step};
use crate::messaging::{Agreed, Connection, MessagingConfig, Prepared, Role, UnitTerms};
use rackweave_base::{Instant, KeyRng, Memory};
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::message::handshake::{Keys, Message};

/// The unit that it speaks to.
const PEER: Role = Role::Compute;

/// A storage unit to which somebody has opened a stream.
///
/// It holds some bytes and nothing else, until it makes and connects everything in one call of
/// [`Greeter::poll`]. So it may be dropped at any time.
pub struct Greeter {
    talk: Talk,
    config: MessagingConfig,
    mine: UnitTerms,
    /// There once a Hello has come and an Offer is sent.
    agreed: Option<Agreed>,
}

impl Greeter {
    /// A unit of this configuration and these terms listens to the peer; it gives up at `deadline`.
    pub fn new(now: Instant, config: MessagingConfig, mine: UnitTerms, deadline: Instant) -> Self {
        Self {
            talk: Talk::new(PEER, now, deadline),
            config,
            mine,
            agreed: None,
        }
    }

    /// Bytes have come.
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) {
        self.talk.handle_bytes(now, bytes);
    }

    /// The peer has ended the stream, or it broke.
    pub fn handle_end(&mut self, now: Instant) {
        self.talk.handle_end(now);
    }

    /// What is to be sent, if there is anything.
    pub fn poll_send(&mut self) -> Option<Vec<u8>> {
        self.talk.poll_send()
    }

    /// When it gives up; nothing if it is over.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.talk.poll_timeout()
    }

    /// Whether it has ended, one way or the other.
    pub fn is_over(&self) -> bool {
        self.talk.is_over()
    }

    /// Whether the peer has shown that it is a unit of this rack.
    pub fn is_known(&self) -> bool {
        self.agreed.is_some()
    }

    /// What was agreed on, once a sound Hello has come. Who looks before [`Self::poll_send`] gives
    /// the Offer away may still [`Self::refuse`] in its place.
    pub fn agreed(&self) -> Option<&Agreed> {
        self.agreed.as_ref()
    }

    /// Ends it with a reason of the unit's own, such as that it stops.
    pub fn refuse(&mut self, code: RefusalCode, why: &str) {
        self.talk.refuse(code, why);
    }

    /// Does what there is to do. Queue pairs and regions are made with `verbs` and `memory`,
    /// starting PSNs drawn from `rng`.
    pub fn poll(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        memory: &Memory,
        rng: &mut KeyRng,
    ) -> Step {
        match self.advance(now, verbs, memory, rng) {
            Ok(None) => Step::Waiting,
            Ok(Some(connection)) => {
                self.talk.finish();
                Step::Connected(connection)
            }
            Err(error) => {
                self.talk.fail(&error);
                Step::Failed(error)
            }
        }
    }

    fn advance(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        memory: &Memory,
        rng: &mut KeyRng,
    ) -> Result<Option<Connection>, HandshakeError> {
        if self.talk.is_over() {
            return Ok(None);
        }
        let Some(agreed) = self.agreed else {
            if let Some(Message::Hello { terms, .. }) = self.talk.take(now, Kind::Hello)? {
                let agreed = Agreed::new(Role::Storage, self.mine, terms_from_wire(&terms));
                let agreed = agreed.map_err(|cause| HandshakeError::Terms { peer: PEER, cause })?;
                self.agreed = Some(agreed);
                self.talk.send(&Message::Offer(terms_to_wire(&self.mine)));
            }
            return Ok(None);
        };
        match self.talk.take(now, Kind::Open)? {
            Some(Message::Open(keys)) => {
                let parts = (verbs, memory, rng);
                self.connect(now, &agreed, &keys, parts).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn connect(
        &mut self,
        now: Instant,
        agreed: &Agreed,
        theirs: &Keys,
        (verbs, memory, rng): (&mut dyn Verbs, &Memory, &mut KeyRng),
    ) -> Result<Connection, HandshakeError> {
        check_keys(theirs, agreed).map_err(|cause| HandshakeError::Keys { peer: PEER, cause })?;
        let failed = |cause| HandshakeError::SetUp { peer: PEER, cause };
        let prepared = Prepared::new(verbs, memory, &self.config, agreed, rng).map_err(failed)?;
        let accept = Message::Accept(prepared.keys());
        let connection = prepared.connect(now, verbs, theirs).map_err(failed)?;
        self.talk.send(&accept);
        Ok(connection)
    }
}
