//! The switch's end of a node's link, and how it comes about.

use super::acceptor::Acceptor;
use super::arenas::Arena;
use super::members::Shared;
use crate::config::LinkKind;
use crate::hosted::messages::{NodeHello, NodeReply, NodeRequest};
use crate::hosted::ports::{self, HANDOVER_LIMIT, NodePlacement};
use rackweave_base::KeyRng;
use rackweave_control::Connection;
use rackweave_link::Link;
use rackweave_link::udp::{Hub, SealKeys};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

/// Nodes that have connected for their end of a shared-memory link, by the token that they sent.
#[derive(Default)]
pub(super) struct Waiting {
    arrived: Mutex<BTreeMap<String, (UnixStream, OwnedFd)>>,
    changed: Condvar,
}

impl Waiting {
    /// Maximum number of connections whose token has not been asked for.
    const MAX: usize = 256;

    pub fn put(&self, token: String, channel: UnixStream, memory: OwnedFd) {
        let mut arrived = self.arrived.lock().expect("no holder panics");
        if arrived.len() >= Self::MAX {
            // Tokens are random: this one is as likely as any other to be stale.
            arrived.pop_first();
        }
        arrived.insert(token, (channel, memory));
        self.changed.notify_all();
    }

    pub fn take(&self, token: &str) -> Option<(UnixStream, OwnedFd)> {
        let arrived = self.arrived.lock().expect("no holder panics");
        let absent = |arrived: &mut BTreeMap<_, _>| !arrived.contains_key(token);
        let waited = self
            .changed
            .wait_timeout_while(arrived, HANDOVER_LIMIT, absent);
        let (mut arrived, _) = waited.expect("no holder panics");
        arrived.remove(token)
    }
}

/// The switch's end of a node's link, before the node is admitted.
pub(super) enum End<'a> {
    /// It has been made.
    Open(Box<dyn Link>),
    /// It is made when the node has proven its address.
    Udp(&'a Hub, SocketAddr),
    /// It is made from the node's memory.
    Shared,
}

impl Acceptor<'_> {
    /// The switch's end of a node's link, as far as it can be made before the node knows of it.
    pub(super) fn end_of(
        &self,
        place: &NodePlacement<'_>,
        hello: &NodeHello,
        from: SocketAddr,
    ) -> Result<End<'_>, String> {
        // If a node bound no particular address, that of its control connection is used.
        let udp = hello.udp.map(|mut at| {
            if at.ip().is_unspecified() {
                at.set_ip(from.ip());
            }
            at
        });
        match hello.link {
            LinkKind::SharedMemory => Ok(End::Shared),
            LinkKind::Udp => self.check_udp(udp).map(|(hub, at)| End::Udp(hub, at)),
            LinkKind::Unix | LinkKind::Packet => ports::open_switch_end(place)
                .map(End::Open)
                .map_err(|error| error.to_string()),
        }
    }

    /// The switch's socket, and a node's claimed address, if it is possible.
    fn check_udp(&self, said: Option<SocketAddr>) -> Result<(&Hub, SocketAddr), String> {
        let hub = self
            .core
            .hub
            .as_ref()
            .ok_or("the switch has no UDP socket")?;
        let at = said.ok_or("the node did not say its UDP address")?;
        hub.mtu_to(at).map_err(|error| error.to_string())?;
        Ok((hub, at))
    }

    /// The end of a node's link in UDP, once its address is proven: only a process that receives
    /// packets at an address learns the token that is sent there. So no node can direct the
    /// switch's packets to others, or take over another's address.
    pub(super) fn prove(
        &self,
        hub: &Hub,
        at: SocketAddr,
        seal: Option<&SealKeys>,
        connection: &mut Connection,
    ) -> Result<Box<dyn Link>, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let patience = self.core.config.hosted().dead_after();
        let token = {
            let mut keys = KeyRng::system();
            (u128::from(keys.next_u64()) << 64 | u128::from(keys.next_u64())).to_be_bytes()
        };
        let until = Instant::now() + HANDOVER_LIMIT;
        loop {
            hub.challenge(at, &token).map_err(|e| text(&e))?;
            match connection
                .request(&NodeRequest::Prove, patience)
                .map_err(|e| text(&e))?
            {
                NodeReply::Token(Some(heard)) if heard == token => break,
                // Datagrams may be lost.
                NodeReply::Token(None) if Instant::now() < until => {}
                _ => return Err(format!("it is not at {at} for UDP, as it says")),
            }
        }
        let port = ports::udp_port(hub, at, seal).map_err(|e| text(&e))?;
        Ok(Box::new(port))
    }

    /// Takes a node's memory and hands over the node's end of the rings.
    pub(super) fn share(
        &self,
        place: &NodePlacement<'_>,
        token: &str,
        arena: Arc<Arena>,
    ) -> Result<(Box<dyn Link>, Shared), String> {
        let came = self.waiting.take(token);
        let (channel, descriptor) = came.ok_or("it did not come for its end of the link")?;
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let link = ports::share(place, &channel).map_err(|error| text(&error))?;
        arena.map(descriptor)?;
        Ok((link, Shared { arena, channel }))
    }
}

/// Keys of the switch's end of a link.
pub(super) fn seal_keys(keys: &mut KeyRng) -> SealKeys {
    let mut key = || {
        let halves = [keys.next_u64(), keys.next_u64()].map(u64::to_be_bytes);
        halves.as_flattened().try_into().expect("two halves")
    };
    SealKeys {
        sending: key(),
        receiving: key(),
    }
}
