//! Programs that join a rack of processes, find what others have made, and leave.

use super::waiting::through_gate;
use super::*;
use crate::config::{GuestConfig, StoreConfig};
use crate::messaging::{Dialing, Listener};
use crate::services::{
    IndexOptions, IndexService, PageError, PageOptions, PageService, PageWorker, Prepare,
    SequencerService, StoreState, wait_within,
};
use crate::{Flow, IndexNetworkSpec, Rack as Joined};
use rackweave_controller::FlowState;
use rackweave_endpoint::index::Access;
use rackweave_endpoint::messaging::MessagingConfig;
use rackweave_endpoint::page_store::{FixError, FormatOptions};

pub(super) const AMPLE: Time = Time::from_secs(30);

/// A rack with a switch and the storage node as processes; the compute nodes are the test's.
fn with_programs(name: &str, link: LinkKind, act: impl FnOnce(&RackConfig)) {
    with_switch(name, link, |rack| {
        while_running(run_node(rack, "storage"), || act(&rack.config));
    });
}

/// A rack whose nodes are all the test's.
fn with_switch(name: &str, link: LinkKind, act: impl FnOnce(&Rack)) {
    let rack = rack_of_programs(name, link);
    while_running(run_switch(&rack), || act(&rack));
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

pub(super) fn rack_of_programs(name: &str, link: LinkKind) -> Rack {
    let mut rack = Rack::new(name, link);
    let programs = RackConfig::with_all_programs();
    rack.config.switch = programs.switch;
    rack.config.memory_limit = programs.memory_limit;
    rack.config.node = vec![
        NodeConfig::new("storage", Role::Storage),
        NodeConfig::new("first", Role::Compute),
        NodeConfig::new("second", Role::Compute),
        NodeConfig::new("third", Role::Compute),
    ];
    rack
}

pub(super) fn join(config: &RackConfig, name: &str) -> Joined {
    Joined::join_as(config, &[name]).expect("the rack runs")
}

/// An index in the network with two values, which others find as `words`.
pub fn shared_index(rack: &Joined) -> IndexService {
    let options = IndexOptions {
        network: Some(IndexNetworkSpec::default()),
        node_bytes: 512,
        ..IndexOptions::default()
    };
    let index = IndexService::new(rack, &options).unwrap();
    index.load([(7, b"seven"), (9, b"nine!")]).unwrap();
    index.load_network(AMPLE).unwrap();
    index.share("words").unwrap();
    index
}

pub fn pages(rack: &Joined) -> PageService {
    let options = PageOptions {
        time_limit: AMPLE,
        ..PageOptions::default()
    };
    PageService::new(rack, &options).expect("there is capacity")
}

#[test]
fn a_program_finds_the_pages_of_another() {
    with_programs("program-pages", LinkKind::SharedMemory, |config| {
        let first = join(config, "first");
        let made = pages(&first);
        let writer = made.worker(NodeId(1)).unwrap();
        let page = writer.allocate().unwrap();
        let write = |number: u64| {
            let changed = writer.change(page, |bytes| {
                bytes[..8].copy_from_slice(&number.to_le_bytes());
            });
            assert_eq!(changed, Ok(()));
        };
        write(7);
        for (number, name) in [(2, "second"), (3, "third")] {
            let later = join(config, name);
            let found = pages(&later);
            let reader = found.worker(NodeId(number)).unwrap();
            assert_eq!(reader.read(page).map(|it| it.data().u64_le(0)), Ok(7));
            write(8);
            assert_eq!(reader.read(page).map(|it| it.data().u64_le(0)), Ok(8));
            write(7);
            drop(reader);
            found.close().unwrap();
        }
        assert_eq!(first.lost_pages().unwrap(), []);
    });
}

/// A flow from the first to the second program, as each of them has it.
fn shared_flow(first: &Joined, second: &Joined) -> [Flow; 2] {
    let flow = first.flow(["first"], ["second"]).item_bytes(64).build();
    let flow = flow.unwrap();
    flow.share("items").unwrap();
    [flow, second.shared_flow("items").unwrap()]
}

#[test]
fn programs_share_flows_and_sequencers_by_name() {
    with_programs("program-names", LinkKind::SharedMemory, |config| {
        let first = join(config, "first");
        let sequencer = SequencerService::new(&first, 100).unwrap();
        let mut here = sequencer.connect(NodeId(1)).unwrap();
        assert_eq!(here.next(5), Ok(100..105));
        assert!(SequencerService::find(&first, "numbers").is_err());
        sequencer.share("numbers").unwrap();
        let second = join(config, "second");
        let found = SequencerService::find(&second, "numbers").unwrap();
        let mut there = found.connect(NodeId(2)).unwrap();
        assert_eq!(there.next(5), Ok(105..110));
        let other = SequencerService::new(&second, 0).unwrap();
        let taken = other.share("numbers").unwrap_err().to_string();
        assert!(taken.contains("taken"), "{taken}");

        let [flow, found] = shared_flow(&first, &second);
        let mut producer = flow.take_producer(0).unwrap();
        let mut consumer = found.take_consumer(0).unwrap();
        for number in 0..100u8 {
            while producer.push(&[number; 64]).is_err() {
                first.any_node().drive();
            }
        }
        producer.finish();
        let node = second.any_node();
        for number in 0..100u8 {
            let mut item = [0; 64];
            let came = wait_within(&node, AMPLE, || match consumer.pop(&mut item) {
                Taken::Items(()) => Some(true),
                Taken::Empty => None,
                Taken::Ended | Taken::Aborted => Some(false),
            });
            assert_eq!((came, item), (Some(true), [number; 64]));
        }
        eventually("the flow ends", || found.state() == FlowState::Ended);
        assert!(second.shared_flow("items").is_err(), "it has ended");
        // What a program has made goes with it.
        drop((here, sequencer, flow, first));
        eventually("the name is free", || other.share("numbers").is_ok());
        assert!(there.next(1).is_err(), "the sequencer is gone");
    });
}

/// The switch polls a silent flow only a few times a second.
#[test]
fn ends_of_flows_ring_after_a_silence() {
    with_switch("program-bells", LinkKind::SharedMemory, |rack| {
        let [first, second] = ["first", "second"].map(|name| join(&rack.config, name));
        let [flow, found] = shared_flow(&first, &second);
        let mut producer = flow.take_producer(0).unwrap();
        let mut consumer = found.take_consumer(0).unwrap();
        let rung = |name: &str| {
            let all = first.statistics();
            let node = all.nodes.iter().find(|node| node.name == name).unwrap();
            node.counters["rdma_sends"]
        };
        let mut pass = |items: u32| {
            for _ in 0..items {
                while producer.push(&[1; 64]).is_err() {
                    first.any_node().drive();
                }
                let came = wait_within(&second.any_node(), AMPLE, || {
                    let taken = consumer.pop(&mut [0; 64]);
                    taken.ready().map(|taken| taken == Taken::Items(()))
                });
                assert_eq!(came, Some(true));
            }
        };
        for _ in 0..3 {
            let before = ["first", "second"].map(rung);
            std::thread::sleep(Time::from_millis(20));
            pass(1);
            eventually("both ends ring", || {
                rung("first") > before[0] && rung("second") > before[1]
            });
        }
        // While items come often, the switch polls often by itself.
        let (before, begun) = (rung("first"), std::time::Instant::now());
        pass(500);
        let rings = u128::from(rung("first") - before);
        let ticks = begun.elapsed().as_millis() / 4 + 2;
        assert!(rings <= ticks, "{rings} times in {ticks} ticks");
    });
}

#[test]
fn guests_take_free_places_and_share_a_process() {
    let mut rack = rack_of_programs("guests", LinkKind::SharedMemory);
    rack.config = rack.config.with_guests(&GuestConfig::new(4));
    let config = &rack.config;
    let here = |rack: &Joined| -> Vec<u16> {
        let all = 0..rack.config().node.len() as u16;
        all.filter(|&at| rack.node_here(NodeId(at)).is_some())
            .collect()
    };
    while_running(run_switch(&rack), || {
        let three = Joined::join_guests(config, 3).expect("there are four places");
        assert_eq!(here(&three), [4, 5, 6]);
        let one = Joined::join_guests(config, 1).expect("there is one more place");
        assert_eq!(here(&one), [7]);
        let none = Joined::join_guests(config, 1).err().map(|e| e.to_string());
        assert!(none.is_some_and(|error| error.contains("too few are free")));
        // Both between nodes of one process and between processes.
        for (to, taker) in [("guest1", &three), ("guest3", &one)] {
            let flow = three.flow(["guest0", "guest2"], [to]).item_bytes(64);
            let flow = flow.build().unwrap();
            flow.share("items").unwrap();
            let mut producers = flow.take_producers(0).unwrap();
            producers.extend(flow.take_producers(1).unwrap());
            let found = taker.shared_flow("items").unwrap();
            let mut consumer = found.take_consumer(0).unwrap();
            for number in 0..100u8 {
                for producer in &mut producers {
                    while producer.push(&[number; 64]).is_err() {
                        three.any_node().drive();
                    }
                }
            }
            producers.iter_mut().for_each(|producer| producer.finish());
            let node = taker.any_node();
            let mut seen = [0u32; 100];
            let mut item = [0; 64];
            let ended = wait_within(&node, AMPLE, || match consumer.pop(&mut item) {
                Taken::Items(()) => {
                    assert_eq!(item, [item[0]; 64]);
                    seen[usize::from(item[0])] += 1;
                    None
                }
                Taken::Empty => None,
                Taken::Ended => Some(true),
                Taken::Aborted => Some(false),
            });
            assert_eq!((ended, seen), (Some(true), [2; 100]));
        }
        // The places of a program that has left are free again.
        drop(three);
        let mut again = None;
        eventually("places are free", || {
            again = Joined::join_guests(config, 3).ok();
            again.is_some()
        });
        assert_eq!(again.map(|rack| here(&rack)), Some(vec![4, 5, 6]));
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn programs_exchange_messages() {
    with_programs("program-messages", LinkKind::Unix, |config| {
        let [first, second] = ["first", "second"].map(|name| join(config, name));
        let address = ([127, 0, 0, 1], 0).into();
        let messaging = MessagingConfig::default;
        let at = first.any_node();
        let mut listener = Listener::bind(&first, &at, address, messaging()).unwrap();
        listener.set_patience(AMPLE);
        let from = second.any_node();
        let to = listener.local_addr();
        let dialing = Dialing::start(&second, &from, to, messaging(), AMPLE).unwrap();
        let (dialed, accepted) = listener.connect(dialing).unwrap();
        let (mut up, _down) = dialed.split();
        let (_downs, mut ups) = accepted.split();
        up[0].send(3, b"from one process to another").unwrap();
        let mut came = Vec::new();
        let info = ups[0].receive(&mut came).unwrap().unwrap();
        assert_eq!(
            (info.opcode, &came[..]),
            (3, &b"from one process to another"[..])
        );
    });
}

#[test]
fn a_node_acts_for_itself_alone() {
    use rackweave_base::{Qpn, Rkey};
    use rackweave_controller::ask::{
        AskError, DeclareDead, RejoinPages, RemoveIndexServer, SetIndexQuery,
    };
    use rackweave_controller::index::IndexLoadError;
    use rackweave_programs::index::entries::QueryEntry;
    with_programs("program-rights", LinkKind::Unix, |config| {
        let [first, second] = ["first", "second"].map(|name| join(config, name));
        let other = NodeId(2);
        let forbidden = first.ask(RejoinPages { node: other }).unwrap_err();
        assert_eq!(forbidden, AskError::Forbidden.into());
        first.ask(DeclareDead { node: other });
        let sequencer = SequencerService::new(&second, 0).unwrap();
        let mut client = sequencer.connect(other).unwrap();
        assert_eq!(client.next(1), Ok(0..1), "it is alive");
        // An endpoint of an index is its node's, and so are the queue pairs of its users there.
        let entry = |server| {
            Some(QueryEntry {
                server,
                rkey: Rkey(1),
            })
        };
        let (at, number) = ((other, Qpn(7)), 0);
        for entry in [None, entry(0)] {
            let refused = first.ask(SetIndexQuery { at, entry });
            assert_eq!(refused, Err(AskError::Forbidden.into()));
        }
        let refused = first.ask(RemoveIndexServer {
            number,
            node: other,
        });
        assert_eq!(refused, Err(AskError::Forbidden.into()));
        // Its own queue pairs lead to its own endpoints alone.
        let at = (first.any_node().id(), Qpn(7));
        let refused = first.ask(SetIndexQuery {
            at,
            entry: entry(0),
        });
        assert_eq!(refused, Err(IndexLoadError::UnknownServer { server: 0 }));
    });
}

#[test]
fn a_rack_that_does_not_run_cannot_be_joined() {
    let rack = Rack::new("program-none", LinkKind::Unix);
    let error = Joined::join_as(&rack.config, &["b"])
        .unwrap_err()
        .to_string();
    assert!(error.contains("rackweave up"), "{error}");
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn a_program_finds_the_index_of_another() {
    with_switch("program-index", LinkKind::SharedMemory, |rack| {
        let storage = join(&rack.config, "storage");
        let index = shared_index(&storage);
        assert!(index.share("words").is_err(), "it is taken");
        let serving = index.clone();
        let serve = move |stop: &AtomicBool| {
            let node = serving.rack().any_node();
            while !stop.load(Ordering::Relaxed) {
                serving.serve();
                node.drive();
            }
        };
        while_running(serve, || {
            for (name, number) in [("first", 1), ("second", 2)] {
                let program = join(&rack.config, name);
                let found = IndexService::find(&program, "words").unwrap();
                for access in [Access::Rpc, Access::OneSided, Access::InNetwork] {
                    let mut client = found.connect(NodeId(number), access).unwrap();
                    assert_eq!(client.get(7), Ok(Some(b"seven"[..].into())));
                    client.put(9, b"nine?").unwrap();
                    assert_eq!(client.get(9), Ok(Some(b"nine?"[..].into())));
                }
                let none = IndexService::find(&program, "other")
                    .unwrap_err()
                    .to_string();
                assert!(none.contains("no service named"), "{none}");
            }
        });
        let counters = index.network_counters().unwrap();
        assert!(counters.queries > 0, "the switch led some: {counters:?}");
        drop(index);
        let program = join(&rack.config, "third");
        let gone = IndexService::find(&program, "words");
        assert!(gone.is_err(), "it was removed");
    });
}

#[test]
fn pages_outlive_the_process_that_stores_them() {
    let mut rack = rack_of_programs("program-store", LinkKind::SharedMemory);
    let file = rack.folder.join("store");
    let size = 256 * u64::from(rack.config.switch.page_size);
    rack.config.store = vec![StoreConfig::in_file("disk", "storage", file, size)];
    let rack = &rack;
    std::fs::create_dir_all(&rack.folder).unwrap();
    while_running(run_switch(rack), || {
        let number = |at: u64| at * 3 + 1;
        let mut written = Vec::new();
        let program = while_running(run_node(rack, "storage"), || {
            let program = join(&rack.config, "first");
            let made = pages(&program);
            let worker = made.worker(NodeId(1)).unwrap();
            for at in 0..20 {
                let page = worker.allocate().unwrap();
                let write = |bytes: &mut [u8]| {
                    bytes[..8].copy_from_slice(&number(at).to_le_bytes());
                };
                assert_eq!(worker.change(page, write), Ok(()));
                written.push(page);
            }
            worker.flush().unwrap();
            drop(worker);
            (program, made)
        });
        // Its frames have all of them; another node has none, and the target is gone.
        let other = join(&rack.config, "second");
        while_running(run_node(rack, "storage"), || {
            let found = pages(&other);
            let reader = found.worker(NodeId(2)).unwrap();
            drop(program);
            for (at, page) in (0..).zip(&written) {
                let found = wait_within(&other.any_node(), AMPLE, || {
                    let page = reader.read(*page).ok()?;
                    Some(page.data().u64_le(0))
                });
                assert_eq!(found, Some(number(at)), "{page}");
            }
        });
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

/// A program that was declared dead goes on, and its node joins anew: its workers are fenced, and
/// it gets others, with empty buffer frames.
#[test]
fn a_program_whose_node_joins_anew_has_pages_again() {
    let mut rack = rack_of_programs("program-anew", LinkKind::SharedMemory);
    rack.config.hosted.as_mut().unwrap().dead_after_ms = 1000;
    let (through, gate) = through_gate(&rack);
    while_running(run_switch(&rack), || {
        while_running(run_node(&rack, "storage"), || {
            let program = join(&through, "first");
            let other = join(&rack.config, "second");
            let options = PageOptions {
                time_limit: Time::from_secs(5),
                ..PageOptions::default()
            };
            let made = PageService::new(&program, &options).unwrap();
            let of_other = PageService::new(&other, &options).unwrap();
            let worker = made.worker(NodeId(1)).unwrap();
            let page = worker.allocate().unwrap();
            assert_eq!(worker.change(page, |bytes| bytes[0] = 7), Ok(()));
            worker.flush().unwrap();
            let mut client = HostedRack::connect(&rack.config).unwrap();
            let mut joined = || client.status().unwrap().nodes[1].joined;
            gate.close_after(0);
            eventually("the program is dead", || !joined());
            gate.open();
            eventually("it joins anew", joined);
            let read = |worker: &PageWorker| worker.read(page).map(|it| it.data().u64_le(0));
            assert!(worker.is_fenced());
            assert_eq!(read(&worker), Err(PageError::Fix(FixError::Fenced)));
            let fenced = Err(PageError::Fix(FixError::Fenced));
            assert_eq!(worker.change(page, |bytes| bytes[0] = 8), fenced);
            assert_eq!(other.lost_pages().unwrap(), []);
            for (service, node) in [(&made, NodeId(1)), (&of_other, NodeId(2))] {
                let again = service.worker(node).unwrap();
                assert_eq!(read(&again), Ok(7));
                assert_eq!(again.change(page, |bytes| bytes[0] = 7), Ok(()));
            }
            assert_eq!(read(&worker), Err(PageError::Fix(FixError::Fenced)));
        });
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn a_program_waits_for_stores_that_another_is_formatting() {
    with_programs("program-format", LinkKind::SharedMemory, |config| {
        let first = join(config, "first");
        let options = PageOptions {
            prepare: Prepare::Leave,
            ..PageOptions::default()
        };
        let made = PageService::new(&first, &options).unwrap();
        let worker = made.worker(NodeId(1)).unwrap();
        let format = FormatOptions {
            store: 0,
            capacity: made.stores()[0].pages,
            identity: 7,
        };
        std::thread::scope(|scope| {
            let second = scope.spawn(|| {
                let second = join(config, "second");
                let found = pages(&second);
                found.stores()[0].found
            });
            std::thread::sleep(Time::from_millis(300));
            assert!(!second.is_finished(), "the store is blank");
            worker.format(format).unwrap();
            assert_eq!(second.join().unwrap(), StoreState::NotClosed);
        });
    });
}
