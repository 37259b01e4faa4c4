//! Linux as a foreign host of a hosted rack: its RoCE stack above a VXLAN device, and a program
//! that has joined the rack, behind a switch whose configuration describes the guest by `[[host]]`.

use crate::failure::{Failure, FailureContext, Outcome, expect, expect_eq};
use crate::guest::{self, Folders, Guest, Tunnel};
use crate::guest_node::GuestNode;
use crate::nic_tests::connection::{Connection, Setup, Side};
use crate::nic_tests::direction;
use crate::nic_tests::our_nic::{OurNic, QueuePair};
use crate::nic_tests::rping;
use crate::nic_tests::transfers::{Kind, one};
use crate::suite::Suite;
use rackweave_base::{Memory, Rng};
use rackweave_controller::connect::PairAttributes;
use rackweave_link::{CaptureOptions, SharedCapture};
use rackweave_rack::hosted::{HostedRack, SwitchOptions, SwitchProcess};
use rackweave_rack::{ForeignEnd, Node, Rack, RackConfig, SwitchCapture};
use rackweave_verbs::{Mtu, PdId, Verbs};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The node that the program is, and the host that the guest is.
const NODE: &str = "compute0";
const HOST: &str = "linux";

/// The sizes of messages. The emulated network of the guest loses what comes in longer bursts.
const SIZES: [u32; 7] = [1, 255, 1024, 1025, 12_290, 32_769, 65_536];

/// Runs all of them; returns the path of their capture.
pub fn run(
    suite: &mut Suite,
    guest: &Guest,
    tunnel: Tunnel,
    folders: &Folders,
    mut rng: Rng,
) -> Outcome<PathBuf> {
    let config = config(guest.id, tunnel, folders)?;
    let switch = SwitchProcess::new(SwitchOptions {
        config: config.clone(),
        listen: None,
        is_standby: false,
        elector: None,
    });
    let switch = switch.map_err(|error| Failure::refused("the switch", error))?;
    let file = folders.records.join("hosted.pcapng");
    let options = CaptureOptions {
        ports: vec![NODE.to_owned(), HOST.to_owned()],
        bytes_max: None,
    };
    let refused = |error| Failure::refused("the capture", error);
    let capture = SharedCapture::create(&file, &options, switch.memory().clone());
    let capture = capture.map_err(refused)?;
    switch.set_tap(Some(Box::new(SwitchCapture(capture.clone()))));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stopped = StopOnDrop(&stop);
        scope.spawn(|| switch.run(&stop, &|_| {}));
        run_joined(suite, &config, guest, &mut rng)
    })?;
    switch.set_tap(None);
    capture.finish().map_err(refused)?;
    Ok(file)
}

fn config(guest: u8, tunnel: Tunnel, folders: &Folders) -> Outcome<RackConfig> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let control = free.map_err(|error| Failure::refused("a free port", error))?;
    let (directory, mac) = (folders.sockets.join("rack"), guest::tunnel_mac(guest));
    let text = format!(
        "[[node]]\n\
         name = '{NODE}'\n\
         role = 'compute'\n\
         [[host]]\n\
         name = '{HOST}'\n\
         mac = '{mac}'\n\
         ip = '{}'\n\
         udp = '127.0.0.1:{}'\n\
         [[guest]]\n\
         count = 0\n\
         [hosted]\n\
         control = '{control}'\n\
         security = 'plain'\n\
         directory = '{}'\n\
         udp = '127.0.0.1:{}'\n",
        guest::tunnel_ip(guest),
        tunnel.guest,
        directory.display(),
        tunnel.switch,
    );
    let config = RackConfig::parse(&text, "the rack of the suite");
    config.map_err(|error| Failure::refused("the configuration", error))
}

/// The tests with a program that has joined the rack.
fn run_joined(suite: &mut Suite, config: &RackConfig, guest: &Guest, rng: &mut Rng) -> Outcome {
    let program = Program::join(config)?;
    let mut node = guest.node().at("the guest's node")?;
    node.ask("device rxe1").at("Soft-RoCE above VXLAN")?;
    for side in Side::ALL {
        for kind in Kind::ALL {
            let name = format!("foreign host {} {}", kind.name(), direction(side));
            suite.run(&name, || transfers(&program, &mut node, rng, kind, side));
        }
    }
    let mut peers = rping::Peers {
        nic: &program,
        node: &mut node,
        address: guest::tunnel_ip(guest.id),
        mtu: Mtu::B1024,
    };
    rping::run(suite, "foreign host", &mut peers);
    suite.run("foreign host: the rack shows it", || shown(config, guest));
    Ok(())
}

