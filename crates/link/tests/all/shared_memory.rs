//! The link in shared memory between two real processes: this test program starts itself again as
//! the other process, which joins like a node, over a Unix stream.

use rackweave_base::memory::Origin;
use rackweave_base::packet::Pool;
use rackweave_base::{Block, Instant, Memory, Packet, Payload};
use rackweave_link::shared_memory::handover::{self, Handover};
use rackweave_link::{Link, SharedMemory, wait};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Tells the program that it is the other process, and where to find the first one.
const SOCKET: &str = "RACKWEAVE_TEST_SOCKET";

const NOW: Instant = Instant::ZERO;
const SWITCH: Origin = Origin(1);
const NODE: Origin = Origin(2);
const ARENA: usize = 4 << 20;
const CAPACITY: usize = 64;

/// Number of packets of the stream that is checked from end to end.
const PACKETS: u32 = 20_000;

/// Longer than any test takes: only a lost wakeup makes a test reach it.
const FOR_EVER: Duration = Duration::from_secs(120);

/// The link to the other process, and the stream whose end shows its death.
struct Joined {
    link: SharedMemory,
    memory: Memory,
    stream: UnixStream,
}

fn arena(name: Origin) -> Memory {
    let memory = Memory::shared(ARENA).unwrap();
    memory.set_origin(name);
    memory
}

/// Starts the other process in the role of `job` and passes it its end of a link.
fn start(job: &str) -> (Joined, Child) {
    let path = std::env::temp_dir().join(format!("rackweave-{}-{job}.sock", std::process::id()));
    let _none = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "shared_memory::the_other_process", "--nocapture"])
        .env(SOCKET, &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let (stream, _) = listener.accept().unwrap();
    std::fs::remove_file(&path).unwrap();
    stream.set_read_timeout(Some(FOR_EVER)).unwrap();
    let memory = arena(SWITCH);
    let pool = Pool::new(8);
    let (link, handed) = SharedMemory::create(CAPACITY, memory.clone(), pool).unwrap();
    let [segment, ours, theirs] = handed.descriptors();
    let fds: [BorrowedFd<'_>; 4] = [segment, ours, theirs, memory.descriptor().unwrap()];
    handover::send(&stream, job.as_bytes(), &fds).unwrap();
    let (_, mut fds) = handover::receive(&stream).unwrap();
    memory.import(NODE, fds.pop().unwrap()).unwrap();
    let joined = Joined {
        link,
        memory,
        stream,
    };
    (joined, child)
}

/// The part of the other process; has no effect in the first one.
#[test]
fn the_other_process() {
    let Ok(path) = std::env::var(SOCKET) else {
        return;
    };
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(FOR_EVER)).unwrap();
    let (job, fds) = handover::receive(&stream).unwrap();
    let [segment, theirs, ours, arena_fd]: [OwnedFd; 4] = fds.try_into().unwrap();
    let memory = arena(NODE);
    memory.import(SWITCH, arena_fd).unwrap();
    let handed = Handover::from_descriptors([segment, theirs, ours]);
    let link = SharedMemory::attach(handed, memory.clone(), Pool::new(8)).unwrap();
    handover::send(&stream, b"joined", &[memory.descriptor().unwrap()]).unwrap();
    let mut joined = Joined {
        link,
        memory,
        stream,
    };
    match &job[..] {
        b"echo" => echo(&mut joined),
        b"flood" => flood(&mut joined),
        b"sink" => sink(&mut joined),
        job => panic!("no job {}", String::from_utf8_lossy(job)),
    }
}

impl Joined {
    /// The next packet; sleeps until it arrives. `None` once the other process has ended.
    fn receive(&mut self) -> Option<Packet> {
        loop {
            if let Some(packet) = self.link.receive(NOW) {
                return Some(packet);
            }
            if self.link.is_peer_gone() {
                return None;
            }
            self.sleep();
        }
    }

    /// Sends, and sleeps while the link is full.
    fn send(&mut self, mut packet: Packet) {
        while let Err(back) = self.link.send(NOW, packet) {
            packet = back;
            self.sleep();
        }
    }

    /// Sleeps by the rules, on the link and on the stream, whose end shows that the process has
    /// died.
    fn sleep(&mut self) {
        if self.link.prepare_sleep() {
            let fds = [self.link.wake_fd().unwrap(), self.stream.as_fd()];
            assert!(wait::sleep(&fds, FOR_EVER).unwrap(), "a waking was lost");
            let mut byte = [0];
            let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
            match rustix::net::recv(&self.stream, &mut byte, flags) {
                Ok((_, 0)) | Err(rustix::io::Errno::CONNRESET) => self.link.mark_peer_gone(),
                _ => {}
            }
        }
        self.link.end_sleep();
    }
}

