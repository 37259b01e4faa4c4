//! The fault rates of a link, and the check of their values.

use rackweave_base::Duration;

/// The rates of faults. The default injects none.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FaultConfig {
    /// Probability that a packet is lost.
    pub loss: f64,
    /// Number of consecutive packets lost with each loss, including the first; at least 1.
    pub loss_burst: u32,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
    /// Probability that a packet is delayed, so that later ones overtake it.
    pub reorder: f64,
    /// Maximum delay; each delay is drawn between one nanosecond and this.
    pub reorder_delay: Duration,
    /// Probability that one bit after the Ethernet header is flipped.
    pub corrupt: f64,
}

/// Why a [`FaultConfig`] is invalid.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum FaultError {
    /// A probability is outside `0..=1`.
    #[error("the probability `{name}` is {value}; it must be between 0 and 1")]
    Probability {
        /// The name of the probability.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// A burst has no packets.
    #[error("`loss_burst` is 0; a loss takes at least the packet itself, so set 1")]
    EmptyBurst,
    /// Packets are to be reordered with a maximum delay of zero.
    #[error(
        "`reorder` is {reorder} but `reorder_delay` is 0; set a delay for others to overtake in"
    )]
    NoDelay {
        /// The probability of reordering.
        reorder: f64,
    },
}

impl Default for FaultConfig {
    fn default() -> Self {
        Self {
            loss: 0.0,
            loss_burst: 1,
            duplicate: 0.0,
            reorder: 0.0,
            reorder_delay: Duration::from_micros(10),
            corrupt: 0.0,
        }
    }
}

impl FaultConfig {
    /// Checks that the values are valid.
    ///
    /// # Errors
    /// The invalid value.
    pub fn check(&self) -> Result<(), FaultError> {
        let probabilities = [
            ("loss", self.loss),
            ("duplicate", self.duplicate),
            ("reorder", self.reorder),
            ("corrupt", self.corrupt),
        ];
        for (name, value) in probabilities {
            if !(0.0..=1.0).contains(&value) {
                return Err(FaultError::Probability { name, value });
            }
        }
        if self.loss_burst == 0 {
            return Err(FaultError::EmptyBurst);
        }
        if self.reorder > 0.0 && self.reorder_delay == Duration::ZERO {
            return Err(FaultError::NoDelay {
                reorder: self.reorder,
            });
        }
        Ok(())
    }

    /// Whether any packet may fail to arrive once, intact and in order.
    pub(super) fn harms_delivery(&self) -> bool {
        self.loss > 0.0 || self.duplicate > 0.0 || self.reorder > 0.0 || self.corrupt > 0.0
    }
}
