//! This project's NIC against the guest's: every operation, in both directions, with refusals and
//! losses.
//!
//! A test is written once, from the requester's side, and runs with either end as requester.

mod access;
mod atomics;
pub mod connection;
mod ends;
pub mod host;
mod loss;
pub mod our_nic;
mod receiver;
pub mod rping;
pub mod transfers;

use crate::failure::{Outcome, expect_eq};
use crate::guest;
use crate::guest_node::GuestNode;
use crate::suite::Suite;
use connection::{Connection, Setup, Side};
use host::Host;
use rackweave_base::Rng;
use rackweave_verbs::Mtu;

/// The environment of a test of the NIC.
pub struct Bench<'a> {
    /// This project's NIC.
    pub host: &'a Host,
    /// The guest.
    pub node: &'a mut GuestNode,
    /// The run's random generator.
    pub rng: Rng,
}

impl Bench<'_> {
    fn connect(&mut self, setup: &Setup) -> Outcome<Connection<'_>> {
        Connection::open(self.host, self.node, &mut self.rng, setup)
    }
}

/// The direction of a requester's requests, for names of tests.
pub fn direction(requester: Side) -> &'static str {
    match requester {
        Side::Ours => "ours to guest",
        Side::Guest => "guest to ours",
    }
}

/// Resolves the guest's Ethernet address. The guest resolves this NIC's, or it would not connect.
fn neighbours(bench: &mut Bench<'_>) -> Outcome {
    let id = bench.node.guest();
    let mac = bench.host.resolve(guest::ip(id))?;
    expect_eq("the guest's Ethernet address", mac, guest::mac(id))?;
    receiver::fresh(bench, Side::Ours)
}

/// Runs all of them.
pub fn run(suite: &mut Suite, bench: &mut Bench<'_>) {
    suite.run("nic arp", || neighbours(bench));
    let mut peers = rping::Peers {
        nic: bench.host,
        address: guest::ip(bench.node.guest()),
        node: bench.node,
        mtu: Mtu::B4096,
    };
    rping::run(suite, "nic", &mut peers);
    for mtu in [Mtu::B1024, Mtu::B4096] {
        for side in Side::ALL {
            for kind in transfers::Kind::ALL {
                let name = format!(
                    "nic {} mtu {} {}",
                    kind.name(),
                    mtu.bytes(),
                    direction(side)
                );
                suite.run(&name, || transfers::run(bench, kind, side, mtu));
            }
        }
    }
    for side in Side::ALL {
        let way = direction(side);
        suite.run(&format!("nic fetch-and-add {way}"), || {
            atomics::fetch_and_add(bench, side)
        });
        suite.run(&format!("nic compare-and-swap {way}"), || {
            atomics::compare_and_swap(bench, side)
        });
        suite.run(&format!("nic receive posted late {way}"), || {
            receiver::posted_late(bench, side)
        });
        suite.run(&format!("nic receive never posted {way}"), || {
            receiver::never_posted(bench, side)
        });
        suite.run(&format!("nic receive too short {way}"), || {
            receiver::too_short(bench, side)
        });
        suite.run(&format!("nic access refused {way}"), || {
            access::refused(bench, side)
        });
        suite.run(&format!("nic 2 % loss {way}"), || {
            loss::transfers(bench, side)
        });
        suite.run(&format!("nic 4 % loss, atomics {way}"), || {
            loss::atomics(bench, side)
        });
    }
}
