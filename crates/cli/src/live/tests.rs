//! A process can have only one socket, so this is a single test. `samples` are racks for tests of
//! how they are shown.

pub mod samples;

use super::client::{AskError, ask, choose, processes};
use super::snapshot::{ReadError, SCHEMA};
use super::*;
use rackweave_rack::{EmbeddedRack, RackConfig};
use std::io::Read;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};

fn rack() -> EmbeddedRack {
    let config = RackConfig {
        driver_threads: 0,
        ..RackConfig::default()
    };
    EmbeddedRack::new(&config).expect("the default fits")
}

#[test]
fn a_command_is_found_from_its_first_rack_to_its_end() {
    let me = std::process::id();
    let user = rustix::process::getuid().as_raw();
    let live = Live::begin("test of live");
    live.phase("no rack yet");
    assert!(!processes().contains(&me), "nothing is published yet");
    let first = rack();
    live.watch(first.observer());
    live.phase("one rack");
    assert!(processes().contains(&me));
    assert_eq!(choose(Some(me)), Ok(me));
    let reported = ask(me).expect("it tells");
    assert_eq!(
        (
            reported.schema.as_str(),
            reported.pid,
            reported.command.as_str()
        ),
        (SCHEMA, me, "test of live")
    );
    assert_eq!((reported.phase.as_str(), reported.racks), ("one rack", 1));
    let nodes = reported.rack.expect("there is a rack").nodes;
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names.len(), first.config().node.len());

    // Clients that do not read delay others only briefly.
    let address = SocketAddr::from_abstract_name(server::name(user, me)).expect("it is short");
    let lazy: Vec<UnixStream> = (0..20)
        .map(|_| UnixStream::connect_addr(&address).expect("it listens"))
        .collect();
    assert!(ask(me).is_ok());
    drop(lazy);

    // The rack is dropped, the command continues.
    drop(first);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(ask(me).expect("it tells").rack, None);
    let second = rack();
    live.watch(second.observer());
    std::thread::sleep(std::time::Duration::from_millis(300));
    let reported = ask(me).expect("it tells");
    assert!(reported.racks == 2 && reported.rack.is_some());

    let clone = live.clone();
    drop(live);
    assert!(ask(me).is_ok(), "a clone is left");
    let mut waiting = UnixStream::connect_addr(&address).expect("it listens");
    drop(clone);
    assert_eq!(ask(me), Err(AskError::Ended(me)));
    assert!(!processes().contains(&me), "nothing is left");
    assert!(matches!(choose(Some(me)), Err(AskError::NotThis { .. })));
    let mut bytes = Vec::new();
    let _reset = waiting.read_to_end(&mut bytes);
    drop(second);
}

#[test]
fn other_versions_are_refused_by_name() {
    let other = br#"{"schema":"rackweave/live/9","version":"7.0","pid":"later a word"}"#;
    let error = Snapshot::read(other).expect_err("it is newer");
    assert_eq!(
        error.to_string(),
        "it tells of itself as rackweave/live/9 (version 7.0), this program reads \
         rackweave/live/1; use `top` and `stat` of the version that runs there"
    );
    for nonsense in [
        &b""[..],
        b"{}",
        b"[1]",
        b"{\"schema\":\"rackweave/live/1\"}",
        b"\xff",
    ] {
        let read = Snapshot::read(nonsense);
        assert!(matches!(read, Err(ReadError::NoSnapshot(_))), "{read:?}");
    }
}
