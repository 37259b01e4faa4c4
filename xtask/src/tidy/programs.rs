//! The integration tests of a crate are one program. Each program is linked with everything that
//! the crate depends on, and the tests of one run side by side.

use super::Finding;
use std::collections::BTreeMap;

/// Checks all sources, given as path and text.
pub fn check(sources: &[(String, String)], findings: &mut Vec<Finding>) {
    let mut programs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, _) in sources {
        if let Some(package) = package_of(path) {
            programs.entry(package).or_default().push(path);
        }
    }
    for (package, paths) in programs {
        for path in paths.iter().skip(1) {
            findings.push(Finding {
                path: (*path).to_owned(),
                line: 1,
                message: format!(
                    "{package} has another program of tests, {}; make this one a module of \
                     {package}/tests/all/main.rs",
                    paths[0]
                ),
            });
        }
    }
}

/// The folder of the package of which this file is a program of integration tests, if it is one.
fn package_of(path: &str) -> Option<&str> {
    let (package, file) = path.split_once("/tests/")?;
    let is_program =
        !file.contains('/') || file.split_once('/').is_some_and(|(_, f)| f == "main.rs");
    (is_program && !package.contains("/src")).then_some(package)
}

#[cfg(test)]
mod tests {
    #[track_caller]
    fn check(paths: &[&str], expect: &[&str]) {
        let sources: Vec<_> = paths
            .iter()
            .map(|path| ((*path).to_owned(), String::new()))
            .collect();
        let mut findings = Vec::new();
        super::check(&sources, &mut findings);
        let found: Vec<_> = findings.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn a_second_program_is_found() {
        check(
            &["crates/a/tests/all/main.rs", "crates/a/tests/more.rs"],
            &["crates/a/tests/more.rs"],
        );
        check(
            &["crates/a/tests/all/main.rs", "crates/a/tests/more/main.rs"],
            &["crates/a/tests/more/main.rs"],
        );
    }

    #[test]
    fn modules_and_other_packages_are_none() {
        check(
            &[
                "crates/a/src/tests/main.rs",
                "crates/a/tests/all/main.rs",
                "crates/a/tests/all/more.rs",
                "crates/a/tests/all/more/main.rs",
                "crates/b/tests/replay.rs",
            ],
            &[],
        );
    }
}
