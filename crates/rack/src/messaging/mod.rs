//! Connections between units of an embedded rack: who listens, who dials.
//!
//! A storage unit has a [`Listener`] at a TCP address, a compute unit [`dial`]s there. By
//! `endpoint::messaging::handshake` they come to an [`EmbeddedConnection`]; then the TCP stream is
//! closed, and the connection lives on by one-sided WRITEs (communication-tier, section 2.1). Units
//! come and go at any time.
//!
//! No thread is needed: [`Listener::accept`] and [`dial`] drive sockets and rack while they wait,
//! [`Listener::poll`] and [`Dialing::poll`] never block. Whatever a peer sends, however it ends,
//! the listener stays as it was; [`Listener::counters`] and [`Listener::take_failure`] tell an
//! operator who was refused, and why.
//!
//! A rack in this process cannot be reached from another one. So each says in the handshake which
//! it is, and refuses units of others.

mod connection;
mod dialing;
mod error;
mod listener;
mod stream;

#[cfg(test)]
mod tests;

use crate::build::Address;
use crate::{EmbeddedRack, NodeHandle};
use rackweave_base::{Duration, Memory, NodeId, Rng};
use rackweave_endpoint::messaging::{MessagingConfig, Role, UnitTerms};
use rackweave_verbs::{Mtu, NodeAccess};
use std::sync::Arc;

pub use connection::EmbeddedConnection;
pub use dialing::{Dialing, dial};
pub use error::{AcceptError, DialError, ListenError, UnitError};
pub use listener::{Failure, Listener, ListenerCounters};

/// How long a listener gives a compute unit for the handshake, unless told otherwise.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// Handshakes under way and connections not yet accepted that a listener has at most.
pub const PENDING_MAX: usize = 64;

/// What a unit is and has, on whichever side.
struct Unit {
    node: NodeHandle,
    memory: Memory,
    rng: Rng,
    config: MessagingConfig,
    terms: UnitTerms,
}

impl Unit {
    fn new(
        rack: &EmbeddedRack,
        node: NodeId,
        role: Role,
        config: MessagingConfig,
    ) -> Result<Self, UnitError> {
        let nodes = rack.config().node.len();
        if usize::from(node.0) >= nodes {
            return Err(UnitError::NoSuchNode { node, nodes });
        }
        config.check(role)?;
        let address = Address::of_node(node);
        let mtu = Mtu::from_bytes(rack.config().nic.mtu).unwrap_or(Mtu::B4096);
        let terms = UnitTerms::new(&config, fabric(rack), address.ip, address.mac, mtu);
        let node = rack.node(node);
        // Starting PSNs differ from one unit to the next, whatever the seed.
        let started = node.now().as_nanos();
        Ok(Self {
            memory: rack.memory().clone(),
            rng: Rng::new(rack.config().seed ^ started).fork(&role.to_string()),
            config,
            terms,
            node,
        })
    }
}

/// A number that tells this rack from all others, in this process and elsewhere: its configuration,
/// its process, its place in memory.
fn fabric(rack: &EmbeddedRack) -> u64 {
    let place = Arc::as_ptr(&rack.progress()).cast::<()>().addr() as u64;
    let process = u64::from(std::process::id());
    let parts = [rack.config().agreement(), process, place];
    let bytes = parts.iter().flat_map(|part| part.to_le_bytes());
    // FNV-1a: it guards against mistakes, not against malice. Zero would mean any rack.
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash.max(1)
}
