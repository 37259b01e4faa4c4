//! Why a command ends without success, and its exit status.

use datafusion::common::DataFusionError;
use thiserror::Error;

/// A query failed, or a result differs.
pub const EXIT_FAILED: u8 = 1;
/// The command line or the set-up is wrong. `clap` uses the same status.
pub const EXIT_SET_UP: u8 = 2;
/// Ctrl-C; shells use 128 + the number of the signal.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Why a command ends without success.
#[derive(Debug, Error)]
pub enum CommandError {
    /// The arguments, the data or the workers do not allow the command to start.
    #[error("{0}")]
    SetUp(String),
    /// A query failed, or a result differs from what it must be.
    #[error("{0}")]
    Failed(String),
    /// The user pressed Ctrl-C.
    #[error("interrupted: the query was cancelled")]
    Interrupted,
}

impl CommandError {
    /// A set-up error.
    pub fn set_up(message: impl Into<String>) -> Self {
        Self::SetUp(message.into())
    }

    /// The status with which the process ends.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::SetUp(_) => EXIT_SET_UP,
            Self::Failed(_) => EXIT_FAILED,
            Self::Interrupted => EXIT_INTERRUPTED,
        }
    }
}

impl From<DataFusionError> for CommandError {
    fn from(error: DataFusionError) -> Self {
        Self::Failed(error.strip_backtrace())
    }
}
