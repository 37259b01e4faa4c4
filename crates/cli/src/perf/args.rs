//! Arguments of `perf`, and the table of its tests.

use super::{
    failover, flow_bw, idle, index_shift, messages, messaging, pages, rewrite, rpc, sequencer,
};
use crate::globals::Globals;
use crate::globals::{RackArgs, seconds};
use crate::outcome::{CliError, Verdict};
use crate::verbs::initiator::Kind;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use rackweave_controller::FlowShape;
use std::path::PathBuf;

/// A test.
#[derive(Debug)]
pub struct Test {
    /// Its name at the command line.
    pub name: &'static str,
    /// A line about it.
    pub about: &'static str,
    /// The flags that it has a use for, of those that not all have.
    takes: &'static str,
    run: Run,
}

/// What runs a test.
#[derive(Debug)]
enum Run {
    By(fn(&PerfArgs, &Globals) -> Result<Verdict, CliError>),
    /// Messages: one at a time for their latency, or as many as go.
    Messages(Kind, bool),
    /// A flow to several consumers.
    FanOut(FlowShape),
}

const BANDWIDTH: &str = "--hosted --simulated -s -n -D -q -t -m --capture";
const LATENCY: &str = "--hosted --simulated -s -n -D -m --capture";
const ATOMIC: &str = "--hosted --simulated -n -D -m --capture --operation";
const FLOW: &str = "--hosted --simulated -s -n -D -m --capture --batch --ring --touch --threads";
const SHUFFLE: &str = "--hosted --simulated -s -n -D -m --capture --batch --ring --touch --nodes";
const FAN_OUT: &str = "--hosted --simulated -s -n -D -m --capture --batch --ring --touch --threads \
                       --consumers";

const fn test(name: &'static str, about: &'static str, takes: &'static str, run: Run) -> Test {
    Test {
        name,
        about,
        takes,
        run,
    }
}

const fn bandwidth(name: &'static str, about: &'static str, kind: Kind) -> Test {
    test(name, about, BANDWIDTH, Run::Messages(kind, false))
}

const fn latency(name: &'static str, about: &'static str, kind: Kind) -> Test {
    test(name, about, LATENCY, Run::Messages(kind, true))
}

/// Every test.
pub static TESTS: [Test; 20] = [
    test("list", "Print the tests", "", Run::By(super::list)),
    bandwidth(
        "read_bw",
        "READs from node to node, as many as go",
        Kind::Read,
    ),
    latency("read_lat", "One READ at a time", Kind::Read),
    bandwidth(
        "write_bw",
        "WRITEs from node to node, as many as go",
        Kind::Write,
    ),
    latency(
        "write_lat",
        "One WRITE at a time, until it is acknowledged",
        Kind::Write,
    ),
    bandwidth(
        "send_bw",
        "SENDs from node to node, as many as go",
        Kind::Send,
    ),
    latency(
        "send_lat",
        "One SEND at a time, until it is acknowledged",
        Kind::Send,
    ),
    test(
        "atomic_lat",
        "One atomic operation at a time",
        ATOMIC,
        Run::By(messages::run_atomic),
    ),
    test(
        "flow_bw",
        "A flow from one producer to one consumer, beside this machine's memcpy",
        FLOW,
        Run::By(flow_bw::run),
    ),
    test(
        "shuffle_bw",
        "A shuffle from every node to every node, beside the 1:1 flow",
        SHUFFLE,
        Run::By(flow_bw::shuffle),
    ),
    test(
        "balance_bw",
        "A load-balanced flow from one producer to several consumers, beside memcpy",
        FAN_OUT,
        Run::FanOut(FlowShape::Balance),
    ),
    test(
        "replicate_bw",
        "A replicated flow from one producer to several consumers, beside each one's share of \
         memcpy",
        FAN_OUT,
        Run::FanOut(FlowShape::Replicate),
    ),
    test(
        "rpc",
        "Calls over SEND and RECV: together, each alone, one at a time",
        "--hosted -s -D --clients --window --threads",
        Run::By(rpc::run),
    ),
    test(
        "sequencer",
        "Ranges of numbers by sequencers of all kinds: combined, each alone, one at a time",
        "--hosted -D -t",
        Run::By(sequencer::run),
    ),
    test(
        "index_shift",
        "An index that adapts by itself: how soon its switches follow what is asked for",
        "--hosted --simulated --records --window",
        Run::By(index_shift::run),
    ),
    test(
        "messaging",
        "Messages between two nodes: consumed in place and copied out beside memcpy and the \
         single buffer, small ones, ping-pong, a sweep of sizes",
        "--hosted -s -D",
        Run::By(messaging::run),
    ),
    test(
        "pages",
        "Pages: hits, from memory by the switch's directory and by a server's beside memcpy, from \
         a file beside its queue",
        "--hosted -D -t --double-write",
        Run::By(pages::run),
    ),
    test(
        "failover",
        "Kills the process of the switch that leads a running rack: when each system works again",
        "--hosted -n",
        Run::By(failover::run),
    ),
    test(
        "rewrite",
        "READ responses turned into WRITEs by the switch's pipeline, ICRC included",
        "-D",
        Run::By(rewrite::run),
    ),
    test(
        "idle",
        "What an idle rack with a silent flow costs",
        "--hosted -D",
        Run::By(idle::run),
    ),
];

