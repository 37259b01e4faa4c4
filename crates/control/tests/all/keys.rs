//! Key files: created once, kept, extended, and refused when they are invalid.

use crate::common::*;
use rackweave_control::keys::{KeygenReport, Outcome, keygen, keygen_for, revoke};
use rackweave_control::{CONTROLLER_NAME, ControlError, Identity, KeyError};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

fn mode(path: &Path) -> u32 {
    fs::metadata(path)
        .expect("it is there")
        .permissions()
        .mode()
        & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// All files of `dir` with their bytes.
fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .expect("it is there")
        .map(|entry| {
            let entry = entry.expect("it can be read");
            let name = entry
                .file_name()
                .into_string()
                .expect("our names are UTF-8");
            (name, fs::read(entry.path()).expect("it is ours"))
        })
        .collect();
    files.sort();
    files
}

/// Loading `name` fails with a message of one line that has all of `parts`.
fn check_load(dir: &Path, name: &str, parts: &[&str]) {
    let text = Identity::load(dir, name)
        .expect_err("not in order")
        .to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} in {text:?}");
    }
    assert!(!text.contains('\n'), "{text:?}");
}

#[test]
fn files_and_their_modes() {
    let dir = keys("modes").join("deeper");
    let report = keygen(&dir, &["n0"]).expect("keys are made");
    assert_eq!(
        report,
        KeygenReport {
            authority: Outcome::Made,
            names: vec![("n0".to_string(), Outcome::Made)],
        }
    );
    let names: Vec<_> = contents(&dir).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        ["authority.crt", "authority.key", "n0.crt", "n0.key"]
    );
    assert_eq!(mode(&dir), 0o700);
    assert_eq!(mode(&dir.join("authority.key")), 0o600);
    assert_eq!(mode(&dir.join("n0.key")), 0o600);
    let identity = Identity::load(&dir, "n0").expect("they are good");
    assert_eq!(identity.name(), "n0");
    assert_eq!(format!("{identity:?}"), "Identity { name: \"n0\", .. }");
}

#[test]
fn a_second_run_keeps_and_adds() {
    let dir = dir("twice");
    keygen(&dir, &[CONTROLLER_NAME, "n0"]).expect("keys are made");
    let before = contents(&dir);
    let report = keygen(&dir, &["n0", "n1", CONTROLLER_NAME, "n1"]).expect("a key is added");
    assert_eq!(report.authority, Outcome::Kept);
    let outcomes: Vec<_> = report.names.iter().map(|(_, outcome)| *outcome).collect();
    assert_eq!(
        outcomes,
        [Outcome::Kept, Outcome::Made, Outcome::Kept, Outcome::Kept]
    );
    let after = contents(&dir);
    assert_eq!(after.len(), before.len() + 2);
    assert!(before.iter().all(|file| after.contains(file)));
    // The new key works together with the old ones.
    let (mut client, mut server) = pair(tls(&dir, CONTROLLER_NAME), &tls(&dir, "n1"));
    client.send(&1).expect("sent");
    assert_eq!(server.receive(LONG).expect("received"), Some(1));
    assert_eq!(server.peer_name(), "n1");
}

const DAY: Duration = Duration::from_secs(24 * 3600);

#[test]
fn certificates_that_end_soon_are_renewed_for_the_same_key() {
    let dir = dir("renewed");
    let of_n0 = |lifetime| {
        keygen_for(&dir, &["n0"], lifetime)
            .expect("they are good")
            .names[0]
            .1
    };
    assert_eq!(of_n0(30 * DAY), Outcome::Made);
    let files = contents(&dir);
    assert_eq!(of_n0(80 * DAY), Outcome::Kept, "more than a third is left");
    assert_eq!(contents(&dir), files);
    assert_eq!(of_n0(100 * DAY), Outcome::Renewed);
    let renewed = contents(&dir);
    assert_eq!(files.len(), renewed.len());
    let mut changed = renewed.iter().filter(|file| !files.contains(file));
    assert_eq!(changed.next().expect("one").0, "n0.crt");
    assert!(changed.next().is_none());
    assert_eq!(of_n0(100 * DAY), Outcome::Kept);
}

