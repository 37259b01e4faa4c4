//! Writes by datagrams whose reply waits for the replica.

use super::DatagramServer;
use crate::rpc::{Service, Writer};
use rackweave_base::Instant;
use rackweave_verbs::Datagrams;
use rackweave_wire::fabric::lookup::{FROM_ROOT, HEADER_LEN, Once, Reply};
use std::net::Ipv4Addr;

/// The number of the clients of all datagrams for the service. They do not leave.
pub(super) const CLIENT: u32 = u32::MAX;

/// A write whose reply waits for the replica. Its slot of a session has no other write meanwhile
/// that is executed, so there are no more of them than slots.
#[derive(Debug)]
pub(super) struct Deferred {
    pub from: (Ipv4Addr, u16),
    pub op: u8,
    pub key: u64,
    pub client: u64,
    pub id: u64,
    pub once: Once,
    /// The service's number of it.
    pub number: u64,
}

impl DatagramServer {
    /// Replies to deferred writes that have ended.
    pub(super) fn resume(&mut self, now: Instant, datagrams: &mut dyn Datagrams, len_max: usize) {
        for _ in 0..self.deferred.len() {
            let Some(mut write) = self.deferred.pop_front() else {
                return;
            };
            let mut body = core::mem::take(&mut self.body);
            body.clear();
            let mut writer = Writer::new(&mut body, len_max.saturating_sub(HEADER_LEN));
            let status = Service::resume(&mut self.service, now, CLIENT, write.number, &mut writer);
            let deferred = writer.deferred();
            if let Some(number) = deferred {
                write.number = number;
            } else {
                self.record((write.client, write.id), write.once, &mut writer);
                self.reply.clear();
                let reply = Reply {
                    op: write.op,
                    status,
                    level: FROM_ROOT,
                    key: write.key,
                    id: write.id,
                    client: write.client,
                    body: &body,
                };
                reply.emit(&mut self.reply);
                let sent = datagrams.send(self.config.port, write.from, &self.reply);
                self.statistics.unsent += u64::from(sent.is_err());
            }
            self.body = body;
            if deferred.is_some() {
                self.deferred.push_back(write);
            }
        }
    }
}
