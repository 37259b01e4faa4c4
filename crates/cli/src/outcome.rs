//! The end of a command: a verdict, or an error in one line; and the exit status.
//!
//! Exit status 0 is a passed verdict, 1 a failed one, 2 bad usage or a rack that could not do what
//! was requested, 130 an interruption.

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
///
/// It is made from any error, so it is none itself.
#[derive(Debug)]
pub struct CliError(String);

impl CliError {
    /// Bad usage: arguments that contradict each other or are invalid here.
    pub fn usage(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// A failure while a rack ran.
    pub fn run(message: impl fmt::Display) -> Self {
        Self(message.to_string())
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Scripts read one line, so line breaks in library messages are replaced.
        f.write_str(&self.0.replace(['\n', '\r'], " "))
    }
}

impl<E: std::error::Error> From<E> for CliError {
    fn from(error: E) -> Self {
        Self::run(error)
    }
}

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
