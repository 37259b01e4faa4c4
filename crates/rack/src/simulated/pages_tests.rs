//! The page directory end to end: requests of a channel, the switch, an NVMe target.

mod leases;
mod nodes;
mod places;
mod races;
mod restarts;
mod rogue;

use super::*;
use crate::config::NodeConfig;
use crate::config::Role;
use crate::pages::TargetOptions;
use crate::services::{PageOptions, PageService, Prepare, StoreMedium};
use rackweave_base::{Duration, Psn, Rng};
use rackweave_controller::PageNode;
use rackweave_endpoint::page_store::directory::{
    Answer, Channel, Directory, Mode, Op, Reply, Served,
};
use rackweave_programs::pages::{PageDigest, PageRole};
use rackweave_sim::SsdModel;
use rackweave_sim::world::{Context, Step};
use rackweave_switch::transfer::LaneId;
use rackweave_target::MemoryBackend;
use rackweave_wire::fabric::page::control::PoolLayout;
use rackweave_wire::fabric::page::header::VOID;
use rackweave_wire::fabric::page::{
    FrameState, LatchWord, PageHeader, PageId, PageSource, control,
};
use std::sync::{Arc, Mutex};

const PAGE: u32 = 16 << 10;
const PAGES: u64 = 64;
const BLOCK: u32 = 4096;
const FRAMES: u32 = 8;
const LAYOUT: PoolLayout = PoolLayout::new(PAGE, FRAMES);

/// Executes one operation after another and keeps the replies.
struct Script {
    channel: Channel,
    ops: Vec<Op>,
    at: usize,
    replies: Arc<Mutex<Vec<Reply>>>,
    began: bool,
}

impl Actor for Script {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        loop {
            if self.began {
                let Some(reply) = self.channel.poll(now, context.nic()) else {
                    break;
                };
                self.replies.lock().unwrap().push(reply);
                self.at += 1;
                self.began = false;
                continue;
            }
            let Some(&op) = self.ops.get(self.at) else {
                return Step::Done;
            };
            self.began = self.channel.begin(now, context.nic(), op).is_some();
            assert!(self.began, "a slot is free");
        }
        match self.channel.poll_timeout() {
            Some(due) => Step::WaitUntil(due),
            None => Step::WaitForPacket,
        }
    }
}

fn ssd(medium: &MemoryBackend) -> Box<dyn rackweave_target::Backend> {
    let (model, mut rng) = (SsdModel::default(), Rng::new(1));
    Box::new(SsdBackend::new(medium.clone(), &model, 4, PAGE, &mut rng))
}

fn page_node(node: NodeId) -> PageNode {
    PageNode {
        node,
        frames: FRAMES,
        workers: 1,
        slots: 4,
    }
}

/// In place of an existing or former one.
fn add_target(rack: &mut SimulatedRack, medium: &MemoryBackend) {
    rack.add_target(NodeId(2), TargetOptions::default(), vec![ssd(medium)])
        .unwrap();
}

struct Bench {
    rack: SimulatedRack,
    medium: MemoryBackend,
}

impl Bench {
    fn new(indexed: u64, faults: f64) -> Self {
        Self::with_index(indexed, faults, 128, 0)
    }

    /// With `entries` entries in the switch, and `promote_at` requests that make a page hot.
    fn with_index(indexed: u64, faults: f64, entries: u32, promote_at: u32) -> Self {
        let options = PageOptions {
            lease_after: None,
            ..PageOptions::default()
        };
        let config = |config: &mut RackConfig| {
            config.switch.page_entries = entries;
            config.switch.page_promote_at = promote_at;
            config.faults.loss = faults;
            config.faults.duplicate = faults;
            config.faults.reorder = faults;
        };
        Self::with_options(indexed, options, config).0
    }

    fn with_options(
        indexed: u64,
        options: PageOptions,
        change: impl FnOnce(&mut RackConfig),
    ) -> (Self, PageService) {
        let mut config = RackConfig {
            node: vec![
                NodeConfig::new("compute0", Role::Compute),
                NodeConfig::new("compute1", Role::Compute),
                NodeConfig::new("storage", Role::Storage),
                NodeConfig::new("memory", Role::Memory),
            ],
            ..RackConfig::default()
        };
        config.switch.consumer_rings = 0;
        config.switch.producer_rings = 0;
        config.switch.page_entries = 128;
        config.switch.page_size = PAGE;
        config.switch.page_slots = 16;
        change(&mut config);
        let rack = SimulatedRack::new(&config).unwrap();
        let medium = MemoryBackend::new(BLOCK, PAGES * u64::from(PAGE / BLOCK));
        let nodes = match &options.nodes[..] {
            [] => [0, 1].map(|node| page_node(NodeId(node))).to_vec(),
            nodes => nodes.to_vec(),
        };
        let options = PageOptions {
            nodes,
            indexed: Some(indexed),
            prepare: Prepare::Leave,
            ..options
        };
        let store = StoreMedium {
            name: "ssd".into(),
            node: NodeId(2),
            backend: ssd(&medium),
            page_size: None,
        };
        let service = PageService::with_stores(&rack, &options, vec![store]).unwrap();
        (Self { rack, medium }, service)
    }

