//! The builder of racks.

use super::Rack;
use crate::build::RackError;
use crate::config::RackConfig;
use crate::{EmbeddedRack, SimulatedRack};

/// Builds a [`Rack`]: by default one in this process with capacity for all services at once
/// ([`RackConfig::with_all_programs`]).
///
/// ```
/// use rackweave_rack::Rack;
///
/// let rack = Rack::builder().build()?;
/// let node = rack.node("compute0")?;
/// assert!(rack.node("compute9").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "it builds nothing before `build`"]
pub struct RackBuilder {
    config: RackConfig,
    simulated: bool,
}

impl Rack {
    /// Begins to build a rack.
    pub fn builder() -> RackBuilder {
        RackBuilder {
            config: RackConfig::with_all_programs(),
            simulated: false,
        }
    }
}

impl RackBuilder {
    /// Replaces the configuration.
    pub fn config(mut self, config: RackConfig) -> Self {
        self.config = config;
        self
    }

    /// Changes the configuration.
    pub fn configure(mut self, change: impl FnOnce(&mut RackConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Number of driver threads, besides threads that wait. A simulated rack has none.
    pub fn driver_threads(mut self, count: u32) -> Self {
        self.config.driver_threads = count;
        self
    }

    /// The seed of all randomness in a simulated rack, and of the faults of links in any rack.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// Selects a rack in virtual time, on modelled hardware: the same calls, and the same run for
    /// the same seed. Only the thread that builds it may use it; any other panics.
    pub fn simulated(mut self) -> Self {
        self.simulated = true;
        self
    }

    /// Builds and starts the rack.
    ///
    /// # Errors
    /// If the configuration is invalid or the programs do not fit the switch.
    pub fn build(self) -> Result<Rack, RackError> {
        Ok(match self.simulated {
            false => EmbeddedRack::new(&self.config)?.into(),
            true => SimulatedRack::new(&self.config)?.into(),
        })
    }
}
