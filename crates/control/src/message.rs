//! Messages as bytes: a length and a JSON text. No sockets here.

use crate::ControlError;
use crate::hello::one_line;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest body of a message, in bytes.
pub const MESSAGE_LEN_MAX: usize = 1 << 20;

/// The longest body of a hello, in bytes: less, for it comes from strangers.
pub const HELLO_LEN_MAX: usize = 16 << 10;

/// Bytes of the length before each body.
const PREFIX_LEN: usize = 4;

/// A body of more than the limit.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Its length, in bytes.
    pub len: usize,
    /// What was allowed, in bytes.
    pub limit: usize,
}

/// The bytes of `value` as one message to `peer`, its body at most `limit` bytes.
///
/// # Errors
/// [`ControlError::TooLong`], or [`ControlError::Malformed`] if the value has no JSON form.
pub fn encode<T: Serialize>(value: &T, limit: usize, peer: &str) -> Result<Vec<u8>, ControlError> {
    let peer = peer.to_string();
    let mut bytes = vec![0; PREFIX_LEN];
    if let Err(error) = serde_json::to_writer(&mut bytes, value) {
        let detail = format!("it cannot be written: {error}");
        return Err(ControlError::Malformed { peer, detail });
    }
    let len = bytes.len() - PREFIX_LEN;
    match u32::try_from(len) {
        Ok(prefix) if len <= limit => {
            bytes[..PREFIX_LEN].copy_from_slice(&prefix.to_be_bytes());
            Ok(bytes)
        }
        _ => Err(ControlError::TooLong { peer, len, limit }),
    }
}

/// The value that the body of a message from `peer` says.
///
/// # Errors
/// [`ControlError::Malformed`] if it says no `T`.
pub fn decode<T: DeserializeOwned>(body: &[u8], peer: &str) -> Result<T, ControlError> {
    serde_json::from_slice(body).map_err(|error| ControlError::Malformed {
        peer: peer.to_string(),
        // It quotes what came.
        detail: one_line(&error.to_string()),
    })
}

/// Takes bytes as they come, gives bodies as they are complete.
///
/// It holds what was handed in and not yet given out, and never sets memory aside for bytes that
/// have only been announced.
#[derive(Debug)]
pub struct MessageReader {
    bytes: Vec<u8>,
    limit: usize,
}

impl MessageReader {
    /// A reader of bodies of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            limit,
        }
    }

    /// From here on bodies may have `limit` bytes.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Takes the next bytes of the stream.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete body.
    ///
    /// # Errors
    /// As soon as the length is known to be above the limit; the stream is of no use after that.
    pub fn poll_body(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        let Some(prefix) = self.bytes.first_chunk::<PREFIX_LEN>() else {
            return Ok(None);
        };
        let len = usize::try_from(u32::from_be_bytes(*prefix)).unwrap_or(usize::MAX);
        if len > self.limit {
            return Err(TooLong {
                len,
                limit: self.limit,
            });
        }
        if self.bytes.len() < PREFIX_LEN + len {
            return Ok(None);
        }
        let rest = self.bytes.split_off(PREFIX_LEN + len);
        let mut body = std::mem::replace(&mut self.bytes, rest);
        body.drain(..PREFIX_LEN);
        Ok(Some(body))
    }

    /// Whether part of a message is here.
    pub fn has_begun(&self) -> bool {
        !self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests;
