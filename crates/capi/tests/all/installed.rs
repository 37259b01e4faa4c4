//! What a C or C++ programmer does: installs, compiles by pkg-config, runs. And that the headers
//! and the library have the same functions.

use crate::common::{functions, header, package, without_comments};
use crate::joined::with_rack;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// Warnings that are errors in every program here.
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// C functions that the C++ header does without.
const UNWRAPPED: [&str; 0] = [];

fn run(command: &mut Command) -> Output {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    output
}

/// Whether a program can be started; a test that needs it says so and does nothing else without.
fn is_there(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        println!("skipped: {program} is not installed");
    }
    found
}

fn tools(compiler: &str) -> bool {
    cfg!(target_os = "linux") && is_there(compiler) && is_there("pkg-config")
}

fn xtask(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(["run", "--quiet", "--package", "xtask", "--"]);
    command.args(arguments).current_dir(package());
    command
}

/// Where the libraries lie that were built with this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    test.parent().expect("it lies in a folder").to_owned()
}

/// The prefix where everything has been installed.
fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prefix");
        let _none = fs::remove_dir_all(&prefix);
        install(&prefix);
        prefix
    })
}

fn install(prefix: &Path) {
    let (prefix, built) = (prefix.to_string_lossy(), built());
    let from = built.to_string_lossy();
    run(&mut xtask(&[
        "install", "--prefix", &prefix, "--from", &from,
    ]));
}

