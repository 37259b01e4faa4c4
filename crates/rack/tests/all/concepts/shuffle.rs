//! One item's path through a shuffle of two producers and two consumers.
//!
//! The test plays the nodes: it stores words where a producer and a consumer would, and does
//! nothing else. All packets are the switch's and the NICs'.

use super::capture::Recording;
use super::guide;
use super::places::NamedRegions;
use super::story::{Scene, Teller};
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_controller::ask::SetWeight;
use rackweave_controller::{FlowRings, RegionName, Ring};
use rackweave_rack::config::{NodeConfig, Role};
use rackweave_rack::testing::SimulatedMachines;
use rackweave_rack::{Address, RackConfig, RunEnd, SimulatedRack};
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_wire::Headers;
use rackweave_wire::fabric::ring::{
    COMMIT_RECORD, CommitRecord, ITEMS, NODE_WORD, NodeState, NodeWord, SWITCH_WORD, SwitchWord,
};

const ITEM: u32 = 64;

/// Lets time pass.
struct Rest(Instant);

impl Actor for Rest {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        match context.now() < self.0 {
            true => Step::Sleep(self.0 - context.now()),
            false => Step::Done,
        }
    }
}

fn rest(rack: &mut SimulatedRack, time: Duration) {
    let until = rack.now() + time;
    rack.spawn(NodeId(0), Box::new(Rest(until)));
    assert_eq!(rack.run(until + time), RunEnd::Done);
}

fn rack() -> SimulatedRack {
    let names = ["producer0", "producer1", "consumer0", "consumer1"];
    let node = names.map(|name| NodeConfig::new(name, Role::Compute));
    let config = RackConfig {
        node: node.to_vec(),
        ..RackConfig::default()
    };
    SimulatedRack::new(&config).unwrap()
}

fn create(rack: &mut SimulatedRack) -> FlowRings {
    let nodes = [0, 1, 2, 3].map(NodeId);
    let flow = rack.flow(&nodes[..2], &nodes[2..]).item_bytes(ITEM);
    let spec = flow.ring_bytes(8 * ITEM).spec().unwrap();
    let mut made = None;
    rack.control(|controller, site| {
        made = Some(controller.create_flow(site, spec.clone()).unwrap());
    });
    let (id, rings) = made.expect("it was made");
    // It has no weight and gets none; but now the rack knows that the switch has work.
    let weight = None;
    rack.ask(SetWeight { flow: id, weight }).unwrap();
    rings
}

fn places(rings: &FlowRings) -> NamedRegions {
    let mut places = NamedRegions::default();
    let mut enter = |ring: &Ring, name: String, node: &'static str, switch: &'static str| {
        let RegionName { address, rkey, .. } = ring.region;
        let slots = u64::from(ring.slots);
        places.enter(Address::of_node(ring.node).ip, (address, rkey), move |at| {
            let what = match at {
                NODE_WORD => node.to_owned(),
                COMMIT_RECORD => format!("commit record and {switch}"),
                SWITCH_WORD => switch.to_owned(),
                _ => {
                    let slot = (at - ITEMS) / u64::from(ITEM);
                    assert!(slot < slots, "a slot of the ring");
                    format!("slot {slot}")
                }
            };
            format!("{name}: {what}")
        });
    };
    for (c, rings) in rings.producers.iter().enumerate() {
        for (p, ring) in rings.iter().enumerate() {
            enter(ring, format!("ring {p}→{c}"), "head", "tail");
        }
    }
    for (c, ring) in rings.consumers.iter().enumerate() {
        enter(ring, format!("ring of consumer{c}"), "tail", "head");
    }
    places
}

struct FlowScene;

impl Scene for FlowScene {
    fn to_switch(&self, _: &Headers, _: &[u8]) -> Option<String> {
        None
    }

    fn content(&self, place: &str, _: u32, payload: &[u8]) -> Option<String> {
        let word = |at: usize| {
            let bytes = payload.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map(|bytes| u64::from_le_bytes(*bytes))
        };
        let (_, what) = place.split_once(": ")?;
        let of_producer = !place.starts_with("ring of");
        match what {
            "commit record and head" => {
                let CommitRecord { producer, tail } = word(0)?.into();
                let head = SwitchWord::try_from(word(8)?).ok()?;
                let (head, state) = (head.counter, head.state);
                Some(format!(
                    "producer {producer}, tail {tail}; {head}, {state:?}"
                ))
            }
            "head" if of_producer => node_word(word(0)?),
            "tail" if !of_producer => node_word(word(0)?),
            "head" | "tail" => {
                let SwitchWord { counter, state } = word(0)?.try_into().ok()?;
                Some(format!("{counter}, {state:?}"))
            }
            _ => Some(format!("{:?}…", String::from_utf8_lossy(&payload[..7]))),
        }
    }
}

fn node_word(word: u64) -> Option<String> {
    let NodeWord { counter, state } = word.try_into().ok()?;
    Some(format!("{counter}, {state:?}"))
}

/// A node's action: a store of a word into its own memory.
fn store(rack: &mut SimulatedRack, ring: &Ring, offset: u64, word: u64) {
    let (node, rkey, bytes) = (ring.node, ring.region.rkey, ring.order.to_bytes(word));
    rack.control(|_, site| site.store_word(node, rkey, offset, bytes));
}

fn load(rack: &mut SimulatedRack, ring: &Ring, offset: u64) -> u64 {
    let (node, rkey) = (ring.node, ring.region.rkey);
    let mut bytes = None;
    rack.control(|_, site| bytes = site.load_word(node, rkey, offset));
    ring.order.from_bytes(bytes.expect("the ring is there"))
}

#[test]
fn an_item_goes_from_its_producer_to_the_consumer_it_was_pushed_for() {
    let mut rack = rack();
    let rings = create(&mut rack);
    let places = places(&rings);
    // Everything is set up, and polls have become rare.
    rest(&mut rack, Duration::from_millis(5));

    let (source, target) = (&rings.producers[1][0], &rings.consumers[1]);
    let recording = Recording::begin(&mut rack);
    store(&mut rack, source, ITEMS, u64::from_le_bytes(*b"an item\0"));
    let head = NodeWord {
        counter: 1,
        state: NodeState::Open,
    };
    store(&mut rack, source, NODE_WORD, head.into());
    rest(&mut rack, Duration::from_millis(1));
    let seen = SwitchWord::try_from(load(&mut rack, target, SWITCH_WORD)).unwrap();
    assert_eq!(seen.counter, 1, "the consumer sees one item");
    let item = load(&mut rack, target, ITEMS);
    assert_eq!(item, u64::from_le_bytes(*b"an item\0"));
    let tail = NodeWord {
        counter: 1,
        state: NodeState::Open,
    };
    store(&mut rack, target, NODE_WORD, tail.into());
    rest(&mut rack, Duration::from_millis(1));
    let seen = recording.end(&mut rack);

    let teller = Teller::new(&rack, &["switch"], &FlowScene, &places);
    // Polls continue at all rings; those that find nothing new are left out.
    let before = "8 bytes: 0, Open";
    let rings = [
        "ring 0→0: head",
        "ring 0→1: head",
        "ring 1→0: head",
        "ring 1→1: head",
    ];
    let tails = ["ring of consumer0: tail", "ring of consumer1: tail"];
    let words = rings.iter().chain(&tails);
    let teller = words.fold(teller, |teller, place| teller.news_of(place, before));
    guide::check("shuffle", &teller.tell(seen));
}
