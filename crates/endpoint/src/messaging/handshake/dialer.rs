//! The compute unit's side.

use super::keys::{check_keys, terms_from_wire, terms_to_wire};
use super::talk::Talk;
use super::{HandshakeError, Kind, RefusalCode, Step};
use crate::messaging::{Agreed, Connection, MessagingConfig, Prepared, Role, UnitTerms};
use rackweave_base::{Instant, KeyRng, Memory};
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::message::handshake::{Keys, Message, Terms};

/// The unit that it speaks to.
const PEER: Role = Role::Storage;

enum State {
    /// A Hello is sent.
    Greeted,
    /// An Offer has come, an Open is sent: this unit's end is made, but not connected.
    Opened(Box<(Prepared, Agreed)>),
    /// Connected, or given up.
    Over,
}

/// A compute unit that connects to a storage unit.
///
/// Between the Offer and the end it holds queue pairs and regions. Whoever does not see it to its
/// end calls [`Dialer::abandon`].
pub struct Dialer {
    talk: Talk,
    config: MessagingConfig,
    mine: UnitTerms,
    state: State,
}

impl Dialer {
    /// A unit of this configuration and these terms begins; it gives up at `deadline`.
    pub fn new(now: Instant, config: MessagingConfig, mine: UnitTerms, deadline: Instant) -> Self {
        let mut talk = Talk::new(PEER, now, deadline);
        talk.send(&Message::hello(terms_to_wire(&mine)));
        Self {
            talk,
            config,
            mine,
            state: State::Greeted,
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
                self.release(verbs);
                Step::Failed(error)
            }
        }
    }

    /// Gives up: tells the peer, and takes back what was made.
    pub fn abandon(&mut self, verbs: &mut dyn Verbs) {
        self.talk
            .refuse(RefusalCode::Stopping, "the compute unit has given up");
        self.release(verbs);
    }

    fn release(&mut self, verbs: &mut dyn Verbs) {
        if let State::Opened(made) = core::mem::replace(&mut self.state, State::Over) {
            made.0.abandon(verbs);
        }
    }

    fn advance(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        memory: &Memory,
        rng: &mut KeyRng,
    ) -> Result<Option<Connection>, HandshakeError> {
        match &self.state {
            State::Over => Ok(None),
            State::Greeted => {
                if let Some(Message::Offer(terms)) = self.talk.take(now, Kind::Offer)? {
                    self.open(&terms, verbs, memory, rng)?;
                }
                Ok(None)
            }
            State::Opened(_) => match self.talk.take(now, Kind::Accept)? {
                Some(Message::Accept(keys)) => self.connect(now, &keys, verbs).map(Some),
                _ => Ok(None),
            },
        }
    }

    fn open(
        &mut self,
        theirs: &Terms,
        verbs: &mut dyn Verbs,
        memory: &Memory,
        rng: &mut KeyRng,
    ) -> Result<(), HandshakeError> {
        let theirs = terms_from_wire(theirs);
        let agreed = Agreed::new(Role::Compute, self.mine, theirs)
            .map_err(|cause| HandshakeError::Terms { peer: PEER, cause })?;
        let prepared = Prepared::new(verbs, memory, &self.config, &agreed, rng)
            .map_err(|cause| HandshakeError::SetUp { peer: PEER, cause })?;
        self.talk.send(&Message::Open(prepared.keys()));
        self.state = State::Opened(Box::new((prepared, agreed)));
        Ok(())
    }

    fn connect(
        &mut self,
        now: Instant,
        theirs: &Keys,
        verbs: &mut dyn Verbs,
    ) -> Result<Connection, HandshakeError> {
        let State::Opened(made) = &self.state else {
            unreachable!("an Accept is waited for in this state alone");
        };
        check_keys(theirs, &made.1).map_err(|cause| HandshakeError::Keys { peer: PEER, cause })?;
        let State::Opened(made) = core::mem::replace(&mut self.state, State::Over) else {
            unreachable!("it was so a moment ago");
        };
        let (prepared, _) = *made;
        prepared
            .connect(now, verbs, theirs)
            .map_err(|cause| HandshakeError::SetUp { peer: PEER, cause })
    }
}
