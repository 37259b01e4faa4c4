//! A report in the text format of OpenMetrics 1.0
//! (github.com/OpenObservability/OpenMetrics), which Prometheus reads.
//!
//! A number is a metric whose name is its path in the object, in the base unit that the name ends
//! with; a flag is 0 or 1. The rows of a table are distinguished by labels: its naming columns, the
//! first ones. Percentiles make a summary. Words are labels of a metric of the type `info`, which
//! has the same labels as the numbers beside them.

use super::units::{NumberUnit, rank, stem};
use super::{NAMED, table};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Columns of numbers that name a row, as do those of bytes that begin a row: the sizes of a sweep.
const NUMBERING: [&str; 4] = ["id", "key", "number", "seed"];

/// The objects with [`COUNTED`] fields: the state of a running rack.
const COUNTING: &str = "rackweave_stat_rack";

/// Numbers of a running rack that only grow.
const COUNTED: [&str; 14] = [
    "bytes_delivered",
    "bytes_in",
    "bytes_out",
    "bytes_read",
    "bytes_written",
    "errors",
    "flows_made",
    "items_delivered",
    "items_pushed",
    "lookups",
    "packets_in",
    "packets_out",
    "queries",
    "reads",
];

type Labels = Vec<(String, String)>;

/// The metrics with one name.
struct Family {
    kind: &'static str,
    unit: &'static str,
    samples: Vec<String>,
}

/// Metrics by name.
#[derive(Default)]
struct Families(BTreeMap<String, Family>);

/// The metrics of a command's result.
pub fn text(command: &str, found: &Map<String, Value>) -> String {
    let mut families = Families::default();
    let name = format!("rackweave_{}", plain(command));
    families.object(&name, &Labels::new(), None, found);
    let mut text = String::new();
    for (name, family) in &families.0 {
        let Family { kind, unit, .. } = family;
        // Writing to a string cannot fail.
        let _ = writeln!(text, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(text, "# UNIT {name} {unit}");
        }
        text.extend(family.samples.iter().map(String::as_str));
    }
    text + "# EOF\n"
}

/// A name of letters, digits and underscores.
fn plain(name: &str) -> String {
    let plain = |letter: char| match letter.is_ascii_alphanumeric() {
        true => letter.to_ascii_lowercase(),
        false => '_',
    };
    name.chars().map(plain).collect()
}

fn joined(name: &str, more: &str) -> String {
    match more {
        "" => name.to_owned(),
        more => format!("{name}_{}", plain(more)),
    }
}

/// `labels` with one more, whose name must not be there yet.
fn with(labels: &Labels, key: &str, value: impl Into<String>) -> Labels {
    let mut name = plain(key);
    while labels.iter().any(|(known, _)| *known == name) {
        name = format!("of_{name}");
    }
    let mut all = labels.clone();
    all.push((name, value.into()));
    all
}

fn in_braces(labels: &Labels) -> String {
    let escaped = |text: &str| {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        text.replace('\n', "\\n")
    };
    let label = |(name, value): &(String, String)| format!("{name}=\"{}\"", escaped(value));
    match labels.as_slice() {
        [] => String::new(),
        labels => format!(
            "{{{}}}",
            labels.iter().map(label).collect::<Vec<_>>().join(",")
        ),
    }
}

