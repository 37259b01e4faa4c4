//! What an answer is if the controller has not answered.

use super::AskError;
use crate::index::KeyWeights;
use crate::{FlowError, LaneError, Loss, NameError, PageSetUpError, SequencerSetUpError};
use rackweave_programs::index::entries::IndexCounters;
use serde::{Deserialize, Serialize};

/// Answers that can say that there is none.
pub trait Answer: Sized {
    /// The answer to a request that the controller has not answered: an error, or nothing.
    fn unanswered(why: AskError) -> Self;
}

impl<T, E: From<AskError>> Answer for Result<T, E> {
    fn unanswered(why: AskError) -> Self {
        Err(why.into())
    }
}

macro_rules! nothing {
    ($($type:ty),*) => {
        $(impl Answer for $type {
            fn unanswered(_: AskError) -> Self {
                Self::default()
            }
        })*
    };
}

nothing!((), bool, Vec<Loss>, KeyWeights, IndexCounters);

impl<T> Answer for Option<T> {
    fn unanswered(_: AskError) -> Self {
        None
    }
}

macro_rules! through_lane {
    ($($type:ty),*) => {
        $(impl From<AskError> for $type {
            fn from(error: AskError) -> Self {
                LaneError::Controller(error).into()
            }
        })*
    };
}

through_lane!(FlowError, PageSetUpError, SequencerSetUpError);

/// Why a name was not given.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum ShareError {
    /// It cannot be given.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The controller was not reached.
    #[error(transparent)]
    Ask(#[from] AskError),
}

macro_rules! shared {
    ($($type:ty),*) => {
        $(impl From<ShareError> for $type {
            fn from(error: ShareError) -> Self {
                match error {
                    ShareError::Name(error) => error.into(),
                    ShareError::Ask(error) => error.into(),
                }
            }
        })*
    };
}

shared!(FlowError, SequencerSetUpError);
