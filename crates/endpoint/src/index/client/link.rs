//! The connection to one endpoint.

use super::operations::{Operations, Sendable};
use super::parts::part_of;
use super::{AttachError, ClientEnds, IndexClientConfig};
use crate::index::map::EndpointId;
use crate::index::op::Access;
use crate::index::reader::{Reader, ReaderConfig, RemoteTree};
use crate::index::statistics::ReaderStatistics;
use crate::rpc::{self, RpcError};
use rackweave_base::{Instant, Memory};
use rackweave_verbs::{PdId, Verbs};
use std::collections::VecDeque;

/// The purpose of a pending request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Call {
    None,
    /// The operation in this slot.
    Operation(u32),
    /// The map.
    Map,
}

#[derive(Debug)]
pub(super) struct Link {
    /// Whether operations to be read in the network query it.
    pub network: bool,
    rpc: rpc::Client,
    reader: Option<Reader>,
    /// By slot of the window.
    calls: Vec<Call>,
    /// Operations that wait for a free slot.
    waiting: VecDeque<u32>,
    waiting_to_read: VecDeque<u32>,
    request: Vec<u8>,
}

impl Link {
    pub fn new(
        verbs: &mut dyn Verbs,
        memory: &Memory,
        pd: PdId,
        config: &IndexClientConfig,
        remote: RemoteTree,
    ) -> Result<Self, AttachError> {
        let rpc = rpc::Client::new(verbs, memory, pd, config.rpc)?;
        let reader = match config.access {
            Access::Rpc => None,
            Access::OneSided | Access::InNetwork => {
                let network = config.access == Access::InNetwork;
                let config = ReaderConfig {
                    network,
                    ..config.reader
                };
                match Reader::new(verbs, memory, pd, remote, config) {
                    Ok(reader) => Some(reader),
                    Err(error) => {
                        rpc.close(verbs);
                        return Err(error.into());
                    }
                }
            }
        };
        Ok(Self {
            network: config.network,
            calls: vec![Call::None; usize::from(config.rpc.window)],
            rpc,
            reader,
            waiting: VecDeque::new(),
            waiting_to_read: VecDeque::new(),
            request: Vec::new(),
        })
    }

    pub fn ends(&self) -> ClientEnds {
        ClientEnds {
            rpc: self.rpc.qpn(),
            reader: self.reader.as_ref().map(Reader::qpn),
        }
    }

    pub fn close(self, verbs: &mut dyn Verbs) {
        self.rpc.close(verbs);
        if let Some(reader) = self.reader {
            reader.destroy(verbs);
        }
    }

    pub fn is_broken(&self) -> bool {
        self.rpc.is_broken() || self.reader.as_ref().is_some_and(Reader::is_broken)
    }

    /// Whether the connection broke while the network was queried.
    pub fn is_refused(&self) -> bool {
        self.reader.as_ref().is_some_and(Reader::is_refused)
    }

    pub fn statistics(&self) -> ReaderStatistics {
        let reader = self.reader.as_ref();
        reader.map(Reader::statistics).unwrap_or_default()
    }

    pub fn poll_timeout(&self) -> Option<Instant> {
        self.rpc.poll_timeout()
    }

    /// Requests the map. False if no slot is free.
    pub fn ask_for_map(&mut self) -> bool {
        let method = crate::index::message::Method::Map as u16;
        match self.rpc.begin_with(method, &[]) {
            Ok(ticket) => {
                self.calls[ticket.slot()] = Call::Map;
                true
            }
            Err(_) => false,
        }
    }

    /// Sends an operation, or keeps it until a slot is free.
    pub fn take_on(&mut self, verbs: &mut dyn Verbs, slot: u32, operations: &mut Operations) {
        if self.reader.is_some() && operations.reads(slot) {
            if !self.waiting_to_read.is_empty() || !self.read(verbs, slot, operations) {
                self.waiting_to_read.push_back(slot);
            }
        } else if !self.waiting.is_empty() || !self.call(slot, operations) {
            self.waiting.push_back(slot);
        }
    }