/// The tests as values at the command line.
fn parser() -> impl TypedValueParser<Value = &'static Test> {
    let values = TESTS
        .iter()
        .map(|test| PossibleValue::new(test.name).help(test.about));
    let named = |name: &String| TESTS.iter().find(|test| test.name == name);
    PossibleValuesParser::new(values)
        .map(move |name| named(&name).expect("the value is one of the table"))
}

impl Test {
    /// Runs it.
    ///
    /// # Errors
    /// If an argument makes no sense or the rack cannot do it.
    pub fn run(&self, args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
        match self.run {
            Run::By(run) => run(args, globals),
            Run::Messages(kind, is_latency) => messages::run(args, globals, kind, is_latency),
            Run::FanOut(shape) => flow_bw::fan_out(args, globals, shape),
        }
    }

    fn has_use_for(&self, flag: &str) -> bool {
        self.takes.split_whitespace().any(|taken| taken == flag)
    }
}

impl PerfArgs {
    /// Refuses arguments that the test has no use for: they would be taken for something they are
    /// not.
    ///
    /// # Errors
    /// The first such argument.
    pub fn check(&self) -> Result<(), CliError> {
        let given = [
            (self.simulated, "--simulated"),
            (self.size.is_some(), "-s"),
            (self.iterations.is_some(), "-n"),
            (self.duration.is_some(), "-D"),
            (self.queue_pairs.is_some(), "-q"),
            (self.tx_depth.is_some(), "-t"),
            (self.mtu.is_some(), "-m"),
            (self.double_write, "--double-write"),
            (self.operation.is_some(), "--operation"),
            (self.batch.is_some(), "--batch"),
            (self.ring.is_some(), "--ring"),
            (self.touch, "--touch"),
            (self.nodes.is_some(), "--nodes"),
            (self.consumers.is_some(), "--consumers"),
            (self.clients.is_some(), "--clients"),
            (self.window.is_some(), "--window"),
            (self.records.is_some(), "--records"),
            (self.capture.is_some(), "--capture"),
            (self.threads.is_some(), "--threads"),
        ];
        let test = self.test.name;
        for (is_given, flag) in given {
            if is_given && !self.test.has_use_for(flag) {
                let known = TESTS.iter().filter(|test| test.has_use_for(flag));
                let known: Vec<_> = known.map(|test| test.name).collect();
                return Err(CliError::usage(format!(
                    "{test} has no use for {flag}; {flag} goes with {}",
                    known.join(", ")
                )));
            }
        }
        if self.simulated {
            refuse(&[
                (
                    self.threads.is_some(),
                    "--threads goes with an embedded rack: a simulated one has no threads",
                ),
                (
                    self.rack.drivers.is_some(),
                    "--simulated and --drivers contradict each other: a simulated rack has no \
                     threads",
                ),
            ])?;
        }
        if self.rack.hosted && !self.test.has_use_for("--hosted") {
            return Err(CliError::usage(format!(
                "{test} measures a part of the rack alone, in this process; leave --hosted out"
            )));
        }
        Ok(())
    }

    /// Refuses what a rack that runs cannot do.
    ///
    /// # Errors
    /// The first such argument.
    pub fn check_hosted(&self) -> Result<(), CliError> {
        let is_flow = self.test.has_use_for("--ring");
        refuse(&[
            (
                self.capture.is_some(),
                "--capture is for a rack of one's own; `rackweave switch --capture FILE.pcapng` \
                 records a hosted one",
            ),
            (
                self.mtu.is_some() && is_flow,
                "-m cannot change the flows of a hosted rack; set nic.mtu in the configuration \
                 with which its processes start",
            ),
            (
                self.double_write,
                "--double-write is for a rack of one's own; a running rack has its stores already",
            ),
        ])
    }
}

