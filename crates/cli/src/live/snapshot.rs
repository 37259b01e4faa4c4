//! The content of a reply on the socket: one JSON object.

use rackweave_rack::statistics::RackStatistics;
use serde::{Deserialize, Serialize};

/// The schema. Its number changes when readers of the old schema would misunderstand the new one.
pub const SCHEMA: &str = "rackweave/live/1";

/// The state of a command at one moment.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Snapshot {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of the program.
    pub version: String,
    /// Its process id.
    pub pid: u32,
    /// Its command line.
    pub command: String,
    /// Its current phase; empty if it has none.
    pub phase: String,
    /// Duration of the phase so far.
    pub phase_seconds: f64,
    /// Running time of the command so far.
    pub up_seconds: f64,
    /// Number of racks so far: two snapshots with equal numbers are of one rack.
    pub racks: u32,
    /// Its rack, if it currently has one.
    pub rack: Option<RackStatistics>,
}

/// The fields that every version has.
#[derive(Deserialize)]
struct Header {
    schema: String,
    #[serde(default)]
    version: String,
}

/// Why a reply cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    /// It has another version.
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
    /// It is not a snapshot.
    #[error("what it says is no snapshot: {0}")]
    NoSnapshot(String),
}

impl Snapshot {
    /// Parses a snapshot.
    ///
    /// # Errors
    /// If `bytes` are no snapshot, or one of another version.
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
