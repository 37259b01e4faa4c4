//! Unauthorized peers and invalid arguments: each gets a one-line error, and others are not
//! disturbed.

use super::rack::{RackFolder, command, is_guest, refused};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

#[test]
fn a_name_that_is_taken_is_refused() {
    let place = RackFolder::plain("");
    let _switch = place.start(&["switch"]);
    let first = place.start(&["node", "storage0"]);
    first.await_line("joined over");
    refused(&place.run(&["node", "storage0"]), "the name is taken");
    let info = place.info();
    let node = &info["nodes"][0];
    assert_eq!(
        (&node["joined"], &node["joins"]),
        (&true.into(), &1.into()),
        "{info:#}"
    );
    assert!(info["refused"]["refused"].as_u64() > Some(0), "{info:#}");
}

#[test]
fn a_wrong_key_is_refused() {
    let place = RackFolder::new("", "");
    assert_eq!(place.run(&["keygen"]).status.code(), Some(0));
    let switch = place.start(&["switch"]);
    switch.await_line("listening at");
    let good = place.start(&["node", "storage0"]);
    good.await_line("joined over");
    // Another rack's keys, at the same address.
    let stranger = RackFolder::new("", "");
    let text = std::fs::read_to_string(&place.config).unwrap();
    std::fs::write(&stranger.config, text).unwrap();
    assert_eq!(stranger.run(&["keygen"]).status.code(), Some(0));
    refused(&stranger.run(&["node", "storage1"]), "rackweave keygen");
    refused(&stranger.run(&["info"]), "rackweave keygen");
    // A node's key does not authorize another node's name.
    let keys = place.folder.join("run/keys");
    for end in ["key", "crt"] {
        let (from, to) = (
            keys.join(format!("storage0.{end}")),
            keys.join(format!("storage1.{end}")),
        );
        std::fs::copy(from, to).unwrap();
    }
    refused(
        &place.run(&["node", "storage1"]),
        "does not name `storage1`",
    );
    let info = place.info();
    assert_eq!(info["nodes"][0]["joins"], 1, "{info:#}");
    assert_eq!(info["nodes"][1]["joins"], 0, "{info:#}");
    assert!(
        info["refused"]["no_handshake"].as_u64() > Some(0),
        "{info:#}"
    );
}

#[test]
fn strangers_on_the_control_port_disturb_nobody() {
    for security in ["tls", "plain"] {
        let place = RackFolder::new(&format!("security = \"{security}\"\n"), "");
        let up = place.start(&["up"]);
        up.await_line("all 4 nodes have joined");
        std::thread::scope(|scope| {
            let strangers = scope.spawn(|| {
                let mut held = Vec::new();
                for round in 0..30u32 {
                    let mut stream = TcpStream::connect(place.control).unwrap();
                    // A plain pattern that is neither TLS nor a hello; some peers send nothing at
                    // all.
                    let bytes: Vec<u8> =
                        (0..round * 40).map(|at| (at * 37 + round) as u8).collect();
                    let _ = stream.write_all(&bytes);
                    held.push(stream);
                }
                held
            });
            place.demo_verifies();
            drop(strangers.join().unwrap());
        });
        let info = place.await_info("a refusal", |info| {
            info["refused"]
                .as_object()
                .is_some_and(|refused| !refused.is_empty())
        });
        let nodes = info["nodes"].as_array().unwrap();
        let mut own = nodes.iter().filter(|node| !is_guest(node));
        assert!(own.all(|node| node["joins"] == 1), "{info:#}");
        place.demo_verifies();
    }
}

#[test]
fn a_version_from_the_future_is_refused_in_words() {
    let place = RackFolder::plain("");
    let switch = place.start(&["switch"]);
    switch.await_line("listening at");
    let hello = br#"{"magic":"rackweave-control","version_min":99,"version_max":99}"#;
    let mut stream = TcpStream::connect(place.control).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    stream
        .write_all(&(hello.len() as u32).to_be_bytes())
        .unwrap();
    stream.write_all(hello).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer: Value = serde_json::from_slice(&answer[4..]).unwrap();
    assert!(answer["refused"]["remedy"].is_string(), "{answer}");
    switch.await_line("99");
}

#[test]
fn another_configuration_is_refused() {
    let place = RackFolder::plain("");
    let switch = place.start(&["switch"]);
    switch.await_line("listening at");
    place.write("security = \"plain\"\n", "[nic]\nmtu = 1024\n");
    refused(
        &place.run(&["node", "storage0"]),
        "use the same rack.toml on both sides",
    );
    refused(
        &place.run(&["demo"]),
        "use the same rack.toml on both sides",
    );
}

