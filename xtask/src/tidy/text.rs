//! Checks files line by line.

use super::modules::is_test;
use super::{Finding, words};

/// Maximum number of lines of a source file.
const LINES_MAX: usize = 400;
/// Maximum number of lines of a file of tests: cases of one subject stay beside each other.
const TEST_LINES_MAX: usize = 600;
const COLUMNS_MAX: usize = 100;

/// Files that are longer than allowed, with their lengths. This list may only shrink.
pub(super) const LONG_FILES: [(&str, usize); 1] = [("crates/controller/src/ask/mod.rs", 455)];

/// Where `unsafe` is allowed, with the reason.
const UNSAFE: [(&str, &str); 9] = [
    (
        "crates/base/src/memory/",
        "region memory is shared with peers by design",
    ),
    ("crates/link/src/ring.rs", "the ring between two threads"),
    (
        "crates/link/src/shared_memory/",
        "the segment that two processes map",
    ),
    (
        "crates/link/src/packet_socket/ring.rs",
        "the ring that the system fills",
    ),
    (
        "crates/link/src/send_many.rs",
        "calls to the system that no safe crate wraps",
    ),
    (
        "crates/link/src/packet_socket/system.rs",
        "calls to the system that no safe crate wraps",
    ),
    (
        "crates/link/src/udp/system.rs",
        "calls to the system that no safe crate wraps",
    ),
    (
        "crates/target/src/backend/file/",
        "buffers lent to the kernel",
    ),
    ("crates/capi/src/", "pointers that a C program gives"),
];

/// Marks of unfinished work. Each is written in two parts, so that this file may name it.
const UNFINISHED: [&str; 5] = [
    concat!("todo", "!"),
    concat!("unimplemented", "!"),
    concat!("dbg", "!"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Words of a workplace, which mean nothing to a reader of the project.
const PRIVATE: [&str; 7] = [
    concat!("/work", "/main"),
    concat!("/work", "/shared"),
    concat!("/work", "/target"),
    concat!("../", "shared/"),
    concat!("helper", " session"),
    concat!("this", " session"),
    concat!("cla", "ude"),
];

/// Checks one file; `path` is relative to the root of the project.
pub fn check(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let rust = path.ends_with(".rs");
    let mut find = |line: usize, message: String| {
        findings.push(Finding {
            path: path.to_owned(),
            line,
            message,
        });
    };
    if rust && !text.starts_with("//!") {
        find(
            1,
            "begin the file with //! and say what it is and where to read on".to_owned(),
        );
    }
    if rust {
        length(path, text.lines().count(), &mut find);
    }
    let mut quotes = Quotes::default();
    for (at, line) in text.lines().enumerate() {
        let mut find = |message: String| find(at + 1, message);
        unwanted(line, &mut find);
        if !path.ends_with(".snap") {
            layout(line, &mut find);
        }
        if rust {
            let code = quotes.code_of(line);
            words::check(path, &code, &mut find);
            if has_word(&code, "unsafe") && !UNSAFE.iter().any(|(place, _)| path.starts_with(place))
            {
                find(format!(
                    "{} is allowed in {} alone; use what they offer",
                    "unsafe",
                    UNSAFE.map(|(place, _)| place).join(" and ")
                ));
            }
        }
    }
    if !text.is_empty() && !text.ends_with('\n') {
        find(
            text.lines().count(),
            "end the file with a line feed".to_owned(),
        );
    }
}

fn length(path: &str, lines: usize, find: &mut impl FnMut(usize, String)) {
    let mut parts = path.trim_end_matches(".rs").split('/');
    let bound = match parts.any(is_test) {
        true => TEST_LINES_MAX,
        false => LINES_MAX,
    };
    let allowed = LONG_FILES.iter().find(|(long, _)| *long == path);
    let allowed = allowed.map_or(bound, |&(_, lines)| lines);
    if lines > allowed {
        find(
            lines,
            format!("{lines} lines, {allowed} are allowed; make two modules of the file"),
        );
    } else if allowed > bound && lines < allowed {
        find(
            1,
            format!("{lines} lines: lower its entry in xtask/src/tidy/text.rs from {allowed}"),
        );
    }
}

fn unwanted(line: &str, find: &mut impl FnMut(String)) {
    for word in UNFINISHED {
        if line.contains(word) {
            find(format!(
                "{word} is for work in progress; finish it or open an issue"
            ));
        }
    }
    let lower = line.to_lowercase();
    for word in PRIVATE {
        if lower.contains(word) {
            find(format!(
                "\"{word}\" belongs to a workplace, not to the project; leave it out"
            ));
        }
    }
}

fn layout(line: &str, find: &mut impl FnMut(String)) {
    if line.ends_with([' ', '\t', '\r']) {
        find("remove the white space at the end of the line".to_owned());
    }
    if line.contains('\t') {
        find("use spaces instead of tabs".to_owned());
    }
    let columns = line.chars().count();
    // Addresses, strings and tables cannot be broken.
    let trimmed = line.trim_start().trim_start_matches(['/', '!', ' ']);
    let unbreakable = line.contains("://") || line.contains('"') || trimmed.starts_with('|');
    if columns > COLUMNS_MAX && !unbreakable {
        find(format!(
            "{columns} columns, {COLUMNS_MAX} are allowed; break the line"
        ));
    }
}

fn has_word(code: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + word.len()..].chars().next();
        !before.is_some_and(part_of_word) && !after.is_some_and(part_of_word)
    })
}

/// Separates code from strings and comments, across lines.
#[derive(Default)]
pub(super) struct Quotes {
    in_string: bool,
    in_comment: bool,
}

impl Quotes {
    /// The line without its strings and comments.
    pub(super) fn code_of(&mut self, line: &str) -> String {
        let mut code = String::new();
        let mut chars = line.chars().peekable();
        let mut last = ' ';
        while let Some(c) = chars.next() {
            if self.in_comment {
                self.in_comment = !(last == '*' && c == '/');
                last = if self.in_comment { c } else { ' ' };
                continue;
            }
            if self.in_string {
                match c {
                    '\\' => drop(chars.next()),
                    '"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            match (c, chars.peek()) {
                ('/', Some('/')) => return code,
                ('/', Some('*')) => self.in_comment = true,
                // A quote as a character begins no string.
                ('\'', Some('"')) => drop(chars.next()),
                ('"', _) => self.in_string = true,
                _ => code.push(c),
            }
            last = c;
        }
        code
    }
}
