//! A client that reads by READs, at an endpoint with a fake NIC and fake switches.

use super::*;
use crate::btree::{Tree, TreeConfig};
use crate::index::op::{Answer, IndexError};
use crate::index::reader::tests::fake_nic::FakeNic;
use crate::index::shard::Shard;
use crate::index::{Direction, Value};
use rackweave_base::Rkey;
use rackweave_verbs::{Access as Permission, Mtu};

const HOST: EndpointId = EndpointId(0);
/// The keys are the multiples of this.
const STEP: u64 = 7;
const KEYS: u64 = 3000;

struct Fixture {
    nic: FakeNic,
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

impl Fixture {
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
        let mut nic = FakeNic::new(1, 1000);
        let mut register = |block: &rackweave_base::Block| {
            let region = nic.register(PdId(0), block.clone(), Permission::REMOTE_READ);
            region.unwrap()
        };
        let tree = register(shard.tree().block());
        let version = register(shard.version_block());
        let remote = shard.remote(&tree, &version);
        let mut fixture = Self {
            client: IndexClient::new(map, config),
            nic,
            memory,
            shard,
            remote,
        };
        fixture.attach().unwrap();
        fixture
    }

    fn attach(&mut self) -> Result<ClientEnds, AttachError> {
        let Self {
            client,
            nic,
            memory,
            remote,
            ..
        } = self;
        client.attach(nic, memory, PdId(0), HOST, *remote)
    }

    /// The switches know all leaves.
    fn lead(&mut self) {
        let outline = self.shard.tree().outline(usize::MAX);
        let leaves = outline.iter().filter(|node| node.level == 1);
        let leaves: Vec<_> = leaves.flat_map(|node| node.children.clone()).collect();
        let (rkey, layout) = (self.remote.rkey, self.remote.layout);
        assert_ne!(rkey, Rkey(0));
        self.nic.network = Some(Box::new(move |key| {
            let at = leaves.partition_point(|(low, _)| *low <= key) - 1;
            (rkey, layout.offset(leaves[at].1.index))
        }));
    }

