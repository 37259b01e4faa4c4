//! Messages as bytes: a length and a JSON text. No sockets here.

use crate::ControlError;
use crate::hello::one_line;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum length of the body of a message, in bytes.
pub const MESSAGE_LEN_MAX: usize = 1 << 20;

/// Maximum length of the body of a hello, in bytes: smaller, because it comes from strangers.
pub const HELLO_LEN_MAX: usize = 16 << 10;

/// Bytes of the length before each body.
const PREFIX_LEN: usize = 4;

/// A body that exceeds the limit.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Its length, in bytes.
    pub len: usize,
    /// The limit, in bytes.
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

/// Decodes the value in the body of a message from `peer`.
///
/// # Errors
/// [`ControlError::Malformed`] if it is not a `T`.
pub fn decode<T: DeserializeOwned>(body: &[u8], peer: &str) -> Result<T, ControlError> {
    serde_json::from_slice(body).map_err(|error| ControlError::Malformed {
        peer: peer.to_string(),
        // The text quotes the received data.
        detail: one_line(&error.to_string()),
    })
}

/// Accepts bytes as they arrive and returns bodies as they become complete.
///
/// It holds the bytes that were passed in and not returned yet, and never allocates memory for
/// bytes that have only been announced.
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

    /// Sets the limit of later bodies to `limit` bytes.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Accepts the next bytes of the stream.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete body.
    ///
    /// # Errors
    /// Reported as soon as the length is known to exceed the limit; the stream is unusable after
    /// that.
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

    /// Whether part of a message has arrived.
    pub fn has_begun(&self) -> bool {
        !self.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests;
