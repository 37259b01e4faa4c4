//! Between the values of machines and those of messages.

use super::KeysError;
use crate::messaging::{Agreed, KeyedAddress, QueuePairName, UnitKeys, UnitTerms};
use rackweave_verbs::Mtu;
use rackweave_wire::fabric::message::BUFFER_INFO_LEN;
use rackweave_wire::fabric::message::handshake::{Keys, Place, QueuePair, Terms};
use std::collections::BTreeSet;

/// Terms as they are sent.
pub(super) fn terms_to_wire(terms: &UnitTerms) -> Terms {
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
    }
}

/// Terms that came.
pub(super) fn terms_from_wire(terms: &Terms) -> UnitTerms {
    UnitTerms {
        fabric: terms.fabric,
        ip: terms.ip,
        mac: terms.mac,
        mtu: Mtu::from_bytes(terms.mtu_bytes.into()).expect("a message has one of these"),
        receive_buffers: terms.receive_buffers,
        receive_bytes: terms.receive_bytes,
        message_max: terms.message_max,
        channels_up: terms.channels_up,
        channels_down: terms.channels_down,
    }
}

/// Keys as they are sent.
pub(super) fn keys_to_wire(keys: &UnitKeys) -> Keys {
    let place = |at: &KeyedAddress| Place {
        address: at.address,
        rkey: at.rkey,
    };
    let pair = |name: &QueuePairName| QueuePair {
        qpn: name.qpn,
        psn: name.psn,
    };
    Keys {
        queue_pairs: keys.queue_pairs.iter().map(pair).collect(),
        buffer_info: place(&keys.buffer_info),
        receive: place(&keys.receive),
    }
}

/// Keys that came, of a peer with which this was agreed on.
///
/// # Errors
/// If they cannot be its keys.
pub(super) fn keys_from_wire(keys: &Keys, agreed: &Agreed) -> Result<UnitKeys, KeysError> {
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
    let buffer_info = keyed("buffer info", keys.buffer_info, BUFFER_INFO_LEN)?;
    let receive = keyed("receive buffers", keys.receive, receive_bytes)?;
    let name = |pair: &QueuePair| QueuePairName {
        qpn: pair.qpn,
        psn: pair.psn,
    };
    Ok(UnitKeys {
        queue_pairs: keys.queue_pairs.iter().map(name).collect(),
        buffer_info,
        receive,
    })
}

fn keyed(what: &'static str, place: Place, bytes: u64) -> Result<KeyedAddress, KeysError> {
    let Place { address, rkey } = place;
    match address.checked_add(bytes) {
        Some(_) => Ok(KeyedAddress { address, rkey }),
        None => Err(KeysError::Address {
            what,
            address,
            bytes,
        }),
    }
}
