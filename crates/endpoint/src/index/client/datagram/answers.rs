//! Handling of replies.

use super::calls::{Call, What};
use super::{DatagramClient, EndpointId};
use crate::index::message::Outcome;
use crate::rpc::RpcError;
use rackweave_base::Instant;
use rackweave_verbs::Datagrams;
use rackweave_wire::fabric::lookup::{
    FROM_ROOT, MapPiece, NO_SESSION, Once, Op, Opened, Reply, SESSIONS_FULL,
};
use rackweave_wire::fabric::rpc::Status;
use std::net::Ipv4Addr;

/// Maximum length of a map that a client accepts, in bytes: that of a map for the maximum number of
/// endpoints.
const MAP_MAX: u32 = 1 << 16;

/// Maximum number of times that the map may change while its pieces arrive.
const MAP_CHANGES_MAX: u32 = 8;

/// The received pieces of a map.
#[derive(Debug, Default)]
pub(super) struct MapSoFar {
    version: u64,
    bytes: Vec<u8>,
    changes: u32,
}

/// The classification of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece {
    Last,
    More,
    Nonsense,
}

impl MapSoFar {
    /// Starts at the first piece.
    pub fn begin(&mut self) {
        self.bytes.clear();
        self.changes = 0;
    }

    /// The offset of the next piece.
    pub fn len(&self) -> u32 {
        self.bytes.len() as u32
    }

    fn take(&mut self, piece: &MapPiece<'_>) -> Piece {
        if !self.bytes.is_empty() && piece.version != self.version {
            // The earlier pieces belong to another map.
            self.bytes.clear();
            self.changes += 1;
            return match self.changes <= MAP_CHANGES_MAX {
                true => Piece::More,
                false => Piece::Nonsense,
            };
        }
        self.version = piece.version;
        let whole = self.bytes.len() + piece.bytes.len();
        if piece.bytes.is_empty() || piece.total > MAP_MAX || whole > piece.total as usize {
            return Piece::Nonsense;
        }
        self.bytes.extend_from_slice(piece.bytes);
        match whole == piece.total as usize {
            true => Piece::Last,
            false => Piece::More,
        }
    }
}

impl DatagramClient {
    /// Handles a datagram.
    pub(super) fn handle(
        &mut self,
        now: Instant,
        from: (Ipv4Addr, u16),
        bytes: &[u8],
        datagrams: &mut dyn Datagrams,
    ) {
        let Ok(reply) = Reply::parse(bytes) else {
            self.statistics.damaged += 1;
            return;
        };
        let fits = |call: &&Call| {
            call.to == from && call.op == reply.op && self.config.client == reply.client
        };
        if self.calls.get(reply.id).filter(fits).is_none() {
            self.statistics.strays += 1;
            return;
        }
        let Some(call) = self.calls.take(reply.id) else {
            return;
        };
        match call.what {
            What::Operation(slot) => self.operation_answered(now, slot, &call, &reply),
            What::Map => self.map_piece(now, call.endpoint, &reply, datagrams),
            What::Open => self.opened(now, &call, &reply),
        }
        self.write_on(now, call.endpoint, datagrams);
        self.calls.recycle(call);
    }

    fn operation_answered(&mut self, now: Instant, slot: u32, call: &Call, reply: &Reply<'_>) {
        let endpoint = call.endpoint;
        if let Some(once) = call.once {
            self.leave_slot(endpoint, once, Some(call.begun));
        }
        if reply.op == Op::Get as u8 && reply.level != FROM_ROOT {
            self.statistics.begun[usize::from(reply.level).min(7)] += 1;
        }
        let result = match reply.status {
            Status::OK => Ok(reply.body),
            NO_SESSION => {
                if let Some(once) = call.once {
                    self.session_lost(endpoint, once);
                }
                // An earlier copy of it may have been executed.
                return self.operations.lost(slot, endpoint);
            }
            status => Err(RpcError::Refused(status)),
        };
        self.operations.answered(now, slot, endpoint, result);
    }

    /// Frees the slot of a completed write. If the endpoint has replied, it has used the session
    /// since `begun`.
    fn leave_slot(&mut self, endpoint: EndpointId, once: Once, begun: Option<Instant>) {
        if let Some(way) = &mut self.ways[endpoint.index()]
            && way.session.is_some_and(|own| own.session == once.session)
        {
            way.slots.push(once.slot);
            way.fresh = way.fresh.max(begun.unwrap_or(way.fresh));
        }
    }

    fn session_lost(&mut self, endpoint: EndpointId, once: Once) {
        if let Some(way) = &mut self.ways[endpoint.index()]
            && way.session.is_some_and(|own| own.session == once.session)
        {
            way.session = None;
            self.statistics.sessions_lost += 1;
        }
    }

    fn map_piece(
        &mut self,
        now: Instant,
        endpoint: EndpointId,
        reply: &Reply<'_>,
        datagrams: &mut dyn Datagrams,
    ) {
        let piece = match reply.status {
            Status::OK => MapPiece::parse(reply.body),
            _ => None,
        };
        let taken = piece.map_or(Piece::Nonsense, |piece| self.map.take(&piece));
        if taken == Piece::More && self.ask_for_map(now, endpoint, datagrams) {
            return;
        }
        if taken == Piece::Last {
            let whole = [&[Outcome::Done as u8], &self.map.bytes[..]].concat();
            self.operations.map_came(now, Ok(&whole));
        } else {
            let nonsense = RpcError::Refused(Status::MALFORMED);
            self.operations.map_came(now, Err(nonsense));
        }
    }

    fn opened(&mut self, now: Instant, call: &Call, reply: &Reply<'_>) {
        let Some(way) = &mut self.ways[call.endpoint.index()] else {
            return;
        };
        // An endpoint that was attached again needs another session.
        if way.to != call.to {
            return;
        }
        way.opening = false;
        let opened = Some(reply.body).filter(|_| reply.status == Status::OK);
        if let Some(opened) = opened.and_then(Opened::parse) {
            self.statistics.sessions += 1;
            way.session = Some(opened);
            way.slots = (0..opened.slots).rev().collect();
            way.fresh = call.begun;
            return;
        }
        let busy = [Outcome::Busy as u8];
        for slot in core::mem::take(&mut way.waiting) {
            let result = match reply.status {
                // Other clients' sessions become idle at some time.
                SESSIONS_FULL => Ok(&busy[..]),
                _ => Err(RpcError::Refused(Status::MALFORMED)),
            };
            self.operations.answered(now, slot, call.endpoint, result);
        }
    }

    /// Ends a request that got no reply.
    pub(super) fn give_up(&mut self, now: Instant, call: &Call, datagrams: &mut dyn Datagrams) {
        let endpoint = call.endpoint;
        match call.what {
            What::Operation(slot) => {
                if let Some(once) = call.once {
                    self.leave_slot(endpoint, once, None);
                }
                self.operations.lost(slot, endpoint);
            }
            What::Map => self.operations.no_map(),
            What::Open => {
                let way = self.ways[endpoint.index()].as_mut();
                if let Some(way) = way.filter(|way| way.to == call.to) {
                    way.opening = false;
                    for slot in core::mem::take(&mut way.waiting) {
                        self.operations.unreachable(slot, endpoint);
                    }
                }
            }
        }
        self.write_on(now, endpoint, datagrams);
    }
}
