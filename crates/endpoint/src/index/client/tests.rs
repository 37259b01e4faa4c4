//! A client that reads by READs, at an endpoint whose NIC and switches are played.

use super::*;
use crate::btree::{Tree, TreeConfig};
use crate::index::op::{Answer, IndexError};
use crate::index::reader::tests::played::Played;
use crate::index::shard::Shard;
use crate::index::{Direction, Value};
use rackweave_base::Rkey;
use rackweave_verbs::{Access as Permission, Mtu};

const HOST: EndpointId = EndpointId(0);
/// Every key that is a multiple of this.
const STEP: u64 = 7;
const KEYS: u64 = 3000;

struct Stage {
    played: Played,
    memory: Memory,
    shard: Shard,
    remote: RemoteTree,
    client: IndexClient,
}

fn in_network() -> IndexClientConfig {
    IndexClientConfig {
        access: Access::InNetwork,
        ..IndexClientConfig::default()
    }
}

impl Stage {
    fn new(config: IndexClientConfig) -> Self {
        let memory = Memory::new(64 << 20);
        let tree = TreeConfig::for_keys(2 * KEYS, 512, 8).with_fan_out(16);
        let block = memory.allocate(tree.bytes() as usize).unwrap();
        let tree = Tree::create(block, &tree).unwrap();
        let map = PartitionMap::whole(1, HOST).unwrap();
        let shard = Shard::new(&memory, HOST, tree, map.clone()).unwrap();
        let keys = (0..KEYS).map(|at| at * STEP);
        shard
            .bulk_load(keys.map(|key| (key, key.to_le_bytes())))
            .unwrap();
        let mut played = Played::new(1, 1000);
        let mut register = |block: &rackweave_base::Block| {
            let region = played.register(PdId(0), block.clone(), Permission::REMOTE_READ);
            region.unwrap()
        };
        let tree = register(shard.tree().block());
        let version = register(shard.version_block());
        let remote = shard.remote(&tree, &version);
        let mut stage = Self {
            client: IndexClient::new(map, config),
            played,
            memory,
            shard,
            remote,
        };
        stage.attach().unwrap();
        stage
    }

    fn attach(&mut self) -> Result<ClientEnds, AttachError> {
        let Self {
            client,
            played,
            memory,
            remote,
            ..
        } = self;
        client.attach(played, memory, PdId(0), HOST, *remote)
    }

    /// The switches know all leaves.
    fn lead(&mut self) {
        let outline = self.shard.tree().outline(usize::MAX);
        let leaves = outline.iter().filter(|node| node.level == 1);
        let leaves: Vec<_> = leaves.flat_map(|node| node.children.clone()).collect();
        let (rkey, layout) = (self.remote.rkey, self.remote.layout);
        assert_ne!(rkey, Rkey(0));
        self.played.network = Some(Box::new(move |key| {
            let at = leaves.partition_point(|(low, _)| *low <= key) - 1;
            (rkey, layout.offset(leaves[at].1.index))
        }));
    }

    fn run(&mut self, op: &Op<'_>, access: Access) -> Result<Answer, IndexError> {
        let ticket = self.client.begin_by(op, access).unwrap();
        for _ in 0..100_000 {
            self.played.step();
            if let Some(reply) = self.client.poll(Instant::ZERO, &mut self.played) {
                assert_eq!(reply.ticket, ticket);
                return reply.result;
            }
        }
        panic!("no answer");
    }

    fn get(&mut self, key: u64) -> Result<Answer, IndexError> {
        self.run(&Op::Get { key }, Access::InNetwork)
    }
}

fn value(key: u64) -> Value {
    key.to_le_bytes()[..].into()
}

fn there(key: u64) -> Result<Answer, IndexError> {
    Ok(Answer::Value(Some(value(key))))
}

#[test]
fn a_scan_in_parts_gives_each_key_once_and_in_order() {
    for parts in [0, 1, 2, 5, 200] {
        let mut stage = Stage::new(IndexClientConfig {
            scan_parts: parts,
            ..in_network()
        });
        stage.lead();
        let ranges = [
            (0, 20_000),
            (5000, 5000),
            (5001, 5003),
            (13_999, 15_000),
            (9, 40_000),
        ];
        for (low, last) in ranges {
            for direction in [Direction::Forward, Direction::Backward] {
                for limit in [0, 1, 100, u32::MAX] {
                    let op = Op::Scan {
                        low,
                        last,
                        direction,
                        limit,
                    };
                    let found = stage.run(&op, Access::InNetwork);
                    let keys = (0..KEYS).map(|at| at * STEP);
                    let mut keys: Vec<u64> =
                        keys.filter(|key| (low..=last).contains(key)).collect();
                    if direction == Direction::Backward {
                        keys.reverse();
                    }
                    keys.truncate(limit as usize);
                    let entries = keys.into_iter().map(|key| (key, value(key))).collect();
                    assert_eq!(
                        found,
                        Ok(Answer::Entries(entries)),
                        "{parts} parts of {op:?}"
                    );
                }
            }
        }
        assert_eq!(stage.client.under_way(), 0);
        assert_eq!(stage.client.reader_statistics().network_astray, 0);
    }
}

