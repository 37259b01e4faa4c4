//! The endpoint's side of requests that arrive as UDP datagrams
//! ([`rackweave_wire::fabric::lookup`]).
//!
//! Requests have the same effect as over `rpc`, on the same shard. A get begins at the tree node
//! that a switch has filled in, if that is usable. A duplicate of a read is executed again; a
//! duplicate of a write is not (`sessions`).

mod deferred;
mod sessions;
mod statistics;

use super::IndexServer;
use crate::btree::Direction;
use crate::index::message::Request;
use crate::index::meter::{Count, Meter};
use crate::index::shard::Shard;
use crate::rpc::Writer;
use deferred::{CLIENT, Deferred};
use rackweave_base::{Duration, Instant};
use rackweave_verbs::{BindError, Datagrams, Verbs};
use rackweave_wire::fabric::lookup::{
    self, Ask, FROM_ROOT, HEADER_LEN, MapPiece, NO_SESSION, Once, Op, Reply, SESSIONS_FULL,
};
use rackweave_wire::fabric::rpc::Status;
use serde::{Deserialize, Serialize};
use sessions::{Recorded, Sessions, Verdict};
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};

pub use statistics::DatagramServerStatistics;

/// Configuration of a datagram server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DatagramServerConfig {
    /// The UDP port; switches recognise [`lookup::PORT`].
    pub port: u16,
    /// A random number that no server of this index has used before: session numbers start from it.
    pub incarnation: u64,
    /// Maximum number of concurrent client sessions.
    pub sessions_max: u32,
    /// Maximum number of pending writes per session.
    pub slots: u16,
    /// Minimum time for which an unused session is kept.
    pub keep: Duration,
    /// Maximum number of requests that one [`DatagramServer::poll`] serves.
    pub burst: u32,
}

impl DatagramServerConfig {
    /// Up to 1024 clients with 64 writes each; sessions are kept for ten seconds.
    pub const fn new(incarnation: u64) -> Self {
        Self {
            port: lookup::PORT,
            incarnation,
            sessions_max: 1024,
            slots: 64,
            keep: Duration::from_secs(10),
            burst: 64,
        }
    }
}

/// One thread of an endpoint that serves datagrams; its owner polls it.
#[derive(Debug)]
pub struct DatagramServer {
    service: IndexServer,
    sessions: Arc<Mutex<Sessions>>,
    config: DatagramServerConfig,
    statistics: DatagramServerStatistics,
    request: Vec<u8>,
    body: Vec<u8>,
    reply: Vec<u8>,
    deferred: VecDeque<Deferred>,
}

impl DatagramServer {
    /// A server for `shard`.
    pub fn new(shard: Arc<Shard>, config: DatagramServerConfig) -> Self {
        let sessions = Sessions::new(
            config.incarnation,
            config.sessions_max,
            config.slots,
            config.keep,
        );
        Self::with(shard, config, Arc::new(Mutex::new(sessions)))
    }

    /// Another thread's server for the same port and the same sessions.
    #[must_use]
    pub fn sibling(&self) -> Self {
        let shard = self.service.shard().clone();
        Self::with(shard, self.config, self.sessions.clone())
    }

    fn with(
        shard: Arc<Shard>,
        config: DatagramServerConfig,
        sessions: Arc<Mutex<Sessions>>,
    ) -> Self {
        Self {
            service: IndexServer::new(shard),
            sessions,
            config,
            statistics: DatagramServerStatistics::default(),
            request: Vec::new(),
            body: Vec::new(),
            reply: Vec::new(),
            deferred: VecDeque::new(),
        }
    }

    /// Binds the port. Must be called once for all siblings on a node.
    ///
    /// # Errors
    /// If the port is not available.
    pub fn bind(&self, datagrams: &mut dyn Datagrams) -> Result<(), BindError> {
        datagrams.bind(self.config.port).map(drop)
    }

    /// Releases the port.
    pub fn unbind(&self, datagrams: &mut dyn Datagrams) {
        datagrams.unbind(self.config.port);
    }

    /// The shard.
    pub fn shard(&self) -> &Arc<Shard> {
        self.service.shard()
    }

