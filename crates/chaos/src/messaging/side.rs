//! A node's side of a connection: the programs at all ends of its channels, and how they leave.

use super::forger::Rogue;
use super::liar::Liar;
use super::misbehaviour::Misbehaviour;
use super::plan::{CallPlan, Leaving, Manners};
use super::receiving::Hearer;
use super::sending::{Talker, ended_by};
use super::shared::{Call, Shared};
use rackweave_base::{Duration, Instant, Rng};
use rackweave_endpoint::messaging::{Closed, Connection, Receiver, Sender};
use rackweave_sim::checkers::messages::{ChannelName, Ended, Peer};
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::message::CloseReason;
use std::rc::Rc;

/// Time for an honest node to detect a lie: longer than its reads and the network's retries may
/// take.
const LIE_PATIENCE: Duration = Duration::from_millis(200);

/// A node's side of a connection.
pub(super) struct Side {
    shared: Rc<Shared>,
    call: Rc<Call>,
    peer: Peer,
    manners: Manners,
    rng: Rng,
    talkers: Vec<Talker>,
    hearers: Vec<Hearer>,
    /// It has closed the connection because all work is done.
    parted: bool,
    liar: Option<Liar>,
}

impl Side {
    pub fn new(
        shared: Rc<Shared>,
        call: Rc<Call>,
        peer: Peer,
        connection: Connection,
        mut rng: Rng,
    ) -> Self {
        let number = call.number;
        let manners = call.plan.manners[usize::from(peer == Peer::Storage)];
        let channels = (
            connection.senders.len() as u8,
            connection.receivers.len() as u8,
        );
        let mut history = shared.history.borrow_mut();
        history.open(number, peer, channels, call.plan.may_break);
        drop(history);
        let name = |sender: Peer, at: usize| ChannelName {
            connection: number,
            sender,
            number: at as u8,
        };
        let senders = connection.senders.into_iter().enumerate();
        let talkers = senders.map(|(at, sender)| {
            let rng = rng.fork("talker");
            Talker::new(shared.clone(), name(peer, at), sender, manners, rng)
        });
        let talkers = talkers.collect();
        let receivers = connection.receivers.into_iter().enumerate();
        let hearers = receivers.map(|(at, receiver)| {
            let rng = rng.fork("hearer");
            Hearer::new(
                shared.clone(),
                name(peer.other(), at),
                receiver,
                manners,
                rng,
            )
        });
        Self {
            hearers: hearers.collect(),
            talkers,
            shared,
            call,
            peer,
            manners,
            rng,
            parted: false,
            liar: None,
        }
    }

    /// The side of a rogue.
    pub fn rogue(shared: Rc<Shared>, call: Rc<Call>, peer: Peer, rogue: Rogue, rng: Rng) -> Self {
        let liar = match call.plan.misbehaviour {
            Some((_, Misbehaviour::Lie(lie, which))) => Some(Liar::new(lie, which, &rogue)),
            _ => None,
        };
        let mut side = Self::new(shared, call, peer, rogue.connection, rng);
        for talker in &mut side.talkers {
            talker.finishes = liar.is_none();
        }
        side.liar = liar;
        side
    }

    pub fn call(&self) -> &Call {
        &self.call
    }

    pub fn peer(&self) -> Peer {
        self.peer
    }

    pub fn due(&self, now: Instant) -> Option<Instant> {
        let talkers = self.talkers.iter().filter_map(|talker| talker.due(now));
        let liar = self.liar.as_ref().and_then(|liar| liar.said);
        let hearers = self.hearers.iter().filter(|_| liar.is_none());
        let hearers = hearers.filter_map(|hearer| hearer.due(now));
        let liar = liar.map(|said| said + LIE_PATIENCE);
        talkers.chain(hearers).chain(liar).min()
    }

    fn closed(&self) -> Option<Closed> {
        let senders = self
            .talkers
            .iter()
            .find_map(|talker| talker.sender.closed());
        let receivers = self.hearers.iter().map(|hearer| &hearer.receiver);
        senders.or_else(|| receivers.into_iter().find_map(Receiver::closed))
    }

    /// Advances all pending work. True if the side is over.
    pub fn step(&mut self, now: Instant, nic: &mut dyn Verbs) -> bool {
        for talker in &mut self.talkers {
            talker.step(now, nic);
        }
        // A rogue's receiver would overwrite its lie.
        let lied = self.liar.as_ref().is_some_and(|liar| liar.said.is_some());
        if !lied {
            for hearer in &mut self.hearers {
                hearer.step(now, nic);
            }
        } else if let Some(closed) = self.closed() {
            for hearer in &mut self.hearers {
                let _ = hearer.receiver.poll(now, nic);
                hearer.end(ended_by(closed));
            }
        }
        self.lie(now, nic);
        self.close_in_the_middle(now, nic);
        self.leave(now, nic)
    }

