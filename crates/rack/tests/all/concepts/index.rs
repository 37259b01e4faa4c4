//! A lookup by READs alone, and the same lookup led by two switches.

use super::capture::Recording;
use super::guide;
use super::places::NamedRegions;
use super::story::{Scene, Teller};
use rackweave_base::{Duration, NodeId};
use rackweave_controller::index::KeyWeights;
use rackweave_endpoint::btree::TreeConfig;
use rackweave_endpoint::index::{
    Access, Answer, EndpointId, IndexClient, IndexClientConfig, IndexError, Op, PartitionMap,
};
use rackweave_rack::config::{NodeConfig, Role, TopologyName};
use rackweave_rack::services::{IndexService, TIME_LIMIT};
use rackweave_rack::{
    Address, Attached, IndexEndpointSpec, IndexNetworkSpec, IndexSpec, RackConfig, RunEnd,
    SimulatedRack,
};
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_wire::Headers;
use rackweave_wire::fabric::tree::{Image, Layout};
use std::sync::{Arc, Mutex};

const CLIENT: NodeId = NodeId(0);
const SERVER: NodeId = NodeId(1);
const HOST: EndpointId = EndpointId(0);
const NODE_SIZE: u32 = 512;
const KEYS: u64 = 3000;
const KEY: u64 = 1234;

struct Once {
    client: Attached<IndexClient>,
    asked: bool,
    result: Arc<Mutex<Option<Result<Answer, IndexError>>>>,
}

impl Actor for Once {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        if !self.asked {
            self.asked = true;
            self.client.begin(&Op::Get { key: KEY }).unwrap();
        }
        if let Some(reply) = self.client.poll(now, context.nic()) {
            *self.result.lock().unwrap() = Some(reply.result);
            return Step::Done;
        }
        Step::WaitForPacket
    }
}

fn rack() -> SimulatedRack {
    let mut config = RackConfig {
        node: vec![
            NodeConfig::new("client", Role::Compute),
            NodeConfig::new("server", Role::Memory),
        ],
        ..RackConfig::default()
    };
    let switch = &mut config.switch;
    switch.topology = TopologyName::Two;
    (switch.consumer_rings, switch.producer_rings) = (0, 0);
    (switch.index_servers, switch.index_queries) = (1, 8);
    (
        switch.index_fat_ranges,
        switch.index_layers,
        switch.index_nodes,
    ) = (4, 2, 64);
    SimulatedRack::new(&config).unwrap()
}

fn index(rack: &SimulatedRack) -> IndexService {
    let tree = TreeConfig {
        fan_out: 8,
        ..TreeConfig::for_keys(2 * KEYS, NODE_SIZE, 8)
    };
    let endpoints = vec![IndexEndpointSpec::new(SERVER, tree)];
    let spec = IndexSpec::new(endpoints, PartitionMap::whole(1, HOST).unwrap());
    let network = IndexNetworkSpec {
        grace: Duration::from_micros(10),
        ..IndexNetworkSpec::default()
    };
    let index = IndexService::with_spec(rack, spec, Some(network), None).unwrap();
    let entries = (0..KEYS).map(|key| (key, (key * 10).to_le_bytes()));
    index.load(entries).unwrap();
    let keys: Vec<u64> = (0..KEYS).collect();
    let weights = KeyWeights::from_samples(&keys);
    index.load_network_for(weights, TIME_LIMIT).unwrap();
    index
}

fn places(index: &IndexService) -> NamedRegions {
    let mut places = NamedRegions::default();
    let remote = index.index().remote(HOST).unwrap();
    let ip = Address::of_node(SERVER).ip;
    places.enter(ip, (remote.address, remote.rkey), |offset| {
        let size = u64::from(NODE_SIZE);
        assert_eq!(offset % size, 0, "tree nodes are read whole");
        format!("tree node {}", offset / size)
    });
    places
}

struct TreeScene {
    /// The name of the tree.
    tree: u64,
}

impl Scene for TreeScene {
    fn to_switch(&self, _: &Headers, _: &[u8]) -> Option<String> {
        None
    }

    fn content(&self, _: &str, _: u32, payload: &[u8]) -> Option<String> {
        let layout = Layout::new(NODE_SIZE)?;
        let image = (payload.len() == layout.bytes())
            .then(|| Image::verify_any(layout, payload, self.tree, u32::MAX))?;
        let (image, pointer) = image.expect("a whole tree node");
        let (index, level) = (pointer.index, image.meta().level);
        let (low, last, count) = (image.low(), image.last(), image.count());
        let last = match last {
            u64::MAX => "2^64-1".to_owned(),
            last => last.to_string(),
        };
        Some(format!(
            "tree node {index}, level {level}, keys {low} to {last}, {count} entries"
        ))
    }
}

fn look_up(rack: &mut SimulatedRack, index: &IndexService, access: Access) -> Vec<String> {
    let config = IndexClientConfig {
        access,
        ..IndexClientConfig::default()
    };
    let client = index.client(CLIENT, config).unwrap();
    let places = places(index);
    let result = Arc::new(Mutex::new(None));
    let once = Once {
        client,
        asked: false,
        result: result.clone(),
    };
    let recording = Recording::begin(rack);
    rack.spawn(CLIENT, Box::new(once));
    let until = rack.now() + Duration::from_millis(10);
    assert_eq!(rack.run(until), RunEnd::Done);
    let seen = recording.end(rack);
    let expected = (KEY * 10).to_le_bytes()[..].into();
    let answer = result.lock().unwrap().take().expect("it has ended");
    assert_eq!(answer, Ok(Answer::Value(Some(expected))));
    let tree = index.index().remote(HOST).unwrap().tree;
    let scene = TreeScene { tree };
    let teller = Teller::new(rack, &["switch0", "switch1"], &scene, &places);
    teller.tell(seen)
}

#[test]
fn a_lookup_walks_the_tree_and_the_network_spares_it_most_of_the_way() {
    let mut rack = rack();
    let index = index(&rack);
    let alone = look_up(&mut rack, &index, Access::OneSided);
    guide::check("lookup-one-sided", &alone);
    let led = look_up(&mut rack, &index, Access::InNetwork);
    guide::check("lookup-in-network", &led);
    assert!(led.len() < alone.len());
}
