//! The server's ends of all its connections.

mod peer;

use super::config::Sizes;
use super::counters::ServerCounters;
use super::error::RpcError;
use super::names::{self, Connection, Event};
use super::{ServerConfig, Service};
use crate::resources::{ResourceError, Resources};
use peer::Peer;
use rackweave_base::{Instant, Memory, Qpn};
use rackweave_verbs::{Access, Completion, CompletionStatus, PdId, QpCapabilities, Verbs};
use std::collections::VecDeque;

/// The server's ends of all its connections, for one thread.
#[derive(Debug)]
pub struct Server {
    pd: PdId,
    nic: Resources,
    config: ServerConfig,
    sizes: Sizes,
    /// Peers by client number.
    peers: Vec<Option<Peer>>,
    /// How often each number was assigned, modulo 2^16.
    generations: Vec<u16>,
    /// Unassigned numbers; the one unused for longest is next. Packets that refer to the buffers of
    /// a removed client may still be in flight.
    vacant: VecDeque<u16>,
    /// Peers whose queue pair is not connected yet.
    unconnected: Vec<u16>,
    /// Peers with messages to send or to read.
    busy: Vec<u16>,
    /// Removed clients whose removal the service has yet to learn.
    removed: Vec<u16>,
    /// Queue pairs of lost clients, to be reported to the owner.
    lost: VecDeque<Qpn>,
    completions: Vec<Completion>,
    counters: ServerCounters,
}

impl Server {
    /// Creates a completion queue and buffers for all clients.
    ///
    /// # Errors
    /// If a size is out of range, or memory or a table of the NIC is full.
    pub fn new(
        verbs: &mut dyn Verbs,
        memory: &Memory,
        pd: PdId,
        config: ServerConfig,
    ) -> Result<Self, RpcError> {
        let sizes = config.sizes()?;
        let clients = u32::from(config.clients_max);
        let bytes = (u64::from(clients) * sizes.bytes()) as usize;
        let entries = u32::from(sizes.send_buffers) + u32::from(sizes.receives);
        let entries = clients.saturating_mul(entries);
        let local = (bytes, Access::LOCAL_WRITE);
        let nic = Resources::new(verbs, memory, pd, local, entries)?;
        Ok(Self {
            pd,
            nic,
            sizes,
            peers: (0..clients).map(|_| None).collect(),
            generations: vec![0; clients as usize],
            vacant: (0..config.clients_max).collect(),
            unconnected: Vec::new(),
            busy: Vec::new(),
            removed: Vec::new(),
            lost: VecDeque::new(),
            completions: Vec::with_capacity(config.completions_max.into()),
            counters: ServerCounters::default(),
            config,
        })
    }

    /// The configuration.
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// The counters.
    pub fn counters(&self) -> &ServerCounters {
        &self.counters
    }

    /// Number of clients that are accepted and not removed.
    pub fn clients(&self) -> usize {
        self.peers.iter().flatten().count()
    }

    /// The number by which the service knows the client behind this queue pair.
    pub fn client_of(&self, qpn: Qpn) -> Option<u32> {
        let found = |peer: &Option<Peer>| peer.as_ref().is_some_and(|peer| peer.qpn == qpn);
        self.peers.iter().position(found).map(|at| at as u32)
    }

    /// Creates a queue pair for one more client, to be connected to [`super::Client::qpn`].
    ///
    /// # Errors
    /// If there are too many clients, or the NIC has no free queue pair.
    pub fn accept(&mut self, verbs: &mut dyn Verbs) -> Result<Qpn, RpcError> {
        let max = self.config.clients_max;
        let index = *self.vacant.front().ok_or(RpcError::ClientsFull { max })?;
        let capabilities = QpCapabilities {
            send_max: self.sizes.send_buffers.into(),
            receive_max: self.sizes.receives.into(),
            segments_max: 1,
        };
        let cq = self.nic.cq;
        let qpn = verbs.create_qp(self.pd, cq, cq, capabilities);
        let qpn = qpn.map_err(ResourceError::from)?;
        self.vacant.pop_front();
        let generation = &mut self.generations[usize::from(index)];
        *generation = generation.wrapping_add(1);
        let connection = Connection::new(index, *generation);
        let base = u64::from(index) * self.sizes.bytes();
        let peer = Peer::new(qpn, connection, &self.nic.region, base, &self.sizes);
        self.peers[usize::from(index)] = Some(peer);
        self.unconnected.push(index);
        self.counters.accepted += 1;
        Ok(qpn)
    }

    /// Reports that a queue pair is connected, so that its receive requests are posted before the
    /// first request arrives. This call is optional: [`Server::poll`] checks, too, but perhaps
    /// later.
    ///
    /// # Errors
    /// If the queue pair is unknown or not connected.
    pub fn connected(&mut self, verbs: &mut dyn Verbs, qpn: Qpn) -> Result<(), RpcError> {
        let client = self.client_of(qpn).ok_or(RpcError::UnknownClient(qpn))?;
        let peer = self.peers[client as usize].as_mut().expect("it was found");
        peer.open(verbs)?;
        self.unconnected.retain(|&index| u32::from(index) != client);
        Ok(())
    }