    /// Its counters. The thread that drives it adds its busy time.
    pub fn meter(&self) -> &Arc<Meter> {
        self.service.meter()
    }

    /// The counters of datagrams.
    pub fn statistics(&self) -> DatagramServerStatistics {
        self.statistics
    }

    /// Sessions opened by all siblings, and those dropped to make space.
    pub fn sessions(&self) -> (u64, u64) {
        let sessions = self.lock();
        (sessions.opened, sessions.evicted)
    }

    /// Limits the number of requests served at a time.
    #[cfg(test)]
    pub(in crate::index) fn config_burst(&mut self, burst: u32) {
        self.config.burst = burst;
    }

    /// Opens a session for another client.
    #[cfg(test)]
    pub(in crate::index) fn open_for(&self, now: Instant, client: u64, id: u64) -> Option<u64> {
        let opened = self.lock().open(now, client, id)?;
        Some(opened.session)
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().expect("no holder of this lock panics")
    }

    /// The service, to be connected to a replica ([`IndexServer::attach_replica`]). The owner calls
    /// [`IndexServer::advance`] before every [`Self::poll`] and [`IndexServer::flush`] after it.
    pub fn service(&mut self) -> &mut IndexServer {
        &mut self.service
    }

    /// Ends the thread: see [`IndexServer::close`].
    pub fn close(self, verbs: &mut dyn Verbs) {
        self.service.close(verbs);
    }

    /// Executes received requests, at most one burst. Returns the number of datagrams.
    pub fn poll(&mut self, now: Instant, datagrams: &mut dyn Datagrams) -> u32 {
        let len_max = datagrams.datagram_max();
        self.resume(now, datagrams, len_max);
        let mut request = core::mem::take(&mut self.request);
        let mut served = 0;
        while served < self.config.burst {
            let Some(from) = datagrams.receive(self.config.port, &mut request) else {
                break;
            };
            served += 1;
            self.statistics.received += 1;
            if self.serve(now, from, &request, len_max) {
                let sent = datagrams.send(self.config.port, from, &self.reply);
                self.statistics.unsent += u64::from(sent.is_err());
            }
        }
        self.request = request;
        served
    }

    /// Executes one request and makes the reply, of at most `len_max` bytes. False if no reply is
    /// to be sent.
    fn serve(&mut self, now: Instant, from: (Ipv4Addr, u16), bytes: &[u8], len_max: usize) -> bool {
        let Ok(request) = lookup::Request::parse(bytes) else {
            self.statistics.damaged += 1;
            return false;
        };
        let mut body = core::mem::take(&mut self.body);
        body.clear();
        let mut writer = Writer::new(&mut body, len_max.saturating_sub(HEADER_LEN));
        let answer = self.carry_out(now, from, &request, &mut writer);
        let overflowed = writer.has_overflowed();
        if let Some((mut status, level)) = answer {
            if overflowed {
                body.clear();
                status = Status::REPLY_TOO_LARGE;
            }
            self.reply.clear();
            let reply = Reply {
                op: request.op,
                status,
                level,
                key: request.key,
                id: request.id,
                client: request.client,
                body: &body,
            };
            reply.emit(&mut self.reply);
        }
        self.body = body;
        answer.is_some()
    }

