//! HTTP headers: how `datafusion-distributed` carries the options of a session.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::CodecError;

/// One header. A name that has several values comes several times, in order.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HeaderWire {
    #[prost(string, tag = "1")]
    name: String,
    /// Bytes: a header's value need not be UTF-8.
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

pub(super) fn encode(headers: &HeaderMap) -> Vec<HeaderWire> {
    let one = |(name, value): (&HeaderName, &HeaderValue)| HeaderWire {
        name: name.as_str().to_owned(),
        value: value.as_bytes().to_vec(),
    };
    headers.iter().map(one).collect()
}

pub(super) fn decode(wire: Vec<HeaderWire>) -> Result<HeaderMap, CodecError> {
    let invalid = |error: &dyn std::fmt::Display| CodecError::invalid("headers", error);
    let mut headers = HeaderMap::new();
    for header in wire {
        let name =
            HeaderName::from_bytes(header.name.as_bytes()).map_err(|error| invalid(&error))?;
        let value = HeaderValue::from_bytes(&header.value).map_err(|error| invalid(&error))?;
        // A map of headers has a maximum size, and panics in its other methods.
        headers
            .try_append(name, value)
            .map_err(|error| invalid(&error))?;
    }
    Ok(headers)
}
