//! Keys of the authentication codes in packets, as the controller sends them to a node.

use rackweave_link::udp::SealKeys;
use serde::{Deserialize, Serialize};

/// Keys of the authentication codes in packets.
#[derive(Serialize, Deserialize)]
pub(super) struct Seal {
    sending: [u8; 16],
    receiving: [u8; 16],
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seal(..)")
    }
}

impl From<SealKeys> for Seal {
    fn from(SealKeys { sending, receiving }: SealKeys) -> Self {
        Self { sending, receiving }
    }
}

impl From<Seal> for SealKeys {
    fn from(Seal { sending, receiving }: Seal) -> Self {
        Self { sending, receiving }
    }
}
