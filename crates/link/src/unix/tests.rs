//! Unix datagrams against each other and against strangers.

use super::*;
use crate::conformance;
use crate::outbox::QUEUE_MAX;
use rackweave_base::Payload;
use std::fs;
use std::os::unix::net;
use std::sync::atomic::{AtomicU32, Ordering};

const MTU: usize = 4200;

/// A separate folder for each test, removed when it ends.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("rackweave-unix-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn end(&self, memory: &Memory, own: &str, peer: &str) -> UnixDatagram {
        let (own, peer) = (self.path(own), self.path(peer));
        UnixDatagram::bind(&own, &peer, MTU, memory.clone(), Pool::new(64)).unwrap()
    }

    fn pair(&self, memory: &Memory) -> (UnixDatagram, UnixDatagram) {
        (self.end(memory, "a", "b"), self.end(memory, "b", "a"))
    }

    fn error(&self, name: &str) -> UnixError {
        let (own, peer) = (self.path(name), self.path("peer"));
        UnixDatagram::bind(&own, &peer, MTU, Memory::new(1 << 16), Pool::new(1)).unwrap_err()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _removed = fs::remove_dir_all(&self.0);
    }
}

fn packet(memory: &Memory, number: u32) -> Packet {
    conformance::packet(memory, number, Payload::copied(&[5; 200]))
}

#[test]
fn it_conforms() {
    let folder = Folder::new();
    let mut count = 0;
    conformance::run(|memory| {
        count += 1;
        let (a, b) = (format!("a{count}"), format!("b{count}"));
        (folder.end(memory, &a, &b), folder.end(memory, &b, &a))
    });
}

#[test]
fn nobody_waits_for_a_peer_that_is_not_there() {
    let folder = Folder::new();
    let memory = Memory::new(1 << 20);
    let mut a = folder.end(&memory, "a", "b");
    for number in 0..500 {
        assert!(a.free() > 0);
        a.send(Instant::ZERO, packet(&memory, number)).unwrap();
    }
    let mut expect = UnixCounters::default();
    expect.send.peer_gone = 500;
    assert_eq!((a.counters(), a.poll_timeout()), (expect, None));
}

#[test]
fn a_peer_that_dies_frees_the_queue_and_its_successor_is_served() {
    let folder = Folder::new();
    let memory = Memory::new(1 << 20);
    let (mut a, b) = folder.pair(&memory);
    let mut taken = 0;
    while a.send(Instant::ZERO, packet(&memory, taken)).is_ok() {
        taken += 1;
    }
    assert_eq!((a.free(), a.counters().send.peer_gone), (0, 0));
    assert!(a.poll_timeout().is_some());
    drop(b);
    assert!(a.receive(Instant::ZERO).is_none());
    assert_eq!((a.free(), a.poll_timeout()), (QUEUE_MAX, None));
    assert_eq!(a.counters().send.peer_gone, QUEUE_MAX as u64);
    assert_eq!(a.counters().send.sent, u64::from(taken) - QUEUE_MAX as u64);
    let mut b = folder.end(&memory, "b", "a");
    a.send(Instant::ZERO, packet(&memory, 77)).unwrap();
    let packet = b.receive(Instant::ZERO).expect("a successor is served");
    assert_eq!(conformance::sequence(&packet), 77);
}

#[test]
fn only_the_peer_is_heard() {
    let folder = Folder::new();
    let memory = Memory::new(1 << 20);
    let (mut a, mut b) = folder.pair(&memory);
    let bytes = {
        let mut bytes = Vec::new();
        assert!(packet(&memory, 1).serialise(&memory, &mut bytes));
        bytes
    };
    let named = net::UnixDatagram::bind(folder.path("c")).unwrap();
    let unnamed = net::UnixDatagram::unbound().unwrap();
    for stranger in [&named, &unnamed] {
        stranger.send_to(&bytes, folder.path("b")).unwrap();
    }
    a.send(Instant::ZERO, packet(&memory, 2)).unwrap();
    assert_eq!(conformance::sequence(&b.receive(Instant::ZERO).unwrap()), 2);
    let mut expect = UnixCounters::default();
    expect.receive.received = 1;
    expect.strangers = 2;
    assert_eq!(b.counters(), expect);
}

#[test]
fn garbage_from_the_peer_is_dropped_by_name() {
    let folder = Folder::new();
    let memory = Memory::new(1 << 20);
    let mut b = folder.end(&memory, "b", "a");
    let raw = net::UnixDatagram::bind(folder.path("a")).unwrap();
    let mut cut = Vec::new();
    assert!(packet(&memory, 1).serialise(&memory, &mut cut));
    cut.truncate(100);
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[0x08, 0x06]);
    for bytes in [
        &[][..],
        &[1; 13],
        &vec![2; 14 + MTU + 1],
        &vec![3; 20_000],
        &cut,
        &arp,
    ] {
        raw.send_to(bytes, folder.path("b")).unwrap();
    }
    let packet = b.receive(Instant::ZERO).expect("ARP passes");
    assert_eq!(packet.header(), arp);
    assert!(b.receive(Instant::ZERO).is_none());
    let receive = ReceiveCounters {
        received: 1,
        runts: 2,
        too_long: 2,
        malformed: 1,
    };
    let expect = UnixCounters {
        receive,
        ..UnixCounters::default()
    };
    assert_eq!(b.counters(), expect);
}

