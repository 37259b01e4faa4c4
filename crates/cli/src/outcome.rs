//! The end of a command: a verdict, or an error in one line; and the exit status.
//!
//! Exit status 0 is a passed verdict, 1 a failed one, 2 bad usage or a rack that could not do what
//! was requested, 130 an interruption.

use rackweave_base::memory::MemoryError;
use rackweave_control::KeyError;
use rackweave_controller::{FlowError, LaneError};
use rackweave_link::CaptureError;
use rackweave_rack::hosted::HostedError;
use rackweave_rack::{ConfigError, RackError};
use rackweave_verbs::{CqError, PostError, QpError, RegisterError};
use std::fmt;
use std::io::Write;
use std::process::ExitCode;

const EXIT_FAILED: u8 = 1;
const EXIT_USAGE: u8 = 2;
const EXIT_INTERRUPTED: u8 = 130;

/// The result of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Everything verified.
    Passed,
    /// Something failed verification.
    Failed,
    /// A process that runs until it is stopped was stopped.
    Ended,
}

impl Verdict {
    /// Passed if `verified`.
    pub fn of(verified: bool) -> Self {
        if verified { Self::Passed } else { Self::Failed }
    }
}

/// Why a command has no verdict. One line: what is wrong and what to do.
#[derive(Debug)]
pub enum CliError {
    /// Arguments that contradict each other or are invalid here.
    Usage(String),
    /// The configuration is invalid.
    Config(String),
    /// The rack could not be built.
    Rack(String),
    /// The capture could not be created or is incomplete.
    Capture(String),
    /// The rack could not do what was requested.
    Run(String),
}

impl CliError {
    /// Bad usage.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// A failure while a rack ran.
    pub fn run(message: impl fmt::Display) -> Self {
        Self::Run(message.to_string())
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Usage(text)
        | Self::Config(text)
        | Self::Rack(text)
        | Self::Capture(text)
        | Self::Run(text)) = self;
        // Scripts read one line, so line breaks in library messages are replaced.
        f.write_str(&text.replace(['\n', '\r'], " "))
    }
}

impl std::error::Error for CliError {}

macro_rules! errors {
    ($($kind:ident: $error:ty),* $(,)?) => {
        $(impl From<$error> for CliError {
            fn from(error: $error) -> Self {
                Self::$kind(error.to_string())
            }
        })*
    };
}

errors!(
    Config: ConfigError,
    Rack: RackError,
    Capture: CaptureError,
    Run: CqError,
    Run: FlowError,
    Run: HostedError,
    Run: KeyError,
    Run: LaneError,
    Run: MemoryError,
    Run: PostError,
    Run: QpError,
    Run: RegisterError,
);

/// The exit status of a command.
pub fn exit_code(result: Result<Verdict, CliError>, interrupted: bool) -> ExitCode {
    match result {
        Err(error) => report(&error),
        Ok(Verdict::Ended) => ExitCode::SUCCESS,
        Ok(_) if interrupted => ExitCode::from(EXIT_INTERRUPTED),
        Ok(Verdict::Passed) => ExitCode::SUCCESS,
        Ok(Verdict::Failed) => ExitCode::from(EXIT_FAILED),
    }
}

/// Writes an error to standard error.
pub fn report(error: &CliError) -> ExitCode {
    // If standard error is closed, the exit status still reports the failure.
    let _ = writeln!(std::io::stderr(), "error: {error}");
    ExitCode::from(EXIT_USAGE)
}