#[test]
fn an_expired_certificate_is_told_and_renewed() {
    let dir = dir("expired");
    keygen(&dir, &[CONTROLLER_NAME]).expect("keys are made");
    keygen_for(&dir, &["n0"], Duration::from_secs(1)).expect("keys are made");
    let early = tls(&dir, "n0");
    let (listener, addr) = listen(tls(&dir, CONTROLLER_NAME));
    while Identity::load(&dir, "n0").is_ok() {
        std::thread::sleep(Duration::from_millis(100));
    }
    check_load(&dir, "n0", &["n0.crt has expired", "rackweave keygen"]);
    // A key that was loaded while it was valid is no longer accepted.
    let server = serve_one(listener, LONG);
    connect(addr, &early).expect_err("too old");
    let error = server.join().unwrap().expect_err("too old");
    assert!(matches!(error, ControlError::WrongKey { .. }), "{error}");
    let report = keygen(&dir, &["n0"]).expect("it is renewed");
    assert_eq!(report.names[0].1, Outcome::Renewed);
    pair(tls(&dir, CONTROLLER_NAME), &tls(&dir, "n0"));
}

#[test]
fn a_revoked_key_opens_nothing_and_the_next_one_does() {
    let dir = keys("revoked");
    let (old, other) = (tls(&dir, "n0"), tls(&dir, "N_1"));
    // Renewed: the key itself is revoked, whatever certificates exist for it.
    keygen_for(&dir, &["n0"], 5000 * DAY).expect("it is renewed");
    let (mut client, mut server) = pair(tls(&dir, CONTROLLER_NAME), &old);
    let shown = server.credential();
    assert!(tls(&dir, CONTROLLER_NAME).accepts(&shown));
    revoke(&dir, "n0").expect("it is there");
    let controller = tls(&dir, CONTROLLER_NAME);
    assert!(
        !controller.accepts(&shown),
        "who is in is known to be wrong"
    );
    client.send(&1).expect("nobody cuts it off here");
    assert_eq!(server.receive(LONG).expect("received"), Some(1));
    let (listener, addr) = listen(controller);
    let server = serve_one(listener, LONG);
    let error = connect(addr, &old).expect_err("it is revoked").to_string();
    assert!(error.contains("the key shown was revoked"), "{error}");
    let error = server.join().unwrap().expect_err("it is revoked");
    assert!(matches!(error, ControlError::Revoked { .. }), "{error}");
    pair(tls(&dir, CONTROLLER_NAME), &other);
    let report = keygen(&dir, &["n0"]).expect("a new one is made");
    assert_eq!(report.names[0].1, Outcome::Made);
    pair(tls(&dir, CONTROLLER_NAME), &tls(&dir, "n0"));
    // A controller's key is a key like any other.
    revoke(&dir, CONTROLLER_NAME).expect("it is there");
    let error = revoke(&dir, CONTROLLER_NAME).expect_err("it has gone");
    assert!(matches!(error, KeyError::Missing { .. }), "{error}");
    let list = fs::read_to_string(dir.join("revoked")).expect("made");
    assert_eq!(list.lines().count(), 3, "{list}");
}

#[test]
fn a_list_of_revoked_keys_is_read_whole_or_not_at_all() {
    let dir = keys("revoked_list");
    let revoked = dir.join("revoked");
    for line in ["nonsense", &"0".repeat(62), &"+f".repeat(32)] {
        fs::write(&revoked, format!("{line}\n")).expect("ours");
        check_load(&dir, "n0", &["revoked", "64 hexadecimal digits"]);
    }
    fs::remove_file(&revoked).expect("ours");
    let old = tls(&dir, "n0");
    revoke(&dir, "n0").expect("it is there");
    let last = fs::read_to_string(&revoked).expect("made");
    let others = format!("{} somebody\n", "0".repeat(64)).repeat(2000);
    fs::write(&revoked, format!("{others}{last}")).expect("ours");
    let (listener, addr) = listen(tls(&dir, CONTROLLER_NAME));
    let server = serve_one(listener, LONG);
    connect(addr, &old).expect_err("it is revoked");
    server.join().unwrap().expect_err("it is revoked");
    fs::write(&revoked, others.repeat(10)).expect("ours");
    check_load(&dir, CONTROLLER_NAME, &["revoked", "longer than 1 MiB"]);
}