    /// Writes the body of the reply; returns its status and where a walk began. `None` if the
    /// request gets no reply.
    fn carry_out(
        &mut self,
        now: Instant,
        from: (Ipv4Addr, u16),
        request: &lookup::Request<'_>,
        reply: &mut Writer<'_>,
    ) -> Option<(Status, u8)> {
        let Some(ask) = request.ask() else {
            self.statistics.malformed += 1;
            self.service.meter.count(Count::Malformed);
            let status = match Op::from_number(request.op) {
                Some(_) => Status::MALFORMED,
                None => Status::UNKNOWN_METHOD,
            };
            return Some((status, FROM_ROOT));
        };
        let (client, id) = (request.client, request.id);
        let (once, write) = match ask {
            Ask::Get { key } => {
                let level = self.get(request.node, key, reply);
                return Some((Status::OK, level));
            }
            Ask::Insert { key, once, value } => (once, Request::Insert { key, value }),
            Ask::Update { key, once, value } => (once, Request::Update { key, value }),
            Ask::Put { key, once, value } => (once, Request::Put { key, value }),
            Ask::Delete { key, once } => (once, Request::Delete { key }),
            Ask::Scan {
                near,
                far,
                limit,
                backward,
            } => {
                let (range, direction) = match backward {
                    false => ((near, far), Direction::Forward),
                    true => ((far, near), Direction::Backward),
                };
                self.service.scan(range, direction, limit, reply);
                return Some((Status::OK, FROM_ROOT));
            }
            Ask::Map { from } => return Some((self.map(from, reply), FROM_ROOT)),
            Ask::Open => return Some((self.open(now, (client, id), reply), FROM_ROOT)),
        };
        let status = self.write(now, (client, id), once, &write, reply)?;
        if let Some(number) = reply.deferred() {
            self.statistics.deferred += 1;
            self.deferred.push_back(Deferred {
                from,
                op: request.op,
                key: request.key,
                client,
                id,
                once,
                number,
            });
            return None;
        }
        Some((status, FROM_ROOT))
    }

    fn open(&mut self, now: Instant, (client, id): (u64, u64), reply: &mut Writer<'_>) -> Status {
        let opened = self.lock().open(now, client, id);
        let Some(opened) = opened else {
            self.statistics.sessions_full += 1;
            return SESSIONS_FULL;
        };
        reply.push(&opened.emit());
        Status::OK
    }

    fn get(&mut self, node: u32, key: u64, reply: &mut Writer<'_>) -> u8 {
        let service = &mut self.service;
        let got = service.shard.get_from(node, key, &mut service.value);
        let Some((there, begun)) = service.judge(got, Count::Gets, key, reply) else {
            return FROM_ROOT;
        };
        let statistics = &mut self.statistics;
        statistics.hinted += u64::from(node != 0);
        statistics.begun += u64::from(begun.level.is_some());
        statistics.followed += u64::from(begun.followed > 0);
        statistics.levels_walked += u64::from(begun.walked);
        statistics.levels_skipped += u64::from(begun.skipped);
        // A key that was found has its reply already.
        service.answer_get(there, reply);
        begun.level.unwrap_or(FROM_ROOT)
    }

    /// Executes a write unless it was executed before.
    fn write(
        &mut self,
        now: Instant,
        (client, id): (u64, u64),
        once: Once,
        request: &Request<'_>,
        reply: &mut Writer<'_>,
    ) -> Option<Status> {
        let verdict = self.lock().judge(now, client, id, once);
        match verdict {
            Verdict::New => {}
            Verdict::Done(answer) => {
                self.statistics.repeated += 1;
                reply.push(answer.bytes());
                return Some(Status::OK);
            }
            Verdict::UnderWay | Verdict::Late => {
                self.statistics.late += 1;
                return None;
            }
            Verdict::Unknown => {
                self.statistics.sessionless += 1;
                return Some(NO_SESSION);
            }
        }
        let status = self.service.execute(CLIENT, request, reply);
        if reply.deferred().is_none() {
            self.record((client, id), once, reply);
        }
        Some(status)
    }

    /// Keeps the reply to a write, also to one that was denied: a late copy must not be executed
    /// when the client has tried again elsewhere.
    fn record(&self, (client, id): (u64, u64), once: Once, reply: &mut Writer<'_>) {
        let answer = Recorded::new(reply.written()).expect("answers to writes are short");
        self.lock().record(client, id, once, answer);
    }

    fn map(&self, from: u32, reply: &mut Writer<'_>) -> Status {
        let map = self.service.shard.map();
        let bytes = map.encode();
        let Some(rest) = bytes.get(from as usize..) else {
            return Status::MALFORMED;
        };
        let header = MapPiece {
            version: map.version(),
            total: bytes.len() as u32,
            bytes: &[],
        }
        .header();
        reply.push(&header);
        let len = rest.len().min(reply.left());
        reply.push(&rest[..len]);
        Status::OK
    }
}