    fn run(&mut self, op: &Op<'_>, access: Access) -> Result<Answer, IndexError> {
        let ticket = self.client.begin_by(op, access).unwrap();
        for _ in 0..100_000 {
            self.nic.step();
            if let Some(reply) = self.client.poll(Instant::ZERO, &mut self.nic) {
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
        let mut fixture = Fixture::new(IndexClientConfig {
            scan_parts: parts,
            ..in_network()
        });
        fixture.lead();
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
                    let found = fixture.run(&op, Access::InNetwork);
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
        assert_eq!(fixture.client.under_way(), 0);
        assert_eq!(fixture.client.reader_statistics().network_astray, 0);
    }
}

#[test]
fn each_part_asks_the_network_where_it_begins() {
    for (parts, last, asked) in [(1, 20_000, 1), (4, 20_000, 4), (4, u64::MAX, 1)] {
        let mut fixture = Fixture::new(IndexClientConfig {
            scan_parts: parts,
            ..in_network()
        });
        fixture.lead();
        let (direction, limit) = (Direction::Forward, 50);
        let op = Op::Scan {
            low: 100,
            last,
            direction,
            limit,
        };
        assert!(fixture.run(&op, Access::InNetwork).is_ok());
        assert_eq!(fixture.client.reader_statistics().network_queries, asked);
        // Other access methods do not query the network.
        assert!(fixture.run(&op, Access::OneSided).is_ok());
        assert_eq!(fixture.client.reader_statistics().network_queries, asked);
    }
}

#[test]
fn parts_that_find_the_keys_elsewhere_are_one_operation() {
    let mut fixture = Fixture::new(IndexClientConfig {
        scan_parts: 4,
        ..in_network()
    });
    fixture.lead();
    // The client's map is newer than the endpoint's.
    let map = PartitionMap::whole(1, HOST).unwrap().with_restart(HOST);
    fixture.client = IndexClient::new(map, *fixture.client.config());
    fixture.attach().unwrap();
    let (direction, limit) = (Direction::Backward, 50);
    let op = Op::Scan {
        low: 100,
        last: 9000,
        direction,
        limit,
    };
    fixture.client.begin(&op).unwrap();
    for _ in 0..10_000 {
        fixture.nic.step();
        assert_eq!(fixture.client.poll(Instant::ZERO, &mut fixture.nic), None);
    }
    assert_eq!(fixture.client.reader_statistics().moved, 4);
    assert_eq!(fixture.client.statistics().moved, 1);
    assert_eq!(fixture.client.under_way(), 1);
}

#[test]
fn without_a_switch_that_answers_it_reads_one_sided_from_then_on() {
    let mut fixture = Fixture::new(in_network());
    assert!(fixture.client.asks_network(HOST));
    assert_eq!(fixture.get(STEP), Err(IndexError::Gone(HOST)));
    assert!(fixture.client.is_gone(HOST));
    let refused = |fixture: &Fixture| fixture.client.reader_statistics().network_refused;
    let queries = |fixture: &Fixture| fixture.client.reader_statistics().network_queries;
    assert_eq!((refused(&fixture), queries(&fixture)), (1, 1));
    // With a new connection to the endpoint.
    fixture.nic.mend();
    fixture.attach().unwrap();
    assert!(!fixture.client.asks_network(HOST) && !fixture.client.is_gone(HOST));
    assert_eq!(fixture.get(STEP), there(STEP));
    assert_eq!((refused(&fixture), queries(&fixture)), (1, 1));
    // Until the user enables queries again.
    fixture.client.set_network(true);
    fixture.lead();
    assert_eq!(fixture.get(2 * STEP), there(2 * STEP));
    assert_eq!((refused(&fixture), queries(&fixture)), (1, 2));
    fixture.client.set_network(false);
    assert_eq!(fixture.get(3 * STEP), there(3 * STEP));
    assert_eq!((refused(&fixture), queries(&fixture)), (1, 2));
}

#[test]
fn a_client_asks_the_network_if_it_was_configured_to() {
    for (access, network, asked) in [
        (Access::InNetwork, true, 1),
        (Access::InNetwork, false, 0),
        (Access::OneSided, true, 0),
    ] {
        let mut fixture = Fixture::new(IndexClientConfig {
            access,
            network,
            ..IndexClientConfig::default()
        });
        fixture.lead();
        assert_eq!(fixture.get(STEP), there(STEP));
        assert_eq!(fixture.get(STEP + 1), Ok(Answer::Value(None)));
        assert_eq!(
            fixture.client.reader_statistics().network_queries,
            2 * asked
        );
    }
}

#[test]
fn tree_nodes_that_need_several_packets_are_refused() {
    let mut fixture = Fixture::new(in_network());
    let config = |access| IndexClientConfig {
        access,
        reader: ReaderConfig {
            mtu: Mtu::B256,
            ..ReaderConfig::default()
        },
        ..IndexClientConfig::default()
    };
    let map = fixture.client.map().clone();
    fixture.client = IndexClient::new(map.clone(), config(Access::InNetwork));
    let error = fixture.attach().unwrap_err();
    let (node_size, mtu) = (512, 256);
    let expect = ReaderError::NodeTooLarge { node_size, mtu };
    assert_eq!(error, AttachError::Reader(expect));
    assert!(fixture.client.is_gone(HOST));
    fixture.client = IndexClient::new(map, config(Access::OneSided));
    fixture.attach().unwrap();
    assert_eq!(fixture.get(STEP), there(STEP));
}

#[test]
fn it_remembers_what_it_reads() {
    let mut fixture = Fixture::new(IndexClientConfig {
        sample: SampleConfig {
            every: 2,
            most: 100,
        },
        ..in_network()
    });
    fixture.lead();
    for at in 0..100 {
        fixture.get(at * STEP).unwrap();
    }
    let mut keys = Vec::new();
    fixture.client.take_sample(&mut keys);
    assert!((48..=52).contains(&keys.len()), "{}", keys.len());
    assert!(keys.is_sorted_by(|a, b| a < b) && keys.iter().all(|key| *key < 100 * STEP));
    fixture.client.take_sample(&mut keys);
    assert!(keys.len() <= 52);
}
