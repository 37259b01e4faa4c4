//! Messages for refused text: the position, the problem, and the name probably meant.

use super::RackConfig;
use super::check::{ConfigError, one_line};
use super::nearest::{hint, nearest};
use toml::de::{DeTable, DeValue};

/// Why `text`, which messages name `name`, is not a configuration.
pub(super) fn refusal(text: &str, name: &str, error: &toml::de::Error) -> ConfigError {
    let at = error.span().map_or(0, |span| span.start).min(text.len());
    let mut message = error.message().replace('\n', " ");
    let hint = unknown_field(&message)
        .or_else(|| unknown_variant(&message))
        .or_else(|| missing_field(&message));
    if let Some(hint) = hint {
        message = hint;
    }
    let (line, column) = place(text, at);
    ConfigError::Syntax {
        name: name.into(),
        line,
        column,
        message: one_line(&message),
    }
}

/// `error` with the position of the wrong value in `text`, if the value occurs there.
pub(super) fn at_its_place(text: &str, name: &str, error: ConfigError) -> ConfigError {
    let ConfigError::Value { setting, value, .. } = &error else {
        return error;
    };
    let Some((line, column)) = locate(text, setting, value) else {
        return error;
    };
    ConfigError::At {
        name: name.into(),
        line,
        column,
        error: Box::new(error),
    }
}

/// Line and column, from one, of a byte of `text`.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count() + 1, line.chars().count() + 1)
}

/// The position at which a setting has this value; among several [[node]] or [[store]], the first
/// that has it.
fn locate(text: &str, setting: &str, value: &str) -> Option<(usize, usize)> {
    let table = DeTable::parse(text).ok()?;
    let path: Vec<&str> = setting.split('.').collect();
    let mut found = Vec::new();
    collect(table.get_ref(), &path, &mut found);
    let written = |at: &core::ops::Range<usize>| {
        let text = text.get(at.clone()).unwrap_or_default();
        text.trim_matches(['"', '\'']) == value
    };
    let only = (found.len() == 1).then(|| found.first()).flatten();
    let at = found.iter().find(|at| written(at)).or(only)?;
    Some(place(text, at.start))
}

/// The positions of all values with this path.
fn collect(table: &DeTable<'_>, path: &[&str], found: &mut Vec<core::ops::Range<usize>>) {
    let [key, rest @ ..] = path else { return };
    let entry = table.iter().find(|(name, _)| name.get_ref() == key);
    let Some((_, value)) = entry else { return };
    if rest.is_empty() {
        found.push(value.span());
        return;
    }
    match value.get_ref() {
        DeValue::Table(inner) => collect(inner, rest, found),
        DeValue::Array(all) => {
            let tables = all.iter().filter_map(|value| value.get_ref().as_table());
            tables.for_each(|inner| collect(inner, rest, found));
        }
        _ => {}
    }
}

/// The names in a message of serde's: first the wrong one, then all valid ones.
fn names<'a>(message: &'a str, says: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let rest = message.strip_prefix(says)?.strip_prefix('`')?;
    let (unknown, rest) = rest.split_once('`')?;
    Some((unknown, rest.split('`').skip(1).step_by(2).collect()))
}

/// "unknown field `x`, expected one of `a`, `b`" becomes a question about the nearest name, or
/// about the section that has a key of this name.
fn unknown_field(message: &str) -> Option<String> {
    let (unknown, known) = names(message, "unknown field ")?;
    if nearest(unknown, &known).is_none() {
        let all = sections();
        let knows = |section: &&Section| section.keys.iter().any(|key| key == unknown);
        let places: Vec<_> = all.iter().filter(knows).map(Section::place).collect();
        if !places.is_empty() {
            let places = places.join(" or ");
            return Some(format!("unknown setting `{unknown}`; it belongs {places}"));
        }
    }
    let hint = hint(unknown, &known, "settings here");
    Some(format!("unknown setting `{unknown}`; {hint}"))
}

/// The same for values from a list.
fn unknown_variant(message: &str) -> Option<String> {
    let (unknown, known) = names(message, "unknown variant ")?;
    let hint = hint(unknown, &known, "ones");
    Some(format!("unknown variant `{unknown}`; {hint}"))
}

fn missing_field(message: &str) -> Option<String> {
    let (missing, _) = names(message, "missing field ")?;
    Some(format!(
        "`{missing}` is missing; every one of these needs it"
    ))
}

/// A table of the configuration, and its keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Section {
    /// Its name: empty for the top-level table.
    pub name: String,
    /// The header to write before its keys.
    pub header: String,
    pub keys: Vec<String>,
}

impl Section {
    fn place(&self) -> String {
        match self.header.lines().last() {
            None => "before all sections".to_owned(),
            Some(header) => format!("in {header}"),
        }
    }
}

/// All tables. They are queried from the deserializer, so that there is only one list.
pub(super) fn sections() -> Vec<Section> {
    let mut all = Vec::new();
    visit(String::new(), String::new(), &mut all);
    all
}

fn visit(name: String, header: String, all: &mut Vec<Section>) {
    let Some(keys) = keys_behind(&header) else {
        return;
    };
    let at = all.len();
    all.push(Section {
        name: name.clone(),
        header: header.clone(),
        keys,
    });
    for key in all[at].keys.clone() {
        let inner = match name.as_str() {
            "" => key,
            outer => format!("{outer}.{key}"),
        };
        for bracketed in [format!("[{inner}]\n"), format!("[[{inner}]]\n")] {
            visit(inner.clone(), format!("{header}{bracketed}"), all);
        }
    }
}

/// The keys that may follow these lines, if they begin a table.
fn keys_behind(header: &str) -> Option<Vec<String>> {
    let error = toml::from_str::<RackConfig>(&format!("{header}\"?\" = 0\n")).err()?;
    let (unknown, known) = names(error.message(), "unknown field ")?;
    (unknown == "?").then(|| known.into_iter().map(str::to_owned).collect())
}
