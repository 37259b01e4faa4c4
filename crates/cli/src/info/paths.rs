//! The paths that were chosen and why, as text: what is the same for several is told once.

use rackweave_bench::figure::wrapped;
use rackweave_rack::paths::{Group, Kind, Path};
use std::fmt;

/// The most characters of a line.
const WIDTH: usize = 98;
/// Where reasons begin.
const WHY_AT: usize = 50;

/// All paths of a configuration.
pub struct PathsText<'a>(pub &'a [Path]);

impl fmt::Display for PathsText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Paths, and why they were chosen (each reason is a \"because\"):"
        )?;
        let has = |kind: &Kind| self.0.iter().any(|path| path.rack == Some(*kind));
        let kinds = [Kind::Embedded, Kind::Simulated, Kind::Hosted];
        for kind in kinds.into_iter().filter(has) {
            let of = |group| self.parts(move |path| path.rack == Some(kind) && path.group == group);
            writeln!(f, "\nIn {} rack", article(kind))?;
            for (names, rows) in merged(of(Group::Node)) {
                section(f, &nodes(&names), &rows)?;
            }
            let settings = of(Group::Setting).into_iter();
            let settings = settings.flat_map(|(of, rows)| rows.into_iter().map(move |r| (of, r)));
            let rows: Vec<_> = settings.map(|(of, row)| (of, row.1, row.2)).collect();
            section(f, "settings", &rows)?;
        }
        writeln!(f, "\nIn every rack")?;
        for (name, rows) in self.parts(|path| path.group == Group::Program) {
            section(f, &format!("program {name}"), &rows)?;
        }
        for (name, _) in self.parts(|path| path.group == Group::Store) {
            let here = self.0.iter();
            let here = here.filter(|path| path.group == Group::Store && path.of == name);
            let rows: Vec<_> = here
                .map(|path| (label(path), &*path.value, &*path.why))
                .collect();
            let heading = match name {
                "" => "stores".to_owned(),
                name => format!("store {name}"),
            };
            section(f, &heading, &rows)?;
        }
        let ways = self.parts(|path| path.group == Group::Index);
        let ways = ways
            .into_iter()
            .flat_map(|(of, rows)| rows.into_iter().map(move |r| (of, r)));
        let rows: Vec<_> = ways.map(|(of, row)| (of, row.1, row.2)).collect();
        section(f, "ways to an index", &rows)?;
        let seeds = |path: &Path| path.group == Group::Setting && path.rack.is_none();
        for (name, rows) in self.parts(seeds) {
            let rows: Vec<_> = rows.iter().map(|row| (name, row.1, row.2)).collect();
            section(f, "numbers", &rows)?;
        }
        Ok(())
    }
}

/// What was chosen, what, and why.
type Row<'a> = (&'a str, &'a str, &'a str);

impl<'a> PathsText<'a> {
    /// The rows of those that are asked for, by what they are of.
    fn parts(&self, wanted: impl Fn(&Path) -> bool) -> Vec<(&'a str, Vec<Row<'a>>)> {
        let mut parts: Vec<(&str, Vec<Row<'_>>)> = Vec::new();
        for path in self.0.iter().filter(|path| wanted(path)) {
            let row = (path.what, &*path.value, &*path.why);
            match parts.iter_mut().find(|(of, _)| *of == path.of) {
                Some((_, rows)) => rows.push(row),
                None => parts.push((&path.of, vec![row])),
            }
        }
        parts
    }
}

/// Those with the same rows become one.
fn merged<'a>(parts: Vec<(&'a str, Vec<Row<'a>>)>) -> Vec<(Vec<&'a str>, Vec<Row<'a>>)> {
    let mut merged: Vec<(Vec<&str>, Vec<Row<'_>>)> = Vec::new();
    for (of, rows) in parts {
        match merged.iter_mut().find(|(_, same)| *same == rows) {
            Some((names, _)) => names.push(of),
            None => merged.push((vec![of], rows)),
        }
    }
    merged
}

/// A few names in full, many by their number.
fn nodes(names: &[&str]) -> String {
    match names {
        [only] => format!("node {only}"),
        [first, .., last] if names.len() > 8 => {
            format!("nodes {first} to {last}, {} of them alike", names.len())
        }
        _ => format!("nodes {}", names.join(", ")),
    }
}

fn article(kind: Kind) -> String {
    let article = if kind == Kind::Embedded { "an" } else { "a" };
    format!("{article} {}", kind.name())
}

/// A store's medium is another in each kind of rack.
fn label(path: &Path) -> &str {
    match path.rack {
        Some(kind) => kind.name(),
        None => path.what,
    }
}

/// A heading and its rows in three columns. Reasons begin in one column, below a value that reaches
/// into it, and go on in lines of their own.
fn section(f: &mut fmt::Formatter<'_>, heading: &str, rows: &[Row<'_>]) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    writeln!(f, "  {heading}")?;
    let width = rows.iter().map(|(what, ..)| what.chars().count()).max();
    let width = width.unwrap_or_default();
    for (what, value, why) in rows {
        let mut left = format!("    {what:<width$}  {value}");
        if left.chars().count() + 2 > WHY_AT {
            writeln!(f, "{left}")?;
            left.clear();
        }
        for line in wrapped(why, WIDTH - WHY_AT) {
            writeln!(f, "{left:<WHY_AT$}{line}")?;
            left.clear();
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_rack::RackConfig;

    fn text(config: &RackConfig) -> String {
        let paths = rackweave_rack::paths::describe(config).expect("it is good");
        PathsText(&paths).to_string()
    }

    #[test]
    fn the_text_of_the_default_rack_is_readable() {
        let text = text(&RackConfig::default());
        for line in text.lines() {
            assert!(line.chars().count() <= WIDTH, "{line}");
            assert_eq!(line, line.trim_end());
            // Rows have two blanks before the column of reasons, and a word in it.
            let is_row = line.starts_with("    ") && line.chars().count() > WHY_AT;
            let gap: String = line.chars().skip(WHY_AT - 2).take(3).collect();
            assert!(
                !is_row || gap.starts_with("  ") && !gap.ends_with(' '),
                "{line}"
            );
        }
        assert!(
            text.contains("\n  nodes storage0, storage1, compute0, compute1\n"),
            "{text}"
        );
    }

    #[test]
    fn every_value_and_every_reason_is_told() {
        let mut config = RackConfig::default();
        config.hosted = Some(config.hosted());
        config.node[1].faults.loss = Some(0.02);
        config.switch.page_entries = 3;
        config.store = vec![rackweave_rack::config::StoreConfig::in_memory(
            "orders",
            "storage0",
            1 << 20,
        )];
        let text = text(&config);
        let flat: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for path in rackweave_rack::paths::describe(&config).expect("it is good") {
            for words in [&path.value, &path.why] {
                assert!(flat.contains(words.as_str()), "{words:?} in\n{text}");
            }
        }
        assert!(
            text.contains("  nodes storage0, compute0, compute1\n"),
            "{text}"
        );
        assert!(text.contains("  node storage1\n"), "{text}");
    }
}
