//! One model of a command's result: a JSON object (docs/JSON.md), from which its text is made. A
//! number or word is a line, an object a line of measures, a list of objects a table. Labels are
//! the keys; the suffix of a key is the unit. Null or empty values have no line.

use crate::live::words::{binary, depth, share};
use crate::mode::SIMULATED;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt::{self, Write};
use textwrap::{Options, WordSplitter};

/// Width of a terminal in columns.
pub const COLUMNS: usize = 80;

/// Suffixes of keys, how they are written, and how numbers are scaled.
const UNITS: [(&str, &str, Form); 14] = [
    ("gigabytes_per_second", " GB/s", Form::Digits(3)),
    ("gigabytes_per_s", " GB/s", Form::Digits(3)),
    ("gigabits_per_s", " Gbit/s", Form::Digits(3)),
    ("per_s", "", Form::Scaled),
    ("percent_of_a_core", " % of a core", Form::Digits(2)),
    ("bytes_max", " at most", Form::Bytes),
    ("bytes", "", Form::Bytes),
    ("ns", " us", Form::Micros),
    ("share", " %", Form::Percent),
    ("shares", " %", Form::Percent),
    ("time", " %", Form::Percent),
    ("utilisation", " %", Form::Percent),
    ("seconds", " s", Form::Seconds),
    ("s", " s", Form::Digits(6)),
];

/// Objects whose keys are names, such as those of counters, and are printed unchanged.
const NAMED: [&str; 7] = [
    "added",
    "counters",
    "drops",
    "other",
    "refused",
    "rogues_caught",
    "switch_counters",
];

#[derive(Clone, Copy)]
enum Form {
    /// In the largest unit that divides them.
    Bytes,
    Digits(usize),
    Scaled,
    /// For nanoseconds.
    Micros,
    /// For fractions of one.
    Percent,
    /// For seconds, of which there may be a field with the same name.
    Seconds,
}

/// How numbers of a key are printed.
#[derive(Clone, Copy)]
pub struct NumberUnit {
    name: &'static str,
    form: Form,
}

/// A large number scaled to thousands, millions or billions.
pub fn scaled(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{:.2} G", n / 1e9),
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e3 => format!("{:.2} k", n / 1e3),
        n => format!("{n:.2} "),
    }
}

/// `text` in lines that fit the terminal, all but the first indented; no line ends at a
/// non-breaking space, and these are replaced.
pub fn wrapped(text: &str, indent: usize) -> String {
    let indent = " ".repeat(indent);
    let options = Options::new(COLUMNS - 1)
        .subsequent_indent(&indent)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(text, options).replace('\u{a0}', " ") + "\n"
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

/// The label of a key, and the unit of its numbers.
fn label(key: &str) -> (String, Option<NumberUnit>) {
    let is_whole = |rest: &str| rest.is_empty() || rest.ends_with('_');
    let found = UNITS.iter().find_map(|&(ending, name, form)| {
        let rest = key.strip_suffix(ending).filter(|rest| is_whole(rest))?;
        Some((rest.trim_end_matches('_'), NumberUnit { name, form }))
    });
    let Some((rest, unit)) = found else {
        return match is_rank(key) {
            true => (key.replace('_', "."), None),
            false => (key.replace('_', " "), None),
        };
    };
    let words = match (rest, unit.form) {
        ("", Form::Digits(3)) => "throughput",
        ("", _) | (_, Form::Percent | Form::Scaled | Form::Seconds) => key,
        (rest, _) => rest,
    };
    let words = match words.strip_suffix("_per_s") {
        Some(counted) => format!("{counted}/s"),
        None => words.to_owned(),
    };
    (words.replace('_', " "), Some(unit))
}

/// Whether a key is a percentile with a fraction: `p99_9`.
fn is_rank(key: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let rank = key.strip_prefix('p').and_then(|rank| rank.split_once('_'));
    rank.is_some_and(|(whole, fraction)| digits(whole) && digits(fraction))
}

/// A number, word or flag.
fn scalar(value: &Value, unit: Option<NumberUnit>) -> String {
    let (text, name) = match (value, unit) {
        (Value::Number(number), Some(NumberUnit { name, form })) => {
            let float = number.as_f64().unwrap_or_default();
            let text = match form {
                Form::Bytes => number.as_u64().map_or_else(|| number.to_string(), binary),
                Form::Micros => format!("{:.3}", float / 1e3),
                Form::Percent => format!("{:.1}", float * 100.0),
                Form::Scaled => scaled(float).trim_end().to_owned(),
                Form::Seconds => format!("{float:.6}"),
                Form::Digits(_) if number.is_u64() => number.to_string(),
                Form::Digits(digits) => format!("{float:.digits$}"),
            };
            (text, name)
        }
        (Value::Number(number), None) if number.is_f64() => {
            (format!("{:.3}", number.as_f64().unwrap_or_default()), "")
        }
        (Value::Bool(is_so), _) => (if *is_so { "yes" } else { "no" }.into(), ""),
        (Value::String(text), _) => (text.clone(), ""),
        (Value::Null, _) => ("-".into(), ""),
        (other, _) => (other.to_string(), ""),
    };
    text + name
}

fn is_scalar(value: &Value) -> bool {
    !value.is_object() && !value.is_array()
}

/// Whether a value fits into a table or into a line beside it.
fn is_flat(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.iter().all(is_scalar),
        Value::Object(map) => map.values().all(is_scalar),
        _ => true,
    }
}

