//! A page read: from an SSD, out of another node's memory, as a verified local copy, and after the
//! other node has dropped the page.

use super::capture::{Recording, Seen};
use super::guide;
use super::places::NamedRegions;
use super::story::{Scene, Teller};
use rackweave_base::{Duration, NodeId, Rng};
use rackweave_controller::PageNode;
use rackweave_endpoint::page_store::directory::{
    Answer, Channel, Directory, Mode, Op, Reply, Served,
};
use rackweave_rack::config::{NodeConfig, Role};
use rackweave_rack::services::{PageOptions, PageService, Prepare, StoreMedium};
use rackweave_rack::testing::SimulatedMachines;
use rackweave_rack::{Address, RackConfig, RunEnd, SimulatedRack, SsdBackend};
use rackweave_sim::SsdModel;
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_target::MemoryBackend;
use rackweave_wire::fabric::page::header::VOID;
use rackweave_wire::fabric::page::{
    Completion, Operation, PageHeader, PageId, PageSource, Request, Response,
};
use rackweave_wire::nvme::{Cqe, IoCommand, Sqe, Status};
use rackweave_wire::{Extension, Headers, Opcode};
use std::sync::{Arc, Mutex};

const PAGE: u32 = 16 << 10;
const BLOCK: u32 = 4096;
const PAGES: u64 = 64;
const SLOTS: u16 = 4;
const STORAGE: NodeId = NodeId(2);

/// Executes one operation and keeps the reply.
struct Once {
    channel: Channel,
    op: Option<Op>,
    reply: Arc<Mutex<Option<Reply>>>,
}

impl Actor for Once {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        if let Some(op) = self.op.take() {
            let begun = self.channel.begin(now, context.nic(), op);
            assert!(begun.is_some(), "a slot is free");
        }
        if let Some(reply) = self.channel.poll(now, context.nic()) {
            *self.reply.lock().unwrap() = Some(reply);
            return Step::Done;
        }
        match self.channel.poll_timeout() {
            Some(due) => Step::WaitUntil(due),
            None => Step::WaitForPacket,
        }
    }
}

fn rack() -> SimulatedRack {
    let mut config = RackConfig {
        node: vec![
            NodeConfig::new("compute0", Role::Compute),
            NodeConfig::new("compute1", Role::Compute),
            NodeConfig::new("storage", Role::Storage),
        ],
        ..RackConfig::default()
    };
    let switch = &mut config.switch;
    (switch.consumer_rings, switch.producer_rings) = (0, 0);
    (switch.page_entries, switch.page_size, switch.page_slots) = (PAGES as u32, PAGE, 16);
    let rack = SimulatedRack::new(&config).unwrap();
    let medium = MemoryBackend::new(BLOCK, PAGES * u64::from(PAGE / BLOCK));
    let model = SsdModel::default();
    let ssd = SsdBackend::new(medium, &model, 1, PAGE, &mut Rng::new(1));
    let node = |node| PageNode {
        node: NodeId(node),
        frames: 8,
        workers: 1,
        slots: SLOTS,
    };
    let options = PageOptions {
        nodes: vec![node(0), node(1)],
        prepare: Prepare::Leave,
        ..PageOptions::default()
    };
    let store = StoreMedium {
        name: "ssd".into(),
        node: STORAGE,
        backend: Box::new(ssd),
        page_size: None,
    };
    PageService::with_stores(&rack, &options, vec![store]).unwrap();
    rack
}

fn places(rack: &mut SimulatedRack) -> NamedRegions {
    let mut places = NamedRegions::default();
    rack.control(|controller, _| {
        for node in [NodeId(0), NodeId(1)] {
            let (pool, channels) = controller.page_node(node).unwrap();
            let ip = Address::of_node(node).ip;
            places.enter(ip, (pool.region.address, pool.region.rkey), |offset| {
                let page = u64::from(PAGE);
                assert_eq!(offset % page, 0, "transfers begin where frames do");
                format!("frame {}", offset / page)
            });
            let control = channels[0].control;
            places.enter(ip, (control.address, control.rkey), |offset| {
                assert!(offset < 16 * u64::from(SLOTS), "a completion");
                format!("completion of slot {}", offset / 16)
            });
        }
    });
    places
}

/// Has a node execute an operation.
fn act(rack: &mut SimulatedRack, node: u16, op: Op) -> Answer {
    let ends = rack.page_ends(NodeId(node)).unwrap();
    let reply = Arc::new(Mutex::new(None));
    let once = Once {
        channel: Channel::new(ends.channels[0].clone()),
        op: Some(op),
        reply: reply.clone(),
    };
    rack.spawn(NodeId(node), Box::new(once));
    let until = rack.now() + Duration::from_secs(1);
    assert_eq!(rack.run(until), RunEnd::Done);
    // Packets still in flight: acknowledgements.
    rack.run(rack.now() + Duration::from_micros(50));
    let reply: Reply = reply.lock().unwrap().take().expect("it has ended");
    reply.answer
}

/// The same, with the packets that passed the switch meanwhile.
fn run(rack: &mut SimulatedRack, node: u16, op: Op) -> (Answer, Vec<Seen>) {
    let recording = Recording::begin(rack);
    let answer = act(rack, node, op);
    (answer, recording.end(rack))
}

fn page() -> PageId {
    PageId::new(0, 5).unwrap()
}

