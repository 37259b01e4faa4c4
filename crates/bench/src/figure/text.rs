//! What a figure says, as data: its title, its axes, the paper's claims, and notes.
//!
//! Each experiment has a file of tables beside its code, named as its figures. A text may name what
//! was measured ([`Values`]): `{name}` is the value, `{name:.2}` a number with two decimals. A
//! claim gives our value by its name, and the paper's by a number or a name. With `each = "name"` a
//! claim, a note or a value of the paper is repeated for every row of that list, whose values come
//! first; neighbouring claims of one list follow each other row by row. What a row leaves out makes
//! no claim, if that is `optional`. The claims and notes of the tables in `shared` come last.
//!
//! Files are a part of the program: one that is not well formed, or names a value that was not
//! measured or a text that there is not, is a bug and panics.

use super::{Axis, Claim, Drawing, Figure, PaperMark, Series};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::{Table, Value};

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Quantity {
    Number(f64),
    Name(String),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimText {
    each: Option<String>,
    what: String,
    /// The part of the paper, if it is not the figure's.
    source: Option<String>,
    paper: Quantity,
    ours: String,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    optional: bool,
}

/// A value of the paper to draw.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MarkText {
    each: Option<String>,
    #[serde(default)]
    panel: String,
    x: Option<Quantity>,
    #[serde(default)]
    curve: String,
    y: Quantity,
}

/// A note, of the whole figure or of each row of a list.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum NoteText {
    Once(String),
    Each { each: String, note: String },
}

/// The text of a figure, or one that figures share.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FigureText {
    /// What the experiment shows, in one line.
    pub about: String,
    /// Its place among the experiments that take longest, from 1.
    pub slow: Option<u32>,
    pub title: String,
    /// The part of the paper that makes the claims.
    source: String,
    drawing: Drawing,
    x: Axis,
    y: Axis,
    y_per_panel: bool,
    x_names: Vec<String>,
    paper: Vec<MarkText>,
    claims: Vec<ClaimText>,
    notes: Vec<NoteText>,
    /// The texts whose claims and notes come last.
    pub shared: Vec<String>,
    /// What the experiment varies, in a form of its own.
    sweep: toml::Table,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct Measured {
    /// The curves.
    pub series: Vec<Series>,
    /// What the figure's text names.
    pub values: Values,
}

pub type Texts = BTreeMap<String, FigureText>;

/// Reads the tables of files, which are given by name and content.
pub fn read(files: &[(&str, &str)]) -> Texts {
    let tables = files.iter().flat_map(|(path, text)| {
        let tables: Result<Texts, _> = toml::from_str(text);
        tables.unwrap_or_else(|error| panic!("{path}: {error}"))
    });
    tables.collect()
}

impl FigureText {
    /// What the experiment varies.
    pub fn sweep<T: DeserializeOwned>(&self) -> T {
        let sweep = self.sweep.clone().try_into();
        sweep.unwrap_or_else(|error| panic!("what {} varies: {error}", self.title))
    }

    /// The figure `name` of a run with this seed; `texts` has the shared ones.
    pub fn figure(&self, name: &str, seed: u64, measured: Measured, texts: &Texts) -> Figure {
        let values = &measured.values;
        let shared = self.shared.iter().map(|name| &texts[name]);
        let parts: Vec<&Self> = [self].into_iter().chain(shared).collect();
        let claims: Vec<&ClaimText> = parts.iter().flat_map(|part| &part.claims).collect();
        let notes = parts.iter().flat_map(|part| &part.notes);
        let (paper, claims) = (self.marks(values), self.claims(values, &claims));
        let notes = notes.flat_map(|note| note.written(values)).collect();
        Figure {
            paper,
            claims,
            notes,
            ..self.axes(name, seed, measured)
        }
    }

    /// Title, axes and curves alone.
    pub fn axes(&self, name: &str, seed: u64, measured: Measured) -> Figure {
        let all = &measured.values;
        let axis = |axis: &Axis| Axis {
            label: all.text(&axis.label),
            unit: all.text(&axis.unit),
            log: axis.log,
        };
        Figure {
            name: name.into(),
            title: all.text(&self.title),
            x: axis(&self.x),
            y: axis(&self.y),
            drawing: self.drawing,
            x_names: self.x_names.clone(),
            y_per_panel: self.y_per_panel,
            paper: Vec::new(),
            claims: Vec::new(),
            notes: Vec::new(),
            seed,
            series: measured.series,
        }
    }

