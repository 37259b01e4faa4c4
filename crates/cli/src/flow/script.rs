//! A script of timed actions: TOML or JSON, by the file's extension. Unknown keys are errors, and
//! each action has exactly the keys that it needs (`keys`); `check` validates nodes and flows.

use super::keys::Raw;
use crate::measure::Amount;
use crate::outcome::CliError;
use rackweave_controller::{FlowShape, LossPolicy};
use rackweave_rack::config::nearest::hint;
use serde::Deserialize;
use std::fmt;
use std::path::Path;

/// Actions, in the order of time.
#[derive(Debug)]
pub struct Script {
    pub name: String,
    /// In the order of time.
    pub actions: Vec<Action>,
}

/// An action at a time.
#[derive(Debug)]
pub struct Action {
    /// Its position in the file.
    pub place: ScriptLine,
    /// Nanoseconds since the start.
    pub at: u64,
    /// The flow that it applies to; none: all flows.
    pub flow: Option<String>,
    /// Whether it is expected to be refused.
    pub expect_error: bool,
    pub what: What,
}

/// The position of an action in the file.
#[derive(Clone, Copy, Debug)]
pub struct ScriptLine {
    /// Counted from one.
    pub number: usize,
    /// The line of a TOML file at which it begins.
    pub line: Option<usize>,
}

/// What an action does.
#[derive(Debug)]
pub enum What {
    /// A flow is set up and its producers begin.
    Create(Box<Create>),
    /// The flow's weight changes, or is removed.
    Weight(Option<u32>),
    /// A consumer joins.
    AddConsumer(Consumer),
    /// A consumer leaves.
    RemoveConsumer(Leaver),
    /// A producer joins.
    AddProducer(Producer),
    /// The flow is aborted.
    Close,
    /// The current state goes into the report.
    Report,
}

impl Action {
    /// The word for it in scripts.
    pub fn word(&self) -> &'static str {
        match self.what {
            What::Create(_) => "create",
            What::Weight(_) => "weight",
            What::AddConsumer(_) => "add-consumer",
            What::RemoveConsumer(_) => "remove-consumer",
            What::AddProducer(_) => "add-producer",
            What::Close => "close",
            What::Report => "report",
        }
    }

    /// Every node name in it.
    fn nodes_mut(&mut self) -> Vec<&mut String> {
        match &mut self.what {
            What::Create(create) => {
                let consumers = create.consumers.iter_mut();
                create.producers.iter_mut().chain(consumers).collect()
            }
            What::AddConsumer(joiner) => vec![&mut joiner.node],
            What::AddProducer(joiner) => vec![&mut joiner.node],
            What::RemoveConsumer(Leaver::Node(node)) => vec![node],
            What::RemoveConsumer(Leaver::Index(_)) | What::Weight(_) => Vec::new(),
            What::Close | What::Report => Vec::new(),
        }
    }

    /// The number of producers that it adds.
    pub fn sources(&self) -> usize {
        match &self.what {
            What::Create(create) => create.producers.len(),
            What::AddProducer(_) => 1,
            _ => 0,
        }
    }
}

impl fmt::Display for Create {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of items of {} bytes from {} to {}",
            self.shape.name(),
            self.item_bytes,
            self.producers.join(", "),
            self.consumers.join(", ")
        )?;
        match self.weight {
            Some(weight) => write!(f, ", weight {weight}"),
            None => Ok(()),
        }
    }
}

/// A flow to set up. Nodes are names.
#[derive(Debug)]
pub struct Create {
    pub shape: FlowShape,
    pub producers: Vec<String>,
    pub consumers: Vec<String>,
    pub item_bytes: u32,
    pub ring_bytes: u32,
    pub weight: Option<u32>,
    pub on_loss: LossPolicy,
    pub doorbells: bool,
    pub poll_interval_us: Option<u64>,
    pub batch_bytes: Option<u32>,
    /// Items of each producer, in a shuffle for each consumer; or how long it pushes.
    pub amount: Amount,
    /// Maximum bytes per second of each producer.
    pub producer_rate: Option<f64>,
    /// Maximum bytes per second of each consumer.
    pub consumer_rates: Vec<Option<f64>>,
}

/// A consumer that joins.
#[derive(Debug)]
pub struct Consumer {
    pub node: String,
    /// Maximum bytes per second.
    pub rate: Option<f64>,
}

