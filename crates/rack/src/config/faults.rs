//! Faults of links: of all, and of those of single nodes.

use super::check::{ConfigError, within};
use rackweave_base::Duration;
use rackweave_link::FaultConfig;
use serde::{Deserialize, Serialize};

/// Faults, as probabilities per packet.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultSection {
    /// Lost.
    pub loss: f64,
    /// Delivered twice.
    pub duplicate: f64,
    /// Overtaken by later packets.
    pub reorder: f64,
    /// A bit flipped.
    pub corrupt: f64,
    /// Maximum microseconds for which an overtaken packet is held back.
    pub reorder_delay_us: u64,
}

impl Default for FaultSection {
    fn default() -> Self {
        Self {
            loss: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            corrupt: 0.0,
            reorder_delay_us: 5,
        }
    }
}

impl FaultSection {
    /// Checks that all rates are probabilities.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_as([
            "faults.loss",
            "faults.duplicate",
            "faults.reorder",
            "faults.corrupt",
            "faults.reorder_delay_us",
        ])
    }

    /// The same for the faults of one node's link.
    pub(super) fn check_of_node(&self) -> Result<(), ConfigError> {
        self.check_as([
            "node.faults.loss",
            "node.faults.duplicate",
            "node.faults.reorder",
            "node.faults.corrupt",
            "node.faults.reorder_delay_us",
        ])
    }

    /// Checks with these names for messages, in the order of the fields.
    fn check_as(&self, names: [&'static str; 5]) -> Result<(), ConfigError> {
        let [loss, duplicate, reorder, corrupt, delay] = names;
        for (setting, value) in [
            (loss, self.loss),
            (duplicate, self.duplicate),
            (reorder, self.reorder),
            (corrupt, self.corrupt),
        ] {
            let needed = "a probability from 0 to 0.5 is needed";
            within(setting, value, 0.0..=0.5, needed)?;
        }
        let (held, range) = (self.reorder_delay_us, "1 to 1000000 is possible");
        within(delay, held, 1..=1_000_000, range)
    }

    /// Whether any fault can occur.
    pub fn any(&self) -> bool {
        [self.loss, self.duplicate, self.reorder, self.corrupt]
            .iter()
            .any(|&rate| rate > 0.0)
    }

    /// The same in the form of the link crate.
    pub fn to_links(self) -> FaultConfig {
        FaultConfig {
            loss: self.loss,
            duplicate: self.duplicate,
            reorder: self.reorder,
            corrupt: self.corrupt,
            reorder_delay: Duration::from_micros(self.reorder_delay_us),
            ..FaultConfig::default()
        }
    }
}

/// Faults of the link of one node; values not set are those of all links.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeFaults {
    /// Lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Delivered twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<f64>,
    /// Overtaken by later packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<f64>,
    /// A bit flipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<f64>,
    /// Maximum microseconds for which an overtaken packet is held back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder_delay_us: Option<u64>,
}

impl NodeFaults {
    /// Whether no value is set.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The faults of the node's link if `all` are those of all links.
    pub fn over(&self, all: FaultSection) -> FaultSection {
        FaultSection {
            loss: self.loss.unwrap_or(all.loss),
            duplicate: self.duplicate.unwrap_or(all.duplicate),
            reorder: self.reorder.unwrap_or(all.reorder),
            corrupt: self.corrupt.unwrap_or(all.corrupt),
            reorder_delay_us: self.reorder_delay_us.unwrap_or(all.reorder_delay_us),
        }
    }
}
