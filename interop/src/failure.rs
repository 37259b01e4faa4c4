//! Why a test failed, or the suite could not run.

use std::fmt::Display;
use std::io;

/// What ended a test.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// Why not.
        source: io::Error,
    },
    /// A guest answered a request with an error, or not in the form expected.
    #[error("guest {guest} answered `{request}` with `{answer}`")]
    Guest {
        /// Its number.
        guest: u8,
        /// The line sent.
        request: String,
        /// The line received; empty if the connection ended.
        answer: String,
    },
    /// Something did not happen in time.
    #[error("in vain: {0}")]
    Timeout(String),
    /// Something happened otherwise than it should.
    #[error("{0}")]
    Wrong(String),
    /// Where in a test it was.
    #[error("{place}: {source}")]
    At {
        /// The place.
        place: String,
        /// What went wrong there.
        source: Box<Failure>,
    },
}

/// How a test, or a step of one, ends.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Something of ours was refused that should work.
    pub fn refused(what: &str, error: impl Display) -> Self {
        Self::Wrong(format!("{what}: {error}"))
    }
}

/// Says where in a test a failure was.
pub trait Place<T> {
    /// Puts `place` before the failure, if it is one.
    fn at(self, place: impl Display) -> Outcome<T>;
}

impl<T> Place<T> for Outcome<T> {
    fn at(self, place: impl Display) -> Outcome<T> {
        self.map_err(|source| Failure::At {
            place: place.to_string(),
            source: Box::new(source),
        })
    }
}

/// Says what was being done when the system refused.
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

/// A failure unless `found` is what was expected.
pub fn expect_eq<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Outcome {
    if found == expected {
        return Ok(());
    }
    Err(Failure::Wrong(format!(
        "{what}: {found:?}, expected {expected:?}"
    )))
}

/// A failure with the text unless the condition holds.
pub fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(Failure::Wrong(otherwise()))
    }
}