#[test]
fn each_part_asks_the_network_where_it_begins() {
    for (parts, last, asked) in [(1, 20_000, 1), (4, 20_000, 4), (4, u64::MAX, 1)] {
        let mut stage = Stage::new(IndexClientConfig {
            scan_parts: parts,
            ..in_network()
        });
        stage.lead();
        let (direction, limit) = (Direction::Forward, 50);
        let op = Op::Scan {
            low: 100,
            last,
            direction,
            limit,
        };
        assert!(stage.run(&op, Access::InNetwork).is_ok());
        assert_eq!(stage.client.reader_statistics().network_queries, asked);
        // By other ways nobody is asked.
        assert!(stage.run(&op, Access::OneSided).is_ok());
        assert_eq!(stage.client.reader_statistics().network_queries, asked);
    }
}

#[test]
fn parts_that_find_the_keys_elsewhere_are_one_operation() {
    let mut stage = Stage::new(IndexClientConfig {
        scan_parts: 4,
        ..in_network()
    });
    stage.lead();
    // The client's map is newer than the endpoint's.
    let map = PartitionMap::whole(1, HOST).unwrap().with_restart(HOST);
    stage.client = IndexClient::new(map, *stage.client.config());
    stage.attach().unwrap();
    let (direction, limit) = (Direction::Backward, 50);
    let op = Op::Scan {
        low: 100,
        last: 9000,
        direction,
        limit,
    };
    stage.client.begin(&op).unwrap();
    for _ in 0..10_000 {
        stage.played.step();
        assert_eq!(stage.client.poll(Instant::ZERO, &mut stage.played), None);
    }
    assert_eq!(stage.client.reader_statistics().moved, 4);
    assert_eq!(stage.client.statistics().moved, 1);
    assert_eq!(stage.client.under_way(), 1);
}

#[test]
fn without_a_switch_that_answers_it_reads_one_sided_from_then_on() {
    let mut stage = Stage::new(in_network());
    assert!(stage.client.asks_network(HOST));
    assert_eq!(stage.get(STEP), Err(IndexError::Gone(HOST)));
    assert!(stage.client.is_gone(HOST));
    let refused = |stage: &Stage| stage.client.reader_statistics().network_refused;
    let queries = |stage: &Stage| stage.client.reader_statistics().network_queries;
    assert_eq!((refused(&stage), queries(&stage)), (1, 1));
    // With a new way to the endpoint.
    stage.played.mend();
    stage.attach().unwrap();
    assert!(!stage.client.asks_network(HOST) && !stage.client.is_gone(HOST));
    assert_eq!(stage.get(STEP), there(STEP));
    assert_eq!((refused(&stage), queries(&stage)), (1, 1));
    // Until somebody knows better.
    stage.client.set_network(true);
    stage.lead();
    assert_eq!(stage.get(2 * STEP), there(2 * STEP));
    assert_eq!((refused(&stage), queries(&stage)), (1, 2));
    stage.client.set_network(false);
    assert_eq!(stage.get(3 * STEP), there(3 * STEP));
    assert_eq!((refused(&stage), queries(&stage)), (1, 2));
}

#[test]
fn a_client_asks_the_network_if_it_was_configured_to() {
    for (access, network, asked) in [
        (Access::InNetwork, true, 1),
        (Access::InNetwork, false, 0),
        (Access::OneSided, true, 0),
    ] {
        let mut stage = Stage::new(IndexClientConfig {
            access,
            network,
            ..IndexClientConfig::default()
        });
        stage.lead();
        assert_eq!(stage.get(STEP), there(STEP));
        assert_eq!(stage.get(STEP + 1), Ok(Answer::Value(None)));
        assert_eq!(stage.client.reader_statistics().network_queries, 2 * asked);
    }
}

#[test]
fn tree_nodes_that_need_several_packets_are_refused() {
    let mut stage = Stage::new(in_network());
    let config = |access| IndexClientConfig {
        access,
        reader: ReaderConfig {
            mtu: Mtu::B256,
            ..ReaderConfig::default()
        },
        ..IndexClientConfig::default()
    };
    let map = stage.client.map().clone();
    stage.client = IndexClient::new(map.clone(), config(Access::InNetwork));
    let error = stage.attach().unwrap_err();
    let (node_size, mtu) = (512, 256);
    let expect = ReaderError::NodeTooLarge { node_size, mtu };
    assert_eq!(error, AttachError::Reader(expect));
    assert!(stage.client.is_gone(HOST));
    stage.client = IndexClient::new(map, config(Access::OneSided));
    stage.attach().unwrap();
    assert_eq!(stage.get(STEP), there(STEP));
}

#[test]
fn it_remembers_what_it_reads() {
    let mut stage = Stage::new(IndexClientConfig {
        sample: SampleConfig {
            every: 2,
            most: 100,
        },
        ..in_network()
    });
    stage.lead();
    for at in 0..100 {
        stage.get(at * STEP).unwrap();
    }
    let mut keys = Vec::new();
    stage.client.take_sample(&mut keys);
    assert!((48..=52).contains(&keys.len()), "{}", keys.len());
    assert!(keys.is_sorted_by(|a, b| a < b) && keys.iter().all(|key| *key < 100 * STEP));
    stage.client.take_sample(&mut keys);
    assert!(keys.len() <= 52);
}
