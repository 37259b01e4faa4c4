//! Events that the processes of a hosted rack report while they run: one line per event, as text or
//! as one JSON object per line (docs/JSON.md), which is also the format between children and the
//! process that started them.

use crate::globals::{Format, Globals};
use derive_more::Display;
use rackweave_rack::hosted::{NodeEvent, SwitchEvent};
use serde::{Deserialize, Serialize};
use std::io::Write;

/// The schema of every event.
const SCHEMA: &str = "rackweave/event/1";

/// One event.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
pub struct Event {
    pub schema: String,
    /// The reporting process: `switch`, a node's name, or `up`.
    pub process: String,
    #[serde(flatten)]
    pub what: What,
}

/// The kind of event, and its line as text.
#[derive(Serialize, Deserialize, Display, Clone, PartialEq, Debug)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// The switch accepts connections.
    #[display("listening at {address}")]
    Listening { address: String },
    /// The switch's process waits while another one leads, or because none can be elected.
    #[display(
        "standing by: {}",
        if_any(
            why,
            "another switch process leads",
            "no switch process can be elected: "
        )
    )]
    StandsBy { why: Option<String> },
    /// The switch's process ends, because another one leads or soon will.
    #[display("leads no longer: {why}")]
    SteppedDown { why: String },
    /// A node has joined the switch.
    #[display("{node} joined over {link}")]
    NodeJoined { node: String, link: String },
    /// A node has left; with a reason if it died.
    #[display("{node} {}", if_any(why, "left", "is lost: "))]
    NodeLeft { node: String, why: Option<String> },
    /// The stores of a node could not be connected.
    #[display("the stores of {node} are missing: {why}")]
    StoresFailed { node: String, why: String },
    /// The switch refused a connection.
    #[display("refused {why}")]
    Refused { why: String },
    /// The node waits for the switch.
    #[display("waiting for the switch: {why}")]
    Waiting { why: String },
    /// The node has joined the rack.
    #[display("joined over {link}")]
    Joined { link: String },
    /// The node has lost the switch.
    #[display("lost the switch: {why}")]
    Lost { why: String },
    /// The switch has restored the state of an earlier process; `absent` nodes have not come back.
    #[display(
        "restored the state of the earlier switch process{}",
        listed(", without ", absent)
    )]
    Restored { absent: Vec<String> },
    /// The switch does not use the state of an earlier process.
    #[display("the rack starts anew; the state of the earlier switch process is not used: {why}")]
    StateLeft { why: String },
    /// The switch cannot save the controller's state.
    #[display("the controller's state cannot be saved and will end with this process: {why}")]
    StateNotSaved { why: String },
    /// The process has ended as requested.
    #[display("ended")]
    Ended,
    /// The switch has read its keys again, and disconnected nodes whose keys were revoked.
    #[display("read the keys again{}", listed(", and cut off ", cut))]
    KeysRead { cut: Vec<String> },
    /// `up` has created keys.
    #[display("made keys in {directory} for {}", names.join(", "))]
    KeysMade {
        directory: String,
        names: Vec<String>,
    },
    /// `up` has started a process.
    #[display("started {child}, process {pid}")]
    Started { child: String, pid: u32 },
    /// A process has ended unexpectedly.
    #[display("{child} ended unexpectedly, {status}{}", if_any(error, "", ": "))]
    Died {
        child: String,
        status: String,
        error: Option<String>,
    },
    /// It will be restarted.
    #[display("{child} starts again in {after_s} s")]
    StartsAgain { child: String, after_s: f64 },
    /// All nodes have joined.
    #[display("all {nodes} nodes have joined; {usage}")]
    Ready { nodes: usize, usage: String },
    /// `up` ends all processes.
    #[display("ending all processes")]
    Ending,
    /// A process had to be killed, because it did not end when requested.
    #[display("{child} did not end in time and was killed")]
    Killed { child: String },
    /// A node serves columns.
    #[display(
        "serving {columns} columns of lineitem at {address}: {rows} rows, part {part} of {parts} at \
         scale factor {scale_factor}"
    )]
    ServingColumns {
        address: String,
        scale_factor: f64,
        part: u32,
        parts: u32,
        columns: usize,
        rows: u64,
    },
    /// It has served so many, and ends.
    #[display("served {columns} columns of {bytes} bytes over {connections} connections")]
    ServedColumns {
        connections: u64,
        columns: u64,
        bytes: u64,
    },
    /// A process's error.
    #[display("error: {text}")]
    Error { text: String },
}

