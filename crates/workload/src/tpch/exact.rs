//! Sums of 128 bits as decimal strings, for formats whose numbers are shorter.

use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::Serializer;

pub fn serialize<S: Serializer>(sum: &i128, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(sum)
}

pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<i128, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|error| {
        let message = format_args!("`{text}` is no sum of 128 bits: {error}");
        D::Error::custom(message)
    })
}