#[test]
fn what_cannot_start_says_why() {
    let place = RackFolder::plain("");
    refused(
        &place.run(&["node", "storage9"]),
        "did you mean \"storage0\"?",
    );
    refused(
        &place.run(&["node", "database"]),
        "storage0, storage1, compute0, compute1",
    );
    refused(
        &place.run(&["demo", "--loss", "0.1"]),
        "--loss cannot change a hosted rack",
    );
    let switch = place.start(&["switch"]);
    switch.await_line("listening at");
    refused(&place.run(&["switch"]), "another switch runs");
    // The same port from another folder.
    let text = std::fs::read_to_string(&place.config).unwrap();
    std::fs::write(&place.config, text.replace("\"run\"", "\"elsewhere\"")).unwrap();
    refused(&place.run(&["switch"]), "cannot listen on");

    let keyless = RackFolder::new("", "");
    refused(
        &keyless.run(&["switch"]),
        "authority.crt is missing: make it with `rackweave keygen",
    );
    refused(
        &keyless.run(&["node", "storage0"]),
        "is missing: make it with",
    );
}

#[test]
fn an_interface_that_is_not_there_is_told() {
    let node = "[[node]]\nname = \"a\"\nrole = \"compute\"\nlink = \"packet\"\n\
                interface = \"nosuch0\"\nswitch_interface = \"nosuch1\"\n";
    let place = RackFolder::new("security = \"plain\"\n", node);
    let switch = place.start(&["switch"]);
    switch.await_line("listening at");
    refused(&place.run(&["node", "a"]), "nosuch0");
}

#[test]
fn keygen_makes_what_is_missing_and_keeps_the_rest() {
    let place = RackFolder::new("", "");
    let keys = place.folder.join("elsewhere");
    let args = [
        "keygen",
        "--format",
        "json",
        "--directory",
        keys.to_str().unwrap(),
    ];
    let report = || -> Value {
        let output = place.run(&args);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let outcomes = |report: &Value| -> Vec<String> {
        let keys = report["keys"].as_array().unwrap().iter();
        keys.map(|key| format!("{} {}", key["name"], key["outcome"]).replace('"', ""))
            .collect()
    };
    let names = [
        "controller",
        "operator",
        "storage0",
        "storage1",
        "compute0",
        "compute1",
    ];
    let guests = (0..8).map(|at| format!("guest{at}"));
    let names: Vec<_> = names.into_iter().map(str::to_owned).chain(guests).collect();
    assert_eq!(
        outcomes(&report()),
        names
            .iter()
            .map(|name| format!("{name} made"))
            .collect::<Vec<_>>()
    );
    let key = keys.join("compute0.key");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&keys), mode(&key)), (0o700, 0o600));
    let before = std::fs::read(&key).unwrap();
    for end in ["key", "crt"] {
        std::fs::remove_file(keys.join(format!("storage1.{end}"))).unwrap();
    }
    let expect = names.iter().map(|name| match &**name {
        "storage1" => "storage1 made".to_owned(),
        _ => format!("{name} kept"),
    });
    let expect: Vec<_> = expect.collect();
    let again = report();
    assert_eq!(again["authority"], "kept");
    assert_eq!(outcomes(&again), expect);
    assert_eq!(std::fs::read(&key).unwrap(), before);
    // A key that other users can read is refused.
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    refused(&place.run(&args), "chmod 600");
    let help = command(&["keygen", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("authority.key stays here"), "{help}");
}

/// A key is revoked while the rack runs: its node is disconnected, a holder of a copy is refused,
/// other nodes are not affected, and the new key is accepted.
#[test]
fn a_revoked_key_is_out_from_the_next_hangup_on() {
    let place = RackFolder::new("", "");
    assert_eq!(place.run(&["keygen"]).status.code(), Some(0));
    let switch = place.start(&["switch"]);
    switch.await_line("listening at");
    let nodes = ["storage0", "storage1"].map(|name| place.start(&["node", name]));
    for node in &nodes {
        node.await_line("joined over");
    }
    // A thief has copied a key.
    let keys = place.folder.join("run/keys");
    let thief = RackFolder::new("", "");
    std::fs::copy(&place.config, &thief.config).unwrap();
    let stolen = thief.folder.join("run/keys");
    std::fs::create_dir_all(&stolen).unwrap();
    for file in ["storage0.key", "storage0.crt", "authority.crt"] {
        std::fs::copy(keys.join(file), stolen.join(file)).unwrap();
    }
    let revoked = place.run(&["keygen", "--revoke", "storage0"]);
    assert_eq!(revoked.status.code(), Some(0));
    switch.signal(Signal::HUP);
    switch.await_line("read the keys again, and cut off storage0");
    nodes[0].await_line("lost the switch");
    refused(
        &thief.run(&["node", "storage0"]),
        "the key shown was revoked",
    );
    let info = place.await_info("storage0 with its new key", |info| {
        info["nodes"][0]["joins"] == 2
    });
    assert_eq!(info["nodes"][1]["joins"], 1, "{info:#}");
}
