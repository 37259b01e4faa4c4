//! What every page directory must do, whatever its implementation: run against the real rack and
//! against models, with entries in the switch and in a server's memory.
//!
//! A check panics with what was expected. It uses only a [`World`] of a few nodes, without other
//! activity; each check has its own page. The nodes behave as a page store must: a buffer frame's
//! header is void before anything is fetched into it, and contains page and version after a change.

use super::{Answer, Mode, Op, Reply, Served, Ticket};
use rackweave_base::Block;
use rackweave_wire::fabric::page::header::VOID;
use rackweave_wire::fabric::page::{HEADER_LEN, LatchWord, PageHeader, PageId, PageSource};

mod checks;

pub use checks::ALL;

/// The number of nodes that a world must have.
pub const NODES: usize = 3;
/// The number of buffer frames that each node must have.
pub const FRAMES: u32 = 8;
/// The number of pages that a world must have: those named by `0..PAGES`.
pub const PAGES: u64 = 16;

/// Steps of the world after which a check considers an operation hung.
const STEPS_MAX: u64 = 2_000_000;
/// How often a check retries when a source did not respond.
const TRIES_MAX: u32 = 200;

/// Some nodes with a directory each, and everything between them.
pub trait World {
    /// The number of nodes: at least [`NODES`].
    fn nodes(&self) -> usize;

    /// Bytes of a page.
    fn page_size(&self) -> usize;

    /// The `n`th page.
    fn page(&self, n: u64) -> PageId;

    /// A page that does not exist.
    fn beyond(&self) -> PageId;

    /// The buffer frames of a node, contiguous: at least [`FRAMES`].
    fn frames(&self, node: usize) -> &Block;

    /// [`super::Directory::begin`] of a node's directory.
    fn begin(&mut self, node: usize, op: Op) -> Option<Ticket>;

    /// [`super::Directory::poll`] of a node's directory.
    fn poll(&mut self, node: usize) -> Option<Reply>;

    /// Advances packets and time a little. Time passes even if there are no packets.
    fn step(&mut self);
}

/// Runs every check.
///
/// # Panics
/// If the directory violates a requirement.
pub fn all(world: &mut dyn World) {
    for (n, (name, check)) in (0..).zip(ALL) {
        println!("conformance: {name}");
        let page = world.page(n);
        let mut bench = Bench { world, page };
        check(&mut bench);
        bench.is_free();
    }
}

/// A world and the page of a check.
pub struct Bench<'a> {
    /// The world.
    pub world: &'a mut dyn World,
    /// The check's page.
    pub page: PageId,
}