    /// False if no slot is free.
    fn read(&mut self, verbs: &mut dyn Verbs, slot: u32, operations: &mut Operations) -> bool {
        let Some(reader) = &mut self.reader else {
            return false;
        };
        let room = reader.free();
        if room == 0 && !reader.is_broken() {
            return false;
        }
        let reading = operations.query(slot, room);
        let network = self.network && reading.network;
        for part in 0..reading.parts {
            let query = part_of(reading.query, reading.parts, part);
            let tag = u64::from(part) << 32 | u64::from(slot);
            let begun = reader.begin_by(verbs, tag, query, reading.since, network);
            debug_assert!(begun, "there is room for all parts");
        }
        true
    }

    /// False if no slot is free.
    fn call(&mut self, slot: u32, operations: &mut Operations) -> bool {
        self.request.clear();
        let Sendable { endpoint, method } = operations.encode(slot, &mut self.request);
        match self.rpc.begin_with(method, &self.request) {
            Ok(ticket) => {
                self.calls[ticket.slot()] = Call::Operation(slot);
                operations.sent(slot);
                true
            }
            Err(RpcError::WindowFull { .. }) => false,
            Err(RpcError::TooLarge { .. }) => {
                operations.too_large(slot, endpoint);
                true
            }
            Err(_) => {
                operations.unreachable(slot, endpoint);
                true
            }
        }
    }

    /// Sends waiting operations, handles received replies, and sends the operations for which these
    /// have freed slots. True if anything was received.
    pub fn advance(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        endpoint: EndpointId,
        operations: &mut Operations,
    ) -> bool {
        let mut came = false;
        self.rpc.advance(now, verbs);
        while let Some(reply) = self.rpc.take() {
            came = true;
            let call = &mut self.calls[reply.ticket.slot()];
            match core::mem::replace(call, Call::None) {
                Call::Operation(slot) => operations.answered(now, slot, endpoint, reply.result),
                Call::Map => operations.map_came(now, reply.result),
                Call::None => {}
            }
        }
        if let Some(reader) = &mut self.reader {
            while let Some((tag, found)) = reader.poll(verbs) {
                came = true;
                let (slot, part) = (tag as u32, (tag >> 32) as u16);
                operations.part_found(now, (slot, part), endpoint, found);
            }
        }
        if self.is_broken() {
            self.break_off(endpoint, operations);
            return came;
        }
        // A late reply to a request that was given up frees a slot without a result.
        let room = !self.waiting.is_empty() && self.rpc.free() > 0;
        if came || room {
            self.refill(verbs, endpoint, operations);
            self.send(now, verbs);
        }
        came
    }

    /// Sends operations that waited for a free slot, unless a newer map routes them elsewhere.
    fn refill(&mut self, verbs: &mut dyn Verbs, endpoint: EndpointId, operations: &mut Operations) {
        while let Some(&slot) = self.waiting.front() {
            if operations.route(slot) != endpoint {
                operations.again(slot);
            } else if !self.call(slot, operations) {
                break;
            }
            self.waiting.pop_front();
        }
        while let Some(&slot) = self.waiting_to_read.front() {
            if operations.route(slot) != endpoint {
                operations.again(slot);
            } else if !self.read(verbs, slot, operations) {
                break;
            }
            self.waiting_to_read.pop_front();
        }
    }

    /// Sends requests that were begun.
    pub fn send(&mut self, now: Instant, verbs: &mut dyn Verbs) {
        self.rpc.advance(now, verbs);
    }

    /// Ends everything that is pending on this connection.
    pub fn break_off(&mut self, endpoint: EndpointId, operations: &mut Operations) {
        for slot in self.waiting.drain(..).chain(self.waiting_to_read.drain(..)) {
            operations.unreachable(slot, endpoint);
        }
        for call in &mut self.calls {
            match core::mem::replace(call, Call::None) {
                Call::Operation(slot) => operations.lost(slot, endpoint),
                Call::Map => operations.no_map(),
                Call::None => {}
            }
        }
        operations.lost_reads(endpoint);
    }
}
