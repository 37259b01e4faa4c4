//! Conversion of terms between machines and messages, and validation of a peer's keys.

use super::KeysError;
use crate::messaging::{Agreed, NodeTerms};
use rackweave_verbs::Mtu;
use rackweave_wire::fabric::message::handshake::{Keys, Terms, WriteTarget};
use std::collections::BTreeSet;

/// Converts terms for sending.
pub fn terms_to_wire(terms: &NodeTerms) -> Terms {
    Terms {
        fabric: terms.fabric,
        message_max: terms.message_max,
        receive_bytes: terms.receive_bytes,
        ip: terms.ip,
        mac: terms.mac,
        mtu_bytes: terms.mtu.bytes() as u16,
        receive_buffers: terms.receive_buffers,
        channels_up: terms.channels_up,
        channels_down: terms.channels_down,
        word_last: terms.word_last,
    }
}

/// Converts received terms.
///
/// # Panics
/// If their MTU is not an RDMA MTU, which cannot occur in a parsed message.
pub fn terms_from_wire(terms: &Terms) -> NodeTerms {
    NodeTerms {
        fabric: terms.fabric,
        ip: terms.ip,
        mac: terms.mac,
        mtu: Mtu::from_bytes(terms.mtu_bytes.into()).expect("a message has one of these"),
        receive_buffers: terms.receive_buffers,
        receive_bytes: terms.receive_bytes,
        message_max: terms.message_max,
        channels_up: terms.channels_up,
        channels_down: terms.channels_down,
        word_last: terms.word_last,
    }
}

/// Checks received keys against the agreed terms.
///
/// # Errors
/// If they are not valid.
pub(super) fn check_keys(keys: &Keys, agreed: &Agreed) -> Result<(), KeysError> {
    let expected = usize::from(agreed.channels_up) + usize::from(agreed.channels_down);
    let found = keys.queue_pairs.len();
    if found != expected {
        return Err(KeysError::QueuePairs { found, expected });
    }
    let mut seen = BTreeSet::new();
    if let Some(pair) = keys.queue_pairs.iter().find(|pair| !seen.insert(pair.qpn)) {
        return Err(KeysError::Twice(pair.qpn));
    }
    let terms = &agreed.theirs;
    let receive_bytes = u64::from(terms.receive_buffers) * u64::from(terms.receive_bytes);
    check_place("buffer info", keys.buffer_info, terms.buffer_info_len())?;
    check_place("receive buffers", keys.receive, receive_bytes)
}

fn check_place(what: &'static str, place: WriteTarget, bytes: u64) -> Result<(), KeysError> {
    let address = place.address;
    match address.checked_add(bytes) {
        Some(_) => Ok(()),
        None => Err(KeysError::Address {
            what,
            address,
            bytes,
        }),
    }
}