/// An object of scalars in one line; `unit` is that of numbers without one.
fn measures(map: &Map<String, Value>, unit: Option<NumberUnit>) -> String {
    let measure = |(key, value): (&String, &Value)| {
        let (label, own) = label(key);
        let is_count = ["samples", "items", "messages"].contains(&key.as_str());
        let unit = own.or(unit.filter(|_| !is_count));
        let text = format!("{label} {}", scalar(value, unit));
        // A number stays beside its unit and its label.
        match value.is_string() {
            true => text,
            false => text.replace(' ', "\u{a0}"),
        }
    };
    let reported = map.iter().filter(|(_, value)| is_reported(value));
    reported.map(measure).collect::<Vec<_>>().join(", ")
}

/// An object of scalars in one line, whatever its keys are.
fn line_of(key: &str, map: &Map<String, Value>, unit: Option<NumberUnit>) -> String {
    if !NAMED.contains(&key) {
        return measures(map, unit);
    }
    let one = |(name, value): (&String, &Value)| {
        format!("{name} {}", scalar(value, None)).replace(' ', "\u{a0}")
    };
    map.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A list of objects with the same keys as a table; `unit` is that of numbers without one. Words
/// are aligned to the left. Empty columns, and those of objects, are omitted. A table wider than
/// the terminal has one blank between its columns.
pub fn table(rows: &[&Map<String, Value>], unit: Option<NumberUnit>) -> String {
    let of = |key| {
        rows.iter()
            .map(move |row| row.get(key).unwrap_or(&Value::Null))
    };
    let keys = rows.first().into_iter().flat_map(|row| row.keys());
    let keys = keys.filter(|key| of(*key).any(is_reported) && !of(*key).any(Value::is_object));
    let columns = keys.map(|key| {
        let (label, own) = label(key);
        let is_words = |value: &Value| match value {
            Value::String(text) => !is_amount(text),
            other => other.is_array(),
        };
        let cells = of(key).map(|value| match value {
            Value::Array(list) => words(key, list, own.or(unit)),
            value => scalar(value, own.or(unit)),
        });
        let cells: Vec<_> = std::iter::once(label).chain(cells).collect();
        let width = cells.iter().map(|cell| cell.chars().count()).max();
        (cells, width.unwrap_or(0), of(key).any(is_words))
    });
    let columns: Vec<_> = columns.collect();
    let width: usize = columns.iter().map(|(_, width, _)| width + 2).sum();
    let gap = if width < COLUMNS { "  " } else { " " };
    let line = |row| {
        let cells = columns.iter().map(|(cells, width, words)| match words {
            true => format!("{:<width$}", cells[row]),
            false => format!("{:>width$}", cells[row]),
        });
        let line = cells.collect::<Vec<_>>().join(gap);
        let indent = if width < COLUMNS { gap } else { "" };
        format!("{indent}{}\n", line.trim_end())
    };
    (0..=rows.len()).map(line).collect()
}

/// A list of objects as a table and the objects that it omits, unless they contain more than fits
/// these, or the terminal.
fn rows_of(rows: &[&Map<String, Value>], unit: Option<NumberUnit>) -> Option<String> {
    let table = table(rows, unit);
    let all = |fits: fn(&Value) -> bool| rows.iter().all(|row| row.values().all(fits));
    let is_narrow = table.lines().all(|line| line.chars().count() < COLUMNS);
    (all(is_scalar) || all(is_flat) && is_narrow).then(|| table + &beside(rows))
}

/// What a table omits: the objects of each row, below the value in the row's first column.
fn beside(rows: &[&Map<String, Value>]) -> String {
    let mut text = String::new();
    for row in rows {
        let name = row.values().next().map(|first| scalar(first, None));
        let name = name.unwrap_or_default();
        for (key, value) in row.iter().filter(|(_, value)| is_reported(value)) {
            if let Value::Object(map) = value {
                let (label, unit) = label(key);
                let reported = line_of(key, map, unit);
                text += &wrapped(&format!("  {name} {label}: {reported}"), 4);
            }
        }
    }
    text
}

/// Whether a word is a number, with or without a unit: `480k`, `6.53 GB/s`, but not `64 bytes
/// each`.
fn is_amount(text: &str) -> bool {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let digits = number.trim_end_matches(char::is_alphabetic);
    let is_number = text.is_empty() || digits.parse::<f64>().is_ok();
    is_number && (unit.is_empty() || number.contains('.'))
}

/// The text of an object.
pub struct Text<'a>(pub &'a Map<String, Value>);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reported = || self.0.iter().filter(|(_, value)| is_reported(value));
        let labels = reported().filter(|(_, value)| is_scalar(value));
        let labels = labels.map(|(key, _)| label(key).0.chars().count());
        let width = labels.max().unwrap_or(0) + 1;
        for (key, value) in reported() {
            let (label, unit) = label(key);
            let line = |text: &str| wrapped(&format!("{label}: {text}"), 2);
            match value {
                Value::Object(map) if map.values().all(is_scalar) => {
                    f.write_str(&line(&line_of(key, map, unit)))?;
                }
                Value::Object(map) => write_block(f, &label, map)?,
                Value::Array(list) => {
                    let maps: Vec<_> = list.iter().filter_map(Value::as_object).collect();
                    if maps.len() < list.len() {
                        f.write_str(&line(&words(key, list, unit)))?;
                    } else if let Some(text) = rows_of(&maps, unit) {
                        write!(f, "{label}:\n{text}")?;
                    } else {
                        maps.iter()
                            .try_for_each(|map| write_block(f, &label, map))?;
                    }
                }
                value => {
                    let virtually = match value.as_str() {
                        Some(SIMULATED) if key == "mode" => ", in virtual time",
                        _ => "",
                    };
                    let (label, value) = (label + ":", scalar(value, unit) + virtually);
                    f.write_str(&wrapped(&format!("{label:<width$}  {value}"), 2))?;
                }
            }
        }
        Ok(())
    }
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

