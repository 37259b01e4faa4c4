//! Starts the processes of a campaign: processes of this command.

use super::program::COMMAND;
use crate::hosted::child::{Recipe, Said};
use crate::hosted::event::What;
use crate::hosted::processes::{END_LIMIT, Processes};
use crate::hosted::{etcd, keygen};
use rackweave_chaos::hosted::{self, Launcher, Output, ProcessError, ProcessEvent, ProgramStart};
use rackweave_control::keys::LIFETIME;
use rackweave_rack::RackConfig;
use rustix::process::Signal;
use std::ops::Range;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

/// This command.
pub struct Command;

impl Launcher for Command {
    fn make_keys(&self, config: &RackConfig) -> Result<(), ProcessError> {
        let made = keygen::make(config, &config.hosted().keys(), LIFETIME);
        made.map(drop).map_err(failed)
    }

    fn processes(&self, config: &RackConfig, file: &Path) -> Box<dyn hosted::Processes> {
        Box::new(Processes::new(config, Some(file), &[]))
    }
}

fn failed(error: impl ToString) -> ProcessError {
    ProcessError(error.to_string())
}

impl hosted::Processes for Processes {
    fn all(&self) -> Range<usize> {
        self.all()
    }

    fn nodes(&self) -> Range<usize> {
        self.nodes()
    }

    fn name(&self, at: usize) -> &str {
        self.name(at)
    }

    fn pid(&self, at: usize) -> Option<u32> {
        self.pid(at)
    }

    fn add_argument(&mut self, at: usize, name: &str, value: String) {
        self.add_argument(at, name, value);
    }

    fn add_etcd(&mut self, config: &Path) -> usize {
        self.set(None, Recipe::new(etcd::NAME, &["etcd"], Some(config)))
    }

    fn set_program(&mut self, at: Option<usize>, start: ProgramStart<'_>) -> usize {
        let mut recipe = Recipe::new(start.name, &[COMMAND], Some(start.config));
        for (name, value) in [
            ("--number", start.number.to_string()),
            ("--life", start.life.to_string()),
            ("--folder", start.folder.display().to_string()),
            ("--seed", start.seed.to_string()),
        ] {
            recipe.args.extend([name.into(), value.into()]);
        }
        self.set(at, recipe)
    }

    fn start(&mut self, at: usize) -> Result<(), ProcessError> {
        self.start(at).map(drop).map_err(failed)
    }

    fn kill(&mut self, at: usize) {
        self.kill(at);
    }

    fn signal(&mut self, at: usize, signal: Signal) {
        if let Some(child) = self.child(at) {
            child.signal(signal);
        }
    }

    fn write_line(&mut self, at: usize, line: &str) {
        if let Some(child) = self.child(at) {
            child.write_line(line);
        }
    }

    fn take_ended(&mut self, at: usize) -> Result<Option<ExitStatus>, ProcessError> {
        let ended = self.take_ended(at).map_err(failed)?;
        Ok(ended.map(|(status, _)| status))
    }

    fn hear(&mut self, limit: Duration) -> Vec<Output> {
        let said = Processes::hear(self, limit).into_iter();
        said.map(|(process, said)| output(process, said)).collect()
    }

    fn end(&mut self, places: &[usize]) -> Result<Vec<(String, Option<ExitStatus>)>, ProcessError> {
        self.end(places.iter().copied()).map_err(failed)
    }

    fn end_limit(&self) -> Duration {
        END_LIMIT
    }
}

fn output(process: String, said: Said) -> Output {
    let (text, event) = match said {
        Said::Error(line) => (line, None),
        Said::Event(event) => (event.what.to_string(), Some(event.what)),
    };
    let event = event.map(|what| match what {
        What::Listening { .. } => ProcessEvent::Listening,
        What::SteppedDown { .. } => ProcessEvent::SteppedDown,
        What::Restored { absent } => ProcessEvent::Restored { absent },
        What::StateLeft { .. } => ProcessEvent::StateLeft,
        What::NodeLeft { node, why: Some(_) } => ProcessEvent::NodeLost { node },
        _ => ProcessEvent::Other,
    });
    Output {
        process,
        text,
        event,
    }
}