#[test]
fn what_cannot_be_sent_is_dropped_by_name() {
    let folder = Folder::new();
    let memory = Memory::new(1 << 20);
    let (own, peer) = (folder.path("a"), folder.path("b"));
    let mut a = UnixDatagram::bind(&own, &peer, 336, memory.clone(), Pool::new(1)).unwrap();
    let mut b = folder.end(&memory, "b", "a");
    a.send(
        Instant::ZERO,
        conformance::packet(&memory, 1, Payload::copied(&[0; 1024])),
    )
    .unwrap();
    let block = memory.allocate(64).unwrap();
    let payload = Payload::Region(block.reference(0, 64).unwrap());
    let gone = conformance::packet(&memory, 2, payload);
    drop(block);
    a.send(Instant::ZERO, gone).unwrap();
    let mut expect = UnixCounters::default();
    expect.send.too_long = 1;
    expect.send.payload_gone = 1;
    assert_eq!(a.counters(), expect);
    assert!(b.receive(Instant::ZERO).is_none());
}

#[test]
fn a_dead_socket_is_replaced_and_a_live_one_is_not() {
    let folder = Folder::new();
    let memory = Memory::new(1 << 20);
    // The standard library leaves the file behind, as a killed process does.
    drop(net::UnixDatagram::bind(folder.path("a")).unwrap());
    assert!(folder.path("a").exists());
    let (a, _b) = folder.pair(&memory);
    let error = folder.error("a");
    assert!(matches!(error, UnixError::InUse { .. }), "{error}");
    assert!(error.to_string().contains("in use"), "{error}");
    drop(a);
    assert!(!folder.path("a").exists(), "the file goes with the link");
    let a = folder.end(&memory, "a", "b");
    drop(a);
}

#[test]
fn foreign_sockets_and_files_are_left_alone() {
    let folder = Folder::new();
    let connected = net::UnixDatagram::bind(folder.path("connected")).unwrap();
    let other = net::UnixDatagram::bind(folder.path("other")).unwrap();
    connected.connect(folder.path("other")).unwrap();
    let _stream = net::UnixListener::bind(folder.path("stream")).unwrap();
    fs::write(folder.path("file"), b"precious").unwrap();
    for name in ["connected", "other", "stream"] {
        assert!(
            matches!(folder.error(name), UnixError::InUse { .. }),
            "{name}"
        );
    }
    assert!(matches!(folder.error("file"), UnixError::NotASocket { .. }));
    assert_eq!(fs::read(folder.path("file")).unwrap(), b"precious");
    assert!(matches!(folder.error("no/folder"), UnixError::Bind { .. }));
    assert!(matches!(
        folder.error(&"x".repeat(120)),
        UnixError::BadPath { .. }
    ));
    drop(other);
}

#[test]
fn a_file_that_another_bound_meanwhile_stays() {
    let folder = Folder::new();
    let memory = Memory::new(1 << 20);
    let (a, _b) = folder.pair(&memory);
    fs::remove_file(folder.path("a")).unwrap();
    let _usurper = net::UnixDatagram::bind(folder.path("a")).unwrap();
    drop(a);
    assert!(folder.path("a").exists());
}

#[test]
fn of_many_who_bind_over_a_dead_socket_one_succeeds() {
    let folder = Folder::new();
    for _ in 0..20 {
        drop(net::UnixDatagram::bind(folder.path("a")).unwrap());
        let start = std::sync::Barrier::new(4);
        let ends: Vec<_> = std::thread::scope(|scope| {
            let bind = || {
                start.wait();
                let (own, peer) = (folder.path("a"), folder.path("b"));
                UnixDatagram::bind(&own, &peer, MTU, Memory::new(1 << 16), Pool::new(1))
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(bind)).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(ends.iter().filter(|end| end.is_ok()).count(), 1);
        drop(ends);
        assert!(!folder.path("a").exists());
    }
}

#[test]
fn an_mtu_without_room_for_rdma_is_refused() {
    let folder = Folder::new();
    let (own, peer) = (folder.path("a"), folder.path("b"));
    let error = UnixDatagram::bind(&own, &peer, 335, Memory::new(1 << 16), Pool::new(1));
    let error = error.unwrap_err().to_string();
    assert_eq!(
        error,
        "an MTU of 335 bytes carries no RDMA packet; it takes at least 336"
    );
}