/// The first problem that there is.
fn refuse(problems: &[(bool, &str)]) -> Result<(), CliError> {
    let mut problems = problems.iter();
    match problems.find(|(is_there, _)| *is_there) {
        Some((_, problem)) => Err(CliError::usage(*problem)),
        None => Ok(()),
    }
}

/// Which atomic operation.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Atomic {
    /// Fetch and add
    #[default]
    Add,
    /// Compare and swap
    Cas,
}

/// Arguments of a measurement. Flags are those of perftest where it has them.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave perf list
  rackweave perf read_bw -s 8 -t 64 -n 1000000
  rackweave perf write_lat --simulated --format json
  rackweave perf flow_bw -s 65536 --drivers 0
  rackweave perf shuffle_bw --simulated --nodes 4
  rackweave perf replicate_bw --consumers 3
  rackweave perf rpc --window 512 --clients 4
  rackweave perf messaging --drivers 0
  rackweave perf pages -D 4
  rackweave perf rewrite
  rackweave perf flow_bw --hosted            on the rack that `rackweave up` runs, and embedded
  rackweave perf write_lat --config rack.toml -s 64
  rackweave perf idle --hosted")]
pub struct PerfArgs {
    /// What is measured
    #[arg(value_name = "TEST", value_parser = parser())]
    pub test: &'static Test,
    /// In virtual time, on a modelled 100 Gbit/s testbed
    #[arg(long)]
    pub simulated: bool,
    /// Bytes of a message or item (without it 65536 for bandwidth and flows, 2 for latency, a MiB
    /// for messaging)
    #[arg(short, long, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    pub size: Option<u32>,
    /// Messages per queue pair (without it 5000 for bandwidth, 1000 for latency), or items of each
    /// producer for each consumer
    #[arg(short = 'n', long, value_name = "COUNT",
          value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: Option<u64>,
    /// Run for so long instead; virtual seconds in a simulated rack
    #[arg(short = 'D', long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<f64>,
    /// Queue pairs; without it one
    #[arg(short = 'q', long, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub queue_pairs: Option<u32>,
    /// Messages under way per queue pair; without it 128
    #[arg(short = 't', long, value_name = "COUNT",
          value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    pub tx_depth: Option<u32>,
    /// Pages: the file has double writes: each write is whole or not there when the power fails
    #[arg(long)]
    pub double_write: bool,
    /// Bytes of a packet's payload at most
    #[arg(short = 'm', long, value_name = "BYTES")]
    pub mtu: Option<u32>,
    /// Which atomic operation
    #[arg(long, value_enum)]
    pub operation: Option<Atomic>,
    /// Items per reserve and commit, peek and release; without it 256 KiB of them, 4096 at most
    #[arg(long, value_name = "ITEMS", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub batch: Option<u32>,
    /// Bytes of a ring; without it 64 MiB for flow_bw embedded, more than the caches hold, so that
    /// flow and memcpy both move memory; else 4 MiB
    #[arg(long, value_name = "BYTES",
          value_parser = clap::value_parser!(u32).range(4096..=1 << 30))]
    pub ring: Option<u32>,
    /// Producer and consumer write and read every byte, not the first eight of an item
    #[arg(long)]
    pub touch: bool,
    /// Threads of producer and consumer: 1 has both, 2 gives each its own
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub threads: Option<u8>,
    /// Clients of the server of calls; without it one
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub clients: Option<u16>,
    /// Requests under way per client; without it 256, for index_shift 32
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub window: Option<u16>,
    /// Records of the index; without it 100000
    #[arg(long, value_name = "COUNT",
          value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub records: Option<u64>,
    /// Consumers of a balanced or replicated flow; without it two
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=32))]
    pub consumers: Option<u16>,
    /// Nodes of the shuffle; without it those of the configuration, on a running rack four guests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub nodes: Option<u16>,
    /// Write what the switch saw, before and after, to a pcapng file
    #[arg(long, value_name = "FILE.pcapng")]
    pub capture: Option<PathBuf>,
    #[command(flatten)]
    pub rack: RackArgs,
}