    fn marks(&self, values: &Values) -> Vec<PaperMark> {
        let marks = self.paper.iter().flat_map(|mark| {
            let rows = values.rows(mark.each.as_deref()).into_iter();
            rows.map(|row| PaperMark {
                panel: row.text(&mark.panel),
                x: mark.x.as_ref().map(|x| x.number(&row)),
                curve: row.text(&mark.curve),
                y: mark.y.number(&row),
            })
        });
        marks.collect()
    }

    fn claims(&self, values: &Values, claims: &[&ClaimText]) -> Vec<Claim> {
        let mut made = Vec::new();
        let groups = claims.chunk_by(|a, b| a.each.is_some() && a.each == b.each);
        for group in groups {
            for row in values.rows(group[0].each.as_deref()) {
                let measured = group
                    .iter()
                    .filter(|claim| !claim.optional || row.find(&claim.ours).is_some());
                made.extend(measured.map(|claim| Claim {
                    what: row.text(&claim.what),
                    source: claim.source.clone().unwrap_or_else(|| self.source.clone()),
                    paper: claim.paper.number(&row),
                    ours: row.number(&claim.ours),
                    unit: row.text(&claim.unit),
                }));
            }
        }
        made
    }
}

impl Quantity {
    fn number(&self, row: &Values) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Name(name) => row.number(name),
        }
    }
}

impl NoteText {
    fn written(&self, values: &Values) -> Vec<String> {
        let (each, note) = match self {
            Self::Once(note) => (None, note),
            Self::Each { each, note } => (Some(each.as_str()), note),
        };
        let rows = values.rows(each).into_iter();
        rows.map(|row| row.text(note)).collect()
    }
}

impl Measured {
    /// Curves, and the values that the figure's text names.
    pub fn new(series: Vec<Series>, values: Values) -> Self {
        Self { series, values }
    }
}

#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Values(Table);

/// [`Values`] by their names: `values! { name: value, other }`, where a variable names itself.
macro_rules! values {
    ($($name:ident $(: $value:expr)?),* $(,)?) => {{
        #[allow(unused_mut)]
        let mut values = $crate::figure::Values::default();
        $(values.set(stringify!($name), $crate::figure::values!(@ $name $($value)?));)*
        values
    }};
    (@ $name:ident) => { $name };
    (@ $name:ident $value:expr) => { $value };
}
pub(crate) use values;

impl Values {
    /// Sets a value: a number, words, or a list of rows, each with its own values.
    pub fn set(&mut self, name: &str, value: impl Serialize) {
        let value = Value::try_from(value).expect("it is a number, words, or rows");
        self.0.insert(name.into(), value);
    }

    /// The values of each row of a list, and those of the whole figure that the row has none of the
    /// same name for; without a list those of the whole figure.
    pub fn rows(&self, each: Option<&str>) -> Vec<Self> {
        let Some(name) = each else {
            return vec![self.clone()];
        };
        let Some(Value::Array(rows)) = self.find(name) else {
            panic!("{name} is no list of rows");
        };
        let rows = rows.iter().filter_map(Value::as_table);
        let with_all = |row: &Table| {
            let mut all = self.clone();
            all.0.extend(row.clone());
            all
        };
        rows.map(with_all).collect()
    }

    pub fn find(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    fn get(&self, name: &str) -> &Value {
        self.find(name)
            .unwrap_or_else(|| panic!("a figure's text names {name}, which was not measured"))
    }

    /// A value that is a number.
    pub fn number(&self, name: &str) -> f64 {
        match self.get(name) {
            Value::Float(number) => *number,
            Value::Integer(count) => *count as f64,
            other => panic!("{other:?} is no number"),
        }
    }

    /// A text, with values in place of their names.
    pub fn text(&self, text: &str) -> String {
        let mut written = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            written.push_str(before);
            let (name, after) = after.split_once('}').expect("a name ends with a brace");
            match name.split_once(":.") {
                None => written.push_str(&words(self.get(name))),
                Some((name, digits)) => {
                    let digits = digits.parse().expect("a number of decimals");
                    let number = self.number(name);
                    written.push_str(&format!("{number:.digits$}"));
                }
            }
            rest = after;
        }
        written + rest
    }
}

fn words(value: &Value) -> String {
    match value {
        Value::Float(number) => number.to_string(),
        Value::Integer(count) => count.to_string(),
        Value::String(words) => words.clone(),
        _ => panic!("a list is no text"),
    }
}

#[cfg(test)]
mod tests;