/// One message of each size with `side` as requester.
fn transfers(
    program: &Program,
    node: &mut GuestNode,
    rng: &mut Rng,
    kind: Kind,
    side: Side,
) -> Outcome {
    let seed = u64::from(rng.next_u32());
    // The largest RDMA MTU inside VXLAN on an Ethernet of 1500 bytes is 1024.
    let setup = Setup {
        mtu: Mtu::B1024,
        rnr_retries: 7,
        ..Setup::default()
    };
    let mut connection = Connection::open(program, node, rng, &setup)?;
    for (len, seed) in SIZES.into_iter().zip(seed..) {
        one(&mut connection, kind, side, len, seed).at(format!("{len} bytes"))?;
    }
    Ok(())
}

/// The rack's state names the guest and its traffic, and nothing was taken for forged.
fn shown(config: &RackConfig, guest: &Guest) -> Outcome {
    let refused = |error| Failure::refused("the rack's state", error);
    let status = HostedRack::connect(config).and_then(|mut rack| rack.status());
    let status = status.map_err(refused)?;
    let [host] = &status.hosts[..] else {
        return Err(Failure::Wrong(format!("{:?}", status.hosts)));
    };
    expect_eq("its address", host.ip, guest::tunnel_ip(guest.id))?;
    expect_eq("its port", host.port, 1)?;
    for name in ["packets_in", "packets_out", "bytes_in", "bytes_out"] {
        let count = host.counters.get(name).copied().unwrap_or(0);
        expect(count > 0, || format!("{name} is {count}"))?;
    }
    expect_eq("strangers", status.refused.get("udp_strangers"), Some(&0))?;
    for reason in ["drop_foreign_source_mac", "drop_foreign_source_ip"] {
        expect_eq(reason, status.switch_counters.get(reason), None)?;
    }
    Ok(())
}

/// A program that is a node of the rack.
struct Program {
    rack: Rack,
    node: Node,
    pd: PdId,
}

impl Program {
    fn join(config: &RackConfig) -> Outcome<Self> {
        let rack = Rack::join_as(config, &[NODE]);
        let rack = rack.map_err(|error| Failure::refused("joining the rack", error))?;
        let node = rack.node(NODE);
        let node = node.map_err(|error| Failure::refused("the program's node", error))?;
        let pd = node.with(|verbs| verbs.create_pd());
        Ok(Self { rack, node, pd })
    }
}

impl OurNic for Program {
    fn act(&self, act: &mut dyn FnMut(&mut dyn Verbs)) {
        self.node.with(|verbs| act(verbs));
    }

    fn memory(&self) -> &Memory {
        self.rack.memory()
    }

    fn pd(&self) -> PdId {
        self.pd
    }

    fn ip(&self) -> Ipv4Addr {
        self.node.ip()
    }

    fn connect(
        &self,
        (qpn, psn): QueuePair,
        _guest: u8,
        (their_qpn, their_psn): QueuePair,
        attributes: &PairAttributes,
    ) -> Outcome {
        let host = self.rack.foreign_host(HOST);
        let host = host.map_err(|error| Failure::refused("the foreign host", error))?;
        let own = ForeignEnd { qpn, psn };
        let theirs = ForeignEnd {
            qpn: their_qpn,
            psn: their_psn,
        };
        host.connect(&self.node, own, theirs, attributes)
            .map_err(|error| Failure::refused("connecting our queue pair", error))
    }

    fn counter(&self, name: &str) -> u64 {
        let statistics = self.rack.statistics();
        let mut nodes = statistics.nodes.iter();
        let own = nodes.find(|node| node.name == NODE);
        own.and_then(|node| node.counters.get(name).copied())
            .unwrap_or(0)
    }
}

/// Ends the switch, also if a test panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