/// The bytes of a version of a page: a header, and a body with page and version in every word.
pub fn stamped(page: PageId, version: u64, size: usize) -> Vec<u8> {
    let header = PageHeader {
        page: page.tag(),
        version,
        checksum: 0,
        store: 0,
        lsn: 0,
        epoch: 0,
    };
    let mut bytes = header.emit().to_vec();
    for at in (HEADER_LEN..size).step_by(8) {
        let word =
            (page.number() << 40 ^ version << 16 ^ at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

impl Bench<'_> {
    /// Starts an operation.
    pub fn begin(&mut self, node: usize, op: Op) -> Ticket {
        self.world
            .begin(node, op)
            .expect("an idle directory has room")
    }

    /// Waits for the end of an operation.
    pub fn wait(&mut self, node: usize, ticket: Ticket) -> Reply {
        for _ in 0..STEPS_MAX {
            if let Some(reply) = self.world.poll(node) {
                assert_eq!(reply.ticket, ticket, "a reply to nothing");
                return reply;
            }
            self.world.step();
        }
        panic!("node {node}: an operation on {} does not end", self.page);
    }

    /// Runs an operation, and repeats it if there was no response.
    pub fn run(&mut self, node: usize, op: Op) -> Reply {
        for _ in 0..TRIES_MAX {
            let ticket = self.begin(node, op);
            let reply = self.wait(node, ticket);
            if reply.answer != Answer::Gone {
                return reply;
            }
        }
        panic!("node {node}: {op:?} is answered with Gone for ever");
    }

    /// The same, but requires this answer.
    pub fn expect(&mut self, node: usize, op: Op, answer: Answer) -> LatchWord {
        let reply = self.run(node, op);
        assert_eq!(reply.answer, answer, "node {node}: {op:?}");
        reply.latch
    }

    /// Voids a buffer frame and fetches the page into it.
    pub fn fetch(&mut self, node: usize, mode: Mode, frame: u32) -> Reply {
        self.void(node, frame);
        self.refresh(node, mode, frame, None)
    }

    /// Fetches the page into a buffer frame that holds version `have` of it.
    pub fn refresh(&mut self, node: usize, mode: Mode, frame: u32, have: Option<u64>) -> Reply {
        let page = self.page;
        let op = Op::Fetch {
            page,
            mode,
            frame,
            have,
        };
        let mut reply = self.run(node, op);
        // Worlds with faults sometimes answer Locked although the latch is free.
        for _ in 0..TRIES_MAX {
            if reply.answer != Answer::Locked || self.verify(node).is_locked() {
                return reply;
            }
            reply = self.run(node, op);
        }
        reply
    }

    /// Fetches the page, which must succeed, and checks its bytes. Returns version and source.
    pub fn fetched(&mut self, node: usize, mode: Mode, frame: u32) -> (u64, PageSource) {
        let reply = self.fetch(node, mode, frame);
        let Answer::Fetched(Served { source, .. }) = reply.answer else {
            panic!("node {node}: {mode:?} fetch: {:?}", reply.answer);
        };
        assert_eq!(reply.latch.is_locked(), mode == Mode::Exclusive);
        let version = reply.latch.version();
        self.is_whole(node, frame, version);
        (version, source)
    }

    /// Changes the page, which node `node` must be able to latch. Returns the new version.
    pub fn change(&mut self, node: usize, frame: u32) -> u64 {
        let reply = self.fetch(node, Mode::Exclusive, frame);
        assert!(
            matches!(reply.answer, Answer::Fetched(_)),
            "node {node}: {:?}",
            reply.answer
        );
        self.finish_change(node, frame, reply.latch.version())
    }

    /// Changes the page, whose latch node `node` holds, and releases the latch.
    pub fn finish_change(&mut self, node: usize, frame: u32, version: u64) -> u64 {
        let page = self.page;
        self.stamp(node, frame, version + 1);
        let latch = self.expect(node, Op::Unfix { page, frame }, Answer::Done);
        assert_eq!(
            latch,
            LatchWord::open(version + 1),
            "one change, one version"
        );
        version + 1
    }

    /// The latch word.
    pub fn verify(&mut self, node: usize) -> LatchWord {
        let page = self.page;
        self.expect(node, Op::Verify { page, lease: None }, Answer::Done)
    }

    /// Writes a version of the page into a buffer frame.
    pub fn stamp(&mut self, node: usize, frame: u32, version: u64) {
        let size = self.world.page_size();
        let bytes = stamped(self.page, version, size);
        self.world.frames(node).write(frame as usize * size, &bytes);
    }

    /// Voids a buffer frame's header.
    pub fn void(&mut self, node: usize, frame: u32) {
        let at = frame as usize * self.world.page_size();
        self.world.frames(node).write(at, &VOID.to_le_bytes());
    }

    /// Checks that a buffer frame holds this version of the page, complete.
    pub fn is_whole(&self, node: usize, frame: u32, version: u64) {
        let size = self.world.page_size();
        let mut bytes = vec![0; size];
        self.world
            .frames(node)
            .read(frame as usize * size, &mut bytes);
        let header = PageHeader::parse(&bytes);
        assert!(
            bytes == stamped(self.page, version, size),
            "node {node}, buffer frame {frame}: not version {version} of {}: {header:?}",
            self.page
        );
    }

    /// Checks that the latch is free.
    fn is_free(&mut self) {
        let latch = self.verify(0);
        assert!(
            !latch.is_locked(),
            "{}: a latch was left: {latch}",
            self.page
        );
    }
}