#[test]
fn an_interrupted_revocation_leaves_no_key_that_nobody_accepts() {
    let dir = keys("revoked_in_part");
    let [key, certificate] = ["n0.key", "n0.crt"].map(|name| dir.join(name));
    for keeps_certificate in [true, false] {
        let [key_bytes, certificate_bytes] =
            [&key, &certificate].map(|path| fs::read(path).expect("made"));
        revoke(&dir, "n0").expect("it is there");
        fs::write(&key, key_bytes).expect("ours");
        set_mode(&key, 0o600);
        if keeps_certificate {
            fs::write(&certificate, certificate_bytes).expect("ours");
        }
        let report = keygen(&dir, &["n0"]).expect("a new one is made");
        assert_eq!(report.names[0].1, Outcome::Made);
        pair(tls(&dir, CONTROLLER_NAME), &tls(&dir, "n0"));
    }
}

#[test]
fn a_run_that_was_killed_is_carried_on() {
    let dir = keys("killed");
    let key = fs::read(dir.join("n0.key")).expect("made");
    fs::remove_file(dir.join("n0.crt")).expect("made");
    fs::remove_file(dir.join("authority.crt")).expect("made");
    fs::write(dir.join("n0.crt.part"), "half a cert").expect("written");
    let report = keygen(&dir, &[CONTROLLER_NAME, "n0"]).expect("it is carried on");
    assert_eq!(report.authority, Outcome::Made);
    assert_eq!(report.names[0].1, Outcome::Kept);
    assert_eq!(report.names[1].1, Outcome::Made);
    assert_eq!(fs::read(dir.join("n0.key")).expect("kept"), key);
    assert!(!dir.join("n0.crt.part").exists());
    pair(tls(&dir, CONTROLLER_NAME), &tls(&dir, "n0"));
}

#[test]
fn two_runs_at_once_agree() {
    let dir = dir("race");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| keygen(&dir, &[CONTROLLER_NAME, "n0"]).expect("keys are made"));
        }
    });
    assert_eq!(contents(&dir).len(), 6);
    pair(tls(&dir, CONTROLLER_NAME), &tls(&dir, "n0"));
}

