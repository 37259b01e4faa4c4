//! Each check fails on an example of its violation, and passes on valid input.

use super::{Finding, dependencies, judge, links, modules, text};

/// Checks the findings for a file, each with its line.
fn check(path: &str, content: &str, expect: &[(usize, &str)]) {
    let mut findings: Vec<Finding> = Vec::new();
    text::check(path, content, &mut findings);
    if path.ends_with("Cargo.toml") {
        dependencies::check(path, content, &mut findings);
    }
    let all = || findings.iter().map(Finding::to_string).collect::<Vec<_>>();
    assert_eq!(findings.len(), expect.len(), "{:#?}", all());
    for (finding, (line, part)) in findings.iter().zip(expect) {
        assert_eq!(finding.line, *line, "{finding}");
        assert!(
            finding.message.contains(part),
            "{finding} does not say {part:?}"
        );
    }
}

const FILE: &str = "crates/nic/src/file.rs";

#[test]
fn a_sound_file_is_sound() {
    check(FILE, "//! A file.\n\nfn main() {}\n", &[]);
    check("README.md", "# Rackweave\n", &[]);
}

#[test]
fn every_file_opens_with_what_it_is() {
    check(FILE, "fn main() {}\n", &[(1, "//!")]);
    check(FILE, "", &[(1, "//!")]);
    check("README.md", "text\n", &[]);
}

#[test]
fn files_have_a_bound() {
    let file = |lines: usize| format!("//! A file.\n{}", "\n".repeat(lines - 1));
    check(FILE, &file(400), &[]);
    check(FILE, &file(401), &[(401, "two modules")]);
    for tests in [
        "crates/nic/src/qp/tests.rs",
        "crates/nic/tests/nic/common.rs",
    ] {
        check(tests, &file(600), &[]);
        check(tests, &file(601), &[(601, "two modules")]);
    }
    for (long, lines) in text::LONG_FILES {
        check(long, &file(lines), &[]);
        check(long, &file(lines + 1), &[(lines + 1, "two modules")]);
        check(long, &file(lines - 1), &[(1, "lower its entry")]);
    }
}

#[test]
fn unfinished_work_is_found() {
    for left in ["todo", "unimplemented", "dbg"] {
        check(
            FILE,
            &format!("//! A file.\nfn f() {{ {left}!() }}\n"),
            &[(2, left)],
        );
    }
    for left in [concat!("FIX", "ME"), concat!("XX", "X")] {
        check("README.md", &format!("text\n{left} later\n"), &[(2, left)]);
    }
}

#[test]
fn unsafe_has_its_places() {
    let file = "//! A file.\nfn f() { unsafe { g() } }\n";
    check(FILE, file, &[(2, "alone")]);
    check("crates/base/src/memory/mod.rs", file, &[]);
    check("crates/link/src/ring.rs", file, &[]);
    check("crates/link/src/shared_memory/segment.rs", file, &[]);
    check("crates/link/src/packet_socket/system.rs", file, &[]);
    check("crates/link/src/packet_socket.rs", file, &[(2, "alone")]);
    let harmless = "//! Nothing unsafe.\n#![forbid(unsafe_code)]\nconst A: &str = \"unsafe\";\n\
                    // unsafe\n/* unsafe\nunsafe */\n";
    check(FILE, harmless, &[]);
    check(
        FILE,
        "//! A.\nconst Q: char = '\"'; unsafe fn f() {}\n",
        &[(2, "alone")],
    );
    check(
        FILE,
        "//! A.\nconst S: &str = \"a\\\"\nunsafe\"; unsafe fn f() {}\n",
        &[(3, "alone")],
    );
}

#[test]
fn lines_have_a_bound() {
    let line = |columns: usize| format!("//! A file.\n//{}\n", "x".repeat(columns - 2));
    check(FILE, &line(100), &[]);
    check(FILE, &line(101), &[(2, "101 columns")]);
    let long = "x".repeat(120);
    check(FILE, &format!("//! See https://example.com/{long}\n"), &[]);
    check(
        FILE,
        &format!("//! A file.\nconst A: &str = \"{long}\";\n"),
        &[],
    );
    check(FILE, &format!("//! | {long} |\n"), &[]);
    check(
        "README.md",
        &format!("| {long} |\n{long}\n"),
        &[(2, "columns")],
    );
}

#[test]
fn white_space_is_plain() {
    check(FILE, "//! A file. \n", &[(1, "end of the line")]);
    check(FILE, "//! A file.\r\n", &[]);
    check(FILE, "//! A file.\n\tfn\n", &[(2, "tabs")]);
    check(FILE, "//! A file.", &[(1, "line feed")]);
    check("crates/a/src/snapshots/a.snap", "a \n", &[]);
}

#[test]
fn the_project_speaks_of_itself_alone() {
    for word in [
        concat!("/work", "/main/x"),
        concat!("the Helper", " session"),
    ] {
        check("README.md", &format!("{word}\n"), &[(1, "workplace")]);
    }
    check("README.md", "a working session of the TCP kind\n", &[]);
}

const LINTS: &str = "[lints]\nworkspace = true\n";

