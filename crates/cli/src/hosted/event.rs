//! Events that the processes of a hosted rack report while they run: one line per event, as text or
//! as one JSON object per line (docs/JSON.md), which is also the format between children and the
//! process that started them.

use crate::globals::Format;
use crate::globals::Globals;
use rackweave_rack::hosted::{NodeEvent, SwitchEvent};
use serde::{Deserialize, Serialize};
use std::fmt;
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

/// The kind of event.
#[derive(Serialize, Deserialize, Clone, PartialEq, Debug)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum What {
    /// The switch accepts connections.
    Listening { address: String },
    /// The switch's process waits while another one leads, or because none can be elected.
    StandsBy { why: Option<String> },
    /// The switch's process ends, because another one leads or soon will.
    SteppedDown { why: String },
    /// A node has joined the switch.
    NodeJoined { node: String, link: String },
    /// A node has left; with a reason if it died.
    NodeLeft { node: String, why: Option<String> },
    /// The stores of a node could not be connected.
    StoresFailed { node: String, why: String },
    /// The switch refused a connection.
    Refused { why: String },
    /// The node waits for the switch.
    Waiting { why: String },
    /// The node has joined the rack.
    Joined { link: String },
    /// The node has lost the switch.
    Lost { why: String },
    /// The switch has restored the state of an earlier process; `absent` nodes have not come back.
    Restored { absent: Vec<String> },
    /// The switch does not use the state of an earlier process.
    StateLeft { why: String },
    /// The switch cannot save the controller's state.
    StateNotSaved { why: String },
    /// The process has ended as requested.
    Ended,
    /// The switch has read its keys again, and disconnected nodes whose keys were revoked.
    KeysRead { cut: Vec<String> },
    /// `up` has created keys.
    KeysMade {
        directory: String,
        names: Vec<String>,
    },
    /// `up` has started a process.
    Started { child: String, pid: u32 },
    /// A process has ended unexpectedly.
    Died {
        child: String,
        status: String,
        error: Option<String>,
    },
    /// It will be restarted.
    StartsAgain { child: String, after_s: f64 },
    /// All nodes have joined.
    Ready { nodes: usize, usage: String },
    /// `up` ends all processes.
    Ending,
    /// A process had to be killed, because it did not end when requested.
    Killed { child: String },
    /// A node serves columns.
    ServingColumns {
        address: String,
        scale_factor: f64,
        part: u32,
        parts: u32,
        columns: usize,
        rows: u64,
    },
    /// It has served so many, and ends.
    ServedColumns {
        connections: u64,
        columns: u64,
        bytes: u64,
    },
    /// A process's error.
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

impl What {
    /// An event of the controller's state, or of its election, in words; empty for any other.
    fn of_state(&self) -> String {
        match self {
            What::StandsBy { why: None } => "standing by: another switch process leads".to_owned(),
            What::StandsBy { why: Some(why) } => {
                format!("standing by: no switch process can be elected: {why}")
            }
            What::SteppedDown { why } => format!("leads no longer: {why}"),
            What::Restored { absent } => {
                let text = "restored the state of the earlier switch process";
                match absent.is_empty() {
                    true => text.to_owned(),
                    false => format!("{text}, without {}", absent.join(", ")),
                }
            }
            What::StateLeft { why } => format!(
                "the rack starts anew; the state of the earlier switch process is not used: {why}"
            ),
            What::StateNotSaved { why } => {
                format!(
                    "the controller's state cannot be saved and will end with this process: {why}"
                )
            }
            _ => String::new(),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Listening { address } => write!(f, "listening at {address}"),
            What::NodeJoined { node, link } => write!(f, "{node} joined over {link}"),
            What::NodeLeft { node, why: None } => write!(f, "{node} left"),
            What::NodeLeft {
                node,
                why: Some(why),
            } => write!(f, "{node} is lost: {why}"),
            What::StoresFailed { node, why } => {
                write!(f, "the stores of {node} are missing: {why}")
            }
            What::StandsBy { .. }
            | What::SteppedDown { .. }
            | What::Restored { .. }
            | What::StateLeft { .. }
            | What::StateNotSaved { .. } => f.write_str(&self.of_state()),
            What::Refused { why } => write!(f, "refused {why}"),
            What::Waiting { why } => write!(f, "waiting for the switch: {why}"),
            What::Joined { link } => write!(f, "joined over {link}"),
            What::Lost { why } => write!(f, "lost the switch: {why}"),
            What::Ended => f.write_str("ended"),
            What::KeysRead { cut } if cut.is_empty() => f.write_str("read the keys again"),
            What::KeysRead { cut } => {
                write!(f, "read the keys again, and cut off {}", cut.join(", "))
            }
            What::KeysMade { directory, names } => {
                write!(f, "made keys in {directory} for {}", names.join(", "))
            }
            What::Started { child, pid } => write!(f, "started {child}, process {pid}"),
            What::Died {
                child,
                status,
                error: None,
            } => write!(f, "{child} ended unexpectedly, {status}"),
            What::Died {
                child,
                status,
                error: Some(error),
            } => write!(f, "{child} ended unexpectedly, {status}: {error}"),
            What::StartsAgain { child, after_s } => {
                write!(f, "{child} starts again in {after_s} s")
            }
            What::Ready { nodes, usage } => {
                write!(f, "all {nodes} nodes have joined; {usage}")
            }
            What::Ending => f.write_str("ending all processes"),
            What::Killed { child } => write!(f, "{child} did not end in time and was killed"),
            What::ServingColumns {
                address,
                scale_factor,
                part,
                parts,
                columns,
                rows,
            } => write!(
                f,
                "serving {columns} columns of lineitem at {address}: {rows} rows, part {part} of \
                 {parts} at scale factor {scale_factor}"
            ),
            What::ServedColumns {
                connections,
                columns,
                bytes,
            } => write!(
                f,
                "served {columns} columns of {bytes} bytes over {connections} connections"
            ),
            What::Error { text } => write!(f, "error: {text}"),
        }
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