#[test]
fn names_that_cannot_be() {
    let dir = dir("names");
    for name in [
        "",
        "../n0",
        "a b",
        "a\n",
        "authority",
        "é",
        ".",
        &"a".repeat(61),
    ] {
        let error = keygen(&dir, &["n0", name]).expect_err(name);
        assert!(matches!(error, KeyError::BadName { .. }), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
        let error = Identity::load(&dir, name).expect_err(name);
        assert!(matches!(error, KeyError::BadName { .. }), "{error}");
    }
    assert!(!dir.exists(), "nothing is made if one name is bad");
    keygen(&dir, &[&"A".repeat(60)]).expect("the longest name");
}

#[test]
fn missing_and_damaged_files() {
    let dir = keys("damaged");
    check_load(
        &dir,
        "n7",
        &["n7.key is missing", "rackweave keygen --config"],
    );
    let other = keys("damaged-other");
    for (file, parts) in [
        (
            "n0.key",
            ["n0.key holds no private key", "remove n0.crt and n0.key"],
        ),
        (
            "n0.crt",
            ["n0.crt holds no certificate", "remove n0.crt and n0.key"],
        ),
        (
            "authority.crt",
            ["authority.crt holds no certificate", "copy it again"],
        ),
    ] {
        let path = dir.join(file);
        let good = fs::read(&path).expect("made");
        let text = String::from_utf8(good.clone()).expect("PEM");
        for bad in [
            b"".to_vec(),
            b"\xff\0garbage".to_vec(),
            good[..good.len() / 2].to_vec(),
        ] {
            fs::write(&path, bad).expect("written");
            check_load(&dir, "n0", &parts);
        }
        // Valid base64, invalid contents.
        let inside = text.replace("MI", "AA");
        assert_ne!(inside, text);
        fs::write(&path, inside).expect("written");
        check_load(&dir, "n0", &["rackweave keygen"]);
        // The file of another rack.
        fs::copy(other.join(file), &path).expect("copied");
        check_load(&dir, "n0", &["rackweave keygen"]);
        fs::remove_file(&path).expect("it is there");
        check_load(&dir, "n0", &[file, "is missing"]);
        fs::create_dir(&path).expect("made");
        check_load(&dir, "n0", &["cannot read", "not a file"]);
        fs::remove_dir(&path).expect("made");
        fs::write(&path, good).expect("written");
        set_mode(&path, 0o600);
        Identity::load(&dir, "n0").expect("all is in order again");
    }
    // The files of another name under this one.
    fs::copy(dir.join("N_1.crt"), dir.join("n0.crt")).expect("copied");
    fs::copy(dir.join("N_1.key"), dir.join("n0.key")).expect("copied");
    check_load(&dir, "n0", &["does not name `n0`"]);
}

#[test]
fn keys_open_to_others_are_refused() {
    let dir = keys("open");
    let key = dir.join("n0.key");
    for bad in [0o640, 0o604, 0o620, 0o644, 0o777] {
        set_mode(&key, bad);
        check_load(
            &dir,
            "n0",
            &["open to others", &format!("{bad:o}"), "chmod 600"],
        );
        let error = keygen(&dir, &["n0"]).expect_err("it says so too");
        assert!(matches!(error, KeyError::Exposed { .. }), "{error}");
    }
    for good in [0o600, 0o400] {
        set_mode(&key, good);
        Identity::load(&dir, "n0").expect("only its owner can read it");
    }
    set_mode(&dir.join("authority.key"), 0o644);
    let error = keygen(&dir, &["n9"]).expect_err("the authority's key is open");
    assert!(matches!(error, KeyError::Exposed { .. }), "{error}");
    set_mode(&dir.join("authority.key"), 0o600);
    set_mode(&dir, 0o777);
    let error = keygen(&dir, &["n9"]).expect_err("others may write there");
    assert!(matches!(error, KeyError::OpenDirectory { .. }), "{error}");
}

#[test]
fn keygen_changes_nothing_that_is_not_in_order() {
    let dir = keys("disorder");
    let other = keys("disorder-other");
    fs::copy(other.join("authority.key"), dir.join("authority.key")).expect("copied");
    let before = contents(&dir);
    let error = keygen(&dir, &["n9"])
        .expect_err("two authorities")
        .to_string();
    assert!(
        error.contains("does not belong to authority.key"),
        "{error}"
    );
    assert!(before.iter().all(|file| contents(&dir).contains(file)));
    assert!(!dir.join("n9.crt").exists());

    fs::remove_file(dir.join("authority.key")).expect("it is there");
    let error = keygen(&dir, &["n9"]).expect_err("nothing to sign with");
    assert!(matches!(error, KeyError::NoAuthorityKey { .. }), "{error}");
    fs::remove_file(other.join("n0.key")).expect("it is there");
    let error = keygen(&other, &["n0"]).expect_err("a certificate without key");
    assert!(
        error.to_string().contains("lost its private key"),
        "{error}"
    );
    let file = other.join("authority.crt");
    let error = keygen(&file, &["n0"]).expect_err("no directory");
    assert!(matches!(error, KeyError::Unwritable { .. }), "{error}");
}
