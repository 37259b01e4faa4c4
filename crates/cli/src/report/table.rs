//! Tables: lists of objects whose keys are the columns, in whichever layout fits.

use super::units::{NumberUnit, label, scalar};
use super::words::ends;
use super::{COLUMNS, is_reported, text};
use serde_json::{Map, Value};
use textwrap::{Options, WordSplitter};

/// Keys of numbers that count something, whatever the unit of the numbers beside them.
const COUNTS: [&str; 4] = ["count", "items", "messages", "samples"];

/// Fewest columns of the terminal in which words are wrapped.
const WRAPPED_MIN: usize = 20;

/// Spaces between the columns of a grid.
const GRID_GAP: usize = 3;

/// Most pairs of columns of a grid.
const GRID_MAX: usize = 3;

/// A column, in most tables with its name in front. Words are aligned to the left.
pub struct Column {
    pub cells: Vec<String>,
    pub is_words: bool,
}

impl Column {
    fn width(&self) -> usize {
        let widths = self.cells.iter().map(|cell| cell.chars().count());
        widths.max().unwrap_or(0)
    }

    fn padded(&self, row: usize, width: usize) -> String {
        let cell = self.cells.get(row).map_or("", String::as_str);
        match self.is_words {
            true => format!("{cell:<width$}"),
            false => format!("{cell:>width$}"),
        }
    }
}

/// The unit of a key's number inside an object whose unit is `of_object`.
pub fn inherited(key: &str, of_object: Option<NumberUnit>) -> Option<NumberUnit> {
    of_object.filter(|_| !COUNTS.contains(&key))
}

/// The keys of all objects, in the order in which they first occur.
pub fn keys_of<'a>(rows: &[&'a Map<String, Value>]) -> Vec<&'a str> {
    let mut keys = Vec::new();
    for key in rows.iter().flat_map(|row| row.keys()) {
        if !keys.contains(&key.as_str()) {
            keys.push(key);
        }
    }
    keys
}

/// The values of a key, null where it is absent.
pub fn values_of<'a>(
    rows: &'a [&Map<String, Value>],
    key: &'a str,
) -> impl Iterator<Item = &'a Value> {
    rows.iter()
        .map(move |row| row.get(key).unwrap_or(&Value::Null))
}

/// The columns of a list of objects; `unit` is that of numbers without one. Empty columns, and
/// those of objects, are omitted. Keys that `are_names` are the names of columns.
pub fn columns(
    rows: &[&Map<String, Value>],
    unit: Option<NumberUnit>,
    are_names: bool,
) -> Vec<Column> {
    let of = |key| values_of(rows, key);
    let keys = keys_of(rows).into_iter();
    let keys = keys.filter(|&key| of(key).any(is_reported) && !of(key).any(Value::is_object));
    let column = |key| {
        let (name, own) = match are_names {
            true => (str::to_owned(key), None),
            false => label(key),
        };
        let unit = own.or(inherited(key, unit));
        let is_words = |value: &Value| match value {
            Value::String(text) => !is_amount(text),
            other => other.is_array(),
        };
        let cells = of(key).map(|value| match value {
            Value::Array(list) => many(key, list, unit),
            value => scalar(value, unit),
        });
        Column {
            cells: std::iter::once(name).chain(cells).collect(),
            is_words: of(key).any(is_words),
        }
    };
    keys.map(column).collect()
}

/// A list in a cell: names that are in it several times are counted.
fn many(key: &str, list: &[Value], unit: Option<NumberUnit>) -> String {
    let names: Option<Vec<_>> = list
        .iter()
        .map(|one| one.as_str().map(str::to_owned))
        .collect();
    match names {
        Some(names) => ends(&names, usize::MAX),
        None => text::words(key, list, unit),
    }
}

/// Whether a word is a number, with or without a unit: `480k`, `6.53 GB/s`, but not `64 bytes
/// each`.
fn is_amount(text: &str) -> bool {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let digits = number.trim_end_matches(char::is_alphabetic);
    let is_number = text.is_empty() || digits.parse::<f64>().is_ok();
    is_number && (unit.is_empty() || number.contains('.'))
}

/// A list of objects with the same keys as a table as wide as the terminal; a wider one has one
/// blank between its columns.
pub fn table(rows: &[&Map<String, Value>], unit: Option<NumberUnit>) -> String {
    let columns = columns(rows, unit, false);
    match span(&columns, 2) < COLUMNS {
        true => lines(&columns, 2, 2),
        false => lines(&columns, 1, 0),
    }
}

