//! How often a link fails, and what makes no sense there.

use rackweave_base::Duration;

/// How often what goes wrong. The default harms nothing.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FaultConfig {
    /// Probability that a packet is lost.
    pub loss: f64,
    /// How many packets in a row go with each loss, itself included; at least 1.
    pub loss_burst: u32,
    /// Probability that a packet arrives twice.
    pub duplicate: f64,
    /// Probability that a packet is delayed, so that later ones overtake it.
    pub reorder: f64,
    /// The longest such delay; each is drawn between one nanosecond and this.
    pub reorder_delay: Duration,
    /// Probability that one bit behind the Ethernet header is flipped.
    pub corrupt: f64,
}

/// What is wrong with a [`FaultConfig`].
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum FaultError {
    /// A probability is outside `0..=1`.
    #[error("the probability `{name}` is {value}; it must be between 0 and 1")]
    Probability {
        /// Which one.
        name: &'static str,
        /// What it was set to.
        value: f64,
    },
    /// A burst of no packets.
    #[error("`loss_burst` is 0; a loss takes at least the packet itself, so set 1")]
    EmptyBurst,
    /// Packets are to be reordered by no delay at all.
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
    /// Whether the values make sense.
    ///
    /// # Errors
    /// Names the value that does not.
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

    /// Whether any packet may fail to arrive once, whole and in order.
    pub(super) fn harms_delivery(&self) -> bool {
        self.loss > 0.0 || self.duplicate > 0.0 || self.reorder > 0.0 || self.corrupt > 0.0
    }
}
