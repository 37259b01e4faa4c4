//! Arguments of `perf`, and its tests.

use super::test_run::TestRun;
use super::{
    failover, flow_bw, idle, index_shift, messages, messaging, pages, rewrite, rpc, sequencer,
};
use crate::globals::{Globals, RackArgs, seconds};
use crate::outcome::CliError;
use crate::perf::initiator::Kind;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use rackweave_controller::FlowShape;
use serde_json::Value;
use std::path::PathBuf;

/// A test.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
#[value(rename_all = "snake_case")]
pub enum Test {
    /// Print the tests
    List,
    /// READs from node to node, as many as go
    ReadBw,
    /// One READ at a time
    ReadLat,
    /// WRITEs from node to node, as many as go
    WriteBw,
    /// One WRITE at a time, until it is acknowledged
    WriteLat,
    /// SENDs from node to node, as many as go
    SendBw,
    /// One SEND at a time, until it is acknowledged
    SendLat,
    /// One atomic operation at a time
    AtomicLat,
    /// A flow from one producer to one consumer, beside this machine's memcpy
    FlowBw,
    /// A shuffle from every node to every node, beside the 1:1 flow
    ShuffleBw,
    /// A load-balanced flow from one producer to several consumers, beside memcpy
    BalanceBw,
    /// A replicated flow from one producer to several consumers, beside each one's share of memcpy
    ReplicateBw,
    /// Calls over SEND and RECV: together, each alone, one at a time
    Rpc,
    /// Ranges of numbers by sequencers of all kinds: combined, each alone, one at a time
    Sequencer,
    /// An index that adapts by itself: how soon its switches follow what is asked for
    IndexShift,
    /// Messages between two nodes: consumed in place and copied out beside memcpy and the single
    /// buffer, small ones, ping-pong, a sweep of sizes
    Messaging,
    /// Pages: hits, from memory by the switch's directory and by a server's beside memcpy, from a
    /// file beside its queue
    Pages,
    /// Kills the process of the switch that leads a running rack: when each system works again
    Failover,
    /// READ responses turned into WRITEs by the switch's pipeline, ICRC included
    Rewrite,
    /// What an idle rack with a silent flow costs
    Idle,
}

impl Test {
    fn value(self) -> PossibleValue {
        self.to_possible_value().expect("no test is hidden")
    }

    /// Its name at the command line.
    pub fn name(self) -> String {
        self.value().get_name().to_owned()
    }

    /// A line about it.
    pub fn about(self) -> String {
        self.value()
            .get_help()
            .map(ToString::to_string)
            .unwrap_or_default()
    }

