//! Which tests there are, and which arguments each takes.

use crate::args::{PerfArgs, Test};
use crate::mode::Mode;
use crate::outcome::CliError;
use clap::ValueEnum;
use serde::Serialize;
use std::fmt;

/// Every test with a line about it.
#[derive(Clone, Debug, Serialize)]
pub struct Tests {
    tests: Vec<Entry>,
}

#[derive(Clone, Debug, Serialize)]
struct Entry {
    name: &'static str,
    about: String,
}

impl Tests {
    /// All tests there are.
    pub fn all() -> Self {
        let tests = Test::value_variants()
            .iter()
            .filter(|&&test| test != Test::List);
        let entry = |&test: &Test| Entry {
            name: super::name_of(test),
            about: test
                .to_possible_value()
                .and_then(|value| value.get_help().map(ToString::to_string))
                .unwrap_or_default(),
        };
        Self {
            tests: tests.map(entry).collect(),
        }
    }
}

impl fmt::Display for Tests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Entry { name, about } in &self.tests {
            writeln!(f, "{name:<12} {about}")?;
        }
        Ok(())
    }
}

/// Refuses arguments that the test has no use for: they would be taken for something they are not.
///
/// # Errors
/// The first such argument.
pub fn check_arguments(args: &PerfArgs) -> Result<(), CliError> {
    use Test::{
        AtomicLat, BalanceBw, Events, FlowBw, Idle, Index, IndexShift, Messaging, Pages, ReadBw,
        ReadLat, ReplicateBw, Rewrite, Rpc, SendBw, SendLat, Sequencer, ShuffleBw, WriteBw,
        WriteLat,
    };
    const BANDWIDTH: &[Test] = &[ReadBw, WriteBw, SendBw];
    const SIZED: &[Test] = &[
        ReadBw,
        WriteBw,
        SendBw,
        ReadLat,
        WriteLat,
        SendLat,
        FlowBw,
        ShuffleBw,
        BalanceBw,
        ReplicateBw,
        Rpc,
        Index,
        Messaging,
    ];
    const RACK: &[Test] = &[
        ReadBw,
        WriteBw,
        SendBw,
        ReadLat,
        WriteLat,
        SendLat,
        AtomicLat,
        FlowBw,
        ShuffleBw,
        BalanceBw,
        ReplicateBw,
    ];
    const FLOWS: &[Test] = &[FlowBw, ShuffleBw, BalanceBw, ReplicateBw];
    const TWO_ENDS: &[Test] = &[FlowBw, BalanceBw, ReplicateBw, Rpc];
    const FAN_OUT: &[Test] = &[BalanceBw, ReplicateBw];
    let deep = [BANDWIDTH, &[Pages, Sequencer]].concat();
    const PARTS: &[Test] = &[
        Events, Idle, Index, Messaging, Pages, Rewrite, Rpc, Sequencer,
    ];
    let timed = [RACK, PARTS].concat();
    let virtual_time = [RACK, &[IndexShift]].concat();
    let given: [(bool, &str, &[Test]); 18] = [
        (args.simulated, "--simulated", &virtual_time),
        (args.size.is_some(), "-s", SIZED),
        (args.iterations.is_some(), "-n", RACK),
        (args.duration.is_some(), "-D", &timed),
        (args.queue_pairs.is_some(), "-q", BANDWIDTH),
        (args.tx_depth.is_some(), "-t", &deep),
        (args.double_write, "--double-write", &[Pages]),
        (args.mtu.is_some(), "-m", RACK),
        (args.operation.is_some(), "--operation", &[AtomicLat]),
        (args.batch.is_some(), "--batch", FLOWS),
        (args.ring.is_some(), "--ring", FLOWS),
        (args.touch, "--touch", FLOWS),
        (args.nodes.is_some(), "--nodes", &[ShuffleBw]),
        (args.consumers.is_some(), "--consumers", FAN_OUT),
        (args.clients.is_some(), "--clients", &[Rpc]),
        (args.window.is_some(), "--window", &[Index, IndexShift, Rpc]),
        (args.records.is_some(), "--records", &[Index, IndexShift]),
        (args.capture.is_some(), "--capture", RACK),
    ];
    for (is_given, flag, tests) in given {
        if is_given && !tests.contains(&args.test) {
            let test = super::name_of(args.test);
            let known: Vec<_> = tests.iter().map(|&test| super::name_of(test)).collect();
            return Err(CliError::usage(format!(
                "{test} has no use for {flag}; {flag} goes with {}",
                known.join(", ")
            )));
        }
    }
    if args.threads.is_some() && (args.simulated || !TWO_ENDS.contains(&args.test)) {
        return Err(CliError::usage(
            "--threads goes with flow_bw, balance_bw, replicate_bw and rpc on an embedded rack",
        ));
    }
    if args.simulated && args.rack.drivers.is_some() {
        return Err(CliError::usage(
            "--simulated and --drivers contradict each other: a simulated rack has no threads",
        ));
    }
    Ok(())
}

/// Refuses what a rack that runs cannot do.
///
/// # Errors
/// The first such argument.
pub fn check_hosted(args: &PerfArgs, mode: &Mode) -> Result<(), CliError> {
    if !matches!(mode, Mode::Hosted(_)) {
        return Ok(());
    }
    let is_flow = matches!(
        args.test,
        Test::FlowBw | Test::ShuffleBw | Test::BalanceBw | Test::ReplicateBw
    );
    for (is_given, problem) in [
        (
            args.capture.is_some(),
            "--capture is for a rack of one's own; `rackweave switch --capture FILE.pcapng` \
             records a hosted one",
        ),
        (
            args.nodes.is_some(),
            "--nodes cannot change a hosted rack; its nodes are those of the configuration",
        ),
        (
            args.mtu.is_some() && is_flow,
            "-m cannot change the flows of a hosted rack; set nic.mtu in the configuration with \
             which its processes start",
        ),
        (
            args.threads.is_some(),
            "--threads goes with an embedded rack; the ends of a hosted one have a process each",
        ),
    ] {
        if is_given {
            return Err(CliError::usage(problem));
        }
    }
    Ok(())
}

/// Refuses a hosted rack for a test that needs none.
///
/// # Errors
/// If the user means one.
pub fn check_alone(args: &PerfArgs) -> Result<(), CliError> {
    if !args.rack.hosted {
        return Ok(());
    }
    let test = super::name_of(args.test);
    Err(CliError::usage(format!(
        "{test} measures a part of the rack alone, in this process; leave --hosted out"
    )))
}