/// Columns of the terminal that columns take, with `gap` between them.
fn span(columns: &[Column], gap: usize) -> usize {
    columns.iter().map(|column| column.width() + gap).sum()
}

fn lines(columns: &[Column], gap: usize, indent: usize) -> String {
    let (gap, indent) = (" ".repeat(gap), " ".repeat(indent));
    let widths: Vec<_> = columns.iter().map(Column::width).collect();
    let rows = columns.iter().map(|column| column.cells.len()).max();
    let line = |row| {
        let cells = columns.iter().zip(&widths);
        let cells: Vec<_> = cells
            .map(|(column, &width)| column.padded(row, width))
            .collect();
        let line = format!("{indent}{}", cells.join(&gap));
        line.trim_end().to_owned() + "\n"
    };
    (0..rows.unwrap_or(0)).map(line).collect()
}

/// Columns in a layout that is narrower than `limit`: side by side, or with the words of the last
/// one wrapped, or with a line for each column. None if there is no such layout.
pub fn fitted(columns: &[Column], limit: usize) -> Option<String> {
    match span(columns, 1) {
        narrow if narrow + 2 > limit && narrow <= limit => Some(lines(columns, 1, 0)),
        narrow if narrow > limit => {
            wrapped_last(columns, limit).or_else(|| transposed(columns, limit))
        }
        _ if span(columns, 2) < limit => Some(lines(columns, 2, 2)),
        _ => Some(lines(columns, 1, 2)),
    }
}

fn wrapped_last(columns: &[Column], limit: usize) -> Option<String> {
    let (last, others) = columns.split_last()?;
    if !last.is_words || others.is_empty() {
        return None;
    }
    let fits = |&gap: &usize| span(others, gap) + gap + WRAPPED_MIN <= limit;
    let gap = [2, 1].into_iter().find(fits)?;
    let left = lines(others, gap, gap);
    let at = span(others, gap) + gap;
    let indent = " ".repeat(at);
    let row = |(left, cell): (&str, &String)| {
        let left = format!("{left:<at$}");
        let options = Options::new(limit - 1)
            .initial_indent(&left)
            .subsequent_indent(&indent)
            .break_words(false)
            .word_splitter(WordSplitter::NoHyphenation);
        textwrap::fill(cell, options).trim_end().to_owned() + "\n"
    };
    Some(left.lines().zip(&last.cells).map(row).collect())
}

/// A line for each column, below the cells of the first one; rows that do not fit beside each other
/// follow below.
fn transposed(columns: &[Column], limit: usize) -> Option<String> {
    let (first, others) = columns.split_first()?;
    let rows = first.cells.len();
    let cells = |row: usize| -> Vec<String> {
        let all = columns.iter();
        all.map(|column| column.cells[row].clone()).collect()
    };
    let names = || Column {
        cells: cells(0),
        is_words: true,
    };
    let mut text = String::new();
    let mut part = vec![names()];
    for row in 1..rows {
        let column = Column {
            cells: cells(row),
            is_words: others.iter().all(|column| column.is_words),
        };
        if part.len() > 1 && span(&part, 2) + column.width() + 2 >= limit {
            text += &(lines(&part, 2, 2) + "\n");
            part = vec![names()];
        }
        part.push(column);
        if span(&part, 2) >= limit {
            return None;
        }
    }
    Some(text + &lines(&part, 2, 2))
}

/// Labels and values, in as many pairs of columns as fit.
pub fn grid(pairs: &[(String, String)], limit: usize) -> Option<String> {
    let beside = |count: usize| {
        let chunks = pairs.chunks(pairs.len().div_ceil(count).max(1));
        let pair = |chunk: &[(String, String)]| {
            let cells = |of: fn(&(String, String)) -> &String| {
                let cells = chunk.iter().map(of);
                cells.cloned().collect::<Vec<_>>()
            };
            let values = cells(|(_, value)| value);
            let label = Column {
                cells: cells(|(label, _)| label),
                is_words: true,
            };
            let value = Column {
                is_words: !values.iter().all(|value| starts_as_number(value)),
                cells: values,
            };
            // One column, so that the gap between pairs may be larger than that within one.
            let both = lines(&[label, value], 2, 0);
            Column {
                cells: both.lines().map(str::to_owned).collect(),
                is_words: true,
            }
        };
        let columns: Vec<_> = chunks.map(pair).collect();
        (span(&columns, GRID_GAP) < limit).then(|| lines(&columns, GRID_GAP, 2))
    };
    (1..=GRID_MAX).rev().find_map(beside)
}

fn starts_as_number(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_digit() || first == '-')
}
