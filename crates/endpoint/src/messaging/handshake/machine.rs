//! The machine of either node.

use super::keys::{check_keys, terms_from_wire, terms_to_wire};
use super::talk::Talk;
use super::{HandshakeError, Kind, RefusalCode, Step};
use crate::messaging::{Agreed, Connection, MessagingConfig, NodeTerms, Prepared, Role};
use rackweave_base::{Instant, KeyRng, Memory};
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::message::handshake::{Keys, Message};

/// The progress of a node.
enum State {
    /// The compute node has sent a Hello.
    Greeted,
    /// The compute node has received an Offer and sent an Open: its end exists, but is not
    /// connected.
    Opened(Box<Prepared>),
    /// The storage node waits for a Hello.
    Listening,
    /// The storage node has received a Hello and sent an Offer.
    Offered,
    /// The compute node is connected, or has given up.
    Over,
}

/// A node that connects to one of the other role: a compute node to a listening storage node, or a
/// storage node to a compute node that has opened a stream.
///
/// A compute node holds queue pairs and regions between the Offer and the end: if it is not run to
/// its end, call [`Handshake::abandon`]. A storage node holds only some bytes until it creates and
/// connects everything in one call of [`Handshake::poll`]; it may be dropped at any time.
pub struct Handshake {
    talk: Talk,
    role: Role,
    config: MessagingConfig,
    mine: NodeTerms,
    /// Present once the peer's terms have arrived.
    agreed: Option<Agreed>,
    state: State,
}

/// What is needed to create queue pairs and regions; the last generates starting PSNs.
type Means<'a> = (&'a mut dyn Verbs, &'a Memory, &'a mut KeyRng);

impl Handshake {
    /// Starts a node of this role, configuration and terms; it gives up at `deadline`.
    pub fn new(
        now: Instant,
        role: Role,
        config: MessagingConfig,
        mine: NodeTerms,
        deadline: Instant,
    ) -> Self {
        let mut talk = Talk::new(role.peer(), now, deadline);
        let state = match role {
            Role::Compute => {
                talk.send(&Message::hello(terms_to_wire(&mine)));
                State::Greeted
            }
            Role::Storage => State::Listening,
        };
        Self {
            talk,
            role,
            config,
            mine,
            agreed: None,
            state,
        }
    }

    /// Processes received bytes.
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) {
        self.talk.handle_bytes(now, bytes);
    }

    /// The peer has ended the stream, or it broke.
    pub fn handle_end(&mut self, now: Instant) {
        self.talk.handle_end(now);
    }

    /// The next bytes to send, if any.
    pub fn poll_send(&mut self) -> Option<Vec<u8>> {
        self.talk.poll_send()
    }

    /// When it gives up; `None` if it is over.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.talk.poll_timeout()
    }

    /// Whether it has ended, successfully or not.
    pub fn is_over(&self) -> bool {
        self.talk.is_over()
    }

    /// Whether the peer has shown that it is a node of this rack.
    pub fn is_known(&self) -> bool {
        self.agreed.is_some()
    }

    /// The agreement, once valid terms have arrived. A caller that checks it before
    /// [`Self::poll_send`] returns a storage node's Offer may still call [`Self::refuse`] instead.
    pub fn agreed(&self) -> Option<&Agreed> {
        self.agreed.as_ref()
    }

    /// Ends a storage node's handshake with a reason of the caller, such as that it stops.
    pub fn refuse(&mut self, code: RefusalCode, why: &str) {
        self.talk.refuse(code, why);
    }

    /// Aborts a compute node's handshake: notifies the peer, and releases its resources.
    pub fn abandon(&mut self, verbs: &mut dyn Verbs) {
        self.refuse(RefusalCode::Stopping, "the compute node has given up");
        self.release(verbs);
    }

    /// Performs the pending work. Queue pairs and regions are created with `verbs` and `memory`,
    /// starting PSNs are drawn from `rng`.
    pub fn poll(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        memory: &Memory,
        rng: &mut KeyRng,
    ) -> Step {
        match self.advance(now, (&mut *verbs, memory, rng)) {
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

    fn release(&mut self, verbs: &mut dyn Verbs) {
        if let State::Opened(_) = self.state
            && let State::Opened(made) = core::mem::replace(&mut self.state, State::Over)
        {
            made.abandon(verbs);
        }
    }

    fn advance(
        &mut self,
        now: Instant,
        means: Means<'_>,
    ) -> Result<Option<Connection>, HandshakeError> {
        if self.is_over() {
            return Ok(None);
        }
        let due = match self.state {
            State::Greeted => Kind::Offer,
            State::Opened(_) => Kind::Accept,
            State::Listening => Kind::Hello,
            State::Offered => Kind::Open,
            State::Over => return Ok(None),
        };
        match self.talk.take(now, due)? {
            Some(Message::Hello { terms, .. }) => {
                self.agree(terms_from_wire(&terms))?;
                self.talk.send(&Message::Offer(terms_to_wire(&self.mine)));
                self.state = State::Offered;
                Ok(None)
            }
            Some(Message::Offer(terms)) => {
                let agreed = self.agree(terms_from_wire(&terms))?;
                let prepared = self.prepare(&agreed, means)?;
                self.talk.send(&Message::Open(prepared.keys()));
                self.state = State::Opened(Box::new(prepared));
                Ok(None)
            }
            Some(Message::Open(keys) | Message::Accept(keys)) => {
                self.connect(now, &keys, means).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn agree(&mut self, theirs: NodeTerms) -> Result<Agreed, HandshakeError> {
        let peer = self.role.peer();
        let agreed = Agreed::new(self.role, self.mine, theirs);
        let agreed = agreed.map_err(|cause| HandshakeError::Terms { peer, cause })?;
        self.agreed = Some(agreed);
        Ok(agreed)
    }

    fn prepare(
        &self,
        agreed: &Agreed,
        (verbs, memory, rng): Means<'_>,
    ) -> Result<Prepared, HandshakeError> {
        let peer = self.role.peer();
        Prepared::new(verbs, memory, &self.config, agreed, rng)
            .map_err(|cause| HandshakeError::SetUp { peer, cause })
    }

    /// Connects to a peer whose keys have arrived. A storage node now creates its end and sends its
    /// keys.
    fn connect(
        &mut self,
        now: Instant,
        theirs: &Keys,
        (verbs, memory, rng): Means<'_>,
    ) -> Result<Connection, HandshakeError> {
        let peer = self.role.peer();
        let agreed = self.agreed.expect("keys come after terms");
        check_keys(theirs, &agreed).map_err(|cause| HandshakeError::Keys { peer, cause })?;
        let (prepared, accept) = match core::mem::replace(&mut self.state, State::Over) {
            State::Opened(prepared) => (*prepared, None),
            _ => {
                let prepared = self.prepare(&agreed, (&mut *verbs, memory, rng))?;
                let accept = Message::Accept(prepared.keys());
                (prepared, Some(accept))
            }
        };
        let connection = prepared.connect(now, verbs, theirs);
        let connection = connection.map_err(|cause| HandshakeError::SetUp { peer, cause })?;
        if let Some(accept) = accept {
            self.talk.send(&accept);
        }
        Ok(connection)
    }
}
