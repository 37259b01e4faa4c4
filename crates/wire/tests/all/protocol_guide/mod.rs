//! Checks that the examples and numbers of docs/protocol.md are those of the code.
//!
//! Each example in the guide is a list of bytes in hex after `<!-- bytes: NAME -->`. Here it has a
//! value; the guide's bytes must be the encoding of the value, and must stay the same when the code
//! parses them and encodes them again. The table of numbers is compared as a whole.
//!
//! After an intended change, `UPDATE_GUIDE=1 cargo test -p rackweave-wire --test all guide` updates
//! both. The layouts themselves must not change without a new version: other
//! implementations are written from the guide.

mod examples;
mod numbers;

use std::path::PathBuf;

const UPDATE: &str = "UPDATE_GUIDE";

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol.md")
}

/// The range in the guide between `begin` and `end`.
fn find(text: &str, begin: &str, end: &str) -> (usize, usize) {
    assert_eq!(text.matches(begin).count(), 1, "once in the guide: {begin}");
    let from = text.find(begin).expect("it is there once") + begin.len();
    let len = text[from..].find(end);
    (from, from + len.expect("the block ends"))
}

/// Rows of 16 bytes.
fn hex(bytes: &[u8]) -> String {
    let row = |row: &[u8]| {
        let bytes: Vec<_> = row.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}\n", bytes.join(" "))
    };
    bytes.chunks(16).map(row).collect()
}

fn parse_hex(text: &str) -> Vec<u8> {
    let bytes = text.split_whitespace();
    bytes
        .map(|byte| u8::from_str_radix(byte, 16).expect("two digits"))
        .collect()
}

#[test]
fn the_guide_shows_what_the_code_does() {
    let text = std::fs::read_to_string(path()).expect("docs/protocol.md is there");
    let mut new = text.clone();
    let examples = examples::all();
    for example in &examples {
        let begin = format!("<!-- bytes: {} -->\n```text\n", example.name);
        let (from, to) = find(&new, &begin, "```");
        new.replace_range(from..to, &hex(&example.bytes));
        let found = parse_hex(&hex(&example.bytes));
        let again = (example.again)(&found);
        assert_eq!(again.as_deref(), Some(&found[..]), "{}", example.name);
    }
    let listed = text.matches("<!-- bytes: ").count();
    assert_eq!(
        listed,
        examples.len(),
        "every example of the guide is known here"
    );
    let (from, to) = find(&new, "<!-- numbers -->\n", "\n\n");
    let rows = numbers::all();
    let rows = rows
        .iter()
        .map(|(name, value)| format!("| {name} | `{value}` |\n"));
    let table = format!(
        "| number | value |\n|---|---|\n{}",
        rows.collect::<String>()
    );
    new.replace_range(from..to, table.trim_end());
    if new == text {
        return;
    }
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(path(), new).expect("docs/protocol.md may be written to");
        return;
    }
    let differs = text.lines().zip(new.lines()).find(|(old, new)| old != new);
    let (old, new) = differs.unwrap_or(("(nothing)", "(more)"));
    panic!(
        "docs/protocol.md is not what the code does.\nThe guide: {old}\nThe code:  {new}\n\
         If the layout is to change, give it a new version; then {UPDATE}=1 cargo test -p \
         rackweave-wire --test all guide"
    );
}
