//! Static texts in values that are exchanged between processes.
//!
//! An error describes what was too small or out of range with a text of the program,
//! `&'static str`, so it is `Copy` and costs nothing. When an error is decoded from a message, its
//! text is kept for ever: each text once, with limits on number and length that no program of this
//! project exceeds.
//!
//! ```
//! # use serde::{Deserialize, Serialize};
//! use rackweave_base::text::{self, Text};
//!
//! #[derive(Serialize, Deserialize)]
//! struct OutOfRange {
//!     #[serde(with = "text")]
//!     what: Text,
//! }
//! ```

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// A text of the program. The alias prevents serde from borrowing it from the message.
pub type Text = &'static str;

/// Maximum number of texts kept, and maximum bytes of one.
const TEXTS_MAX: usize = 1024;
const BYTES_MAX: usize = 512;

static KEPT: Mutex<Option<HashSet<Text>>> = Mutex::new(None);

/// Serializes the text as a string.
///
/// # Errors
/// Errors of the serializer.
pub fn serialize<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    text.serialize(serializer)
}

/// Deserializes the text from a string.
///
/// # Errors
/// If the value is not a string, is too long, or there are too many different texts.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
    keep(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

fn keep(text: &str) -> Result<Text, &'static str> {
    if text.len() > BYTES_MAX {
        return Err("a fixed text of more than 512 bytes");
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = kept.get_or_insert_default();
    if let Some(known) = kept.get(text) {
        return Ok(known);
    }
    if kept.len() == TEXTS_MAX {
        return Err("more than 1024 different fixed texts");
    }
    let text: Text = Box::leak(text.into());
    kept.insert(text);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once_and_not_without_end() {
        let first = keep("indexed pages").unwrap();
        assert_eq!(
            keep(&String::from("indexed pages")).unwrap().as_ptr(),
            first.as_ptr()
        );
        assert!(keep(&"x".repeat(BYTES_MAX + 1)).is_err());
        let kept = (0..2 * TEXTS_MAX).map_while(|at| keep(&format!("text {at}")).ok());
        assert!(kept.count() < TEXTS_MAX);
        assert_eq!(
            keep("indexed pages"),
            Ok(first),
            "what is known is still given"
        );
    }
}
