//! All in one thread, step by step.

use super::*;

/// One thread runs everything of an embedded rack: servers, switch, one client.
struct Alone {
    rack: EmbeddedRack,
    index: IndexService,
    client: Attached<IndexClient>,
}

impl Alone {
    fn new(access: Way) -> Self {
        let config = RackConfig {
            driver_threads: 0,
            node: ["host", "dpu", "compute"]
                .map(|name| NodeConfig::new(name, Role::Storage))
                .to_vec(),
            ..RackConfig::default()
        };
        let rack = EmbeddedRack::new(&config).unwrap();
        let mut spec = spec(8);
        // A server that is gone is detected at once, since its queue pair is gone, too.
        spec.attributes.timeout = Duration::from_millis(1);
        spec.attributes.retries = 2;
        let index = make(&rack, spec);
        let config = IndexClientConfig {
            access,
            ..IndexClientConfig::default()
        };
        let client = index.client(NodeId(2), config).unwrap();
        Self {
            rack,
            index,
            client,
        }
    }

    fn drive(&self) {
        self.index.serve();
        self.rack.progress().drive();
    }

    fn ask(&mut self, op: &Op<'_>) -> Result<Answer, IndexError> {
        let ticket = self.client.begin(op).unwrap();
        let node = self.rack.node_at(NodeId(2));
        for _ in 0..10_000_000u64 {
            let now = node.now();
            if let Some(reply) = node.with(|nic| self.client.poll(now, nic)) {
                assert_eq!(reply.ticket, ticket);
                return reply.result;
            }
            self.drive();
        }
        panic!("{op:?} does not end");
    }
}

fn get(key: u64) -> Op<'static> {
    Op::Get { key }
}

fn put(key: u64, value: &[u8]) -> Op<'_> {
    Op::Put { key, value }
}

#[test]
fn an_endpoint_that_restarts_is_empty_and_the_others_are_not() {
    for access in [Way::Rpc, Way::OneSided] {
        let mut alone = Alone::new(access);
        let (left, right) = (KEYS / 2 - 1, KEYS / 2);
        for key in [left, right] {
            let new = alone.ask(&put(key, b"before  "));
            assert_eq!(new, Ok(Answer::Found(false)));
            let value = Answer::Value(Some(b"before  "[..].into()));
            assert_eq!(alone.ask(&get(key)), Ok(value));
        }
        alone.index.kill(DPU);
        let error = alone.ask(&put(right, b"unknown ")).unwrap_err();
        let possible = [IndexError::OutcomeUnknown(DPU), IndexError::Gone(DPU)];
        assert!(possible.contains(&error), "{error}");
        assert_eq!(alone.ask(&get(right)), Err(IndexError::Gone(DPU)));
        assert!(alone.client.is_gone(DPU) && !alone.client.is_gone(HOST));
        let loss = alone.index.restart(DPU).unwrap();
        let lost = Part {
            low: right,
            last: u64::MAX,
            endpoint: DPU,
        };
        assert_eq!(loss.lost, Some(lost));
        assert_eq!(loss.map.version(), 2);
        alone.index.attach(&mut alone.client, DPU).unwrap();
        assert_eq!(alone.ask(&get(right)), Ok(Answer::Value(None)));
        let value = Answer::Value(Some(b"before  "[..].into()));
        assert_eq!(alone.ask(&get(left)), Ok(value));
        let new = alone.ask(&put(right, b"after   "));
        assert_eq!(new, Ok(Answer::Found(false)));
        let value = Answer::Value(Some(b"after   "[..].into()));
        assert_eq!(alone.ask(&get(right)), Ok(value));
    }
}

#[test]
fn a_set_up_that_makes_no_sense_is_refused() {
    let alone = Alone::new(Way::Rpc);
    let check = |change: &dyn Fn(&mut IndexSpec), expect: &str| {
        let mut spec = spec(8);
        change(&mut spec);
        let error = set_up::create(&alone.rack, spec).unwrap_err();
        assert_eq!(error.to_string(), expect);
    };
    check(
        &|spec| spec.endpoints.truncate(1),
        "the map is for 2 endpoints, the index has 1",
    );
    check(
        &|spec| spec.endpoints[1].threads = 0,
        "endpoint 1 has no server thread; one at least is needed",
    );
    check(
        &|spec| spec.endpoints[1].server.payload_max = 99,
        "endpoint 1 takes requests of another length than the first; give all one payload_max",
    );
    check(
        &|spec| spec.endpoints[1].node = NodeId(9),
        "node9 is not in the rack, or dead",
    );
    let tree = |spec: &mut IndexSpec| spec.endpoints[0].tree.node_size = 64;
    let mut spec = spec(8);
    tree(&mut spec);
    assert!(matches!(
        set_up::create(&alone.rack, spec),
        Err(IndexSetUpError::Tree(_))
    ));
}

#[test]
fn what_a_client_is_given_is_checked() {
    let mut alone = Alone::new(Way::Rpc);
    let long = alone.client.begin(&put(1, &[0; 9])).unwrap_err();
    assert_eq!(
        long.to_string(),
        "a value of 9 bytes; the index takes 8 at most"
    );
    let backwards = Op::Scan {
        low: 2,
        last: 1,
        direction: Direction::Forward,
        limit: 1,
    };
    let error = alone.client.begin(&backwards).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a scan from key 2 to key 1, which is before it"
    );
    for _ in 0..alone.client.config().operations {
        alone.client.begin(&get(1)).unwrap();
    }
    let full = alone.client.begin(&get(1)).unwrap_err();
    assert_eq!(
        full.to_string(),
        "64 operations are under way; poll for replies first"
    );
}