fn fetch(frame: u32, have: Option<u64>) -> Op {
    Op::Fetch {
        page: page(),
        mode: Mode::Shared,
        frame,
        have,
    }
}

/// As the pool does: marks a buffer frame as empty, or as holding this page.
fn set_tag(rack: &SimulatedRack, node: u16, frame: u32, tag: u64) {
    let ends = rack.page_ends(NodeId(node)).unwrap();
    let at = frame as usize * PAGE as usize;
    ends.frames.write(at, &tag.to_le_bytes());
}

fn served(source: PageSource) -> Answer {
    Answer::Fetched(Served {
        source,
        indexed: true,
    })
}

struct PageScene;

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("a word"))
}

impl Scene for PageScene {
    fn to_switch(&self, headers: &Headers, payload: &[u8]) -> Option<String> {
        match (headers.bth.opcode, headers.extension) {
            (Opcode::ReadRequest, Extension::Reth(reth)) => {
                let request = Request::parse(reth.address, reth.rkey.0).expect("a request");
                let have = match request.operation {
                    Operation::RefreshShared => format!(" unless it is {}", request.argument),
                    _ => String::new(),
                };
                let (page, frame, slot) = (request.page, request.frame, request.slot);
                let operation = request.operation;
                Some(format!(
                    "{operation:?}{have}, {page}, frame {frame}, slot {slot}"
                ))
            }
            (Opcode::WriteFirst | Opcode::WriteOnly, Extension::Reth(reth)) => {
                let (key, address, total) = (reth.rkey.0, reth.address, reth.length);
                let count = payload.len();
                Some(format!(
                    "rkey {key}, address {address}, {count} bytes of {total}"
                ))
            }
            (opcode, _) if opcode.is_send() => {
                let cqe = Cqe::parse(payload).expect("a response capsule");
                assert_eq!(cqe.status, Status::SUCCESS);
                Some(format!("NVMe response {}: success", cqe.command_id))
            }
            _ => None,
        }
    }

    fn content(&self, place: &str, part: u32, payload: &[u8]) -> Option<String> {
        if place.starts_with("completion") {
            let completion = Completion::parse(word(payload), word(&payload[8..]))?;
            let Completion {
                outcome,
                source,
                latch,
                ..
            } = completion;
            return Some(format!("{outcome:?}, from {source:?}, {latch}"));
        }
        if place.starts_with("frame") {
            let header = PageHeader::parse(payload)?;
            return (part == 0).then(|| match header.page {
                VOID => "tag void".to_owned(),
                tag if tag == page().tag() => format!("tag of {}", page()),
                tag => format!("tag {tag}"),
            });
        }
        let response = Response::parse(word(payload), word(&payload[8..]))?;
        Some(format!("{:?}, {}", response.status, response.latch))
    }

    fn sent(&self, payload: &[u8]) -> Option<String> {
        let (sqe, _) = Sqe::parse(payload).ok()?;
        let command = IoCommand::parse(&sqe).ok()?;
        let range = command.range()?;
        let last = range.first + u64::from(range.count) - 1;
        let (id, nsid, first) = (sqe.command_id, sqe.nsid, range.first);
        Some(format!(
            "NVMe read {id}: namespace {nsid}, blocks {first} to {last}, data to rkey {id}"
        ))
    }
}

fn check(rack: &SimulatedRack, places: &NamedRegions, name: &str, seen: Vec<Seen>) {
    let teller = Teller::new(rack, &["switch"], &PageScene, places);
    guide::check(name, &teller.switch_at(Address::SWITCH.ip).tell(seen));
}

/// Writes version 1 of the page to the SSD.
fn write(rack: &mut SimulatedRack) {
    let (page, frame) = (page(), 1);
    set_tag(rack, 0, frame, VOID);
    let take = Op::Fetch {
        page,
        mode: Mode::Exclusive,
        frame,
        have: None,
    };
    assert_eq!(act(rack, 0, take), served(PageSource::Storage));
    set_tag(rack, 0, frame, page.tag());
    let evict = Op::Evict {
        page,
        frame,
        keep: false,
    };
    for op in [Op::Unfix { page, frame }, evict] {
        assert_eq!(act(rack, 0, op), Answer::Done);
    }
}

#[test]
fn a_page_comes_from_wherever_it_is() {
    let mut rack = rack();
    let places = places(&mut rack);
    write(&mut rack);
    for (node, frame) in [(0, 1), (1, 0), (1, 2)] {
        set_tag(&rack, node, frame, VOID);
    }

    let (answer, seen) = run(&mut rack, 0, fetch(1, None));
    assert_eq!(answer, served(PageSource::Storage));
    check(&rack, &places, "page-ssd", seen);

    let (answer, seen) = run(&mut rack, 1, fetch(0, None));
    assert_eq!(answer, served(PageSource::Memory));
    check(&rack, &places, "page-remote", seen);

    let (answer, seen) = run(&mut rack, 1, fetch(0, Some(1)));
    assert_eq!(answer, Answer::Unchanged);
    check(&rack, &places, "page-local", seen);

    // compute0 drops its copy without notifying any node.
    set_tag(&rack, 0, 1, VOID);
    let (answer, seen) = run(&mut rack, 1, fetch(2, None));
    assert_eq!(answer, served(PageSource::Storage));
    check(&rack, &places, "page-voided", seen);
}
