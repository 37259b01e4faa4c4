//! The allowed dependencies between crates, and the required entries of every manifest.

use super::Finding;

/// A crate and the project's crates that it may depend on, with the reason. A new dependency gets
/// the hardest review: it is entered here, and in ARCHITECTURE.md, or not at all.
const ARROWS: [(&str, &[&str], &str); 22] = [
    ("base", &[], "the ground floor knows no protocol"),
    (
        "wire",
        &["base"],
        "wire formats are values: they know no connection and no machine",
    ),
    ("verbs", &["base"], "the words of endpoints know no packet"),
    (
        "nic",
        &["base", "wire", "verbs"],
        "a NIC knows neither switch nor link",
    ),
    (
        "switch",
        &["base", "wire"],
        "the switch knows packets, not nodes",
    ),
    (
        "programs",
        &["base", "wire", "switch"],
        "programs know no endpoint, NIC or controller",
    ),
    (
        "controller",
        &["base", "wire", "verbs", "switch", "programs", "target"],
        "the controller acts by verbs and tables; it knows no NIC, no link and no kind of rack",
    ),
    (
        "target",
        &["base", "wire", "verbs"],
        "an NVMe target knows verbs; it knows neither pages nor who connects to it",
    ),
    (
        "link",
        &["base", "wire"],
        "links carry packets and judge nothing in them",
    ),
    (
        "endpoint",
        &["base", "wire", "verbs"],
        "endpoints know verbs and nothing that carries them",
    ),
    (
        "sim",
        &["base", "wire", "verbs", "nic", "switch", "link"],
        "the simulator joins machines and judges histories; it builds no rack and sets up no flow",
    ),
    (
        "control",
        &["base"],
        "the control connection knows how processes trust each other, not what they say",
    ),
    (
        "workload",
        &["base", "endpoint"],
        "a workload is a database: it links against endpoints",
    ),
    (
        "rack",
        &[
            "base",
            "wire",
            "verbs",
            "nic",
            "switch",
            "programs",
            "controller",
            "target",
            "link",
            "endpoint",
            "sim",
            "control",
        ],
        "the rack builds everything and knows no workload and no command line",
    ),
    (
        "chaos",
        &[
            "base",
            "wire",
            "verbs",
            "controller",
            "target",
            "endpoint",
            "sim",
            "rack",
        ],
        "campaigns know racks, endpoints and checkers, not the machines' insides",
    ),
    (
        "bench",
        &[
            "base",
            "wire",
            "verbs",
            "target",
            "controller",
            "endpoint",
            "sim",
            "rack",
            "workload",
        ],
        "experiments know racks, endpoints and the simulator, not the switch's insides",
    ),
    (
        "interop",
        &[
            "base",
            "wire",
            "verbs",
            "nic",
            "switch",
            "programs",
            "controller",
            "link",
            "endpoint",
            "rack",
        ],
        "the interoperability suite joins the machines with a peer that is not ours",
    ),
    (
        "cli",
        &[
            "base",
            "wire",
            "verbs",
            "nic",
            "switch",
            "programs",
            "controller",
            "target",
            "link",
            "endpoint",
            "sim",
            "control",
            "rack",
            "chaos",
            "workload",
            "bench",
        ],
        "the command line stands on everything but the tools of tests",
    ),
    (
        "fuzz-harness",
        &[
            "base",
            "wire",
            "verbs",
            "nic",
            "switch",
            "programs",
            "controller",
            "target",
            "link",
            "endpoint",
            "control",
            "rack",
        ],
        "the harness drives the machines by their seams, and reads a configuration as a rack does",
    ),
    (
        "capi",
        &[
            "base",
            "wire",
            "verbs",
            "controller",
            "target",
            "endpoint",
            "rack",
        ],
        "the C face sets up what a C program asks for with the calls that a Rust program has",
    ),
    (
        "rackweave",
        &[
            "base",
            "wire",
            "verbs",
            "controller",
            "target",
            "endpoint",
            "sim",
            "rack",
        ],
        "the library shows what a database links against, and has nothing of its own",
    ),
    ("xtask", &[], "chores build when the crates do not"),
];

/// The crates that may depend on both an endpoint and the switch.
const SEE_BOTH: [&str; 5] = ["sim", "rack", "cli", "fuzz-harness", "interop"];

/// Checks one manifest.
pub fn check(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let Some(name) = crate_of(path) else {
        return;
    };
    let mut find = |line: usize, message: String| {
        findings.push(Finding {
            path: path.to_owned(),
            line,
            message,
        });
    };
    let manifest = Manifest::read(text);
    if !manifest.lints {
        find(1, "add [lints] with workspace = true".to_owned());
    }
    let Some(&(_, allowed, reason)) = ARROWS.iter().find(|(row, ..)| *row == name) else {
        let table = "xtask/src/tidy/dependencies.rs";
        find(
            1,
            format!("enter the new crate {name} in the table of arrows in {table}"),
        );
        return;
    };
    for (line, known) in &manifest.arrows {
        if !allowed.contains(&known.as_str()) {
            find(
                *line,
                format!("{name} may not know {known}: {reason}; turn the arrow round"),
            );
        }
    }
    let knows = |other: &str| manifest.arrows.iter().find(|(_, known)| known == other);
    if let (Some((_, _)), Some((line, _))) = (knows("endpoint"), knows("switch"))
        && !SEE_BOTH.contains(&name)
    {
        let both = SEE_BOTH.join(", ");
        find(
            *line,
            format!("only {both} may see both an endpoint and the switch"),
        );
    }
}

/// The crate whose manifest this is, if it is one of the workspace.
fn crate_of(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/Cargo.toml")?;
    match folder.strip_prefix("crates/") {
        Some(name) => Some(name),
        None => ["xtask", "interop"].contains(&folder).then_some(folder),
    }
}

/// The parts of a manifest that are checked.
#[derive(Default)]
struct Manifest {
    /// The project's crates that it depends on, except in tests, with their lines.
    arrows: Vec<(usize, String)>,
    lints: bool,
}

impl Manifest {
    fn read(text: &str) -> Self {
        let mut manifest = Self::default();
        let mut table = String::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if let Some(header) = line.strip_prefix('[') {
                table = header.trim_end_matches(']').to_owned();
                // [dependencies.rackweave-x] is a dependency too.
                if let Some((dependencies, name)) = table.rsplit_once('.') {
                    manifest.enter(at + 1, dependencies, name);
                }
                continue;
            }
            let key = line.split(['.', '=', ' ']).next().unwrap_or_default();
            manifest.enter(at + 1, &table, key);
            let inherits = line.replace(' ', "") == "workspace=true";
            manifest.lints |= table == "lints" && inherits;
        }
        manifest
    }

    fn enter(&mut self, line: usize, table: &str, key: &str) {
        let dependencies = table == "dependencies" || table.ends_with(".dependencies");
        if let Some(name) = key.trim_matches('"').strip_prefix("rackweave-")
            && dependencies
        {
            self.arrows.push((line, name.to_owned()));
        }
    }
}
