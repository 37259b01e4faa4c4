//! What is said on the socket: one JSON object.

use rackweave_rack::statistics::RackStatistics;
use serde::{Deserialize, Serialize};

/// The schema. Its number changes when a reader of the old one would misunderstand the new one.
pub const SCHEMA: &str = "rackweave/live/1";

/// A command at one moment.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// What the user asked for.
    pub command: String,
    /// What it is doing; empty if it does not say.
    pub phase: String,
    /// For how long.
    pub phase_seconds: f64,
    /// For how long the command has been running.
    pub up_seconds: f64,
    /// How many racks it has had so far: two snapshots with one number are of one rack.
    pub racks: u32,
    /// Its rack, if it has one at the moment.
    pub rack: Option<RackStatistics>,
}

/// What every version has.
#[derive(Deserialize)]
struct Header {
    schema: String,
    #[serde(default)]
    version: String,
}

/// Why what was said cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// Another version speaks.
    #[error(
        "it tells of itself as {schema} (version {version}), this program reads {SCHEMA}; use \
         `top` and `stat` of the version that runs there"
    )]
    OtherSchema {
        /// Its schema.
        schema: String,
        /// Its version.
        version: String,
    },
    /// No snapshot at all.
    #[error("what it says is no snapshot: {0}")]
    NoSnapshot(String),
}

impl Snapshot {
    /// What `bytes` say.
    ///
    /// # Errors
    /// If they are no snapshot, or one of another version.
    pub fn read(bytes: &[u8]) -> Result<Self, ReadError> {
        let bad = |error: serde_json::Error| ReadError::NoSnapshot(error.to_string());
        let Header { schema, version } = serde_json::from_slice(bytes).map_err(bad)?;
        if schema != SCHEMA {
            let short = |text: String| text.chars().filter(|c| !c.is_control()).take(40).collect();
            return Err(ReadError::OtherSchema {
                schema: short(schema),
                version: short(version),
            });
        }
        serde_json::from_slice(bytes).map_err(bad)
    }
}
