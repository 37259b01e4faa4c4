//! Errors in Rust sources: enums, macro calls and constants, read line by line.

/// An error, as defined in its source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// Its name.
    pub name: String,
    /// Its number, or its name for users, for example that of its counter.
    pub value: Option<String>,
    /// The first paragraph of its documentation.
    pub means: String,
    /// Its message to a user.
    pub says: Option<String>,
}

/// Names of the public enums in a source.
pub fn enums_of(source: &str) -> Vec<String> {
    let lines = source.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("pub enum ")?;
        let name = rest.strip_suffix(" {")?;
        name.chars()
            .all(char::is_alphanumeric)
            .then(|| name.to_owned())
    });
    lines.collect()
}

/// The items of `what` in a source: the variants of an enum of this name, the entries of a macro
/// call, the constants of an `impl`. `None` if the source does not have it.
pub fn items(source: &str, what: &str) -> Option<Vec<Item>> {
    let lines: Vec<&str> = source.lines().collect();
    let heads = [format!("pub enum {what} {{"), format!("{what} {{")];
    let begin = lines
        .iter()
        .position(|line| heads.iter().any(|head| line.trim() == head))?;
    let indent = lines[begin].len() - lines[begin].trim_start().len();
    let (close, inner) = (format!("{}}}", " ".repeat(indent)), " ".repeat(indent + 4));
    let mut items = Vec::new();
    let (mut doc, mut says) = (Vec::new(), None);
    let mut rest = lines[begin + 1..]
        .iter()
        .take_while(|line| ***line != close);
    while let Some(line) = rest.next() {
        let Some(line) = line
            .strip_prefix(&inner)
            .filter(|line| !line.starts_with(' '))
        else {
            continue;
        };
        if let Some(text) = line.strip_prefix("///") {
            doc.push(text.trim().to_owned());
        } else if line.starts_with("#[error(") {
            let mut all = line.to_owned();
            while !all.ends_with(")]") {
                let Some(next) = rest.next() else { break };
                all.push('\n');
                all.push_str(next);
            }
            says = Some(message(&all));
        } else if let Some((name, value)) = named(line) {
            items.push(Item {
                name,
                value,
                means: paragraph(&doc),
                says: says.take(),
            });
            doc.clear();
        } else if !line.starts_with("#[") {
            // Any other line ends the documentation collected so far.
            doc.clear();
        }
    }
    // If all variants have a name for users, it tells more than their numbers.
    let names: Option<Vec<_>> = items
        .iter()
        .map(|item| counter(source, &item.name))
        .collect();
    for (item, name) in items.iter_mut().zip(names.unwrap_or_default()) {
        item.value = Some(name);
    }
    Some(items)
}

/// The name at the beginning of a line that defines something, and what follows `=`.
fn named(line: &str) -> Option<(String, Option<String>)> {
    let (line, is_const) = match line.strip_prefix("pub const ") {
        Some(rest) => (rest, true),
        None => (line, false),
    };
    let end = line
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(line.len());
    let name = &line[..end];
    if !name.starts_with(char::is_uppercase) {
        return None;
    }
    let value = line.split_once(" = ").map(|(_, value)| value);
    if is_const {
        // Only those constants that are values of the type itself.
        let number = value?.strip_prefix("Self(")?.split(')').next()?;
        return Some((name.to_owned(), Some(number.to_owned())));
    }
    let value = value.map(|value| {
        let value = value.split(',').next().unwrap_or(value);
        value.trim_end_matches(';').trim_matches('"').to_owned()
    });
    Some((name.to_owned(), value))
}

/// The name, for example of a counter, that a match in the same source gives to a variant.
fn counter(source: &str, name: &str) -> Option<String> {
    let arms = [format!("::{name} => \""), format!("::{name}(_) => \"")];
    let (_, rest) = arms.iter().find_map(|arm| source.split_once(arm))?;
    let counter = rest.split('"').next()?;
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    counter.chars().all(is_name).then(|| counter.to_owned())
}

/// The first paragraph, without links.
fn paragraph(doc: &[String]) -> String {
    let lines: Vec<_> = doc
        .iter()
        .take_while(|line| !line.is_empty())
        .cloned()
        .collect();
    lines.join(" ").replace("[`", "`").replace("`]", "`")
}

/// The text of an `#[error(…)]`.
fn message(attribute: &str) -> String {
    if attribute.contains("(transparent)") {
        return "what its cause says".to_owned();
    }
    let Some((_, rest)) = attribute.split_once('"') else {
        return String::new();
    };
    let mut text = String::new();
    let mut characters = rest.chars();
    while let Some(character) = characters.next() {
        match character {
            '"' => break,
            '\\' => match characters.next() {
                // A string that continues in the next line.
                Some('\n') => {
                    let rest = characters.as_str().trim_start();
                    characters = rest.chars();
                }
                Some(escaped) => text.push(escaped),
                None => {}
            },
            other => text.push(other),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(source: &str, what: &str, expect: &[(&str, Option<&str>, &str)]) {
        let found = items(source, what).expect("it is there");
        let found: Vec<_> = found
            .iter()
            .map(|item| (&*item.name, item.value.as_deref(), &*item.means))
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn macro_calls_and_constants_are_read() {
        let source = "reasons! {\n    /// Odd.\n    Odd = \"drop_odd\",\n}\n";
        check(source, "reasons!", &[("Odd", Some("drop_odd"), "Odd.")]);
        let source = "impl Status {\n    /// Done.\n    pub const OK: Self = Self(0);\n    /// \
                      No value.\n    pub const MAX: u16 = 3;\n\n    /// A function.\n    pub fn \
                      go() {\n    }\n}\n";
        check(source, "impl Status", &[("OK", Some("0"), "Done.")]);
        assert_eq!(items(source, "Status"), None);
    }

    #[test]
    fn variants_have_numbers_or_counters() {
        let source = "pub enum DropReason {\n    /// Late.\n    Late,\n}\nfn name() {\n    \
                      DropReason::Late => \"drop_late\",\n}\npub enum Close {\n    /// Fine.\n    \
                      Normal = 1,\n}\n";
        check(
            source,
            "DropReason",
            &[("Late", Some("drop_late"), "Late.")],
        );
        check(source, "Close", &[("Normal", Some("1"), "Fine.")]);
        assert_eq!(enums_of(source), ["DropReason", "Close"]);
    }
}
