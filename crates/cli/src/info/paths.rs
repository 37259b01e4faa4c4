//! The chosen paths with the reasons, as text: what several have in common is printed once.

use rackweave_bench::figure::wrapped;
use rackweave_rack::paths::{Group, Kind, Path};
use std::fmt;

/// Maximum width of a line, in characters.
const WIDTH: usize = 98;
/// Column of the reasons.
const WHY_AT: usize = 50;

/// All paths of a configuration.
pub struct PathsText<'a>(pub &'a [Path]);

/// The decision, the choice, and the reason.
type Row<'a> = (&'a str, &'a str, &'a str);

/// Paths below one heading. Nodes with the same rows share a section.
struct Section<'a> {
    names: Vec<String>,
    is_of_nodes: bool,
    rows: Vec<Row<'a>>,
}

impl fmt::Display for PathsText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Paths, and why they were chosen (each reason is a \"because\"):"
        )?;
        let kinds = [Kind::Embedded, Kind::Simulated, Kind::Hosted];
        for kind in kinds.map(Some).into_iter().chain([None]) {
            let sections = self.sections(kind);
            let article = match kind {
                Some(Kind::Embedded) => "an",
                _ => "a",
            };
            match kind {
                _ if sections.is_empty() => {}
                Some(kind) => writeln!(f, "\nIn {article} {} rack", kind.name())?,
                None => writeln!(f, "\nIn every rack")?,
            }
            sections.iter().try_for_each(|section| section.write(f))?;
        }
        Ok(())
    }
}

/// The position of a path: the kind of rack, unless it is the same for all kinds, its heading, and
/// its label there.
fn place(path: &Path) -> (Option<Kind>, String, &str) {
    let of = &*path.of;
    match (path.group, path.rack) {
        (Group::Node, kind) => (kind, of.to_owned(), path.what),
        (Group::Setting, None) => (None, "numbers".to_owned(), of),
        (Group::Setting, kind) => (kind, "settings".to_owned(), of),
        (Group::Program, _) => (None, format!("program {of}"), path.what),
        (Group::Index, _) => (None, "ways to an index".to_owned(), of),
        (Group::Store, kind) => {
            let heading = if of.is_empty() { "stores" } else { "store " };
            // A store's medium differs between kinds of racks.
            let label = kind.map_or(path.what, Kind::name);
            (None, format!("{heading}{of}"), label)
        }
    }
}

impl PathsText<'_> {
    /// The sections of a kind of rack, or of all kinds.
    fn sections(&self, wanted: Option<Kind>) -> Vec<Section<'_>> {
        let mut sections: Vec<Section<'_>> = Vec::new();
        let mut paths: Vec<_> = self.0.iter().map(|path| (path, place(path))).collect();
        paths.retain(|(_, (kind, ..))| *kind == wanted);
        paths.sort_by_key(|(path, _)| path.group);
        for (path, (_, heading, label)) in paths {
            let row = (label, &*path.value, &*path.why);
            match sections.iter_mut().find(|one| one.names[0] == heading) {
                Some(section) => section.rows.push(row),
                None => sections.push(Section {
                    names: vec![heading],
                    is_of_nodes: path.group == Group::Node,
                    rows: vec![row],
                }),
            }
        }
        let mut merged: Vec<Section<'_>> = Vec::new();
        for section in sections {
            let same = |one: &&mut Section<'_>| section.is_of_nodes && one.rows == section.rows;
            match merged.iter_mut().find(same) {
                Some(one) => one.names.extend(section.names),
                None => merged.push(section),
            }
        }
        merged
    }
}

impl Section<'_> {
    /// Lists a few nodes by name, many by number.
    fn heading(&self) -> String {
        match &*self.names {
            [only] if self.is_of_nodes => format!("node {only}"),
            [only] => only.clone(),
            [first, .., last] if self.names.len() > 8 => {
                let count = self.names.len();
                format!("nodes {first} to {last}, {count} of them alike")
            }
            names => format!("nodes {}", names.join(", ")),
        }
    }

    /// The heading and the rows in three columns. Reasons start in one column, below a value that
    /// extends into it, and continue in lines of their own.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  {}", self.heading())?;
        let width = self.rows.iter().map(|(what, ..)| what.chars().count());
        let width = width.max().unwrap_or_default();
        for (what, value, why) in &self.rows {
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
