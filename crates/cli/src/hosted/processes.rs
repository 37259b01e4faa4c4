//! The processes of a hosted rack that this one starts: the switch's, then those of the nodes.

use super::child::{Child, Recipe, Word};
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

/// The processes of a rack, by number. Those that are left are killed when this goes.
pub struct Processes {
    recipes: Vec<Recipe>,
    children: Vec<Option<Child>>,
    words: Receiver<Word>,
    sender: Sender<Word>,
}

impl Processes {
    /// Those of the rack of `config`, which they read from `file`. Nothing is started yet.
    pub fn new(config: &RackConfig, file: Option<&Path>) -> Self {
        let (sender, words) = mpsc::channel();
        let nodes = config.node.iter();
        let nodes = nodes.map(|node| Recipe::new(&node.name, &["node", &node.name], file));
        let mut recipes = vec![Recipe::new("switch", &["switch"], file)];
        recipes.extend(nodes);
        Self {
            children: recipes.iter().map(|_| None).collect(),
            recipes,
            words,
            sender,
        }
    }

    /// The numbers of all.
    pub fn all(&self) -> Range<usize> {
        0..self.recipes.len()
    }

    /// The name of one: `switch` or a node's.
    pub fn name(&self, at: usize) -> &str {
        &self.recipes[at].name
    }

    /// One that runs, as far as is known.
    pub fn child(&mut self, at: usize) -> Option<&mut Child> {
        self.children[at].as_mut()
    }

    /// The system's numbers of the nodes' processes that run.
    pub fn node_pids(&self) -> Vec<Option<u32>> {
        let nodes = self.children[1..].iter();
        nodes.map(|child| child.as_ref().map(Child::pid)).collect()
    }

    /// Starts one; its number in the system.
    ///
    /// # Errors
    /// If the system starts no process.
    pub fn start(&mut self, at: usize) -> Result<u32, CliError> {
        let child = Child::start(&self.recipes[at], &self.sender).map_err(|error| {
            CliError::run(format!("{} cannot be started: {error}", self.name(at)))
        })?;
        Ok(self.children[at].insert(child).pid())
    }

    /// Kills one and waits for its end.
    pub fn kill(&mut self, at: usize) {
        self.children[at] = None;
    }

    /// How one has ended by itself, and after which time, if it has; told once.
    ///
    /// # Errors
    /// What the system says.
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

    /// What they say within `limit`.
    pub fn hear(&self, limit: Duration) -> Vec<Word> {
        let deadline = Instant::now() + limit;
        let mut said = Vec::new();
        let left = || deadline.saturating_duration_since(Instant::now());
        while let Ok(word) = self.words.recv_timeout(left()) {
            said.push(word);
        }
        said
    }

    /// Tells some to end, and kills those that do not within [`END_LIMIT`]. Of each that ran its
    /// name and how it ended; nothing if it was killed.
    ///
    /// # Errors
    /// What the system says.
    pub fn end(
        &mut self,
        range: Range<usize>,
    ) -> Result<Vec<(String, Option<ExitStatus>)>, CliError> {
        for child in self.children[range.clone()].iter_mut().flatten() {
            child.release();
            // One that was stopped would not hear it.
            child.signal(Signal::CONT);
        }
        let deadline = Instant::now() + END_LIMIT;
        let mut ends = Vec::new();
        for at in range {
            if let Some(mut child) = self.children[at].take() {
                let ended = child.wait(deadline).map_err(CliError::run)?;
                ends.push((self.name(at).to_owned(), ended));
            }
        }
        Ok(ends)
    }
}
