//! Why a test failed, or the suite could not run.

use std::fmt::Display;
use std::io;

/// Why a test ended.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The system refused an operation.
    #[error("{what}: {source}")]
    System {
        /// The operation.
        what: String,
        /// The reason.
        source: io::Error,
    },
    /// A guest answered a request with an error, or in an unexpected form.
    #[error("guest {guest} answered `{request}` with `{answer}`")]
    Guest {
        /// Its number.
        guest: u8,
        /// The line sent.
        request: String,
        /// The line received; empty if the connection ended.
        answer: String,
    },
    /// An event did not happen in time.
    #[error("in vain: {0}")]
    Timeout(String),
    /// A result was not the expected one.
    #[error("{0}")]
    Wrong(String),
    /// The location in a test.
    #[error("{place}: {source}")]
    At {
        /// The location.
        place: String,
        /// The failure there.
        source: Box<Failure>,
    },
}

/// The result of a test, or of a step of one.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// An operation of this project that should work was refused.
    pub fn refused(what: &str, error: impl Display) -> Self {
        Self::Wrong(format!("{what}: {error}"))
    }
}

/// Adds the location in a test to a failure.
pub trait FailureContext<T> {
    /// Puts `place` before the failure, if it is one.
    fn at(self, place: impl Display) -> Outcome<T>;
}

impl<T> FailureContext<T> for Outcome<T> {
    fn at(self, place: impl Display) -> Outcome<T> {
        self.map_err(|source| Failure::At {
            place: place.to_string(),
            source: Box::new(source),
        })
    }
}

/// Adds the operation that the system refused.
pub trait Doing<T> {
    /// Makes it a failure of `what`.
    fn doing(self, what: impl Display) -> Outcome<T>;
}

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, what: impl Display) -> Outcome<T> {
        self.map_err(|source| Failure::System {
            what: what.to_string(),
            source,
        })
    }
}

/// Fails unless `found` is what was expected.
pub fn expect_eq<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(Failure::Wrong(format!(
        "{what}: {found:?}, expected {expected:?}"
    )))
}

/// Fails with the text unless the condition holds.
pub fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(Failure::Wrong(otherwise()))
    }
}
