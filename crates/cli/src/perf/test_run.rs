//! A test from its arguments to its report: the rack's configuration, progress bar and verdict.

use super::args::PerfArgs;
use crate::globals::{EMBEDDED, Globals, Mode, NO_RACK};
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::programs::{OwnRack, RealRack};
use crate::progress::Progress;
use crate::report::{joined, object, titled};
use rackweave_base::NodeId;
use rackweave_rack::RackConfig;
use rackweave_rack::config::{NodeConfig, Role};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What the heading has.
const HEAD: [&str; 5] = ["test", "rack", "seed", "driver_threads", "links"];

/// A running test.
pub struct TestRun<'a> {
    pub args: &'a PerfArgs,
    pub globals: &'a Globals,
    /// The kind of rack, as named in reports.
    rack: &'static str,
    pub config: RackConfig,
    /// The nodes that the test may use: all of a rack of its own, or those that this process is.
    pub nodes: Vec<NodeId>,
    /// The running rack, if it is to be measured.
    joined: Option<RealRack>,
    /// The node that a second process is to be, instead of a guest.
    pub peer: Option<String>,
    pub progress: Progress,
    /// Whether everything has been correct so far.
    pub verified: bool,
    steps_done: u32,
    /// Number of measurements, one after another.
    pub steps: u32,
}

impl<'a> TestRun<'a> {
    /// A test on the kind of rack, and with the MTU and nodes, that the arguments name, if it needs
    /// a rack. A running rack is joined.
    ///
    /// # Errors
    /// If the configuration cannot be read or is invalid, flags contradict each other, or no rack
    /// runs.
    pub fn new(args: &'a PerfArgs, globals: &'a Globals) -> Result<Self, CliError> {
        let (mut rack, mut joined, mut peer) = (NO_RACK, None, None);
        let config = match args.test.has_use_for("--hosted") {
            false => globals.rack_config(&args.rack)?,
            true => {
                let (mode, mut config) = Mode::of(args.simulated, &args.rack, globals)?;
                if mode == Mode::Hosted {
                    args.check_hosted(globals)?;
                    let count = args.nodes.map_or(args.test.guests(), usize::from);
                    let mut here = args.rack.clone();
                    if args.test.has_peer() {
                        here.check_named(count)?;
                        peer = here.join_as.pop();
                    }
                    let count = count - usize::from(args.test.has_peer());
                    joined = Some(RealRack::join(&config, count, (&here, globals))?);
                }
                config.nic.mtu = args.mtu.unwrap_or(config.nic.mtu);
                if let (Some(nodes), None) = (args.nodes, &joined) {
                    let node = |at| NodeConfig::new(format!("node{at}"), Role::Compute);
                    config.node = (0..nodes).map(node).collect();
                }
                config.check()?;
                rack = mode.name();
                config
            }
        };
        Ok(Self {
            nodes: match &joined {
                Some(rack) => rack.nodes().to_vec(),
                None => (0..config.node.len()).map(|at| NodeId(at as u16)).collect(),
            },
            joined,
            peer,
            args,
            globals,
            rack,
            config,
            progress: Progress::new(globals, args.test.name()),
            verified: true,
            steps_done: 0,
            steps: 1,
        })
    }

    /// The duration of each of `parts`, of the user's seconds or of `seconds`.
    pub fn part(&self, seconds: f64, parts: u32) -> Duration {
        let seconds = self.args.duration.unwrap_or(seconds);
        Duration::from_secs_f64(seconds / f64::from(parts))
    }

    /// Whether a running rack is measured.
    pub fn is_hosted(&self) -> bool {
        self.joined.is_some()
    }

    /// The first node and the last.
    pub fn ends(&self) -> [NodeId; 2] {
        [self.nodes[0], self.nodes[self.nodes.len() - 1]]
    }

    /// A rack in real time, which `top` and `stat` can observe from now on: the running one, or a
    /// new one.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn real_rack(&self) -> Result<RealRack, CliError> {
        match &self.joined {
            Some(rack) => Ok(rack.clone()),
            None => RealRack::embedded(&self.config, self.globals),
        }
    }

    /// The rack of the requested kind: the running one, or a new one.
    ///
    /// # Errors
    /// If it does not fit.
    pub fn own_rack(&self) -> Result<OwnRack, CliError> {
        match self.args.simulated {
            true => OwnRack::new(&self.config, true, self.globals),
            false => Ok(self.real_rack()?.into()),
        }
    }

    /// Whether the user wants to stop.
    pub fn is_interrupted(&self) -> bool {
        self.globals.interrupt.is_set()
    }

    /// Records that a measurement is done, and whether everything was correct.
    pub fn step(&mut self, verified: bool) {
        self.verified &= verified;
        self.steps_done += 1;
        let (done, all) = (self.steps_done, self.steps);
        self.progress.set(|| f64::from(done) / f64::from(all));
    }

    /// Prints the results, an object. The fields of the report are described in docs/JSON.md.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn finish(self, found: Value) -> Result<Verdict, CliError> {
        drop(self.progress);
        let (test, rack, config) = (self.args.test.name(), self.rack, &self.config);
        let (seed, verified) = (config.seed, self.verified);
        let drivers = match rack {
            EMBEDDED => config.driver_threads,
            _ => 0,
        };
        let hosted = config.hosted();
        let link = |node: &NodeConfig| (node.name.clone(), node.link_kind(&hosted).name());
        let links: Option<BTreeMap<_, _>> =
            self.joined.map(|_| config.node.iter().map(link).collect());
        let heading = match &links {
            // A hosted rack takes its random numbers from the system: it has no seed to report.
            Some(links) => {
                let kinds: BTreeSet<_> = links.values().copied().collect();
                let kinds: Vec<_> = kinds.into_iter().collect();
                format!("{test}, hosted rack over {}", kinds.join(" and "))
            }
            None if rack == NO_RACK => format!("{test}, no rack"),
            None if rack == EMBEDDED => {
                format!("{test}, {rack} rack, seed {seed}, {drivers} driver threads")
            }
            None => format!("{test}, {rack} rack, seed {seed}"),
        };
        let head = json!({"test": test, "rack": rack, "seed": seed, "driver_threads": drivers});
        let links = links.map_or(Value::Null, |links| json!({ "links": links }));
        let end = json!({"verified": verified, "interrupted": self.globals.interrupt.is_set()});
        let report = joined([head, links, end, found]);
        output::print_as(self.globals, "perf", &report, |report| {
            titled(&heading, &HEAD, object(report))
        })?;
        Ok(Verdict::of(verified))
    }
}
