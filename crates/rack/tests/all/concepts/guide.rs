//! The blocks of docs/concepts.md that are made from captures.
//!
//! A block follows a comment that names it:
//!
//! ````text
//! <!-- captured: NAME -->
//! ```text
//! …
//! ```
//! ````

use std::path::PathBuf;
use std::sync::Mutex;

const UPDATE: &str = "UPDATE_GUIDE";

/// Tests run concurrently and write the same file.
static GUIDE: Mutex<()> = Mutex::new(());

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/concepts.md")
}

/// The line range of a block in the guide.
fn find(text: &str, name: &str) -> (usize, usize) {
    let marker = format!("<!-- captured: {name} -->\n```text\n");
    let at = text.find(&marker);
    let begin = at.unwrap_or_else(|| panic!("docs/concepts.md has no block\n{marker}…\n```"));
    assert_eq!(text.matches(&marker).count(), 1, "{name} is there twice");
    let begin = begin + marker.len();
    let len = text[begin..].find("```").expect("the block ends");
    (begin, begin + len)
}

/// Asserts that the guide contains these lines, or writes them there if requested.
#[track_caller]
pub fn check(name: &str, lines: &[String]) {
    let found: String = lines.iter().map(|line| format!("{line}\n")).collect();
    for line in lines {
        let width = line.chars().count();
        assert!(width <= 100, "{width} columns:\n{line}");
    }
    let _guard = GUIDE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let text = std::fs::read_to_string(path()).expect("docs/concepts.md is there");
    let (begin, end) = find(&text, name);
    if text[begin..end] == found {
        return;
    }
    if std::env::var_os(UPDATE).is_some() {
        let text = format!("{}{found}{}", &text[..begin], &text[end..]);
        std::fs::write(path(), text).expect("docs/concepts.md may be written to");
        return;
    }
    panic!(
        "docs/concepts.md, {name}, does not show what passes the switch.\n\n\
         The guide:\n{}\nThe capture:\n{found}\n\
         If that was meant to change: {UPDATE}=1 cargo test -p rackweave-rack --test all concepts, \
         and read the prose around the block again.",
        &text[begin..end]
    );
}
