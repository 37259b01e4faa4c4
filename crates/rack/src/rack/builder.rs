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
    kind: BuiltKind,
}

/// What is built.
#[derive(Clone, Debug)]
enum BuiltKind {
    Embedded,
    Simulated,
    #[cfg(feature = "hosted")]
    Joined(Vec<String>),
}

impl Rack {
    /// Begins to build a rack.
    pub fn builder() -> RackBuilder {
        RackBuilder {
            config: RackConfig::with_all_programs(),
            kind: BuiltKind::Embedded,
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
        self.kind = BuiltKind::Simulated;
        self
    }

    /// Selects a running rack of processes, which the configuration describes: this process becomes
    /// these of its nodes ([`Rack::join_as`]). The calls are the same.
    #[cfg(feature = "hosted")]
    pub fn join_as(mut self, nodes: &[&str]) -> Self {
        self.kind = BuiltKind::Joined(nodes.iter().map(|&name| name.to_owned()).collect());
        self
    }

    /// Builds and starts the rack, or joins it.
    ///
    /// # Errors
    /// If the configuration is invalid, the programs do not fit the switch, or the running rack
    /// does not admit the process.
    pub fn build(self) -> Result<Rack, RackError> {
        Ok(match self.kind {
            BuiltKind::Embedded => EmbeddedRack::new(&self.config)?.into(),
            BuiltKind::Simulated => SimulatedRack::new(&self.config)?.into(),
            #[cfg(feature = "hosted")]
            BuiltKind::Joined(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let joined = Rack::join_as(&self.config, &names);
                joined.map_err(|error| RackError::NotJoined(error.to_string()))?
            }
        })
    }
}