    fn lie(&mut self, now: Instant, nic: &mut dyn Verbs) {
        let closed = self.closed();
        let Some(liar) = &mut self.liar else { return };
        let (number, peer) = (self.call.number, self.peer);
        if closed.is_some() {
            return;
        }
        let Some(said) = liar.said else {
            if liar.lie(now, nic, &self.shared.memory, &self.talkers, &self.hearers) {
                let reason = liar.reason() as u16;
                self.shared.history.borrow_mut().lies(number, peer, reason);
            }
            return;
        };
        if now >= said + LIE_PATIENCE {
            let CallPlan {
                misbehaviour,
                may_break,
                ..
            } = self.call.plan;
            if !(may_break && liar.may_be_lost(nic)) {
                self.shared.wrong.push(format!(
                    "connection {number}: {misbehaviour:?} at {said:?} was not found out by {now:?}"
                ));
            }
            self.close(now, nic, CloseReason::Normal);
        }
    }

    fn close(&mut self, now: Instant, nic: &mut dyn Verbs, reason: CloseReason) {
        let mut history = self.shared.history.borrow_mut();
        history.wants_close(self.call.number, self.peer, reason as u16);
        drop(history);
        match (self.talkers.first_mut(), self.hearers.first_mut()) {
            (Some(Talker { sender, .. }), _) => Sender::close(sender, now, nic, reason),
            (None, Some(Hearer { receiver, .. })) => Receiver::close(receiver, now, nic, reason),
            (None, None) => {}
        }
    }

    fn close_in_the_middle(&mut self, now: Instant, nic: &mut dyn Verbs) {
        let talked = self.talkers.iter().map(|talker| talker.events);
        let heard = self.hearers.iter().map(|hearer| hearer.events);
        let Some((after, reason)) = self.manners.closes else {
            return;
        };
        if talked.chain(heard).sum::<u64>() < after || self.closed().is_some() {
            return;
        }
        self.manners.closes = None;
        self.close(now, nic, reason);
        if self.rng.chance(0.5) {
            return;
        }
        // Nor does it read what has arrived.
        if let Some(closed) = self.closed() {
            for hearer in &mut self.hearers {
                hearer.end(ended_by(closed));
            }
        }
    }

    /// Removes ends whose work is done. True if all are removed.
    fn leave(&mut self, now: Instant, nic: &mut dyn Verbs) -> bool {
        let talker_done =
            |talker: &mut Talker| talker.ended.is_some() && talker.sender.is_settled();
        let hearer_done = |hearer: &mut Hearer| hearer.ended.is_some() && hearer.is_settled();
        let ended = self.talkers.iter().all(|talker| talker.ended.is_some())
            && self.hearers.iter().all(|hearer| hearer.ended.is_some());
        let closed = self.closed();
        if self.manners.leaving == Leaving::Singly && closed.is_none() {
            for talker in self.talkers.extract_if(.., talker_done) {
                talker.destroy(nic);
            }
            for hearer in self.hearers.extract_if(.., hearer_done) {
                hearer.destroy(nic);
            }
        } else if ended {
            if self.manners.leaving == Leaving::Closing && closed.is_none() && !self.parted {
                self.parted = true;
                self.close(now, nic, CloseReason::Normal);
            }
            if self.talkers.iter_mut().all(talker_done) && self.hearers.iter_mut().all(hearer_done)
            {
                self.count();
                self.destroy(nic);
            }
        }
        self.talkers.is_empty() && self.hearers.is_empty()
    }

    /// Counts a detected lie.
    fn count(&self) {
        let by_peer = self
            .call
            .plan
            .misbehaviour
            .is_some_and(|(rogue, _)| rogue != self.peer);
        let Some(Closed { reason, .. }) = self.closed().filter(|_| by_peer) else {
            return;
        };
        let here = |ended| ended == Some(Ended::ClosedHere(reason as u16));
        if self.talkers.iter().any(|talker| here(talker.ended))
            || reason == CloseReason::TransportBroken
        {
            self.shared.counts.catch(reason);
        }
    }

    fn destroy(&mut self, nic: &mut dyn Verbs) {
        for talker in self.talkers.drain(..) {
            talker.destroy(nic);
        }
        for hearer in self.hearers.drain(..) {
            hearer.destroy(nic);
        }
        if let Some(liar) = self.liar.take() {
            liar.destroy(nic);
        }
    }
}