    /// Has a node begin these operations.
    fn begin(&mut self, node: u16, ops: &[Op]) -> Arc<Mutex<Vec<Reply>>> {
        let ends = self.rack.page_ends(NodeId(node)).unwrap();
        let replies = Arc::new(Mutex::new(Vec::new()));
        let script = Script {
            channel: Channel::new(ends.channels[0].clone()),
            ops: ops.to_vec(),
            at: 0,
            replies: replies.clone(),
            began: false,
        };
        self.rack.spawn(NodeId(node), Box::new(script));
        replies
    }

    /// Has a node execute these operations, and waits until they have ended.
    fn run(&mut self, node: u16, ops: &[Op]) -> Vec<Reply> {
        let replies = self.begin(node, ops);
        let until = self.rack.now() + Duration::from_secs(1);
        assert_eq!(self.rack.run(until), RunEnd::Done, "{:?}", replies.lock());
        let replies = replies.lock().unwrap();
        replies.clone()
    }

    fn answers(&mut self, node: u16, ops: &[Op]) -> Vec<Answer> {
        let replies = self.run(node, ops);
        replies.iter().map(|reply| reply.answer).collect()
    }

    /// Fills a buffer frame with a page.
    fn fill(&mut self, node: u16, frame: u32, page: PageId, byte: u8) {
        let ends = self.rack.page_ends(NodeId(node)).unwrap();
        let at = frame as usize * PAGE as usize;
        let mut bytes = vec![byte; PAGE as usize];
        bytes[..8].copy_from_slice(&page.tag().to_le_bytes());
        ends.frames.write(at, &bytes);
    }

    fn byte(&self, node: u16, frame: u32) -> u8 {
        let ends = self.rack.page_ends(NodeId(node)).unwrap();
        let at = frame as usize * PAGE as usize;
        let mut bytes = vec![0; PAGE as usize - 8];
        ends.frames.read(at + 8, &mut bytes);
        assert!(bytes.iter().all(|byte| *byte == bytes[0]), "torn");
        bytes[0]
    }