/// Packet `number` of the stream, with a payload of each kind in turn; trains among them.
fn packet(number: u32, block: &Block) -> (Packet, Vec<u8>) {
    let header = number.to_le_bytes();
    let len = [0, 20, 1000, 4096, 32 * 1024][number as usize % 5];
    let bytes: Vec<u8> = (0..len).map(|at| (at as u32 / 3 + number) as u8).collect();
    let mut packet = match number % 5 {
        0..3 => Packet::new(&header, Payload::copied(&bytes)),
        _ => {
            block.write(0, &bytes);
            let reference = block.reference(0, len as u32).unwrap();
            Packet::new(&header, Payload::Region(reference))
        }
    };
    if number % 5 == 4 {
        packet.make_train(1024);
    }
    packet.check = Some(number.to_be_bytes());
    (packet, bytes)
}

/// Sends everything back, with the bytes of references in its own block.
fn echo(joined: &mut Joined) {
    let block = joined.memory.allocate(1 << 20).unwrap();
    let mut at = 0;
    while let Some(mut packet) = joined.receive() {
        if let Payload::Region(there) = packet.payload {
            // As in a NIC: one copy, from the memory of the other process. The block is far larger
            // than all packets in flight.
            at = if at + u64::from(there.len()) > 1 << 20 {
                0
            } else {
                at
            };
            let here = block.reference(at, there.len()).unwrap();
            at += u64::from(there.len());
            assert!(joined.memory.copy(there, here), "its arena is mapped");
            let fragment_len = packet.fragment_len() as u32;
            let mut copy = Packet::new(packet.header(), Payload::Region(here));
            if packet.fragments() > 1 {
                copy.make_train(fragment_len);
            }
            copy.check = packet.check;
            packet = copy;
        }
        joined.send(packet);
    }
}

/// Sends without end.
fn flood(joined: &mut Joined) {
    let block = joined.memory.allocate(64 << 10).unwrap();
    for number in 0.. {
        let (packet, _) = packet(number, &block);
        joined.send(packet);
    }
}

/// Receives a few packets, then nothing more.
fn sink(joined: &mut Joined) {
    for _ in 0..10 {
        joined.receive().unwrap();
    }
    std::thread::sleep(FOR_EVER);
}

#[test]
fn packets_pass_between_processes_and_back() {
    let (mut joined, mut child) = start("echo");
    let window = 8;
    let blocks: Vec<Block> = (0..window)
        .map(|_| joined.memory.allocate(32 << 10).unwrap())
        .collect();
    let mut expected = std::collections::VecDeque::new();
    for number in 0..PACKETS + window {
        if number >= window {
            let (number, bytes): (u32, Vec<u8>) = expected.pop_front().unwrap();
            let packet = joined.receive().expect("the other process lives");
            assert_eq!(packet.header(), number.to_le_bytes());
            assert_eq!(packet.check, Some(number.to_be_bytes()));
            assert_eq!(packet.fragments(), [1, 1, 1, 1, 32][number as usize % 5]);
            assert!(
                packet.payload.to_vec(&joined.memory) == Some(bytes),
                "{number}"
            );
        }
        if number < PACKETS {
            let block = &blocks[number as usize % blocks.len()];
            let (packet, bytes) = packet(number, block);
            joined.send(packet);
            expected.push_back((number, bytes));
        }
    }
    assert!(joined.link.receive(NOW).is_none());
    // An orderly end: the other process sees it and leaves by itself.
    drop(joined);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_sender_killed_in_mid_stream_leaves_whole_packets() {
    for round in 0..5 {
        let (mut joined, mut child) = start("flood");
        let mut next = 0;
        for _ in 0..1000 + 37 * round {
            let packet = joined.receive().expect("the other process lives");
            assert_eq!(packet.header(), u32::to_le_bytes(next));
            next += 1;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // The packets that it had sent arrive, in order and intact; then the stream shows that it
        // died.
        while let Some(packet) = joined.receive() {
            assert_eq!(packet.header(), next.to_le_bytes());
            assert_eq!(packet.check, Some(next.to_be_bytes()));
            let len = [0, 20, 1000, 4096, 32 * 1024][next as usize % 5];
            // Its arena outlives it for as long as it is mapped here.
            assert_eq!(packet.payload.to_vec(&joined.memory).unwrap().len(), len);
            next += 1;
        }
        assert!(joined.link.is_peer_gone());
        assert_eq!(joined.link.nonsense(), None);
        joined.memory.forget(NODE);
    }
}

#[test]
fn a_sender_to_a_killed_process_does_not_block() {
    let (mut joined, mut child) = start("sink");
    let block = joined.memory.allocate(32 << 10).unwrap();
    for number in 0..10 {
        let (packet, _) = packet(number, &block);
        joined.send(packet);
    }
    // It receives no more: the ring fills up.
    for _ in 0..CAPACITY + 10 {
        let _full = joined.link.send(NOW, Packet::new(b"", Payload::Empty));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    for _ in 0..3 * CAPACITY {
        joined.send(Packet::new(b"", Payload::Empty));
    }
    assert!(joined.link.is_peer_gone());
    assert_eq!(joined.link.free(), CAPACITY);
}
