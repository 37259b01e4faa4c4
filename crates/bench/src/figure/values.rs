//! Named values of a measurement, for the text of its figure.

use serde::Serialize;
use toml::{Table, Value};

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
