//! Named values of a measurement, for the text of its figure.

use std::collections::BTreeMap;

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A real number.
    Number(f64),
    /// A count.
    Count(u64),
    /// Words.
    Words(String),
    /// A list of rows, each with its own values.
    Rows(Vec<Values>),
}

/// Values by their names.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Values(BTreeMap<&'static str, Value>);

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
    /// Sets a value.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.insert(name, value.into());
    }

    /// The values of each row of a list, and those of the whole figure that the row has none of the
    /// same name for; without a list those of the whole figure.
    ///
    /// # Panics
    /// If there is no such list.
    pub fn rows(&self, each: Option<&str>) -> Vec<Self> {
        let Some(name) = each else {
            return vec![self.clone()];
        };
        let Some(Value::Rows(rows)) = self.find(name) else {
            panic!("{name} is no list of rows");
        };
        let with_all = |row: &Self| {
            let mut all = self.clone();
            all.0.extend(row.0.clone());
            all
        };
        rows.iter().map(with_all).collect()
    }

    /// A value, if there is one.
    pub fn find(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    fn get(&self, name: &str) -> &Value {
        self.find(name)
            .unwrap_or_else(|| panic!("a figure's text names {name}, which was not measured"))
    }

    /// A value that is a number.
    ///
    /// # Panics
    /// If there is none.
    pub fn number(&self, name: &str) -> f64 {
        self.get(name).number()
    }

    /// A text, with values in place of their names.
    ///
    /// # Panics
    /// If a value is missing, or a name is not closed.
    pub fn text(&self, text: &str) -> String {
        let mut written = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            written.push_str(before);
            let (name, after) = after.split_once('}').expect("a name ends with a brace");
            match name.split_once(":.") {
                None => written.push_str(&self.get(name).words()),
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

impl Value {
    fn number(&self) -> f64 {
        match self {
            Self::Number(number) => *number,
            Self::Count(count) => *count as f64,
            other => panic!("{other:?} is no number"),
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Count(count) => count.to_string(),
            Self::Words(words) => words.clone(),
            Self::Rows(_) => panic!("a list is no text"),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<String> for Value {
    fn from(words: String) -> Self {
        Self::Words(words)
    }
}

impl From<&str> for Value {
    fn from(words: &str) -> Self {
        Self::Words(words.into())
    }
}

impl From<&String> for Value {
    fn from(words: &String) -> Self {
        Self::Words(words.clone())
    }
}

impl From<Vec<Values>> for Value {
    fn from(rows: Vec<Values>) -> Self {
        Self::Rows(rows)
    }
}

macro_rules! counts {
    ($($kind:ty),*) => {
        $(impl From<$kind> for Value {
            fn from(count: $kind) -> Self {
                Self::Count(count as u64)
            }
        })*
    };
}
counts!(u8, u16, u32, u64, usize);
