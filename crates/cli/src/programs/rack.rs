//! A rack of this process, embedded or simulated.

use crate::capture::{CaptureReport, Recording};
use crate::globals::Globals;
use crate::outcome::CliError;
use core::ops::Deref;
use rackweave_rack::testing::Taps;
use rackweave_rack::{EmbeddedRack, Rack, RackConfig, SimulatedRack};
use rackweave_verbs::Progress as Drive;
use std::path::Path;
use std::sync::Arc;

/// A rack of this process.
pub enum OwnRack {
    /// In real time, with the handle that drives it.
    Embedded(EmbeddedRack, Arc<dyn Drive>),
    /// In virtual time.
    Simulated(SimulatedRack),
}

impl Deref for OwnRack {
    type Target = Rack;

    fn deref(&self) -> &Rack {
        match self {
            Self::Embedded(rack, _) => rack,
            Self::Simulated(rack) => rack,
        }
    }
}

impl From<EmbeddedRack> for OwnRack {
    fn from(rack: EmbeddedRack) -> Self {
        let driver = rack.progress();
        Self::Embedded(rack, driver)
    }
}

impl OwnRack {
    /// Builds a rack; `top` and `stat` can observe an embedded one from now on.
    ///
    /// # Errors
    /// If the configuration is invalid or the programs do not fit the switch.
    pub fn new(
        config: &RackConfig,
        is_simulated: bool,
        globals: &Globals,
    ) -> Result<Self, CliError> {
        if is_simulated {
            return Ok(Self::Simulated(SimulatedRack::new(config)?));
        }
        let rack = EmbeddedRack::new(config)?;
        globals.live.watch(rack.observer());
        Ok(rack.into())
    }

    /// The simulated rack, if it is one.
    pub fn simulated(&self) -> Option<&SimulatedRack> {
        match self {
            Self::Embedded(..) => None,
            Self::Simulated(rack) => Some(rack),
        }
    }

    /// Starts a capture at the switch, if one is requested, in a new file at `path`.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn record(&self, path: Option<&Path>) -> Result<Option<Recording>, CliError> {
        let recording = path
            .map(|path| Recording::start(path, self.config(), self.memory()))
            .transpose()?;
        self.set_tap(recording.as_ref());
        Ok(recording)
    }

    /// Ends the capture.
    ///
    /// # Errors
    /// If it could not be written.
    pub fn recorded(
        &self,
        recording: Option<Recording>,
    ) -> Result<Option<CaptureReport>, CliError> {
        self.set_tap(None);
        recording.map(Recording::finish).transpose()
    }

    fn set_tap(&self, recording: Option<&Recording>) {
        let tap = recording.map(Recording::tap);
        match self {
            Self::Embedded(rack, _) => rack.set_tap(tap),
            Self::Simulated(rack) => rack.set_tap(tap),
        }
    }
}
