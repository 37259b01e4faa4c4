//! Captures at the switch: received and sent packets, with the reason of every drop.

use crate::outcome::CliError;
use rackweave_base::Memory;
use rackweave_link::{CaptureOptions, SharedCapture};
use rackweave_rack::{RackConfig, SwitchCapture};
use rackweave_switch::Tap;
use serde::Serialize;
use std::path::Path;

/// A capture that runs until it is finished.
pub struct Recording {
    capture: SharedCapture,
    file: String,
}

/// The contents of a capture.
#[derive(Clone, Debug, Serialize)]
pub struct CaptureReport {
    pub file: String,
    pub packets: u64,
    pub bytes: u64,
}

impl Recording {
    /// Starts a capture in a new file at `path`. Its interfaces are the switch's ports, named after
    /// the nodes and foreign hosts.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn start(path: &Path, config: &RackConfig, memory: &Memory) -> Result<Self, CliError> {
        let nodes = config.node.iter().map(|node| node.name.clone());
        let hosts = config.host.iter().map(|host| host.name.clone());
        let options = CaptureOptions {
            ports: nodes.chain(hosts).collect(),
            bytes_max: None,
        };
        Ok(Self {
            capture: SharedCapture::create(path, &options, memory.clone())?,
            file: path.display().to_string(),
        })
    }

    /// The tap for the switch's `set_tap`.
    pub fn tap(&self) -> Box<dyn Tap> {
        Box::new(SwitchCapture(self.capture.clone()))
    }

    /// Ends the capture and reports its contents.
    ///
    /// # Errors
    /// If it could not be written.
    pub fn finish(self) -> Result<CaptureReport, CliError> {
        let summary = self.capture.finish()?;
        Ok(CaptureReport {
            file: self.file,
            packets: summary.packets,
            bytes: summary.bytes,
        })
    }
}
