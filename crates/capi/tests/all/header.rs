//! The header that is checked in is the one that the sources make.

use crate::common::{SOURCES, package};
use std::fs;

/// The command that this test's failures name.
const REMEDY: &str = "cargo xtask header";

/// The header, made from the sources.
fn made() -> String {
    let root = package();
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml"));
    let config = config.expect("cbindgen.toml is there and makes sense");
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(root.join("src").join(source));
    }
    let mut bytes = Vec::new();
    builder
        .generate()
        .expect("cbindgen understands the sources")
        .write(&mut bytes);
    let text = String::from_utf8(bytes).expect("sources are UTF-8");
    // What Rust calls the safety of a call is what its documentation says of its pointers.
    let text = text.replace("# Safety", "Pointers:");
    for_c(&text)
}

/// Names of functions in documentation, as C writes them.
fn for_c(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.replace("[`", "`").replace("`]", "`");
        lines.push(line.trim_end().to_owned());
    }
    lines.join("\n") + "\n"
}

#[test]
fn the_header_is_up_to_date() {
    let path = package().join("include").join("rackweave.h");
    let made = made();
    if std::env::var_os("RACKWEAVE_WRITE_HEADER").is_some() {
        fs::write(&path, &made).expect("the header can be written");
        println!("written: {}", path.display());
        return;
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    let differ = made.lines().zip(there.lines()).position(|(a, b)| a != b);
    let at = differ.unwrap_or(made.lines().count().min(there.lines().count()));
    assert!(
        made == there,
        "include/rackweave.h differs from the sources from line {} on; run `{REMEDY}`",
        at + 1
    );
}

/// Every module with something for C is among the sources.
#[test]
fn no_module_is_forgotten() {
    for entry in fs::read_dir(package().join("src")).expect("sources are there") {
        let path = entry.expect("sources are there").path();
        let text = fs::read_to_string(&path).expect("sources are files");
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.expect("names are UTF-8");
        let is_listed = SOURCES.contains(&name);
        assert_eq!(
            text.contains("#[unsafe(no_mangle)]") || is_listed,
            is_listed,
            "{name}"
        );
    }
}
