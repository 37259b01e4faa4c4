//! The text of a report. A number or word is a line, an object a line or a grid of measures, a list
//! of objects a table. Labels are the keys; the suffix of a key is the unit. Null or empty values
//! have no line. Problems and the verdict come last.

use super::table::{columns, fitted, grid, inherited, keys_of};
use super::units::{NumberUnit, label, scalar};
use super::words::{depth, share};
use super::{COLUMNS, NAMED, is_reported, is_scalar, wrapped, wrapped_in};
use crate::globals::SIMULATED;
use serde_json::{Map, Value, json};

/// Keys that come last, each in a line of its own.
const LAST: [&str; 3] = ["problems", "interrupted", "verified"];

/// Commands, which are to be copied: they are not wrapped.
const COMMANDS: [&str; 1] = ["replay"];

/// Longest line of measures among other lines.
const MEASURES_MAX: usize = 56;

/// The text of an object below a heading, which is in place of the values of these keys.
pub fn titled(heading: &str, instead_of: &[&str], mut found: Map<String, Value>) -> String {
    found.retain(|key, _| !instead_of.contains(&key.as_str()));
    [wrapped(heading, 2), text(found)].join("\n")
}

/// The text of an object.
pub fn text(found: Map<String, Value>) -> String {
    let is_last = |(key, _): &(String, Value)| LAST.contains(&key.as_str());
    let (last, found): (Map<_, _>, Map<_, _>) = found.into_iter().partition(is_last);
    let mut blocks = blocks(&found, COLUMNS);
    let problems = last.get("problems").and_then(Value::as_array);
    let problems = problems.into_iter().flatten();
    let mut end: String = problems
        .map(|problem| wrapped(&format!("problem: {}", scalar(problem, None)), 2))
        .collect();
    if last.get("interrupted") == Some(&Value::Bool(true)) {
        end += "interrupted: what was to come was left out\n";
    }
    if let Some(verified) = last.get("verified") {
        end += &format!("verified: {verified}\n");
    }
    blocks.extend((!end.is_empty()).then_some(end));
    blocks.join("\n")
}

/// The parts of an object's text: lines that follow each other have their values in one column, and
/// each table, or object that is more than a line, is a part of its own.
fn blocks(map: &Map<String, Value>, limit: usize) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut group: Vec<(&str, String, String)> = Vec::new();
    let is_shown = |(key, value): &(&String, &Value)| is_reported(value) && !is_unused(key, value);
    for (key, value) in map.iter().filter(is_shown) {
        let (label, unit) = label(key);
        match one_line(key, value, unit) {
            Some(line) => group.push((key, label, line)),
            None => {
                blocks.extend(aligned(&std::mem::take(&mut group), limit));
                blocks.push(block(key, &label, value, unit, limit));
            }
        }
    }
    blocks.extend(aligned(&group, limit));
    blocks
}

/// Whether a list of numbers by position has nothing but zeros: there were no queries.
fn is_unused(key: &str, value: &Value) -> bool {
    let list = value.as_array().filter(|_| place(key, 0).is_some());
    list.is_some_and(|list| list.iter().all(|number| number.as_f64() == Some(0.0)))
}

/// Lines with their values in one column.
fn aligned(group: &[(&str, String, String)], limit: usize) -> Option<String> {
    let width = group.iter().map(|(_, label, _)| label.chars().count());
    let width = width.max()? + 1;
    let line = |(key, label, value): &(&str, String, String)| {
        let label = label.clone() + ":";
        match COMMANDS.contains(key) {
            true => format!("{label:<width$}  {value}\n"),
            false => wrapped_in(&format!("{label:<width$}  {value}"), width + 2, limit),
        }
    };
    Some(group.iter().map(line).collect())
}

/// A value that is short enough for a line among others.
fn one_line(key: &str, value: &Value, unit: Option<NumberUnit>) -> Option<String> {
    match value {
        Value::Object(map) => {
            let line = map
                .values()
                .all(is_scalar)
                .then(|| measures(key, map, unit));
            line.filter(|line| line.chars().count() <= MEASURES_MAX)
        }
        Value::Array(list) => {
            let is_line = list.iter().all(is_scalar)
                && place(key, 0).is_none()
                && (list.len() == 1 || !list.iter().any(is_sentence));
            is_line.then(|| words(key, list, unit))
        }
        value => {
            let virtually = match value.as_str() {
                Some(SIMULATED) if key == "mode" => ", in virtual time",
                _ => "",
            };
            Some(scalar(value, unit) + virtually)
        }
    }
}

/// A heading, and what does not fit a line.
fn block(key: &str, label: &str, value: &Value, unit: Option<NumberUnit>, limit: usize) -> String {
    let below = limit - 2;
    let text = match value {
        Value::Object(map) if map.values().all(is_scalar) => {
            return many_measures(key, label, map, unit, limit);
        }
        Value::Object(map) => blocks(map, below).concat(),
        Value::Array(list) => {
            let maps: Vec<_> = list.iter().filter_map(Value::as_object).collect();
            if maps.len() < list.len() {
                return format!("{label}:\n{}", lines(key, list, unit, limit));
            } else if let Some(text) = listing(&maps, unit, limit) {
                return format!("{label}{}:\n{text}", brackets(unit));
            } else {
                return maps
                    .iter()
                    .map(|map| named_block(label, map, below))
                    .collect();
            }
        }
        _ => String::new(),
    };
    format!("{label}:\n{}", indented(&text))
}

/// One of several objects that fit no table; the heading has its first value.
fn named_block(label: &str, map: &Map<String, Value>, limit: usize) -> String {
    let first = map.iter().next().filter(|(_, value)| is_scalar(value));
    let name =
        first.map(|(key, value)| format!(", {} {}", self::label(key).0, scalar(value, None)));
    let rest = map.iter().skip(usize::from(first.is_some()));
    let rest = rest
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let text = indented(&blocks(&rest, limit).concat());
    format!("{label}{}:\n{text}", name.unwrap_or_default())
}