    fn word(&self, node: u16, at: u64) -> u64 {
        let mut bytes = [0; 8];
        let ends = self.rack.page_ends(NodeId(node)).unwrap();
        ends.frames.read(at as usize, &mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn set_word(&self, node: u16, at: u64, word: u64) {
        let ends = self.rack.page_ends(NodeId(node)).unwrap();
        ends.frames.write(at as usize, &word.to_le_bytes());
    }

    /// The controller's question to a node about a buffer frame.
    fn doubt(&self, node: u16, frame: u32) -> Option<control::Doubt> {
        let at = LAYOUT.doubt_at(frame);
        control::Doubt::parse([0, 8, 16, 24].map(|word| self.word(node, at + word)))
    }

    /// Has a node change a page, as its worker does; returns the version that it claims.
    fn change(&mut self, node: u16, index: u64, frame: u32) -> FrameState {
        let page = page(index);
        self.void(node, frame);
        let fetched = self.run(node, &[fetch(index, Mode::Exclusive, frame)]);
        let version = fetched[0].latch.version() + 1;
        let epoch = self.word(node, LAYOUT.epoch_at());
        let header = PageHeader {
            page: page.tag(),
            version,
            epoch,
            ..PageHeader::default()
        };
        let ends = self.rack.page_ends(NodeId(node)).unwrap();
        ends.frames
            .write(frame as usize * PAGE as usize, &header.emit());
        let unfixed = self.run(node, &[Op::Unfix { page, frame }]);
        assert_eq!(unfixed[0].latch, LatchWord::open(version));
        let state = FrameState::dirty(version);
        self.set_word(node, LAYOUT.state_at(frame), state.0);
        state
    }

    fn void(&self, node: u16, frame: u32) {
        let ends = self.rack.page_ends(NodeId(node)).unwrap();
        let at = frame as usize * PAGE as usize;
        ends.frames.write(at, &VOID.to_le_bytes());
    }
}

fn page(index: u64) -> PageId {
    PageId::new(0, index).unwrap()
}

fn fetch(index: u64, mode: Mode, frame: u32) -> Op {
    Op::Fetch {
        page: page(index),
        mode,
        frame,
        have: None,
    }
}

fn served(source: PageSource, indexed: bool) -> Answer {
    Answer::Fetched(Served { source, indexed })
}

fn a_page_goes_around(indexed: bool, faults: f64) {
    let mut bench = Bench::new(if indexed { PAGES } else { 0 }, faults);
    let storage = served(PageSource::Storage, indexed);
    let memory = served(PageSource::Memory, indexed);
    // From the SSD, changed, and given back: the SSD has an old version.
    let replies = bench.run(0, &[fetch(5, Mode::Exclusive, 1)]);
    assert_eq!(replies[0].answer, storage);
    assert!(replies[0].latch.is_locked());
    let version = replies[0].latch.version();
    assert_eq!(
        bench.answers(1, &[fetch(5, Mode::Shared, 0)]),
        [Answer::Locked]
    );
    bench.fill(0, 1, page(5), 0x55);
    let unfix = Op::Unfix {
        page: page(5),
        frame: 1,
    };
    let replies = bench.run(0, &[unfix]);
    assert_eq!(replies[0].answer, Answer::Done);
    assert_eq!(replies[0].latch, LatchWord::open(version + 1));
    // From the memory of the node that changed it.
    bench.void(1, 0);
    let replies = bench.run(1, &[fetch(5, Mode::Shared, 0)]);
    assert_eq!(replies[0].answer, memory);
    assert_eq!(replies[0].latch, LatchWord::open(version + 1));
    assert_eq!(bench.byte(1, 0), 0x55);
    // Written home; then it is read from there.
    let evict = Op::Evict {
        page: page(5),
        frame: 1,
        keep: false,
    };
    assert_eq!(
        bench.answers(0, &[evict, evict]),
        [Answer::Done, Answer::Superseded]
    );
    let blocks = u64::from(PAGE / BLOCK);
    assert_eq!(bench.medium.bytes(5 * blocks + 1)[100], 0x55);
    bench.void(0, 1);
    bench.void(1, 2);
    assert_eq!(bench.answers(1, &[fetch(5, Mode::Shared, 2)]), [storage]);
    assert_eq!(bench.byte(1, 2), 0x55);
    // Cached by node 1 now; dropped there: the header is void, and the switch reads the SSD.
    bench.void(1, 2);
    bench.void(0, 3);
    assert_eq!(bench.answers(0, &[fetch(5, Mode::Shared, 3)]), [storage]);
    assert_eq!(bench.byte(0, 3), 0x55);
}

#[test]
fn a_page_goes_around_by_the_switch() {
    a_page_goes_around(true, 0.0);
}

#[test]
fn a_page_goes_around_by_a_server() {
    a_page_goes_around(false, 0.0);
}

#[test]
fn a_page_goes_around_among_faults() {
    a_page_goes_around(true, 0.02);
    a_page_goes_around(false, 0.02);
}

#[test]
fn entries_move_with_their_latches() {
    let mut bench = Bench::new(PAGES, 0.0);
    let replies = bench.run(0, &[fetch(7, Mode::Exclusive, 1)]);
    assert_eq!(replies[0].answer, served(PageSource::Storage, true));
    assert!(bench.rack.demote(page(7)));
    assert!(!bench.rack.demote(page(7)));
    assert_eq!(
        bench.answers(1, &[fetch(7, Mode::Shared, 0)]),
        [Answer::Locked]
    );
    bench.fill(0, 1, page(7), 0x77);
    let unfix = Op::Unfix {
        page: page(7),
        frame: 1,
    };
    assert_eq!(bench.answers(0, &[unfix]), [Answer::Done]);
    assert!(bench.rack.promote(page(7)));
    bench.void(1, 0);
    let answers = bench.answers(1, &[fetch(7, Mode::Shared, 0)]);
    assert_eq!(answers, [served(PageSource::Memory, true)]);
    assert_eq!(bench.byte(1, 0), 0x77);
}

#[test]
fn hot_pages_are_indexed_and_cold_ones_make_room() {
    let mut bench = Bench::with_index(0, 0.0, 4, 4);
    let mut ask = |index: u64, times: usize| {
        for _ in 0..times {
            bench.void(0, 0);
            bench.run(0, &[fetch(index, Mode::Shared, 0)]);
        }
        bench.void(0, 0);
        bench.answers(0, &[fetch(index, Mode::Shared, 0)])
    };
    assert_eq!(
        ask(0, 2),
        [served(PageSource::Storage, false)],
        "not hot yet"
    );
    for index in 0..4 {
        assert_eq!(ask(index, 5), [served(PageSource::Storage, true)]);
    }
    // The index is full; a page that was not requested again is demoted.
    for _ in 0..3 {
        ask(3, 0);
        ask(9, 4);
    }
    assert_eq!(ask(9, 0), [served(PageSource::Storage, true)]);
}

#[test]
fn an_accepted_loss_shows_one_version_though_a_write_was_under_way() {
    let mut bench = Bench::new(PAGES, 0.0);
    let unfix = |index, frame| Op::Unfix {
        page: page(index),
        frame,
    };
    for (index, frame) in [(1, 1), (2, 2)] {
        bench.void(0, frame);
        bench.run(0, &[fetch(index, Mode::Exclusive, frame)]);
        bench.fill(0, frame, page(index), 0x11);
        bench.run(0, &[unfix(index, frame)]);
    }
    // The write of page 2 has reached the SSD when the node dies.
    let evict = Op::Evict {
        page: page(2),
        frame: 2,
        keep: false,
    };
    bench.begin(0, &[evict]);
    bench.rack.run(bench.rack.now() + Duration::from_micros(12));
    bench.rack.crash_node(NodeId(0));
    assert_eq!(bench.rack.lost_pages().unwrap().len(), 2);
    assert!(bench.rack.accept_loss(page(1)));
    assert!(bench.rack.accept_loss(page(2)));
    // The drive keeps the order: the write has completed before the page is read, or never does.
    let read = |bench: &mut Bench| {
        bench.void(1, 0);
        let answers = bench.answers(1, &[fetch(2, Mode::Shared, 0)]);
        assert_eq!(answers, [served(PageSource::Storage, true)]);
        bench.byte(1, 0)
    };
    let first = read(&mut bench);
    bench.rack.run(bench.rack.now() + Duration::from_millis(50));
    assert_eq!(read(&mut bench), first);
}

#[test]
fn what_only_a_dead_node_had_is_lost_and_said_to_be() {
    let mut bench = Bench::new(PAGES, 0.0);
    let unfix = |index, frame| Op::Unfix {
        page: page(index),
        frame,
    };
    bench.run(
        0,
        &[fetch(1, Mode::Exclusive, 1), fetch(2, Mode::Exclusive, 2)],
    );
    bench.fill(0, 1, page(1), 0x11);
    assert_eq!(bench.answers(0, &[unfix(1, 1)]), [Answer::Done]);
    bench.rack.crash_node(NodeId(0));
    let lost: Vec<_> = bench
        .rack
        .lost_pages()
        .unwrap()
        .iter()
        .map(|lost| lost.page)
        .collect();
    assert_eq!(
        lost,
        [page(1)],
        "page 2 was latched and never shown changed"
    );
    bench.void(1, 0);
    bench.void(1, 1);
    let answers = bench.answers(
        1,
        &[fetch(1, Mode::Shared, 0), fetch(2, Mode::Exclusive, 1)],
    );
    assert_eq!(answers, [Answer::Lost, served(PageSource::Storage, true)]);
    assert!(bench.rack.accept_loss(page(1)));
    let answers = bench.answers(1, &[fetch(1, Mode::Shared, 0)]);
    assert_eq!(answers, [served(PageSource::Storage, true)]);
    assert!(bench.rack.revive_node(NodeId(0)));
    bench.rack.rejoin_pages(NodeId(0)).unwrap();
    bench.void(0, 0);
    assert_eq!(
        bench.answers(0, &[fetch(3, Mode::Shared, 0)]),
        [served(PageSource::Storage, true)]
    );
}

#[test]
fn a_node_that_lacked_queue_pairs_comes_back_later() {
    let mut bench = Bench::new(PAGES, 0.0);
    let node = NodeId(0);
    bench.rack.crash_node(node);
    assert!(bench.rack.revive_node(node));
    let made = bench.rack.on_node(node, |verbs| {
        let pd = verbs.create_pd();
        let cq = verbs.create_cq(1).unwrap();
        let make = || verbs.create_qp(pd, cq, cq, Default::default()).ok();
        core::iter::from_fn(make).collect::<Vec<_>>()
    });
    let mut made = made.unwrap();
    let mut free = |count: usize| {
        let freed = made.drain(..count.min(made.len()));
        bench.rack.on_node(node, |verbs| {
            freed.for_each(|qpn| verbs.destroy_qp(qpn).unwrap());
        });
    };
    free(12);
    let lacking = bench.rack.rejoin_pages(node).unwrap_err().to_string();
    assert!(lacking.contains("queue pairs"), "{lacking}");
    free(usize::MAX);
    bench.rack.rejoin_pages(node).unwrap();
    bench.void(0, 0);
    assert_eq!(
        bench.answers(0, &[fetch(3, Mode::Shared, 0)]),
        [served(PageSource::Storage, true)]
    );
}
