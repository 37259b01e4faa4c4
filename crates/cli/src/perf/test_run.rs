//! A test from its arguments to its report: the rack's configuration, progress bar and verdict.

use super::args::PerfArgs;
use super::report;
use crate::globals::Globals;
use crate::mode::Mode;
use crate::outcome::{CliError, Verdict};
use crate::patience::Wish;
use crate::programs::{self, Group, OwnRack, Program, RealRack, Watch};
use crate::progress::Progress;
use rackweave_base::NodeId;
use rackweave_rack::RackConfig;
use rackweave_rack::config::{NodeConfig, Role};
use serde_json::Value;
use std::time::Duration;

/// Places for guests that a test takes on a running rack.
const GUESTS: usize = 4;

/// A running test.
pub struct TestRun<'a> {
    pub args: &'a PerfArgs,
    pub globals: &'a Globals,
    /// The kind of rack, as named in reports.
    pub rack: &'static str,
    pub config: RackConfig,
    /// The nodes that the test may use: all of a rack of its own, or those that this process is.
    pub nodes: Vec<NodeId>,
    /// The running rack, if it is to be measured.
    joined: Option<RealRack>,
    pub progress: Progress,
    /// Whether everything has been correct so far.
    pub verified: bool,
    steps_done: u32,
    /// Number of measurements, one after another.
    steps: u32,
}

impl<'a> TestRun<'a> {
    /// A test of this many measurements on its own racks of this kind.
    ///
    /// # Errors
    /// If the configuration cannot be read or is invalid.
    pub fn new(
        args: &'a PerfArgs,
        globals: &'a Globals,
        rack: &'static str,
        steps: u32,
    ) -> Result<Self, CliError> {
        let config = globals.rack_config(&args.rack)?;
        Ok(Self::of(args, globals, (rack, config), None, steps))
    }

    fn of(
        args: &'a PerfArgs,
        globals: &'a Globals,
        (rack, config): (&'static str, RackConfig),
        joined: Option<RealRack>,
        steps: u32,
    ) -> Self {
        let nodes = match &joined {
            Some(rack) => rack.nodes().to_vec(),
            None => (0..config.node.len()).map(|at| NodeId(at as u16)).collect(),
        };
        Self {
            nodes,
            joined,
            args,
            globals,
            rack,
            config,
            progress: Progress::new(globals, args.test.name),
            verified: true,
            steps_done: 0,
            steps,
        }
    }

    /// A test of this many measurements on the kind of rack, and with the MTU and nodes, that the
    /// arguments name. A running rack is joined.
    ///
    /// # Errors
    /// As for [`TestRun::new`], if flags contradict each other, or no rack runs.
    pub fn on_any_rack(
        args: &'a PerfArgs,
        globals: &'a Globals,
        steps: u32,
    ) -> Result<Self, CliError> {
        let mode = Mode::of(args.simulated, &args.rack, globals)?;
        args.check_hosted(&mode)?;
        let mut config = mode.config(&args.rack, globals)?;
        let joined = match mode {
            Mode::Hosted(_) => {
                let count = args.nodes.map_or(GUESTS, usize::from);
                Some(RealRack::join(&config, count, (&args.rack, globals))?)
            }
            Mode::Embedded | Mode::Simulated => None,
        };
        config.nic.mtu = args.mtu.unwrap_or(config.nic.mtu);
        if let (Some(nodes), None) = (args.nodes, &joined) {
            let node = |at| NodeConfig::new(format!("node{at}"), Role::Compute);
            config.node = (0..nodes).map(node).collect();
        }
        config.check()?;
        let on = (mode.name(), config);
        Ok(Self::of(args, globals, on, joined, steps))
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

    /// The last node.
    pub fn last(&self) -> NodeId {
        self.nodes[self.nodes.len() - 1]
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

    /// Runs groups of programs on a rack of this test, each group on its own thread.
    ///
    /// # Errors
    /// Those of the programs.
    pub fn drive<P: Program + Send + 'static>(
        &self,
        rack: RealRack,
        groups: Vec<Group<P>>,
        if_interrupted: Wish,
    ) -> Result<Vec<P>, CliError> {
        let mut silent = |_, _| {};
        let slice = rackweave_base::Duration::ZERO;
        let mut watch = Watch::new(self.globals, if_interrupted, slice, &mut silent);
        let (programs, ran) = programs::run(&mut rack.into(), groups, &mut watch);
        ran.map(|()| programs)
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

    /// Prints the results, an object.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub fn finish(self, found: &Value) -> Result<Verdict, CliError> {
        drop(self.progress);
        let on = (self.rack, &self.config);
        report::finish(self.globals, self.args.test, on, self.verified, found)
    }
}