impl Families {
    /// Adds a sample to the metrics called `name` and its unit.
    fn add(
        &mut self,
        (name, unit): (&str, Option<NumberUnit>),
        (kind, suffix): (&'static str, &str),
        labels: &Labels,
        value: impl std::fmt::Display,
    ) {
        let base = unit.map_or("", |unit| unit.base);
        let name = joined(name, base);
        let family = self.0.entry(name.clone()).or_insert_with(|| Family {
            kind,
            unit: base.rsplit(' ').next().unwrap_or_default(),
            samples: Vec::new(),
        });
        let labels = in_braces(labels);
        family
            .samples
            .push(format!("{name}{suffix}{labels} {value}\n"));
    }

    /// Adds a number, in the base unit.
    fn number(
        &mut self,
        (name, unit): (&str, Option<NumberUnit>),
        labels: &Labels,
        is_counter: bool,
        number: &serde_json::Number,
    ) {
        let kind = match is_counter {
            true => ("counter", "_total"),
            false => ("gauge", ""),
        };
        match unit {
            None => self.add((name, unit), kind, labels, number),
            Some(its) => {
                let number = its.in_base(number.as_f64().unwrap_or_default());
                self.add((name, unit), kind, labels, number);
            }
        }
    }

    /// Adds an object whose numbers without a unit have the given one.
    fn object(
        &mut self,
        name: &str,
        labels: &Labels,
        unit: Option<NumberUnit>,
        map: &Map<String, Value>,
    ) {
        let summarized = self.summary(name, labels, unit, map);
        let mut words = labels.clone();
        for (key, value) in map {
            match value {
                _ if summarized.contains(&key.as_str()) => {}
                Value::String(text) if text.is_empty() || text.contains('\n') => {}
                Value::String(text) => words = with(&words, key, text),
                Value::Array(list) if list.iter().all(Value::is_string) => {
                    let list: Vec<_> = list.iter().filter_map(Value::as_str).collect();
                    if !list.is_empty() {
                        words = with(&words, key, list.join("; "));
                    }
                }
                value => self.value((name, key), labels, unit, value),
            }
        }
        if words.len() > labels.len() {
            self.add((name, None), ("info", "_info"), &words, 1);
        }
    }

    /// Adds the value of a key that is no word.
    fn value(
        &mut self,
        (name, key): (&str, &str),
        labels: &Labels,
        unit: Option<NumberUnit>,
        value: &Value,
    ) {
        let (stem, own) = stem(key);
        let (of_key, unit) = (joined(name, stem), own.or(table::inherited(key, unit)));
        let is_counter = COUNTED.contains(&key) && name.starts_with(COUNTING);
        match value {
            Value::Number(number) => self.number((&of_key, unit), labels, is_counter, number),
            Value::Bool(is_so) => {
                let name = joined(name, key);
                self.add((&name, None), ("gauge", ""), labels, u8::from(*is_so));
            }
            Value::Object(map) if NAMED.contains(&key) => {
                for (counter, value) in map {
                    let labels = with(labels, "counter", counter);
                    if let Value::Number(number) = value {
                        self.number((&of_key, unit), &labels, key != "added", number);
                    }
                }
            }
            Value::Object(map) => self.object(&of_key, labels, unit, map),
            Value::Array(list) => self.list((&of_key, unit), labels, list),
            Value::Null | Value::String(_) => {}
        }
    }

    /// Adds rows, numbers, or the points of a curve.
    fn list(&mut self, (name, unit): (&str, Option<NumberUnit>), labels: &Labels, list: &[Value]) {
        let rows: Vec<_> = list.iter().filter_map(Value::as_object).collect();
        let naming = naming(&rows);
        for (at, row) in rows.iter().enumerate() {
            let mut labels = labels.clone();
            for key in naming.iter().flatten() {
                match &row[*key] {
                    Value::Null => {}
                    Value::String(text) => labels = with(&labels, key, text),
                    number => labels = with(&labels, key, number.to_string()),
                }
            }
            if naming.is_none() {
                labels = with(&labels, "row", at.to_string());
            }
            let is_rest = |(key, _): &(&String, &Value)| {
                let mut known = naming.iter().flatten();
                !known.any(|name| name == key)
            };
            let rest = row.iter().filter(is_rest);
            let rest = rest.map(|(key, value)| (key.clone(), value.clone()));
            self.object(name, &labels, unit, &rest.collect());
        }
        for (at, value) in list.iter().enumerate() {
            match (value, value.as_array().map(Vec::as_slice)) {
                (Value::Number(number), _) => {
                    let labels = with(labels, "index", at.to_string());
                    self.number((name, unit), &labels, false, number);
                }
                (_, Some([Value::Number(x), Value::Number(y)])) => {
                    let labels = with(labels, "x", x.to_string());
                    self.number((name, unit), &labels, false, y);
                }
                _ => {}
            }
        }
    }

    /// Adds the percentiles of an object, and returns the keys of the summary.
    fn summary<'a>(
        &mut self,
        name: &str,
        labels: &Labels,
        unit: Option<NumberUnit>,
        map: &'a Map<String, Value>,
    ) -> Vec<&'a str> {
        let number_of = |wanted: &str| {
            let mut numbers = map.iter().filter(|(_, value)| value.is_number());
            numbers.find(|(key, _)| stem(key).0 == wanted)
        };
        let count = number_of("samples").or(number_of("count"));
        let ranks = map.iter().filter_map(|entry| Some((rank(entry.0)?, entry)));
        let mut ranks: Vec<_> = ranks.collect();
        let Some((_, (first, _))) = ranks.first() else {
            return Vec::new();
        };
        let unit = stem(first).1.or(unit);
        let ends = [(0.0, number_of("min")), (1.0, number_of("max"))];
        ranks.extend(ends.into_iter().filter_map(|(at, end)| Some((at, end?))));
        ranks.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let in_base = |value: &Value| {
            let number = value.as_f64().unwrap_or_default();
            unit.map_or(number, |unit| unit.in_base(number))
        };
        let mut keys = Vec::new();
        for (quantile, (key, value)) in ranks {
            let labels = with(labels, "quantile", quantile.to_string());
            self.add((name, unit), ("summary", ""), &labels, in_base(value));
            keys.push(key.as_str());
        }
        if let Some((key, count)) = count {
            self.add((name, unit), ("summary", "_count"), labels, count);
            keys.push(key);
            if let Some((key, mean)) = number_of("mean") {
                let sum = in_base(mean) * count.as_f64().unwrap_or_default();
                self.add((name, unit), ("summary", "_sum"), labels, sum);
                keys.push(key);
            }
        }
        keys
    }
}

/// The naming columns of a table: those of its first columns that distinguish its rows. None if
/// nothing does.
fn naming<'a>(rows: &[&'a Map<String, Value>]) -> Option<Vec<&'a str>> {
    let keys = table::keys_of(rows);
    let is_naming = |&(at, key): &(usize, &str)| {
        let is_number = NUMBERING.contains(&key) || at == 0 && key.ends_with("_bytes");
        let mut values = table::values_of(rows, key);
        values.all(|value| match value {
            Value::String(text) => !text.contains('\n'),
            Value::Number(_) => is_number,
            value => value.is_null(),
        })
    };
    let mut chosen = Vec::new();
    for (_, key) in keys.into_iter().enumerate().filter(is_naming) {
        chosen.push(key);
        let names = |row: &&Map<String, Value>| {
            let names = chosen.iter().map(|key| row.get(*key).cloned());
            names.collect::<Vec<_>>()
        };
        let names: Vec<_> = rows.iter().map(names).collect();
        let mut pairs = (0..names.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        if pairs.all(|(a, b)| names[a] != names[b]) {
            return Some(chosen);
        }
    }
    None
}
