//! What goes wrong on links: on all, and on those of single nodes.

use super::check::{ConfigError, within};
use rackweave_base::Duration;
use rackweave_link::FaultConfig;
use serde::{Deserialize, Serialize};

/// What goes wrong, as probabilities per packet.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultSection {
    /// Lost.
    pub loss: f64,
    /// Delivered twice.
    pub duplicate: f64,
    /// Overtaken by later ones.
    pub reorder: f64,
    /// A bit flipped.
    pub corrupt: f64,
    /// Microseconds for which a packet that is overtaken is held back at most.
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

    /// The same for those of one node's link.
    pub(super) fn check_of_node(&self) -> Result<(), ConfigError> {
        self.check_as([
            "node.faults.loss",
            "node.faults.duplicate",
            "node.faults.reorder",
            "node.faults.corrupt",
            "node.faults.reorder_delay_us",
        ])
    }

    /// Checks under these names, which are in the order of the fields.
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

    /// Whether anything goes wrong at all.
    pub fn any(&self) -> bool {
        [self.loss, self.duplicate, self.reorder, self.corrupt]
            .iter()
            .any(|&rate| rate > 0.0)
    }

    /// The same for the links.
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

/// What goes wrong on the link of one node; what is not said is as for every link.
#[derive(Clone, Copy, PartialEq, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeFaults {
    /// Lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<f64>,
    /// Delivered twice.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<f64>,
    /// Overtaken by later ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder: Option<f64>,
    /// A bit flipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub corrupt: Option<f64>,
    /// Microseconds for which a packet that is overtaken is held back at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reorder_delay_us: Option<u64>,
}

impl NodeFaults {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What goes wrong on the node's link where `all` is what goes wrong on every link.
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
