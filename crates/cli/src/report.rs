//! One model of what a command found: a JSON object (docs/JSON.md), which is its text as well. A
//! number or word is a line, an object a line of measures, a list of objects a table. Labels are
//! the keys; what a key ends in is the unit.

use serde_json::{Map, Value};
use std::fmt::{self, Write};
use textwrap::{Options, WordSplitter};

/// Columns of a terminal.
pub const COLUMNS: usize = 80;

/// What keys end in, how it is written, and whether numbers are scaled.
const UNITS: [(&str, &str, Form); 9] = [
    ("gigabytes_per_s", " GB/s", Form::Digits(3)),
    ("gigabits_per_s", " Gbit/s", Form::Digits(3)),
    ("per_s", "", Form::Scaled),
    ("percent_of_a_core", " % of a core", Form::Digits(2)),
    ("bytes", " bytes", Form::Digits(0)),
    ("ns", " us", Form::Micros),
    ("share", " %", Form::Percent),
    ("utilisation", " %", Form::Percent),
    ("s", " s", Form::Digits(6)),
];

#[derive(Clone, Copy)]
enum Form {
    Digits(usize),
    Scaled,
    /// Of nanoseconds.
    Micros,
    /// Of a fraction of one.
    Percent,
}

/// How numbers of one key read.
#[derive(Clone, Copy)]
struct Unit {
    name: &'static str,
    form: Form,
}

/// A large number in thousands, millions or billions.
pub fn scaled(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{:.2} G", n / 1e9),
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e3 => format!("{:.2} k", n / 1e3),
        n => format!("{n:.2} "),
    }
}

/// `text` in lines that fit the terminal, those behind the first indented; none ends at a
/// non-breaking space, of which there are none left.
pub fn wrapped(text: &str, indent: usize) -> String {
    let indent = " ".repeat(indent);
    let options = Options::new(COLUMNS - 1)
        .subsequent_indent(&indent)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation);
    textwrap::fill(text, options).replace('\u{a0}', " ") + "\n"
}

/// A value without the keys of its object that have none.
pub fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(map) = &mut value {
        map.retain(|_, value| !value.is_null());
    }
    value
}

/// Objects as one.
pub fn joined(parts: impl IntoIterator<Item = Value>) -> Value {
    let maps = parts.into_iter().filter_map(|part| match part {
        Value::Object(map) => Some(map),
        _ => None,
    });
    Value::Object(maps.flatten().collect())
}

/// The label of a key, and the unit of its numbers.
fn label(key: &str) -> (String, Option<Unit>) {
    let is_whole = |rest: &str| rest.is_empty() || rest.ends_with('_');
    let found = UNITS.iter().find_map(|&(ending, name, form)| {
        let rest = key.strip_suffix(ending).filter(|rest| is_whole(rest))?;
        Some((rest.trim_end_matches('_'), Unit { name, form }))
    });
    let Some((rest, unit)) = found else {
        return (key.replace('_', " "), None);
    };
    let words = match (rest, unit.form) {
        ("", Form::Digits(3)) => "throughput",
        ("", _) | (_, Form::Percent | Form::Scaled) => key,
        (rest, _) => rest,
    };
    (words.replace('_', " "), Some(unit))
}

/// A number, word or flag.
fn scalar(value: &Value, unit: Option<Unit>) -> String {
    let (text, name) = match (value, unit) {
        (Value::Number(number), Some(Unit { name, form })) => {
            let float = number.as_f64().unwrap_or_default();
            let text = match form {
                Form::Micros => format!("{:.3}", float / 1e3),
                Form::Percent => format!("{:.1}", float * 100.0),
                Form::Scaled => scaled(float).trim_end().to_owned(),
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

/// An object whose values are all scalars in one line; `unit` is that of those without one.
fn measures(map: &Map<String, Value>, unit: Option<Unit>) -> String {
    let measure = |(key, value): (&String, &Value)| {
        let (label, own) = label(key);
        let is_count = ["samples", "items", "messages"].contains(&key.as_str());
        let unit = own.or(unit.filter(|_| !is_count));
        // A number stays beside its unit and its label.
        format!("{label} {}", scalar(value, unit)).replace(' ', "\u{a0}")
    };
    map.iter().map(measure).collect::<Vec<_>>().join(", ")
}

/// A list of objects of the same keys as a table.
fn table(rows: &[&Map<String, Value>]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let columns = first.keys().map(|key| {
        let (label, unit) = label(key);
        let cells = rows.iter().map(|row| row.get(key).unwrap_or(&Value::Null));
        let cells: Vec<_> = [label]
            .into_iter()
            .chain(cells.map(|cell| scalar(cell, unit)))
            .collect();
        let width = cells.iter().map(|cell| cell.chars().count()).max();
        (cells, width.unwrap_or(0))
    });
    let columns: Vec<_> = columns.collect();
    let mut text = String::new();
    for row in 0..=rows.len() {
        let cells = columns
            .iter()
            .map(|(cells, width)| format!("{:>width$}", cells[row]));
        text += &format!("  {}\n", cells.collect::<Vec<_>>().join("  "));
    }
    text
}

/// The text of an object.
pub struct Text<'a>(pub &'a Map<String, Value>);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels = self.0.keys().map(|key| label(key).0.chars().count());
        let width = labels.max().unwrap_or(0);
        for (key, value) in self.0 {
            let (label, unit) = label(key);
            let line = |text: &str| wrapped(&format!("{label}: {text}"), 2);
            match value {
                Value::Null => {}
                Value::Array(list) if list.is_empty() => {}
                Value::Object(map) if map.values().all(is_scalar) => {
                    f.write_str(&line(&measures(map, unit)))?;
                }
                Value::Object(map) => write_block(f, &label, map)?,
                Value::Array(list) => {
                    let maps: Vec<_> = list.iter().filter_map(Value::as_object).collect();
                    if maps.len() < list.len() {
                        let words = list.iter().map(|value| scalar(value, unit));
                        f.write_str(&line(&words.collect::<Vec<_>>().join(", ")))?;
                    } else if maps.iter().all(|map| map.values().all(is_scalar)) {
                        write!(f, "{label}:\n{}", table(&maps))?;
                    } else {
                        for map in maps {
                            write_block(f, &label, map)?;
                        }
                    }
                }
                value => {
                    let label = label + ":";
                    writeln!(
                        f,
                        "{label:<width$}  {}",
                        scalar(value, unit),
                        width = width + 1
                    )?;
                }
            }
        }
        Ok(())
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
