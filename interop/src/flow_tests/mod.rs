//! Linux as a node of a rack: rings in guests' memory, driven by this project's switch. The guests
//! run nothing but verbs set-up and plain loads and stores.

mod ends;
pub mod programs;
mod proxy;
pub mod rack;

use crate::failure::{Failure, FailureContext, Outcome, expect, expect_eq};
use crate::guest::Guest;
use crate::suite::Suite;
use ends::{End, Ends};
use rack::{GUESTS, OURS, Rack};
use rackweave_base::NodeId;
use rackweave_controller::{FlowId, FlowRings, FlowShape, FlowSpec, FlowState};
use rackweave_verbs::Mtu;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of an item: not a divisor of any MTU.
const ITEM: u32 = 1000;

/// Items from every producer to every consumer.
const ITEMS: u64 = 2000;

/// Approximate bytes of a ring: it wraps around several times during a flow, and a transfer has
/// several fragments.
const RING: u32 = 256 << 10;

/// The probability that a packet is lost.
const LOSS: f64 = 0.02;

/// Maximum time in which the switch detects that a flow is over.
const PATIENCE: Duration = Duration::from_secs(10);

struct Case {
    name: &'static str,
    shape: FlowShape,
    producers: &'static [NodeId],
    consumers: &'static [NodeId],
    mtu: Mtu,
}

const CASES: [Case; 7] = [
    Case {
        name: "guest to ours",
        shape: FlowShape::Shuffle,
        producers: &[GUESTS[0]],
        consumers: &[OURS[0]],
        mtu: Mtu::B4096,
    },
    Case {
        name: "ours to guest",
        shape: FlowShape::Shuffle,
        producers: &[OURS[0]],
        consumers: &[GUESTS[0]],
        mtu: Mtu::B4096,
    },
    Case {
        name: "guest to guest",
        shape: FlowShape::Shuffle,
        producers: &[GUESTS[0]],
        consumers: &[GUESTS[1]],
        mtu: Mtu::B1024,
    },
    Case {
        name: "2:2, guest and ours to guest and ours",
        shape: FlowShape::Shuffle,
        producers: &[GUESTS[0], OURS[0]],
        consumers: &[GUESTS[1], OURS[1]],
        mtu: Mtu::B4096,
    },
    Case {
        name: "2:2, both guests to both guests",
        shape: FlowShape::Shuffle,
        producers: &GUESTS,
        consumers: &GUESTS,
        mtu: Mtu::B4096,
    },
    Case {
        name: "replicated, guest and ours to guest and ours",
        shape: FlowShape::Replicate,
        producers: &[GUESTS[0], OURS[0]],
        consumers: &[GUESTS[1], OURS[1]],
        mtu: Mtu::B4096,
    },
    Case {
        name: "replicated, ours to both guests",
        shape: FlowShape::Replicate,
        producers: &[OURS[0]],
        consumers: &GUESTS,
        mtu: Mtu::B1024,
    },
];

/// Runs all of them; `label` distinguishes racks.
pub fn run(suite: &mut Suite, label: &str, rack: &mut Rack, guests: &[Guest; 2]) {
    for case in &CASES {
        let name = format!("flow {} {label}", case.name);
        suite.run(name.trim_end(), || flow(rack, guests, case, 0.0));
        let name = format!("flow {} 2 % loss {label}", case.name);
        suite.run(name.trim_end(), || flow(rack, guests, case, LOSS));
    }
}

/// A flow, from set-up to tear-down.
fn flow(rack: &mut Rack, guests: &[Guest; 2], case: &Case, loss: f64) -> Outcome {
    let spec = FlowSpec {
        shape: case.shape,
        mtu: case.mtu,
        poll_interval: rackweave_base::Duration::from_millis(1),
        poll_interval_max: rackweave_base::Duration::from_millis(4),
        ..FlowSpec::new(case.producers, case.consumers, ITEM, RING)
    };
    let (id, rings) = match rack.controller.create_flow(&mut rack.site, spec) {
        Ok(made) => made,
        Err(error) => return Err(first_failure(rack, Failure::refused("the flow", error))),
    };
    let lost = rack.site.lost();
    rack.site.set_loss(loss);
    let result = run_ends(rack, guests, &rings, id);
    rack.site.set_loss(0.0);
    let state = rack.controller.flow_state(id);
    result.at(format!("the flow is {state:?}"))?;
    let lost = rack.site.lost() - lost;
    expect((loss > 0.0) == (lost > 0), || {
        format!("{lost} packets were lost")
    })?;
    expect_eq("lanes in use", rack.controller.lanes_used(), 0)
}

/// Runs all ends and, meanwhile, the controller, until the flow is over.
fn run_ends(rack: &mut Rack, guests: &[Guest; 2], rings: &FlowRings, id: FlowId) -> Outcome {
    let mut makers = Ends {
        guests,
        site: &mut rack.site,
        count: ITEMS,
    };
    let mut ends: Vec<(String, End)> = Vec::new();
    let producers = rings.producers[0].len();
    for producer in 0..producers {
        let end = makers.producer(producer as u32, &rings.of_producer(producer))?;
        ends.push((format!("producer {producer}"), end));
    }
    for (at, ring) in rings.consumers.iter().enumerate() {
        ends.push((format!("consumer {at}"), makers.consumer(ring, producers)?));
    }
    let (report, reports) = mpsc::channel();
    let mut failures = Vec::new();
    thread::scope(|scope| {
        for (name, end) in ends {
            let report = report.clone();
            // The receiver has been dropped only if the suite is ending.
            scope.spawn(move || drop(report.send(end.run(ITEMS).at(name))));
        }
        drop(report);
        loop {
            rack.controller.handle_digests(&mut rack.site);
            match reports.recv_timeout(Duration::from_millis(1)) {
                Ok(Ok(())) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
                Ok(Err(failure)) => {
                    failures.push(failure.to_string());
                    // The others need not wait for items that will not come.
                    rack.controller.close_flow(&mut rack.site, id);
                }
            }
        }
    });
    expect(failures.is_empty(), || failures.join("; "))?;
    let deadline = Instant::now() + PATIENCE;
    while rack.controller.flow_state(id) == Some(FlowState::Running) && Instant::now() < deadline {
        rack.controller.handle_digests(&mut rack.site);
        thread::sleep(Duration::from_millis(1));
    }
    let state = rack.controller.flow_state(id);
    expect_eq("the flow's state", state, Some(FlowState::Ended))?;
    for node in GUESTS {
        if let Some(failure) = rack.site.guest(node).and_then(|guest| guest.failure()) {
            return Err(failure);
        }
    }
    Ok(())
}

/// A failure reported by a guest takes precedence over the controller's error that it caused.
fn first_failure(rack: &mut Rack, failure: Failure) -> Failure {
    let mut said = GUESTS
        .iter()
        .filter_map(|&node| rack.site.guest(node)?.failure());
    said.next().unwrap_or(failure)
}
