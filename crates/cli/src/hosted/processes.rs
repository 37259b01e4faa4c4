//! The processes of a hosted rack that this process starts: the switch's, then those of the nodes,
//! then the standby's, if there is one, then programs that join the rack.

use super::child::{Child, Recipe, Word};
use super::etcd;
use crate::outcome::CliError;
use rackweave_rack::RackConfig;
use rustix::process::Signal;
use std::ops::Range;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

/// How long processes may take to end.
pub const END_LIMIT: Duration = Duration::from_secs(3);

/// The processes of a rack, by number. The remaining ones are killed when this is dropped.
pub struct Processes {
    recipes: Vec<Recipe>,
    /// How many of them are nodes.
    nodes: usize,
    children: Vec<Option<Child>>,
    words: Receiver<Word>,
    sender: Sender<Word>,
}

impl Processes {
    /// The processes of the rack of `config`, which they read from `file`, but for the nodes
    /// `without`. Nothing is started yet.
    pub fn new(config: &RackConfig, file: Option<&Path>, without: &[String]) -> Self {
        let (sender, words) = mpsc::channel();
        let nodes = config
            .residents()
            .filter(|node| !without.contains(&node.name));
        let nodes = nodes.map(|node| Recipe::new(&node.name, &["node", &node.name], file));
        let mut recipes = vec![Recipe::new("switch", &["switch"], file)];
        recipes.extend(nodes);
        let nodes = recipes.len() - 1;
        if config.hosted().standby.is_some() {
            recipes.push(Recipe::new("standby", &["switch", "--standby"], file));
        }
        Self {
            children: recipes.iter().map(|_| None).collect(),
            nodes,
            recipes,
            words,
            sender,
        }
    }

    /// The numbers of all processes.
    pub fn all(&self) -> Range<usize> {
        0..self.recipes.len()
    }

    /// The numbers of the nodes.
    pub fn nodes(&self) -> Range<usize> {
        1..1 + self.nodes
    }

    /// The name of a process: `switch`, a node's or `standby`.
    pub fn name(&self, at: usize) -> &str {
        &self.recipes[at].name
    }

    /// A process that runs, as far as is known.
    pub fn child(&mut self, at: usize) -> Option<&mut Child> {
        self.children[at].as_mut()
    }

    /// Adds an argument to those that start a process.
    pub fn add_argument(&mut self, at: usize, name: &str, value: impl ToString) {
        let args = &mut self.recipes[at].args;
        args.extend([name.into(), value.to_string().into()]);
    }

    /// Adds a process that is no node, or gives one another recipe. Returns its number.
    pub fn set(&mut self, at: Option<usize>, recipe: Recipe) -> usize {
        match at {
            Some(at) => {
                self.recipes[at] = recipe;
                at
            }
            None => {
                self.recipes.push(recipe);
                self.children.push(None);
                self.recipes.len() - 1
            }
        }
    }

    /// The process id of one that runs, as far as is known.
    pub fn pid(&self, at: usize) -> Option<u32> {
        self.children[at].as_ref().map(Child::pid)
    }

    /// Starts a process and returns its id.
    ///
    /// # Errors
    /// If the system cannot start a process.
    pub fn start(&mut self, at: usize) -> Result<u32, CliError> {
        let child = Child::start(&self.recipes[at], &self.sender).map_err(|error| {
            CliError::run(format!("{} cannot be started: {error}", self.name(at)))
        })?;
        Ok(self.children[at].insert(child).pid())
    }

    /// Kills a process and waits for its end.
    pub fn kill(&mut self, at: usize) {
        self.children[at] = None;
    }

    /// The exit status and the age of a process that has ended by itself; returned once.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn take_ended(&mut self, at: usize) -> Result<Option<(ExitStatus, Duration)>, CliError> {
        let Some(child) = &mut self.children[at] else {
            return Ok(None);
        };
        let ended = child.ended().map_err(CliError::run)?;
        let ended = ended.map(|status| (status, child.age()));
        if ended.is_some() {
            self.kill(at);
        }
        Ok(ended)
    }

    /// The output of the processes within `limit`.
    pub fn hear(&self, limit: Duration) -> Vec<Word> {
        let deadline = Instant::now() + limit;
        let mut said = Vec::new();
        let left = || deadline.saturating_duration_since(Instant::now());
        while let Ok(word) = self.words.recv_timeout(left()) {
            said.push(word);
        }
        said
    }

    /// Requests processes to end, and kills those that do not within [`END_LIMIT`]. Returns the
    /// name and exit status of each that ran; no status if it was killed.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn end(
        &mut self,
        processes: impl IntoIterator<Item = usize, IntoIter: Clone>,
    ) -> Result<Vec<(String, Option<ExitStatus>)>, CliError> {
        let processes = processes.into_iter();
        for at in processes.clone() {
            if let Some(child) = &mut self.children[at] {
                child.release();
                if self.recipes[at].name == etcd::NAME {
                    child.signal(Signal::TERM);
                }
                // A stopped process would not see the request.
                child.signal(Signal::CONT);
            }
        }
        let deadline = Instant::now() + END_LIMIT;
        let mut ends = Vec::new();
        for at in processes {
            if let Some(mut child) = self.children[at].take() {
                let ended = child.wait(deadline).map_err(CliError::run)?;
                ends.push((self.name(at).to_owned(), ended));
            }
        }
        Ok(ends)
    }
}