#[test]
fn arrows_point_downwards() {
    let manifest = |arrows: &str| format!("{LINTS}[dependencies]\n{arrows}");
    let nic = "crates/nic/Cargo.toml";
    check(
        nic,
        &manifest("rackweave-wire.workspace = true\nthiserror.workspace = true\n"),
        &[],
    );
    check(
        nic,
        &manifest("rackweave-switch.workspace = true\n"),
        &[(4, "may not know switch")],
    );
    check(
        nic,
        &manifest("rackweave-sim = { path = \"../sim\" }\n"),
        &[(4, "may not know sim")],
    );
    let table = format!("{LINTS}[dependencies.rackweave-rack]\nworkspace = true\n");
    check(nic, &table, &[(3, "may not know rack")]);
    let target = format!("{LINTS}[target.'cfg(loom)'.dependencies]\nrackweave-link = \"1\"\n");
    check(nic, &target, &[(4, "may not know link")]);
    let tests = format!("{LINTS}[dev-dependencies]\nrackweave-switch.workspace = true\n");
    check(nic, &tests, &[]);
}

#[test]
fn few_see_both_an_endpoint_and_the_switch() {
    let both = "[dependencies]\nrackweave-endpoint = \"1\"\nrackweave-switch = \"1\"\n";
    check("crates/rack/Cargo.toml", &format!("{LINTS}{both}"), &[]);
    let expect = [(4, "may not know endpoint"), (5, "both")];
    check(
        "crates/controller/Cargo.toml",
        &format!("{LINTS}{both}"),
        &expect,
    );
}

#[test]
fn every_crate_has_its_row_and_the_common_lints() {
    check("crates/attic/Cargo.toml", LINTS, &[(1, "attic")]);
    check(
        "crates/nic/Cargo.toml",
        "[package]\nname = \"x\"\n",
        &[(1, "[lints]")],
    );
    check("Cargo.toml", "[workspace]\n", &[]);
}

#[test]
fn the_project_is_tidy() {
    let (files, findings) = judge().expect("every file can be read");
    assert!(files > 50, "{files} files are too few to be all");
    let listed: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert!(listed.is_empty(), "{}", listed.join("\n"));
}

#[test]
fn links_lead_somewhere() {
    let guide = "# The guide\n\n## Why `this`?\n\n[up](#why-this) [b](../B.md#one-two) [c](c.md)\n\
                 ```\n[not](a-link.md)\n```\n[away](https://example.org/x) `[no](x)`\n";
    let documents = [
        ("docs/a.md".to_owned(), guide.to_owned()),
        (
            "B.md".to_owned(),
            "# One, two\n[a](docs/a.md#nothing)\n".to_owned(),
        ),
    ];
    let exists = |path: &std::path::Path| documents.iter().any(|(name, _)| path.ends_with(name));
    let mut findings = Vec::new();
    links::check(&documents, &exists, &mut findings);
    let listed: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert_eq!(
        listed,
        [
            "docs/a.md:5: the link leads to docs/c.md, which is not there",
            "B.md:2: docs/a.md has no heading for #nothing",
        ]
    );
}

#[test]
fn names_are_the_fields() {
    let named = |code: &str, expect: &[(usize, &str)]| {
        check(FILE, &format!("//! A file.\n{code}\n"), expect);
    };
    named("let was_told = true;", &[(2, "told")]);
    named("struct FlowCrew;", &[(2, "workers")]);
    named("fn room(&self) -> usize {", &[(2, "capacity()")]);
    named("pub struct Plan {", &[(2, "of what")]);
    named("enum Stage {", &[(2, "fixture")]);
    check(
        "crates/switch/src/budget.rs",
        "//! A file.\nstruct Stage;\n",
        &[],
    );
    named("struct NodeUnit;", &[(2, "a node here")]);
    check(
        "crates/sim/src/unit.rs",
        "//! A file.\nstruct ProcessingUnit;\n",
        &[],
    );
    named("fn mistakes_are_told_with_a_remedy() {", &[]);
    named("// It is told.", &[]);
    named("let doorbell = FlowPlan::new(\"the crew\");", &[]);
}

#[test]
fn modules_of_a_crate_import_downwards() {
    let file = |path: &str, text: &str| (format!("crates/nic/src/{path}"), text.to_owned());
    let found = |files: &[(String, String)]| {
        let mut findings = Vec::new();
        modules::check(files, &mut findings);
        findings.iter().map(Finding::to_string).collect::<Vec<_>>()
    };
    let a = file("a.rs", "use crate::{b, c::Deep};\n");
    let inner = file(
        "c/deep.rs",
        "use super::a;\n// crate::a\nconst A: &str = \"crate::a\";\n",
    );
    let tests = "#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n";
    assert!(found(&[a.clone(), file("b.rs", tests), inner.clone()]).is_empty());
    let back = file("b.rs", "fn f() {}\nuse super::a::A;\n");
    let circle = found(&[a.clone(), back, inner.clone()]);
    assert_eq!(circle.len(), 1, "{circle:?}");
    assert!(circle[0].contains("a, b import each other"), "{circle:?}");
    let round = file("b.rs", "use crate::c;\n");
    let third = file("c/mod.rs", "use crate::{\n    a::{self, A},\n};\n");
    let circle = found(&[a, round, third, file("lib.rs", "use crate::a;\n"), inner]);
    assert!(
        circle[0].contains("a, b, c import each other"),
        "{circle:?}"
    );
}
