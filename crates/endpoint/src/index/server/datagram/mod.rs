//! The endpoint's side of requests that come as UDP datagrams
//! ([`rackweave_wire::fabric::lookup`]).
//!
//! What a request does is the same as over `rpc`, on the same shard. A get begins at the tree node
//! that a switch has filled in, if that is of use. A read that comes twice is done twice; a write
//! that comes twice is done once (`sessions`).

mod sessions;

use super::IndexServer;
use crate::btree::Direction;
use crate::index::message::Request;
use crate::index::meter::{Count, Meter};
use crate::index::shard::Shard;
use crate::rpc::Writer;
use rackweave_base::{Duration, Instant};
use rackweave_verbs::{BindError, Datagrams};
use rackweave_wire::fabric::lookup::{
    self, Ask, FROM_ROOT, HEADER_LEN, MapPiece, NO_SESSION, Once, Op, Reply, SESSIONS_FULL,
};
use rackweave_wire::fabric::rpc::Status;
use sessions::{Recorded, Sessions, Verdict};
use std::sync::{Arc, Mutex, MutexGuard};

/// The size of a server for datagrams.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramServerConfig {
    /// The UDP port; switches know [`lookup::PORT`].
    pub port: u16,
    /// A random number, which no server of this index had before: sessions are counted from it.
    pub incarnation: u64,
    /// Clients that may have a session at a time.
    pub sessions_max: u32,
    /// Writes that each of them may have under way.
    pub slots: u16,
    /// How long a session is kept at least when it is not used.
    pub keep: Duration,
    /// Requests that one [`DatagramServer::poll`] serves at most.
    pub burst: u32,
}

impl DatagramServerConfig {
    /// Room for 1024 clients with 64 writes each, kept for ten seconds.
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

/// What a server for datagrams has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DatagramServerStatistics {
    /// Datagrams that came.
    pub received: u64,
    /// Of those: no requests, or damaged ones. Nobody is answered.
    pub damaged: u64,
    /// Of those: sound requests that make no sense. They are refused.
    pub malformed: u64,
    /// Gets for which a tree node was filled in.
    pub hinted: u64,
    /// Of those: the walk began there.
    pub begun: u64,
    /// Of those: the key was to the right, and neighbours were followed.
    pub followed: u64,
    /// Levels of the tree that gets saw.
    pub levels_walked: u64,
    /// Levels that gets did not have to see.
    pub levels_skipped: u64,
    /// Writes that had been carried out before: the answer was repeated.
    pub repeated: u64,
    /// Writes that came when their slot had gone on, or while another thread was at them.
    pub late: u64,
    /// Writes in sessions that are not known.
    pub sessionless: u64,
    /// Sessions that could not be opened for want of room.
    pub sessions_full: u64,
    /// Replies for which the NIC had no room.
    pub unsent: u64,
}

/// One thread of an endpoint that serves datagrams: whoever runs it polls it.
#[derive(Debug)]
pub struct DatagramServer {
    service: IndexServer,
    sessions: Arc<Mutex<Sessions>>,
    config: DatagramServerConfig,
    statistics: DatagramServerStatistics,
    request: Vec<u8>,
    body: Vec<u8>,
    reply: Vec<u8>,
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

    /// Another thread for the same port and the same sessions.
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
        }
    }

    /// Takes the port. To be done once for all siblings on a node.
    ///
    /// # Errors
    /// If the port is not to be had.
    pub fn bind(&self, datagrams: &mut dyn Datagrams) -> Result<(), BindError> {
        datagrams.bind(self.config.port).map(drop)
    }

    /// Gives the port back.
    pub fn unbind(&self, datagrams: &mut dyn Datagrams) {
        datagrams.unbind(self.config.port);
    }

    /// The shard.
    pub fn shard(&self) -> &Arc<Shard> {
        self.service.shard()
    }

    /// What it counts; whoever drives it tells it how long it has worked.
    pub fn meter(&self) -> &Arc<Meter> {
        self.service.meter()
    }

    /// What it has seen.
    pub fn statistics(&self) -> DatagramServerStatistics {
        self.statistics
    }

    /// Sessions that were opened by all siblings, and those that were dropped to make room.
    pub fn sessions(&self) -> (u64, u64) {
        let sessions = self.lock();
        (sessions.opened, sessions.evicted)
    }

    /// Takes fewer requests at a time.
    #[cfg(test)]
    pub(in crate::index) fn config_burst(&mut self, burst: u32) {
        self.config.burst = burst;
    }

    /// A session of another client.
    #[cfg(test)]
    pub(in crate::index) fn open_for(&self, now: Instant, client: u64, id: u64) -> Option<u64> {
        let opened = self.lock().open(now, client, id)?;
        Some(opened.session)
    }

    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().expect("no holder of this lock panics")
    }

    /// Carries out what has come, a burst at most. Returns how many datagrams that were.
    pub fn poll(&mut self, now: Instant, datagrams: &mut dyn Datagrams) -> u32 {
        let room = datagrams.datagram_max();
        let mut request = core::mem::take(&mut self.request);
        let mut served = 0;
        while served < self.config.burst {
            let Some(from) = datagrams.receive(self.config.port, &mut request) else {
                break;
            };
            served += 1;
            self.statistics.received += 1;
            if self.serve(now, &request, room) {
                let sent = datagrams.send(self.config.port, from, &self.reply);
                self.statistics.unsent += u64::from(sent.is_err());
            }
        }
        self.request = request;
        served
    }

    /// Carries out one request and makes the reply, of at most `room` bytes. False if there is
    /// nobody to answer, or nothing.
    fn serve(&mut self, now: Instant, bytes: &[u8], room: usize) -> bool {
        let Ok(request) = lookup::Request::parse(bytes) else {
            self.statistics.damaged += 1;
            return false;
        };
        let mut body = core::mem::take(&mut self.body);
        body.clear();
        let mut writer = Writer::new(&mut body, room.saturating_sub(HEADER_LEN));
        let answer = self.carry_out(now, &request, &mut writer);
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

    /// Writes the body of the reply; returns its status and where a walk began. Nothing if the
    /// request is not to be answered.
    fn carry_out(
        &mut self,
        now: Instant,
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
        // What was found has its answer.
        let _ = service.answer_get(there, reply);
        begun.level.unwrap_or(FROM_ROOT)
    }

    /// Carries a write out unless that was done before.
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
        // What was denied has its answer, which is kept as well: a copy that comes later must not
        // be carried out when the client has tried again elsewhere.
        let _ = self.service.operate(request, reply);
        let answer = Recorded::new(reply.written()).expect("answers to writes are short");
        self.lock().record(client, id, once, answer);
        Some(Status::OK)
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
