//! The text of a rack's configuration.

use crate::fixture::{Seeds, check_line, named};
use rackweave_rack::RackConfig;
use rackweave_rack::config::Role;

/// The file name in messages about the text.
const NAME: &str = "rack.toml";

/// The bytes are the text; invalid UTF-8 is replaced.
///
/// # Panics
/// If the configuration is wrong.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match RackConfig::parse(&text, NAME) {
        Ok(config) => accepted(&config),
        Err(error) => check_line(&error.to_string()),
    }
}

/// An accepted configuration is valid in all its parts, and unchanged when it is written again.
fn accepted(config: &RackConfig) {
    let checked = config.check();
    assert!(checked.is_ok(), "it was checked: {checked:?}");
    let written = config.to_toml();
    let again = RackConfig::parse(&written, NAME);
    let again = again.unwrap_or_else(|error| panic!("{error} of\n{written}"));
    assert_eq!(&again, config);
    assert_eq!(again.to_toml(), written);
    let mut nodes = 0;
    for role in [
        Role::Compute,
        Role::Memory,
        Role::Storage,
        Role::Dpu,
        Role::Guest,
    ] {
        for node in config.nodes_of(role) {
            let of = &config.node[usize::from(node.0)];
            assert_eq!((of.role, config.node_named(&of.name)), (role, Some(node)));
            let _ = config.faults_of(node);
            nodes += 1;
        }
    }
    assert_eq!(nodes, config.node.len());
    let beyond = format!("node{nodes}");
    assert_eq!(config.name_nodes(&beyond), beyond, "there is no such node");
    let _ = config.needs_check();
}

/// The initial inputs of the corpus: every section, and every kind of mistake.
pub fn seeds() -> Seeds {
    let two = "[[node]]\nname = \"s\"\nrole = \"storage\"\n\
               [[node]]\nname = \"c\"\nrole = \"compute\"\n";
    let switch = "[switch]\nconsumer_rings = 0\nproducer_rings = 0\n";
    let with = |text: &str| [two, text].concat();
    let texts = [
        ("empty", String::new()),
        ("two-nodes", with("")),
        (
            "numbers",
            "seed = 7\nmemory_limit = 0x10_0000\ndriver_threads = 2\n".to_owned(),
        ),
        (
            "pages",
            [switch, "page_entries = 2048\npage_size = 16384\n", two].concat(),
        ),
        (
            "index",
            [
                switch,
                "index_queries = 64\nindex_fat_ranges = 16\nindex_layers = 1\n",
            ]
            .concat(),
        ),
        (
            "store",
            [
                switch,
                "page_entries = 64\npage_size = 4096\n",
                two,
                "[[store]]\nname = \"a\"\nnode = \"s\"\nmedium = \"file\"\npath = \"a.pages\"\n\
                 bytes = 1048576\n",
            ]
            .concat(),
        ),
        (
            "faults",
            with("faults = { loss = 0.02, corrupt = 1e-3 }\n[faults]\nloss = 0.5\n"),
        ),
        (
            "hosted",
            with("link = \"udp\"\n[hosted]\ncontrol = \"10.0.0.1:7471\"\nkeys = \"keys\"\n"),
        ),
        ("topology", "[switch]\ntopology = \"fat-tree\"\n".to_owned()),
        (
            "link",
            "[link]\ngigabits_per_second = 25.0\n[nic]\nmtu = 1024\n".to_owned(),
        ),
        ("twice", with(two)),
        ("unknown", "[switch]\nlames = 4\n".to_owned()),
        ("wrong-type", "seed = \"one\"\n".to_owned()),
        ("wrong-value", "[nic]\nmtu = 1025\n".to_owned()),
        ("no-toml", "[switch\n\u{e9} = '".to_owned()),
        ("nested", "a = [[[[{b = [[{c = [1]}]]}]]]]\n".to_owned()),
    ];
    named(&[], texts.map(|(name, text)| (name, text.into_bytes())))
}
