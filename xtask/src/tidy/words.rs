//! Names that the field has better ones for, and names that do not say what they are of.

/// Words of a private language, as a part of a name, and what to say instead. The name of a test is
/// a sentence and may use them.
const WORDS: [(&[&str], &str); 8] = [
    (
        &["told", "untold"],
        "say what happened: reported, sent, acknowledged",
    ),
    (&["crew", "crews"], "workers, pool or session"),
    (&["seat", "seats"], "member, slot, client or session"),
    (&["desk", "desks", "hire", "hired"], "worker pool"),
    (&["book", "books"], "registry"),
    (&["door", "doors"], "acceptor"),
    (&["mischief"], "misbehaviour"),
    (&["station", "stations"], "node or machine"),
];

/// Types that would have to say of what they are one. A stage is the switch's, a lane its
/// connection to a node.
const BARE: [(&str, &str, &str); 9] = [
    ("Place", "", "location, slot or address of what"),
    ("Places", "", "locations of what"),
    ("Plan", "", "plan of what"),
    ("Plans", "", "plans of what"),
    ("Source", "", "source of what"),
    ("Unit", "", "a node, or a unit of what"),
    ("Played", "", "a fake: FakeClock, FakePeer"),
    (
        "Stage",
        "crates/switch/",
        "fixture, harness or state of what",
    ),
    ("Lane", "crates/switch/", "queue, channel or path of what"),
];

/// Where nothing is measured or counted in units, so that a unit would be a node.
const WITHOUT_UNITS: [&str; 10] = [
    "crates/chaos/",
    "crates/cli/src/perf/messaging/",
    "crates/controller/",
    "crates/endpoint/src/flow/",
    "crates/endpoint/src/messaging/",
    "crates/fuzz-harness/src/messaging/",
    "crates/nic/",
    "crates/sim/src/checkers/",
    "crates/wire/src/fabric/ring.rs",
    "interop/",
];

/// A longer name is a test's sentence.
const WORDS_MAX: usize = 3;

/// Looks at a line of code, without its strings and comments.
pub fn check(path: &str, code: &str, find: &mut impl FnMut(String)) {
    let mut before = "";
    for name in code.split(|c: char| !c.is_alphanumeric() && c != '_') {
        if name.is_empty() {
            continue;
        }
        let parts = parts(name);
        for (words, instead) in WORDS {
            let is_one = |part: &String| words.contains(&part.as_str());
            if parts.len() <= WORDS_MAX
                && let Some(word) = parts.iter().find(|part| is_one(part))
            {
                find(format!("\"{word}\" in {name} is no term: {instead}"));
            }
        }
        let is_unit = |part: &String| part == "unit" || part == "units";
        if WITHOUT_UNITS.iter().any(|home| path.starts_with(home)) && parts.iter().any(is_unit) {
            find(format!("{name}: a unit is a node here, or a peer"));
        }
        let declares = ["struct", "enum", "trait", "type"].contains(&before);
        for (bare, home, instead) in BARE {
            if declares && name == bare && (home.is_empty() || !path.starts_with(home)) {
                find(format!("{name} does not say what it is of: {instead}"));
            }
        }
        if before == "fn" && name == "room" {
            find("call it free() or capacity(), with what is counted".to_owned());
        }
        before = name;
    }
}

/// The words of `snake_case` and `CamelCase` names, in lower case.
fn parts(name: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut last = '_';
    for c in name.chars() {
        let begins = last == '_' || (c.is_uppercase() && last.is_lowercase());
        if c != '_' {
            if begins {
                parts.push(String::new());
            }
            let part = parts.last_mut().expect("the first letter begins a word");
            part.extend(c.to_lowercase());
        }
        last = c;
    }
    parts
}