/// A list of numbers or words; queries by position also have their shares.
fn words(key: &str, list: &[Value], unit: Option<NumberUnit>) -> String {
    let whole: f64 = list.iter().filter_map(Value::as_f64).sum();
    let word = |(at, value): (usize, &Value)| {
        let text = scalar(value, unit);
        place(key, at).map_or(text.clone(), |place| {
            let part = share(value.as_f64().unwrap_or_default(), whole);
            format!("{place} {text} ({part})").replace(' ', "\u{a0}")
        })
    };
    let is_sentence = |value: &Value| value.as_str().is_some_and(|text| text.contains(' '));
    let between = match list.iter().any(is_sentence) {
        true => "; ",
        false => ", ",
    };
    let words: Vec<_> = list.iter().enumerate().map(word).collect();
    words.join(between)
}

/// The meaning of a list's positions, if they are queries of an index: the depth to which they were
/// led, or the level of the tree node that they were led to.
fn place(key: &str, at: usize) -> Option<String> {
    match (key, at) {
        ("queries_led", 0) => Some("leaves".into()),
        ("queries_led", 7) => Some("level 7 or more".into()),
        ("queries_led", level) => Some(format!("level {level}")),
        _ => key.ends_with("by_depth").then(|| depth(at)),
    }
}

/// An object with more than measures: a heading, and its text indented.
fn write_block(f: &mut fmt::Formatter<'_>, label: &str, map: &Map<String, Value>) -> fmt::Result {
    writeln!(f, "{label}:")?;
    let mut text = String::new();
    write!(text, "{}", Text(map))?;
    text.lines().try_for_each(|line| writeln!(f, "  {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_object_reads_as_lines_with_units_and_tables() {
        let found = json!({
            "parameters": {"size_bytes": 64, "touch": false, "source": "storage0"},
            "messages": 200,
            "elapsed_s": 0.25,
            "messages_per_s": 1_310_000.0,
            "gigabytes_per_s": 8.5,
            "link_utilisation": 0.931,
            "latency_ns": {"samples": 200, "p50": 1500, "p99.9": 2250, "mean": 1600.5},
            "sweep": {
                "rounds": 3,
                "points": [
                    {"message_bytes": 65536, "below_neighbours": null},
                    {"message_bytes": 131_072, "below_neighbours": 0.25},
                ],
            },
            "left_out": null,
        });
        insta::assert_snapshot!(Text(found.as_object().expect("it is one")));
    }
}