/// A producer that joins.
#[derive(Debug)]
pub struct Producer {
    pub node: String,
    pub amount: Amount,
    /// Maximum bytes per second.
    pub rate: Option<f64>,
}

/// The consumer that leaves.
#[derive(Debug)]
pub enum Leaver {
    /// By its number in the flow.
    Index(usize),
    /// The first remaining one on a node.
    Node(String),
}

/// An error in the script called `name`, at a line or in an action, if they are known.
fn error_at(
    name: &str,
    (line, action): (Option<usize>, Option<usize>),
    problem: impl fmt::Display,
) -> CliError {
    let line = line.map_or_else(String::new, |line| format!(":{line}"));
    let action = action.map_or_else(String::new, |action| format!(": action {action}"));
    CliError::usage(format!("{name}{line}{action}: {problem}"))
}

impl Script {
    /// Reads a file.
    ///
    /// # Errors
    /// If it cannot be read, or is not a script.
    pub fn read(path: &Path) -> Result<Self, CliError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| CliError::usage(format!("{name}: {error}; check the path")))?;
        let is_json = path.extension().is_some_and(|ending| ending == "json");
        Self::parse(&text, &name, is_json)
    }

    /// Parses text; `name` is its name in messages.
    ///
    /// # Errors
    /// The first error.
    fn parse(text: &str, name: &str, is_json: bool) -> Result<Self, CliError> {
        let raw = match is_json {
            true => from_json(text, name)?,
            false => from_toml(text, name)?,
        };
        let mut script = Self {
            name: name.to_owned(),
            actions: Vec::new(),
        };
        for (number, (line, raw)) in (1..).zip(raw) {
            let place = ScriptLine { number, line };
            let action = raw.understand(place);
            let action = action.map_err(|problem| script.error(place, problem))?;
            script.actions.push(action);
        }
        if script.actions.is_empty() {
            let problem = "there is no action; `rackweave flow --example` prints a script";
            return Err(error_at(name, (None, None), problem));
        }
        Ok(script)
    }

    /// Every node name in it, as often as it occurs, in the order of actions.
    pub fn nodes_mut(&mut self) -> impl Iterator<Item = &mut String> {
        self.actions.iter_mut().flat_map(Action::nodes_mut)
    }

    /// An error in the action at `place`.
    pub fn error(&self, place: ScriptLine, problem: impl fmt::Display) -> CliError {
        error_at(&self.name, (place.line, Some(place.number)), problem)
    }
}

type Raws = Vec<(Option<usize>, Raw)>;

fn from_toml(text: &str, name: &str) -> Result<Raws, CliError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[serde(default)]
        action: Vec<toml::Spanned<Raw>>,
    }
    let line_of = |at: usize| text[..at.min(text.len())].matches('\n').count() + 1;
    let file: File = toml::from_str(text).map_err(|error| {
        let line = line_of(error.span().map_or(0, |span| span.start));
        error_at(name, (Some(line), None), explained(error.message()))
    })?;
    let raw = file.action.into_iter();
    Ok(raw
        .map(|raw| (Some(line_of(raw.span().start)), raw.into_inner()))
        .collect())
}

fn from_json(text: &str, name: &str) -> Result<Raws, CliError> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        action: Vec<Raw>,
    }
    let parsed = match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text),
        false => serde_json::from_str(text).map(|file: File| file.action),
    };
    let actions: Vec<Raw> = parsed.map_err(|error: serde_json::Error| {
        let message = error.to_string();
        // The line number is already at the front.
        let message = message.split(" at line ").next().unwrap_or_default();
        error_at(name, (Some(error.line()), None), explained(message))
    })?;
    Ok(actions.into_iter().map(|raw| (None, raw)).collect())
}

/// Turns "unknown field `x`, expected one of `a`, `b`" into a suggestion of the nearest name.
fn explained(message: &str) -> String {
    let unknown = message
        .strip_prefix("unknown field `")
        .and_then(|rest| rest.split_once('`'));
    match unknown {
        Some((unknown, rest)) => {
            let known: Vec<&str> = rest.split('`').skip(1).step_by(2).collect();
            format!("unknown key `{unknown}`; {}", hint(unknown, &known, "keys"))
        }
        None => message.to_owned(),
    }
}
