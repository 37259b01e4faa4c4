//! One model of a command's result: a JSON object (docs/JSON.md), from which its other forms are
//! made.
//!
//! [`text()`] is for people, [`open_metrics`] for systems that monitor. Both take the unit of a
//! number from the suffix of its key (`units`); `table` lays out lists of objects.

pub mod open_metrics;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod units;
pub mod words;

pub use table::table;
pub use text::{text, titled};
pub use units::scaled;

use serde::Serialize;
use serde_json::{Map, Value};
use textwrap::{Options, WordSplitter};

/// Width of a terminal in columns.
pub const COLUMNS: usize = 80;

/// Objects whose keys are names, such as those of counters, and are printed unchanged.
const NAMED: [&str; 9] = [
    "added",
    "answers",
    "counters",
    "drops",
    "errors",
    "other",
    "refused",
    "rogues_caught",
    "switch_counters",
];

/// `text` in lines that fit the terminal, all but the first indented.
pub fn wrapped(text: &str, indent: usize) -> String {
    wrapped_in(text, indent, COLUMNS)
}

/// As [`wrapped()`], in lines that are shorter than `limit`.
fn wrapped_in(text: &str, indent: usize, limit: usize) -> String {
    let indent = " ".repeat(indent);
    let options = Options::new(limit - 1)
        .subsequent_indent(&indent)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(text, options) + "\n"
}

/// The JSON object of a value; empty if its JSON is not an object.
pub fn object(found: impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(found) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// A value without the keys of its object that are null.
pub fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(map) = &mut value {
        map.retain(|_, value| !value.is_null());
    }
    value
}

/// Merges objects into one.
pub fn joined(parts: impl IntoIterator<Item = Value>) -> Value {
    let maps = parts.into_iter().filter_map(|part| match part {
        Value::Object(map) => Some(map),
        _ => None,
    });
    Value::Object(maps.flatten().collect())
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

/// Whether a value is printed.
fn is_reported(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    }
}