fn indented(text: &str) -> String {
    let line = |line| format!("  {line}").trim_end().to_owned() + "\n";
    text.lines().map(line).collect()
}

fn brackets(unit: Option<NumberUnit>) -> String {
    unit.map_or_else(String::new, NumberUnit::in_brackets)
}

/// The labels and values of an object of scalars; `unit` is that of numbers without one.
fn pairs(key: &str, map: &Map<String, Value>, unit: Option<NumberUnit>) -> Vec<(String, String)> {
    let pair = |(name, value): (&String, &Value)| match NAMED.contains(&key) {
        true => (name.clone(), scalar(value, None)),
        false => {
            let (label, own) = label(name);
            (label, scalar(value, own.or(inherited(name, unit))))
        }
    };
    let reported = map.iter().filter(|(_, value)| is_reported(value));
    reported.map(pair).collect()
}

/// An object of scalars in one line.
fn measures(key: &str, map: &Map<String, Value>, unit: Option<NumberUnit>) -> String {
    let pairs = pairs(key, map, unit).into_iter();
    let pairs: Vec<_> = pairs
        .map(|(label, value)| format!("{label} {value}"))
        .collect();
    pairs.join(", ")
}

/// An object of scalars that is more than a line: numbers of one unit as a table with one row,
/// others as a grid. Long names, such as those of errors, have a line each.
fn many_measures(
    key: &str,
    label: &str,
    map: &Map<String, Value>,
    unit: Option<NumberUnit>,
    limit: usize,
) -> String {
    let row = || {
        let row = columns(&[map], unit.map(NumberUnit::bare), NAMED.contains(&key));
        fitted(&row, limit)
    };
    if let Some(text) = unit.and_then(|_| row()) {
        return format!("{label}{}:\n{text}", brackets(unit));
    }
    let pairs = pairs(key, map, unit);
    let text = match grid(&pairs, limit) {
        Some(text) => text,
        None if NAMED.contains(&key) => {
            let line = |(name, value): &(String, String)| {
                wrapped_in(&format!("  {value:>6}  {name}"), 10, limit)
            };
            pairs.iter().map(line).collect()
        }
        None => {
            let lines = pairs.into_iter().map(|(label, value)| (key, label, value));
            let lines = aligned(&lines.collect::<Vec<_>>(), limit - 2);
            indented(&lines.unwrap_or_default())
        }
    };
    format!("{label}:\n{text}")
}

/// A list of objects as a table, and below it one for the objects in each of their fields. None if
/// they contain more than fits tables.
fn listing(rows: &[&Map<String, Value>], unit: Option<NumberUnit>, limit: usize) -> Option<String> {
    let is_cell = |value: &Value| match value {
        Value::Array(list) => list.iter().all(|one| is_scalar(one) && !is_sentence(one)),
        Value::Object(map) => map.values().all(is_scalar),
        _ => true,
    };
    let mut rows_cells = rows.iter().flat_map(|row| row.values());
    if !rows_cells.all(is_cell) {
        return None;
    }
    let main = columns(rows, unit.map(NumberUnit::bare), false);
    let mut below = String::new();
    let keys = keys_of(rows);
    let first = keys.first()?;
    for key in &keys {
        let of_row = |row: &&Map<String, Value>| {
            let map = row.get(*key)?.as_object().filter(|map| !map.is_empty())?;
            let name = row.get(*first).cloned().unwrap_or_default();
            let name = std::iter::once((str::to_owned(first), name));
            Some(name.chain(map.clone()).collect::<Map<_, _>>())
        };
        let found: Vec<_> = rows.iter().filter_map(of_row).collect();
        if !found.is_empty() {
            let (label, unit) = label(key);
            let found: Vec<_> = found.iter().collect();
            let its = columns(&found, unit.map(NumberUnit::bare), NAMED.contains(key));
            let text = indented(&fitted(&its, limit - 2)?);
            below += &format!("  {label}{}:\n{text}", brackets(unit));
        }
    }
    // Names alone are also in the tables below.
    match main.len() {
        ..=1 if !below.is_empty() => Some(below),
        _ => Some(fitted(&main, limit)? + &below),
    }
}

/// A list that is more than a line: sentences, or numbers whose positions have a meaning.
fn lines(key: &str, list: &[Value], unit: Option<NumberUnit>, limit: usize) -> String {
    if place(key, 0).is_none() {
        let line = |value| wrapped_in(&format!("  - {}", scalar(value, unit)), 4, limit);
        return list.iter().map(line).collect();
    }
    let whole: f64 = list.iter().filter_map(Value::as_f64).sum();
    let row = |(at, value): (usize, &Value)| {
        let part = share(value.as_f64().unwrap_or_default(), whole);
        let row = json!({"led": place(key, at), "count": value, "of all": part});
        row.as_object().cloned()
    };
    let rows: Vec<_> = list.iter().enumerate().filter_map(row).collect();
    let columns = columns(&rows.iter().collect::<Vec<_>>(), None, false);
    fitted(&columns, limit).unwrap_or_default()
}

fn is_sentence(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.contains(' '))
}

/// A list of numbers or words in a line.
pub fn words(key: &str, list: &[Value], unit: Option<NumberUnit>) -> String {
    let word = |(at, value): (usize, &Value)| {
        let text = scalar(value, unit);
        place(key, at).map_or(text.clone(), |place| format!("{place} {text}"))
    };
    let words: Vec<_> = list.iter().enumerate().map(word).collect();
    words.join(", ")
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