    /// Closes a connection. False if it is unknown or already closed.
    pub fn remove(&mut self, verbs: &mut dyn Verbs, qpn: Qpn) -> bool {
        match self.client_of(qpn) {
            Some(client) => {
                self.vacate(verbs, client as u16);
                self.removed.push(client as u16);
                true
            }
            None => false,
        }
    }

    /// A queue pair whose connection broke; it has been destroyed. Only the most recent ones are
    /// kept, at most as many as the maximum number of clients.
    pub fn poll_lost(&mut self) -> Option<Qpn> {
        self.lost.pop_front()
    }

    /// Handles received requests, has `service` execute them, and sends the replies. The replies of
    /// one call to `poll` for one client are sent together. True if anything happened.
    pub fn poll(&mut self, now: Instant, verbs: &mut dyn Verbs, service: &mut dyn Service) -> bool {
        for client in self.removed.drain(..) {
            service.left(client.into());
        }
        self.connect(verbs, service);
        let mut happened = self.resume(now, service);
        let mut completions = core::mem::take(&mut self.completions);
        completions.clear();
        let limit = self.config.completions_max.into();
        happened |= verbs.poll_cq(self.nic.cq, limit, &mut completions) > 0;
        for completion in &completions {
            self.handle_completion(now, verbs, completion, service);
        }
        self.completions = completions;
        self.flush(verbs, service);
        happened
    }

    /// Releases all resources.
    pub fn close(mut self, verbs: &mut dyn Verbs) {
        for index in 0..self.config.clients_max {
            self.vacate(verbs, index);
        }
        self.nic.destroy(verbs);
    }

    /// Checks which queue pairs have been connected since the last call.
    fn connect(&mut self, verbs: &mut dyn Verbs, service: &mut dyn Service) {
        let mut at = 0;
        while let Some(&index) = self.unconnected.get(at) {
            let peer = self.peers[usize::from(index)].as_mut();
            let peer = peer.expect("who is unconnected is there");
            if peer.is_gone(verbs) {
                self.lose(verbs, index, service);
            } else if peer.open(verbs).is_ok() {
                self.unconnected.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Handles deferred requests, and messages that were held back.
    fn resume(&mut self, now: Instant, service: &mut dyn Service) -> bool {
        let mut happened = false;
        for &index in &self.busy {
            let peer = self.peers[usize::from(index)].as_mut();
            let peer = peer.expect("who is busy is there");
            happened |= peer.resume_deferred(now, &self.config, service, &mut self.counters);
            happened |= peer.resume(now, &self.config, service, &mut self.counters);
        }
        happened
    }

    fn handle_completion(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        completion: &Completion,
        service: &mut dyn Service,
    ) {
        let (connection, event) = names::of(completion.id);
        let peer = self.peers.get_mut(usize::from(connection.index));
        let peer = match peer.and_then(Option::as_mut) {
            Some(peer) if peer.connection == connection => peer,
            _ => {
                self.counters.stray_completions += 1;
                return;
            }
        };
        if completion.status != CompletionStatus::Success {
            return self.lose(verbs, connection.index, service);
        }
        match event {
            Event::Sent(number) => peer.outbox.arrived(number),
            Event::Received(buffer) => {
                peer.receive(buffer, completion.length);
                peer.resume(now, &self.config, service, &mut self.counters);
                if !peer.is_busy {
                    peer.is_busy = true;
                    self.busy.push(connection.index);
                }
            }
        }
    }

    /// Reposts receive requests, then sends the replies of this round.
    fn flush(&mut self, verbs: &mut dyn Verbs, service: &mut dyn Service) {
        let mut at = 0;
        while let Some(&index) = self.busy.get(at) {
            let peer = self.peers[usize::from(index)].as_mut();
            let peer = peer.expect("who is busy is there");
            match peer.flush(verbs, self.config.incarnation, &mut self.counters) {
                Err(_) => self.lose(verbs, index, service),
                Ok(()) if peer.has_work() => at += 1,
                Ok(()) => {
                    peer.is_busy = false;
                    self.busy.swap_remove(at);
                }
            }
        }
    }

    /// Handles a broken connection.
    fn lose(&mut self, verbs: &mut dyn Verbs, index: u16, service: &mut dyn Service) {
        if let Some(qpn) = self.vacate(verbs, index) {
            self.counters.lost += 1;
            if self.lost.len() == usize::from(self.config.clients_max) {
                self.lost.pop_front();
            }
            self.lost.push_back(qpn);
            service.left(index.into());
        }
    }

    fn vacate(&mut self, verbs: &mut dyn Verbs, index: u16) -> Option<Qpn> {
        let peer = self.peers[usize::from(index)].take()?;
        self.unconnected.retain(|&other| other != index);
        self.busy.retain(|&other| other != index);
        self.vacant.push_back(index);
        // The queue pair may no longer exist.
        let _ = verbs.destroy_qp(peer.qpn);
        Some(peer.qpn)
    }
}
