//! A test from its arguments to its report: the rack's configuration, progress bar and verdict.

use super::args::PerfArgs;
use super::report;
use crate::globals::Globals;
use crate::mode::{EMBEDDED, HOSTED, Mode, NO_RACK};
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::programs::{OwnRack, RealRack};
use crate::progress::Progress;
use crate::report::{Text, joined, object};
use rackweave_base::NodeId;
use rackweave_rack::RackConfig;
use rackweave_rack::config::{NodeConfig, Role};
use serde_json::{Value, json};
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
    /// A test of this many measurements that needs no rack.
    ///
    /// # Errors
    /// If the configuration cannot be read or is invalid.
    pub fn without_rack(
        args: &'a PerfArgs,
        globals: &'a Globals,
        steps: u32,
    ) -> Result<Self, CliError> {
        let config = globals.rack_config(&args.rack)?;
        Ok(Self::of(args, globals, (NO_RACK, config), None, steps))
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
    /// If the configuration cannot be read or is invalid, flags contradict each other, or no rack
    /// runs.
    pub fn on_any_rack(
        args: &'a PerfArgs,
        globals: &'a Globals,
        steps: u32,
    ) -> Result<Self, CliError> {
        let (mode, mut config) = Mode::of(args.simulated, &args.rack, globals)?;
        let join = || {
            args.check_hosted()?;
            let count = args.nodes.map_or(GUESTS, usize::from);
            RealRack::join(&config, count, (&args.rack, globals))
        };
        let joined = (mode == Mode::Hosted).then(join).transpose()?;
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

    /// Whether the user wants to stop.
    pub fn is_interrupted(&self) -> bool {
        self.globals.interrupt.is_set()
    }

    /// Sets the number of measurements, where it depends on the kind of rack.
    pub fn expect_steps(&mut self, steps: u32) {
        self.steps = steps;
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
    pub fn finish(self, found: &Value) -> Result<Verdict, CliError> {
        drop(self.progress);
        let (test, rack, config, verified) =
            (self.args.test, self.rack, &self.config, self.verified);
        let hosted = config.hosted();
        let link = |node: &NodeConfig| (node.name.clone(), node.link_kind(&hosted).name());
        let links = (rack == HOSTED).then(|| config.node.iter().map(link).collect());
        let head = json!({
            "test": test.name,
            "rack": rack,
            "seed": config.seed,
            "driver_threads": if rack == EMBEDDED { config.driver_threads } else { 0 },
        });
        let heading = report::heading(test, (rack, config), links.as_ref());
        let links = links.map_or(Value::Null, |links| json!({ "links": links }));
        let end = json!({"verified": verified, "interrupted": self.globals.interrupt.is_set()});
        let report = joined([head, links, end, found.clone()]);
        output::print_as(self.globals, "perf", &report, |report| {
            let text = Text::new(object(report));
            text.titled(heading, &report::HEAD).to_string()
        })?;
        Ok(Verdict::of(verified))
    }
}
