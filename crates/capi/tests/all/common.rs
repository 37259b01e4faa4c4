//! What the tests of the C face share.

use std::collections::BTreeSet;
use std::path::Path;

/// The sources of the header, in its order.
pub const SOURCES: [&str; 22] = [
    "version.rs",
    "wait.rs",
    "status.rs",
    "error.rs",
    "detail.rs",
    "rack.rs",
    "region.rs",
    "flow.rs",
    "flow_ends.rs",
    "pages.rs",
    "page_guard.rs",
    "page_store.rs",
    "index.rs",
    "index_client.rs",
    "index_calls.rs",
    "sequencer.rs",
    "messaging.rs",
    "channel.rs",
    "sender.rs",
    "receiver.rs",
    "columns.rs",
    "column_reader.rs",
];

/// The folder of the package.
pub fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The header's text.
pub fn header() -> String {
    std::fs::read_to_string(package().join("include/rackweave.h")).expect("the header is there")
}

/// The functions that a header declares, or that a text names.
pub fn functions(text: &str) -> BTreeSet<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut names = BTreeSet::new();
    for (at, _) in text.match_indices("rackweave_") {
        if text[..at].ends_with(is_word) {
            continue;
        }
        let name: String = text[at..].chars().take_while(|c| is_word(*c)).collect();
        if text[at + name.len()..].starts_with('(') {
            names.insert(name);
        }
    }
    names
}

/// C without its comments.
pub fn without_comments(text: &str) -> String {
    let mut left = String::new();
    let mut rest = text;
    while let Some(begin) = rest.find("/*") {
        left.push_str(&rest[..begin]);
        let end = rest[begin..]
            .find("*/")
            .map_or(rest.len(), |end| begin + end + 2);
        rest = &rest[end..];
    }
    left.push_str(rest);
    let lines = left
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}
