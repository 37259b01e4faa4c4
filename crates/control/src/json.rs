//! Values from JSON texts.

use serde::de::DeserializeOwned;

/// The value of a JSON text.
///
/// # Errors
/// If it is no JSON text, or not that of a `T`.
pub fn parse_json<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    // Not directly: the code that reads a type is then generated once, not for each kind of text,
    // and there are some hundred types.
    serde_json::from_value(serde_json::from_slice(json)?)
}