/// What pkg-config says.
fn pkg_config(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.env("PKG_CONFIG_PATH", prefix().join("lib/pkgconfig"));
    let output = run(command.args(arguments).arg("rackweave"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Compiles a source in C or C++, by its name.
fn compile(source: &Path) -> PathBuf {
    let stem = source.file_stem().and_then(|stem| stem.to_str());
    let kind = source.extension().and_then(|kind| kind.to_str());
    let (stem, kind) = (stem.expect("it has a name"), kind.expect("it has an end"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{stem}-{kind}"));
    let (compiler, standard) = match kind {
        "c" => ("gcc", "-std=c11"),
        _ => ("g++", "-std=c++20"),
    };
    let mut command = Command::new(compiler);
    command.arg(standard).args(STRICT).args(["-O1", "-g"]);
    command.arg(source).arg("-o").arg(&program);
    run(command.args(pkg_config(&["--cflags", "--libs"])));
    program
}

fn execute(program: &Path, arguments: &[&Path]) -> String {
    let mut command = Command::new(program);
    command.args(arguments);
    let output = run(command.env("LD_LIBRARY_PATH", prefix().join("lib")));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs an example on a rack in its process, and as these nodes of a running rack.
fn example(name: &str, compiler: &str, nodes: &[&str], expect: &str) {
    if !tools(compiler) {
        return;
    }
    let program = compile(&package().join("examples").join(name));
    let printed = execute(&program, &[]);
    assert!(printed.contains(expect), "{name} printed {printed:?}");
    with_rack(&name.replace('.', "-"), nodes, |config| {
        let printed = execute(&program, &[config]);
        assert!(printed.contains(expect), "{name} printed {printed:?}");
    });
}

const COMPUTE: [&str; 2] = ["compute0", "compute1"];
const BOTH: [&str; 2] = ["storage0", "compute0"];

#[test]
fn pages_in_c() {
    example("pages.c", "gcc", &COMPUTE, "written on compute0");
}

#[test]
fn pages_in_cpp() {
    example("pages.cpp", "g++", &COMPUTE, "sum 1500");
}

#[test]
fn messages_in_c() {
    // 100 rounds of 0 to 999 in some order.
    example("messages.c", "gcc", &BOTH, "sum 49950000");
}

#[test]
fn messages_in_cpp() {
    example("messages.cpp", "g++", &BOTH, "column 3: sum 49950000");
}

#[test]
fn columns_in_c() {
    example("columns.c", "gcc", &BOTH, "100000 rows, sum 49950000");
}

#[test]
fn columns_in_cpp() {
    let expect = "3 texts, the second is null: a, c";
    example("columns.cpp", "g++", &BOTH, expect);
}

/// What the programs in a document print: indented, from the first header to a line that is not.
fn documented(document: &str) -> Vec<String> {
    let text = fs::read_to_string(package().join("../..").join(document));
    let text = text.expect("the documentation is there");
    let begins = text.match_indices("    #include <rackweave.h");
    let mut printed = Vec::new();
    for (at, _) in begins {
        let lines = text[at..].lines();
        let inside = lines.take_while(|line| line.is_empty() || line.starts_with("    "));
        let program: String = inside.map(|line| format!("{line}\n")).collect();
        let (suffix, compiler) = match program.contains(".hpp") {
            true => ("cpp", "g++"),
            false => ("c", "gcc"),
        };
        if tools(compiler) {
            let name = format!("{}.{suffix}", document.replace(['/', '.'], "_"));
            let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            fs::write(&source, program).expect("it can be written");
            printed.push(execute(&compile(&source), &[]));
        }
    }
    printed
}

#[test]
fn programs_in_the_documentation() {
    let (manual, readme) = (documented("docs/capi.md"), documented("README.md"));
    if tools("gcc") && tools("g++") {
        assert_eq!(manual, ["ten numbers from 100 on\n", "hello\n"]);
        assert_eq!(readme, ["a message\n"]);
    }
}

#[test]
fn misuse_is_answered_by_statuses() {
    if tools("gcc") {
        let printed = execute(&compile(&package().join("tests/programs/misuse.c")), &[]);
        assert_eq!(printed, "0 failures\n");
    }
}

/// A C program that takes the address of every function that the header declares: it compiles
/// strictly, and links against the shared library.
#[test]
fn the_library_has_what_the_header_declares() {
    if !tools("gcc") {
        return;
    }
    let mut program = "#include <rackweave.h>\n#include <stdio.h>\n\
                       typedef void (*function)(void);\nint main(void) {\n\
                       \x20 const function all[] = {\n"
        .to_owned();
    let declared = functions(&without_comments(&header()));
    for name in &declared {
        writeln!(program, "    (function){name},").expect("a text takes all");
    }
    program += "  };\n  size_t there = 0, count = sizeof all / sizeof *all;\n\
                \x20 for (size_t at = 0; at < count; at++) there += all[at] != 0;\n\
                \x20 printf(\"%zu %s\\n\", there, rackweave_version());\n  return 0;\n}\n";
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("addresses.c");
    fs::write(&source, program).expect("it can be written");
    let expect = format!("{} {}\n", declared.len(), env!("CARGO_PKG_VERSION"));
    assert_eq!(execute(&compile(&source), &[]), expect);
}

/// The other way round: what the library exports with our prefix is declared.
#[test]
fn the_header_declares_what_the_library_has() {
    if !tools("nm") {
        return;
    }
    let library = prefix().join("lib/librackweave.so");
    let output = run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let symbols = text
        .lines()
        .filter_map(|line| line.split_whitespace().last());
    let ours = symbols.filter(|name| name.starts_with("rackweave_"));
    let exported: BTreeSet<String> = ours.map(str::to_owned).collect();
    assert_eq!(exported, functions(&without_comments(&header())));
}

#[test]
fn the_cpp_header_uses_every_function_once_at_least() {
    let text = fs::read_to_string(package().join("include/rackweave.hpp"));
    let text = without_comments(&text.expect("the header is there"));
    let is_used = |name: &String| {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let mut places = text.match_indices(name.as_str());
        places.any(|(at, _)| !text[at + name.len()..].starts_with(is_word))
    };
    let declared = functions(&without_comments(&header()));
    let unused = declared.iter().filter(|name| !is_used(name));
    let unused: Vec<_> = unused.collect();
    assert_eq!(unused, UNWRAPPED, "wrap them, or enter them in UNWRAPPED");
}

/// Whatever can be created can be destroyed.
#[test]
fn every_opaque_type_has_a_destroy() {
    let text = header();
    let declared = functions(&without_comments(&text));
    let opaque = text.lines().filter_map(|line| {
        let names = line.strip_prefix("typedef struct ")?.strip_suffix(';')?;
        names.split_once(' ').map(|(_, name)| name.to_owned())
    });
    let opaque: Vec<_> = opaque.collect();
    assert!(opaque.len() >= 20, "{opaque:?}");
    for name in opaque {
        assert!(declared.contains(&format!("{name}_destroy")), "{name}");
    }
}

#[test]
fn what_was_installed_is_uninstalled() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("elsewhere");
    install(&prefix);
    // Twice is as good as once.
    install(&prefix);
    let library = prefix.join("lib/librackweave.so");
    assert_eq!(
        fs::read_link(&library).expect("it is a link"),
        Path::new("librackweave.so.0")
    );
    let folder = prefix.to_string_lossy();
    run(&mut xtask(&["install", "--uninstall", "--prefix", &folder]));
    for folder in ["include", "lib/pkgconfig"] {
        let left = fs::read_dir(prefix.join(folder)).expect("the folder stays");
        assert_eq!(left.count(), 0, "{folder}");
    }
    assert!(fs::symlink_metadata(&library).is_err());
}
