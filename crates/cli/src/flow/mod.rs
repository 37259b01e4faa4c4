//! The command `flow`: runs a script of timed actions on the flows of a rack and checks every item.
//!
//! `script` and `keys` read the file, `check` and the controller's own rules validate it before
//! anything runs; `joined` puts it on a running rack; `stage` carries out the actions, `run` runs
//! the resulting ends, which are those of `crate::items`; `report` has the results.

mod check;
mod keys;
mod report;
mod run;
mod script;
mod stage;

use crate::globals::{Globals, Mode, RackArgs};
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::programs::OwnRack;
use clap::Args;
use rackweave_rack::{Rack, RackConfig};
use script::{Script, What};
use stage::{FlowEnd, ScriptRun};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A script with every action.
const EXAMPLE: &str = include_str!("example.toml");

/// A script and its rack.
struct Play {
    config: RackConfig,
    script: Script,
    stage: ScriptRun,
    /// On a running rack: the nodes that this process is, by the script's names of them.
    joined_as: Option<BTreeMap<String, String>>,
    /// Whether every end has finished.
    is_over: bool,
}

/// Arguments of `flow`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave flow --example > flows.toml
  rackweave flow flows.toml --simulated
  rackweave flow flows.toml --drivers 0 --format json
  rackweave flow flows.toml --hosted

A script is a list of timed actions, in TOML or, if its name ends in .json, in JSON:

  [[action]]
  at_ms = 0
  action = \"create\"
  flow = \"scan\"
  shape = \"balance\"
  producers = [\"storage0\", \"storage1\"]
  consumers = [\"compute0\"]
  items = 20000

  [[action]]
  at_ms = 1
  action = \"add-consumer\"
  flow = \"scan\"
  node = \"compute1\"
  consumer_rate_mb_s = 500

Actions: create, weight, add-consumer, remove-consumer, add-producer, close, report. Producers push
stamped items, and consumers check every byte, the order, and that nothing is lost or comes twice.
An action that is refused is shown, and the flow goes on; the verdict fails unless the action has
expect_error = true.

With --hosted every action works. The process joins the running rack as a guest for each node that
the script names, because the rack's own processes have these nodes; --as names other nodes for
them, in the order in which the script first names its own. The report shows which node is which.
An action takes some milliseconds there, in which the script's nodes do nothing else: flows that are
to be changed need items for longer than the example's, or items = N in place of run_ms.")]
pub struct FlowArgs {
    /// The script
    #[arg(value_name = "SCRIPT", required_unless_present = "example")]
    pub script: Option<PathBuf>,
    /// Print a script that shows every action, and run nothing
    #[arg(long)]
    pub example: bool,
    /// In virtual time, on a modelled 100 Gbit/s testbed
    #[arg(long)]
    pub simulated: bool,
    #[command(flatten)]
    pub rack: RackArgs,
}

/// Runs the command.
///
/// # Errors
/// If the script, the arguments or the configuration are invalid, or the rack cannot be built.
pub fn run(args: &FlowArgs, globals: &Globals) -> Result<Verdict, CliError> {
    if args.example {
        output::line(EXAMPLE)?;
        return Ok(Verdict::Passed);
    }
    let path = args.script.as_deref().ok_or_else(|| {
        CliError::usage("a script is needed; `rackweave flow --example` prints one")
    })?;
    let (mode, config) = Mode::of(args.simulated, &args.rack, globals)?;
    let script = Script::read(path)?;
    check::check(&script, &config)?;
    let mut play = Play {
        stage: ScriptRun::new(&config),
        config,
        script,
        joined_as: None,
        is_over: false,
    };
    let rack = match mode {
        Mode::Hosted => run::join(&mut play, &args.rack, globals)?.into(),
        _ => OwnRack::new(&play.config, args.simulated, globals)?,
    };
    let found = run::run(&mut play, rack, mode, globals)?;
    output::print_as(globals, "flow", &found, report::text)?;
    Ok(Verdict::of(found["verified"] == true))
}

impl Play {
    /// Checks every flow against the limits of the rack, before one is created. A flow that is
    /// expected to be refused is left to the controller.
    fn check_specs(&self, rack: &Rack) -> Result<(), CliError> {
        for action in &self.script.actions {
            let What::Create(create) = &action.what else {
                continue;
            };
            if action.expect_error {
                continue;
            }
            let spec = stage::spec_of(create, rack);
            spec.and_then(|spec| spec.check()).map_err(|error| {
                // The script's name for it.
                let problem = error.to_string().replace("item_size", "item_bytes");
                self.script.error(action.place, problem)
            })?;
        }
        Ok(())
    }

    /// The time that the slowest end takes for one item, in nanoseconds.
    fn item_nanos_max(&self) -> u64 {
        let mut slowest = f64::INFINITY;
        let mut largest = 0;
        for action in &self.script.actions {
            let rates = match &action.what {
                What::Create(create) => {
                    largest = largest.max(create.item_bytes);
                    let rates = create.consumer_rates.iter().copied();
                    rates.chain([create.producer_rate]).flatten().collect()
                }
                What::AddConsumer(joiner) => joiner.rate.into_iter().collect::<Vec<f64>>(),
                What::AddProducer(joiner) => joiner.rate.into_iter().collect(),
                _ => Vec::new(),
            };
            slowest = rates.into_iter().fold(slowest, f64::min);
        }
        (f64::from(largest) * 1e9 / slowest) as u64
    }

    /// The completed fraction, for the progress bar.
    fn fraction(&self, now: u64) -> f64 {
        let all: usize = self
            .script
            .actions
            .iter()
            .map(|action| action.sources())
            .sum();
        let flows = self.stage.flows.iter();
        let sources = flows.flat_map(|flow| &flow.sources);
        let done: f64 = sources
            .map(|(_, source)| source.borrow().fraction(now))
            .sum();
        done / all.max(1) as f64
    }

    /// Whether the controller knows the end of every flow.
    fn is_settled(&self) -> bool {
        let mut flows = self.stage.flows.iter();
        flows.all(|flow| flow.state() != FlowEnd::Running)
    }
}
