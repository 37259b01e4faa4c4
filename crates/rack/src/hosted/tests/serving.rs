//! Nodes whose processes serve what programs make there.

use super::programs::{AMPLE, join, rack_of_programs};
use super::waiting::gated;
use super::*;
use crate::IndexNetworkSpec;
use crate::services::{
    CallError, CounterServerSpec, IndexOptions, IndexService, PageOptions, PageService,
    SequencerClient, SequencerOptions, SequencerPlacement, SequencerService, SequencerServiceError,
    wait_within,
};
use rackweave_endpoint::index::{Access, CoordinatorConfig, EndpointId, IndexError, Step};

/// A rack whose nodes `storage` and `third` may have processes that serve programs.
fn with_nodes(name: &str, act: impl FnOnce(&Rack)) {
    let rack = rack_of_programs(name, LinkKind::SharedMemory);
    while_running(run_switch(&rack), || act(&rack));
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

fn serving(rack: &Rack, name: &'static str) -> impl FnOnce(&AtomicBool) + Send {
    let node = rack.node(name).unwrap();
    move |stop| {
        let watch = |event| println!("{name}: {event:?}");
        node.run_serving(stop, &watch).unwrap();
    }
}

/// What `make` makes once the processes that it needs serve.
fn made<T, E: std::fmt::Debug>(mut make: impl FnMut() -> Result<T, E>) -> T {
    let mut made = None;
    eventually("the nodes serve", || {
        let result = make().inspect_err(|error| println!("{error:?}"));
        made = result.ok();
        made.is_some()
    });
    made.expect("it is made")
}

/// Two endpoints, at nodes whose processes serve programs.
fn two() -> IndexOptions {
    IndexOptions {
        nodes: vec![NodeId(0), NodeId(3)],
        boundaries: vec![1000],
        network: Some(IndexNetworkSpec::default()),
        node_bytes: 512,
        ..IndexOptions::default()
    }
}

fn value(key: u64) -> Vec<u8> {
    format!("the value of {key}").into_bytes()
}

#[test]
fn endpoints_are_served_by_the_processes_of_their_nodes() {
    with_nodes("serving-index", |rack| {
        let first = join(&rack.config, "first");
        let nobody = IndexService::new(&first, &two()).unwrap_err();
        let nobody = nobody.to_string();
        assert!(nobody.contains("rackweave node storage"), "{nobody}");
        while_running(serving(rack, "storage"), || {
            while_running(serving(rack, "third"), || {
                let index = made(|| IndexService::new(&first, &two()));
                let entries = (0..20_000u64).map(|at| (at / 10 + at % 10 * 2000, at));
                let entries: std::collections::BTreeMap<_, _> = entries.collect();
                let keys: Vec<u64> = entries.into_keys().collect();
                index
                    .load(keys.iter().map(|key| (*key, value(*key))))
                    .unwrap();
                index.load_network(AMPLE).unwrap();
                index.share("words").unwrap();
                let second = join(&rack.config, "second");
                let found = IndexService::find(&second, "words").unwrap();
                for access in [Access::Rpc, Access::OneSided, Access::InNetwork] {
                    for (service, node) in [(&index, NodeId(1)), (&found, NodeId(2))] {
                        let mut client = service.connect(node, access).unwrap();
                        for key in keys.iter().step_by(501) {
                            let found = client.get(*key);
                            assert_eq!(found, Ok(Some(value(*key)[..].into())));
                        }
                        assert_eq!(client.put(3000, b"new"), Ok(true));
                        assert_eq!(client.get(3000), Ok(Some(b"new"[..].into())));
                    }
                }
                let counters = index.network_counters().unwrap();
                let deep: u64 = counters.by_depth[1..].iter().sum();
                assert!(deep > 0, "no query was led below the root: {counters:?}");

                // A boundary moves between the processes while the other program looks keys up.
                let mut coordinator = found
                    .coordinate(NodeId(2), CoordinatorConfig::default())
                    .unwrap();
                let step = Step {
                    from: EndpointId(0),
                    to: EndpointId(1),
                    low: 500,
                    last: 999,
                };
                assert_eq!(coordinator.move_keys(step, AMPLE).unwrap(), 500);
                assert_eq!(index.map().owner(500), EndpointId(1));
                let mut client = index.connect(NodeId(1), Access::OneSided).unwrap();
                assert_eq!(client.get(700), Ok(Some(value(700)[..].into())));
            });
        });
    });
}

#[test]
fn what_an_endpoint_had_is_lost_with_its_process() {
    with_nodes("serving-loss", |rack| {
        let first = join(&rack.config, "first");
        while_running(serving(rack, "storage"), || {
            let (index, mut client) = while_running(serving(rack, "third"), || {
                let index = made(|| IndexService::new(&first, &two()));
                let mut client = index.connect(NodeId(1), Access::OneSided).unwrap();
                for key in [1, 2000] {
                    assert_eq!(client.put(key, &value(key)), Ok(false));
                }
                (index, client)
            });
            client.set_time_limit(AMPLE);
            let (there, gone) = (EndpointId(0), EndpointId(1));
            let unknown = CallError::Index(IndexError::OutcomeUnknown(gone));
            assert_eq!(client.put(2000, b"x"), Err(unknown));
            let lost = CallError::Index(IndexError::Gone(gone));
            assert_eq!(client.get(2000), Err(lost));
            assert_eq!(client.get(1), Ok(Some(value(1)[..].into())));
            let refused = index.restart(gone).unwrap_err().to_string();
            assert!(refused.contains("rackweave node third"), "{refused}");
            while_running(serving(rack, "third"), || {
                let loss = made(|| index.restart(gone));
                let part = loss.lost.expect("it had keys");
                assert_eq!((part.low, part.endpoint), (1000, gone));
                client.reconnect(gone).unwrap();
                assert_eq!(client.get(2000), Ok(None));
                assert_eq!(client.get(1), Ok(Some(value(1)[..].into())));
                assert_eq!(client.put(2000, b"again"), Ok(false));
                assert_eq!(index.map().owner(1), there);
            });
        });
    });
}

/// Users in the program that made the index and in another one.
#[test]
fn with_replicas_nothing_is_lost_with_a_process() {
    with_nodes("serving-replicas", |rack| {
        let [first, second] = ["first", "second"].map(|name| join(&rack.config, name));
        let options = IndexOptions { copies: 2, ..two() };
        while_running(serving(rack, "storage"), || {
            let (index, mut clients) = while_running(serving(rack, "third"), || {
                let index = made(|| IndexService::new(&first, &options));
                index.load((0..5000).map(|key| (key, value(key)))).unwrap();
                index.share("words").unwrap();
                index.wait_for_replicas(AMPLE).unwrap();
                let found = IndexService::find(&second, "words").unwrap();
                let mut clients = [
                    index.connect(NodeId(1), Access::OneSided).unwrap(),
                    found.connect(NodeId(2), Access::Rpc).unwrap(),
                ];
                for (client, key) in clients.iter_mut().zip([7000, 7001]) {
                    client.set_time_limit(AMPLE);
                    assert_eq!(client.put(key, &value(key)), Ok(false));
                }
                (index, clients)
            });
            for (at, client) in clients.iter_mut().enumerate() {
                for key in (0..5000).step_by(501).chain([7000, 7001]) {
                    assert_eq!(client.get(key), Ok(Some(value(key)[..].into())));
                }
                assert_eq!(client.put(8000, &value(8000)), Ok(at > 0));
            }
            let places = index.replicas();
            assert!(places.iter().all(|it| it.node == NodeId(0)), "{places:?}");
            while_running(serving(rack, "third"), || {
                index.wait_for_replicas(AMPLE).unwrap();
                let places = index.replicas();
                let third = Some(NodeId(3));
                assert!(places.iter().all(|it| it.replica == third), "{places:?}");
                for client in &mut clients {
                    assert_eq!(client.put(8000, &value(8000)), Ok(true));
                    assert_eq!(client.get(8000), Ok(Some(value(8000)[..].into())));
                }
            });
        });
    });
}

/// The process of a node that was declared dead goes on, joins anew, and still has the endpoint
/// whose replica has taken its place.
#[test]
fn an_endpoint_whose_replica_has_its_place_answers_nobody() {
    let mut rack = rack_of_programs("serving-outdated", LinkKind::SharedMemory);
    rack.config.hosted.as_mut().unwrap().dead_after_ms = 1000;
    let (node, gate) = gated(&rack, "third");
    let third = move |stop: &AtomicBool| node.run_serving(stop, &|_| {}).unwrap();
    while_running(run_switch(&rack), || {
        while_running(serving(&rack, "storage"), || {
            while_running(third, || {
                let first = join(&rack.config, "first");
                let options = IndexOptions {
                    nodes: vec![NodeId(3)],
                    boundaries: Vec::new(),
                    copies: 2,
                    datagrams: true,
                    ..two()
                };
                let index = made(|| IndexService::new(&first, &options));
                index.load([(2000, b"old")]).unwrap();
                index.wait_for_replicas(AMPLE).unwrap();
                let here = NodeId(1);
                let mut writer = index.connect(here, Access::Rpc).unwrap();
                writer.set_time_limit(AMPLE);
                let accesses = [Access::Rpc, Access::OneSided, Access::InNetwork];
                let mut readers = Vec::from(accesses.map(|it| index.connect(here, it).unwrap()));
                readers.push(index.connect_by_datagrams(here).unwrap());
                gate.close_after(0);
                eventually("the replica has its place", || {
                    index.replicas()[0].node == NodeId(0)
                });
                // Its first attempt may have reached the endpoint that is dead.
                assert!(made(|| writer.put(2000, b"new")));
                gate.open();
                let mut client = HostedRack::connect(&rack.config).unwrap();
                eventually("the node joins anew", || {
                    client.status().unwrap().nodes[3].joined
                });
                for reader in &mut readers {
                    reader.set_time_limit(AMPLE);
                    assert_eq!(reader.get(2000), Ok(Some(b"new"[..].into())));
                }
            });
        });
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn what_a_program_made_at_other_nodes_goes_with_it() {
    with_nodes("serving-gone", |rack| {
        let options = IndexOptions {
            clients: 1,
            ..IndexOptions::default()
        };
        let first = join(&rack.config, "first");
        let host = join(&rack.config, "storage");
        let served = host.serve_others().unwrap();
        let index = IndexService::new(&first, &options).unwrap();
        index.share("words").unwrap();
        // A program that is killed returns nothing.
        let second = join(&rack.config, "second");
        let found = IndexService::find(&second, "words").unwrap();
        std::mem::forget(found.client(NodeId(2), Default::default()).unwrap());
        assert!(
            index.connect(NodeId(1), Access::Rpc).is_err(),
            "one is enough"
        );
        drop((found, second));
        let mut client = made(|| index.connect(NodeId(1), Access::Rpc));
        assert_eq!(client.put(7, b"seven"), Ok(false));
        drop(served);
        let refused = IndexService::new(&first, &options).unwrap_err();
        let refused = refused.to_string();
        assert!(refused.contains("serve_others"), "{refused}");
        client.set_time_limit(AMPLE);
        let gone = CallError::Index(IndexError::Gone(EndpointId(0)));
        assert_eq!(client.get(7), Err(gone));
        let none = IndexService::find(&host, "other").unwrap_err();
        assert!(none.to_string().contains("no service named"), "{none}");
    });
}

/// Placements of sequencers at a node.
fn placements(node: NodeId) -> [SequencerPlacement; 2] {
    [
        SequencerPlacement::Memory(node),
        SequencerPlacement::Server(CounterServerSpec::new(node)),
    ]
}

fn next(client: &mut SequencerClient) -> Result<u64, SequencerServiceError> {
    Ok(client.next_within(1, AMPLE)?.start)
}

#[test]
fn sequencers_are_at_the_nodes_of_other_processes() {
    with_nodes("serving-sequencers", |rack| {
        let [first, second] = ["first", "second"].map(|name| join(&rack.config, name));
        let clients = while_running(serving(rack, "storage"), || {
            let placements = placements(NodeId(0));
            let clients = [("word", placements[0]), ("counter", placements[1])];
            let clients = clients.map(|(name, placement)| {
                let options = SequencerOptions {
                    first: 100,
                    ..SequencerOptions::new(placement)
                };
                let made = made(|| SequencerService::with(&first, &options));
                let mut one = made.connect(NodeId(1)).unwrap();
                assert_eq!(next(&mut one), Ok(100));
                made.share(name).unwrap();
                let found = SequencerService::find(&second, name).unwrap();
                let mut other = found.connect(NodeId(2)).unwrap();
                assert_eq!(next(&mut other), Ok(101));
                assert_eq!(next(&mut one), Ok(102));
                other.reconnect().unwrap();
                assert_eq!(next(&mut other), Ok(103));
                assert_eq!(found.reserved(), Some(104));
                drop(found);
                (made, one, other)
            });
            // What its program removes is gone for all.
            let options = SequencerOptions::new(placements[1]);
            let removed = SequencerService::with(&first, &options).unwrap();
            removed.share("removed").unwrap();
            let found = SequencerService::find(&second, "removed").unwrap();
            let mut late = found.connect(NodeId(2)).unwrap();
            drop(removed);
            let failed = next(&mut late);
            assert!(
                matches!(failed, Err(SequencerServiceError::Failed(_))),
                "{failed:?}"
            );
            let gone = late.reconnect().unwrap_err().to_string();
            assert!(gone.contains("no longer there"), "{gone}");
            clients
        });
        for (made, mut one, mut other) in clients {
            for client in [&mut one, &mut other] {
                let failed = next(client);
                assert!(
                    matches!(failed, Err(SequencerServiceError::Failed(_))),
                    "{failed:?}"
                );
                let gone = client.reconnect();
                assert!(
                    matches!(gone, Err(SequencerServiceError::NoProcess(_))),
                    "{gone:?}"
                );
            }
            assert_eq!(made.reserved(), None);
        }
    });
}

#[test]
fn sequencers_of_a_program_are_found_by_others() {
    with_nodes("serving-own-sequencers", |rack| {
        let [first, second] = ["first", "second"].map(|name| join(&rack.config, name));
        for (at, placement) in placements(NodeId(1)).into_iter().enumerate() {
            let made = SequencerService::with(&first, &SequencerOptions::new(placement)).unwrap();
            let name = format!("numbers-{at}");
            made.share(&name).unwrap();
            let serving = made.clone();
            let serve = move |stop: &AtomicBool| {
                let node = serving.rack().any_node();
                while !stop.load(Ordering::Relaxed) {
                    serving.serve();
                    node.drive();
                }
            };
            while_running(serve, || {
                let found = SequencerService::find(&second, &name).unwrap();
                let mut client = found.connect(NodeId(2)).unwrap();
                let came = wait_within(&second.any_node(), AMPLE, || client.next(2).ok());
                assert_eq!(came, Some(0..2));
            });
            drop(made);
            assert!(SequencerService::find(&second, &name).is_err());
        }
    });
}

/// Each of them finds no page directory.
#[test]
fn programs_that_start_at_once_share_one_page_directory() {
    with_nodes("serving-pages", |rack| {
        while_running(serving(rack, "storage"), || {
            let racks = ["first", "second", "third"].map(|name| join(&rack.config, name));
            let barrier = std::sync::Barrier::new(racks.len());
            let services = std::thread::scope(|scope| {
                let threads = racks.each_ref().map(|rack| {
                    scope.spawn(|| {
                        barrier.wait();
                        PageService::new(rack, &PageOptions::default())
                    })
                });
                threads.map(|thread| thread.join().unwrap().unwrap())
            });
            let workers = services.each_ref().map(|service| {
                let here = service.nodes()[0];
                service.worker(here).unwrap()
            });
            let page = workers[0].allocate().unwrap();
            let write = |bytes: &mut [u8]| bytes[..8].copy_from_slice(&7u64.to_le_bytes());
            workers[1].change(page, write).unwrap();
            assert_eq!(workers[2].read(page).unwrap().data().u64_le(0), 7);
        });
    });
}