impl From<SwitchEvent> for What {
    fn from(event: SwitchEvent) -> Self {
        match event {
            SwitchEvent::Joined { node, link } => What::NodeJoined {
                node,
                link: link.name().into(),
            },
            SwitchEvent::Left { node, why } => What::NodeLeft { node, why },
            SwitchEvent::StoresFailed { node, why } => What::StoresFailed { node, why },
            SwitchEvent::Restored { absent } => What::Restored { absent },
            SwitchEvent::SteppedDown { why } => What::SteppedDown { why },
            SwitchEvent::StateLeft { why } => What::StateLeft { why },
            SwitchEvent::StateNotSaved { why } => What::StateNotSaved { why },
            SwitchEvent::Refused { why } => What::Refused { why },
        }
    }
}

impl From<NodeEvent> for What {
    fn from(event: NodeEvent) -> Self {
        match event {
            NodeEvent::Waiting { why } => What::Waiting { why },
            NodeEvent::Joined { link } => What::Joined {
                link: link.name().into(),
            },
            NodeEvent::Lost { why } => What::Lost { why },
        }
    }
}

/// What is said if there is no reason, or the reason after `before`.
fn if_any(why: &Option<String>, without: &str, before: &str) -> String {
    why.as_ref()
        .map_or(without.to_owned(), |why| format!("{before}{why}"))
}

/// Names after `before`; nothing if there are none.
fn listed(before: &str, names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!("{before}{}", names.join(", ")),
    }
}

/// Writes events to standard output. A closed output is not an error.
#[derive(Clone, Debug)]
pub struct Speaker {
    process: String,
    format: Format,
    /// Width of a name before each line; none for a process that reports only its own events.
    prefix: Option<usize>,
}

impl Speaker {
    /// A speaker for a process that reports only its own events.
    pub fn new(globals: &Globals, process: &str) -> Self {
        Self {
            process: process.into(),
            format: globals.args.format,
            prefix: None,
        }
    }

    /// Puts names of up to `width` columns before each line.
    pub fn with_names(self, width: usize) -> Self {
        Self {
            prefix: Some(width),
            ..self
        }
    }

    /// Reports an event of this process.
    pub fn say(&self, what: impl Into<What>) {
        self.pass(&Event {
            schema: SCHEMA.into(),
            process: self.process.clone(),
            what: what.into(),
        });
    }

    /// Forwards an event of another process.
    pub fn pass(&self, event: &Event) {
        // Keeps text of peers and libraries on one line.
        let text = event.what.to_string().replace(['\n', '\r'], " ");
        let line = match (self.format, self.prefix) {
            (Format::Json, _) => serde_json::to_string(event).expect("an event has a JSON form"),
            (_, Some(width)) => format!("{:<width$} | {text}", event.process),
            (_, None) => text,
        };
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
    }

    /// Forwards a line that a process wrote to its standard error.
    pub fn pass_error(&self, process: &str, line: &str) {
        self.pass(&Event {
            schema: SCHEMA.into(),
            process: process.into(),
            what: What::Error {
                text: line.strip_prefix("error: ").unwrap_or(line).into(),
            },
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_and_comes_back() {
        let event = Event {
            schema: SCHEMA.into(),
            process: "switch".into(),
            what: What::NodeLeft {
                node: "storage0".into(),
                why: Some("two\nlines".into()),
            },
        };
        let line = serde_json::to_string(&event).unwrap();
        assert!(!line.contains('\n'), "{line}");
        assert!(line.contains("\"event\":\"node_left\""), "{line}");
        assert_eq!(serde_json::from_str::<Event>(&line).unwrap(), event);
    }
}
