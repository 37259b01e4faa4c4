//! How a program gets a rack.

use super::Rack;
use crate::build::RackError;
use crate::config::RackConfig;
use crate::{EmbeddedRack, SimulatedRack};

/// Builds a [`Rack`]: by default one in this process with room for all services at once
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
    /// Another configuration.
    pub fn config(mut self, config: RackConfig) -> Self {
        self.config = config;
        self
    }

    /// Changes the configuration.
    pub fn configure(mut self, change: impl FnOnce(&mut RackConfig)) -> Self {
        change(&mut self.config);
        self
    }

    /// Threads that drive the rack beside those that wait. A simulated rack has none.
    pub fn driver_threads(mut self, count: u32) -> Self {
        self.config.driver_threads = count;
        self
    }

    /// What everything random in a simulated rack follows from, and the faults of links in any.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = seed;
        self
    }

    /// A rack in virtual time, on modelled hardware: the same calls, and the same run for the same
    /// seed. It is for the thread that builds it; another one that uses it panics.
    pub fn simulated(mut self) -> Self {
        self.simulated = true;
        self
    }

    /// Builds and starts the rack.
    ///
    /// # Errors
    /// If the configuration makes no sense or the programs do not fit the switch.
    pub fn build(self) -> Result<Rack, RackError> {
        Ok(match self.simulated {
            false => EmbeddedRack::new(&self.config)?.into(),
            true => SimulatedRack::new(&self.config)?.into(),
        })
    }
}
