//! The messages of a distributed query as bytes.
//!
//! A stream between two nodes opens with a [`Request`]. What follows on it depends on the request:
//!
//! | request | to the worker | from the worker |
//! |---|---|---|
//! | [`Request::CoordinatorChannel`] | [`encode_to_worker`] | [`encode_to_coordinator`] |
//! | [`Request::ExecutePartition`] | nothing | [record batches](crate::batches) |
//! | [`Request::WorkerInfo`] | nothing | [`encode_worker_info`] |
//! | [`Request::Counters`] | nothing | [`encode_counters`] |
//!
//! A stream that fails ends with an [encoded error](encode_error). The format is Protocol Buffers,
//! declared in these modules and nowhere else: both ends are this crate. Field numbers are never
//! reused; a field that a peer doesn't know is skipped.
//!
//! Bytes of a peer are checked and never trusted: what is malformed is a [`CodecError`].

mod counters;
mod error;
mod headers;
mod metrics;
mod request;
mod sketch;
mod task;
mod to_coordinator;
mod to_worker;

#[cfg(test)]
mod tests;

pub use counters::{decode_counters, encode_counters};
pub use error::{PeerError, decode_error, encode_error};
pub use request::{
    Compression, Request, decode_request, encode_counters_request, encode_execute_task,
    encode_set_plan, encode_worker_info_request,
};
pub use to_coordinator::{
    FromWorker, decode_from_worker, decode_worker_info, encode_plan_accepted,
    encode_to_coordinator, encode_worker_info,
};
pub use to_worker::{decode_to_worker, encode_to_worker};

use datafusion::common::DataFusionError;
use uuid::Uuid;

/// Why bytes of a peer are no message.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The bytes are no Protocol Buffers message, or end early.
    #[error("a peer's message can't be decoded: {0}")]
    Protobuf(#[from] prost::DecodeError),
    /// A field is missing that the message must have.
    #[error("a peer's message lacks the field '{field}'")]
    Missing {
        /// Name of the field.
        field: &'static str,
    },
    /// A field has a value that it can't have.
    #[error("a peer's message has a wrong '{field}': {reason}")]
    Invalid {
        /// Name of the field.
        field: &'static str,
        /// What is wrong with the value.
        reason: String,
    },
}

impl CodecError {
    pub(crate) fn missing(field: &'static str) -> Self {
        Self::Missing { field }
    }

    pub(crate) fn invalid(field: &'static str, reason: &(impl std::fmt::Display + ?Sized)) -> Self {
        Self::Invalid {
            field,
            reason: reason.to_string(),
        }
    }
}

impl From<CodecError> for DataFusionError {
    fn from(error: CodecError) -> Self {
        Self::External(Box::new(error))
    }
}

fn to_u64(value: usize) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn to_usize(value: u64, field: &'static str) -> Result<usize, CodecError> {
    usize::try_from(value).map_err(|error| CodecError::invalid(field, &error))
}

fn to_uuid(bytes: &[u8], field: &'static str) -> Result<Uuid, CodecError> {
    Uuid::from_slice(bytes).map_err(|error| CodecError::invalid(field, &error))
}