    /// The flags that it has a use for, of those that not all have.
    fn takes(self) -> &'static str {
        match self {
            Self::List => "",
            Self::ReadBw | Self::WriteBw | Self::SendBw => {
                "--hosted --simulated -s -n -D -q -t -m --capture"
            }
            Self::ReadLat | Self::WriteLat | Self::SendLat => {
                "--hosted --simulated -s -n -D -m --capture"
            }
            Self::AtomicLat => "--hosted --simulated -n -D -m --capture --operation",
            Self::FlowBw => {
                "--hosted --simulated -s -n -D -m --capture --batch --ring --touch --threads"
            }
            Self::ShuffleBw => {
                "--hosted --simulated -s -n -D -m --capture --batch --ring --touch --nodes"
            }
            Self::BalanceBw | Self::ReplicateBw => {
                "--hosted --simulated -s -n -D -m --capture --batch --ring --touch --threads \
                 --consumers"
            }
            Self::Rpc => "--hosted -s -D --clients --window --threads",
            Self::Sequencer => "--hosted -D -t",
            Self::IndexShift => "--hosted --simulated --records --window",
            Self::Messaging => "--hosted -s -D",
            Self::Pages => "--hosted -D -t --double-write",
            Self::Failover => "--hosted -n",
            Self::Rewrite => "-D",
            Self::Idle => "--hosted -D",
        }
    }

    /// Nodes that it takes on a running rack.
    pub fn guests(self) -> usize {
        match self.has_peer() && self != Self::Messaging {
            true => 2,
            false => 4,
        }
    }

    /// Whether the last of them is another process.
    pub fn has_peer(self) -> bool {
        matches!(
            self,
            Self::ReadBw
                | Self::ReadLat
                | Self::WriteBw
                | Self::WriteLat
                | Self::SendBw
                | Self::SendLat
                | Self::AtomicLat
                | Self::Messaging
        )
    }

    pub fn has_use_for(self, flag: &str) -> bool {
        self.takes().split_whitespace().any(|taken| taken == flag)
    }

    /// Measures. Messages are sent one at a time for their latency, or as many as go.
    pub fn measure(self, test: &mut TestRun<'_>) -> Result<Value, CliError> {
        match self {
            Self::List => Ok(Value::Null),
            Self::ReadBw => messages::measure(test, Kind::Read, false),
            Self::ReadLat => messages::measure(test, Kind::Read, true),
            Self::WriteBw => messages::measure(test, Kind::Write, false),
            Self::WriteLat => messages::measure(test, Kind::Write, true),
            Self::SendBw => messages::measure(test, Kind::Send, false),
            Self::SendLat => messages::measure(test, Kind::Send, true),
            Self::AtomicLat => match test.args.operation.unwrap_or_default() {
                Atomic::Add => messages::measure(test, Kind::FetchAdd, true),
                Atomic::Cas => messages::measure(test, Kind::CompareSwap, true),
            },
            Self::FlowBw => flow_bw::single(test),
            Self::ShuffleBw => flow_bw::shuffle(test),
            Self::BalanceBw => flow_bw::fan_out(test, FlowShape::Balance),
            Self::ReplicateBw => flow_bw::fan_out(test, FlowShape::Replicate),
            Self::Rpc => rpc::measure(test),
            Self::Sequencer => sequencer::measure(test),
            Self::IndexShift => index_shift::measure(test),
            Self::Messaging => messaging::measure(test),
            Self::Pages => pages::measure(test),
            Self::Failover => failover::measure(test),
            Self::Rewrite => rewrite::measure(test),
            Self::Idle => idle::measure(test),
        }
    }
}

impl PerfArgs {
    /// Refuses arguments that the test has no use for: they would be taken for something they are
    /// not.
    ///
    /// # Errors
    /// The first such argument.
    pub fn check(&self, globals: &Globals) -> Result<(), CliError> {
        let test = self.test.name();
        for flag in globals.given.iter().filter(|flag| *flag != "--hosted") {
            let known = Test::value_variants()
                .iter()
                .filter(|test| test.has_use_for(flag));
            let known: Vec<_> = known.map(|test| test.name()).collect();
            if !known.is_empty() && !self.test.has_use_for(flag) {
                return Err(CliError::usage(format!(
                    "{test} has no use for {flag}; {flag} goes with {}",
                    known.join(", ")
                )));
            }
        }
        if self.simulated {
            let threads = "--threads goes with an embedded rack: a simulated one has no threads";
            let drivers = "--simulated and --drivers contradict each other: a simulated rack has \
                           no threads";
            refuse(globals, &[("--threads", threads), ("--drivers", drivers)])?;
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
    pub fn check_hosted(&self, globals: &Globals) -> Result<(), CliError> {
        let capture = "--capture is for a rack of one's own; `rackweave switch --capture \
                       FILE.pcapng` records a hosted one";
        let doubles = "--double-write is for a rack of one's own; a running rack has its stores \
                       already";
        let mtu = "-m cannot change the flows of a hosted rack; set nic.mtu in the configuration \
                   with which its processes start";
        refuse(
            globals,
            &[("--capture", capture), ("--double-write", doubles)],
        )?;
        match self.test.has_use_for("--ring") {
            true => refuse(globals, &[("-m", mtu)]),
            false => Ok(()),
        }
    }
}

/// Refuses the first of these flags that is given, with the problem.
fn refuse(globals: &Globals, problems: &[(&str, &'static str)]) -> Result<(), CliError> {
    let is_given = |(flag, _): &&(&str, &str)| globals.given.iter().any(|given| given == flag);
    match problems.iter().find(is_given) {
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
    #[arg(value_name = "TEST", value_enum)]
    pub test: Test,
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
