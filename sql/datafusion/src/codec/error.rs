//! Errors of a query, which keep their type across nodes.
//!
//! A query on several nodes fails with the error that it fails with on one: what a user matches on
//! is the same. What can't be built from its parts arrives as
//! [`DataFusionError::External`] around a [`PeerError`], with its text: errors of other crates,
//! joins of `tokio` tasks, SQL and Parquet errors. Of a diagnostic only the message crosses.

mod arrow;
mod io;
mod object_store;
mod schema;

use std::sync::Arc;

use datafusion::common::{DataFusionError, Diagnostic};
use prost::Message as _;

/// Levels of context, sharing and collections around an error. What is nested deeper is text.
const DEPTH_MAX: usize = 16;

/// An error of a peer whose type did not cross: its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct PeerError {
    /// What the error said on the peer.
    pub text: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ErrorWire {
    #[prost(oneof = "ErrorKind", tags = "1, 2, 3, 4, 5, 6, 7, 8, 9")]
    kind: Option<ErrorKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum ErrorKind {
    #[prost(message, tag = "1")]
    Text(TextWire),
    #[prost(message, tag = "2")]
    Arrow(arrow::ArrowWire),
    #[prost(message, tag = "3")]
    Io(io::IoWire),
    #[prost(message, tag = "4")]
    Schema(schema::SchemaErrorWire),
    #[prost(message, tag = "5")]
    ObjectStore(object_store::ObjectStoreWire),
    #[prost(message, tag = "6")]
    Context(Box<AroundWire>),
    #[prost(message, tag = "7")]
    Diagnostic(Box<AroundWire>),
    #[prost(message, tag = "8")]
    Shared(Box<AroundWire>),
    #[prost(message, tag = "9")]
    Collection(CollectionWire),
}

/// An error that is nothing but its text.
#[derive(Clone, PartialEq, prost::Message)]
struct TextWire {
    #[prost(enumeration = "TextKind", tag = "1")]
    kind: i32,
    #[prost(string, tag = "2")]
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum TextKind {
    External = 0,
    NotImplemented = 1,
    Internal = 2,
    Plan = 3,
    Configuration = 4,
    Execution = 5,
    ResourcesExhausted = 6,
    Substrait = 7,
    Ffi = 8,
}

/// An error with something around it.
#[derive(Clone, PartialEq, prost::Message)]
struct AroundWire {
    /// The context, or the diagnostic's message.
    #[prost(string, tag = "1")]
    text: String,
    #[prost(message, optional, boxed, tag = "2")]
    inner: Option<Box<ErrorWire>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct CollectionWire {
    #[prost(message, repeated, tag = "1")]
    errors: Vec<ErrorWire>,
}

/// An error as the bytes that a stream fails with.
#[must_use]
pub fn encode_error(error: &DataFusionError) -> Vec<u8> {
    encode(error, DEPTH_MAX).encode_to_vec()
}

/// The error that a peer's stream failed with.
///
/// Bytes that are no error give a [`CodecError`](super::CodecError) as
/// [`DataFusionError::External`]: the stream has failed in any case.
#[must_use]
pub fn decode_error(bytes: &[u8]) -> DataFusionError {
    match ErrorWire::decode(bytes) {
        Ok(wire) => decode(wire),
        Err(error) => super::CodecError::from(error).into(),
    }
}

fn encode(error: &DataFusionError, depth: usize) -> ErrorWire {
    let text = |kind: TextKind, text: &str| {
        ErrorKind::Text(TextWire {
            kind: kind.into(),
            text: text.to_owned(),
        })
    };
    let around = |text: &str, inner: &DataFusionError| {
        let inner = Some(Box::new(encode(inner, depth - 1)));
        Box::new(AroundWire {
            text: text.to_owned(),
            inner,
        })
    };
    let kind = match error {
        DataFusionError::NotImplemented(message) => text(TextKind::NotImplemented, message),
        DataFusionError::Internal(message) => text(TextKind::Internal, message),
        DataFusionError::Plan(message) => text(TextKind::Plan, message),
        DataFusionError::Configuration(message) => text(TextKind::Configuration, message),
        DataFusionError::Execution(message) => text(TextKind::Execution, message),
        DataFusionError::ResourcesExhausted(message) => text(TextKind::ResourcesExhausted, message),
        DataFusionError::Substrait(message) => text(TextKind::Substrait, message),
        DataFusionError::Ffi(message) => text(TextKind::Ffi, message),
        DataFusionError::ArrowError(error, backtrace) => {
            ErrorKind::Arrow(arrow::encode(error, backtrace.as_ref()))
        }
        DataFusionError::IoError(error) => ErrorKind::Io(io::encode(error)),
        DataFusionError::SchemaError(error, backtrace) => {
            ErrorKind::Schema(schema::encode(error, (**backtrace).as_ref()))
        }
        DataFusionError::ObjectStore(error) => ErrorKind::ObjectStore(object_store::encode(error)),
        _ if depth == 0 => text(TextKind::External, &error.to_string()),
        DataFusionError::Context(message, inner) => ErrorKind::Context(around(message, inner)),
        DataFusionError::Diagnostic(diagnostic, inner) => {
            ErrorKind::Diagnostic(around(&diagnostic.message, inner))
        }
        DataFusionError::Shared(inner) => ErrorKind::Shared(around("", inner)),
        DataFusionError::Collection(errors) => ErrorKind::Collection(CollectionWire {
            errors: errors
                .iter()
                .map(|error| encode(error, depth - 1))
                .collect(),
        }),
        // External ones, joins, and SQL and Parquet where the features are on.
        _ => text(TextKind::External, &external_text(error)),
    };
    ErrorWire { kind: Some(kind) }
}

/// What is external is so at the receiver, and says it there.
fn external_text(error: &DataFusionError) -> String {
    if let DataFusionError::External(inner) = error {
        inner.to_string()
    } else {
        error.to_string()
    }
}

fn decode(wire: ErrorWire) -> DataFusionError {
    let Some(kind) = wire.kind else {
        return peer("an error of a kind that this version doesn't know".to_owned());
    };
    match kind {
        ErrorKind::Text(wire) => decode_text(wire),
        ErrorKind::Arrow(wire) => {
            let (error, backtrace) = arrow::decode(wire);
            DataFusionError::ArrowError(Box::new(error), backtrace)
        }
        ErrorKind::Io(wire) => DataFusionError::IoError(io::decode(wire)),
        ErrorKind::Schema(wire) => match schema::decode(wire) {
            Ok((error, backtrace)) => {
                DataFusionError::SchemaError(Box::new(error), Box::new(backtrace))
            }
            Err(error) => error.into(),
        },
        ErrorKind::ObjectStore(wire) => {
            DataFusionError::ObjectStore(Box::new(object_store::decode(wire)))
        }
        ErrorKind::Context(around) => {
            DataFusionError::Context(around.text, Box::new(decode_inner(around.inner)))
        }
        ErrorKind::Diagnostic(around) => DataFusionError::Diagnostic(
            Box::new(Diagnostic::new_error(around.text, None)),
            Box::new(decode_inner(around.inner)),
        ),
        ErrorKind::Shared(around) => DataFusionError::Shared(Arc::new(decode_inner(around.inner))),
        // A collection of nothing panics when it is shown.
        ErrorKind::Collection(wire) if wire.errors.is_empty() => peer("no errors".to_owned()),
        ErrorKind::Collection(wire) => {
            DataFusionError::Collection(wire.errors.into_iter().map(decode).collect())
        }
    }
}

fn decode_text(wire: TextWire) -> DataFusionError {
    let TextWire { kind, text } = wire;
    match TextKind::try_from(kind).unwrap_or(TextKind::External) {
        TextKind::NotImplemented => DataFusionError::NotImplemented(text),
        TextKind::Internal => DataFusionError::Internal(text),
        TextKind::Plan => DataFusionError::Plan(text),
        TextKind::Configuration => DataFusionError::Configuration(text),
        TextKind::Execution => DataFusionError::Execution(text),
        TextKind::ResourcesExhausted => DataFusionError::ResourcesExhausted(text),
        TextKind::Substrait => DataFusionError::Substrait(text),
        TextKind::Ffi => DataFusionError::Ffi(text),
        TextKind::External => peer(text),
    }
}

fn decode_inner(inner: Option<Box<ErrorWire>>) -> DataFusionError {
    inner.map_or_else(
        || peer("an error without a cause".to_owned()),
        |inner| decode(*inner),
    )
}

fn peer(text: String) -> DataFusionError {
    DataFusionError::External(Box::new(PeerError { text }))
}

#[cfg(test)]
mod tests;
