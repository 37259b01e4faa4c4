//! Journals: what the programs of a rack and the campaign did, and when. Each line is one event,
//! written to a file in one piece before the writer continues, so that `kill -9` loses nothing of
//! it. The clock is the system's, the same for all processes.

use rackweave_base::Instant;
use rackweave_sim::checkers::page_history::{PageStamp, Who};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

/// A process of a program, or the campaign: unique among all processes of a seed.
pub type Life = u16;

/// The life of the campaign itself.
pub const CAMPAIGN: Life = 0;

/// An event and its time in nanoseconds.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub struct Line {
    pub at: u64,
    pub event: Event,
}

/// What happened. Calls have numbers, unique in their journal.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub enum Event {
    Pages(u32, PageEvent),
    Index(u32, IndexEvent),
    Sequencer(u32, SequencerEvent),
    /// Of a connection, by its number, at the dialling end (`true`) or the listening one.
    Message(u32, bool, MessageEvent),
    /// Of a flow, by its number.
    Flow(u32, FlowEvent),
    /// Something that must never happen.
    Wrong(String),
    /// Something of this system failed.
    Failed(System, String),
    Fault(FaultEvent),
}

/// The systems under test.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum System {
    Rack,
    Pages,
    Index,
    Sequencer,
    Messages,
    Flows,
}

/// What the campaign does to processes.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultEvent {
    /// The switch's process is about to stop, or to stand still because etcd does not answer.
    SwitchStops,
    /// It is about to die; another will start.
    SwitchDies,
    /// The process of this node is about to die or to stop.
    Node(u16),
    /// A program is about to die, or to stop until it is declared dead.
    Death(Life),
    /// A program is about to be requested to end, or ends by itself. It dies if its calls do not
    /// end in time.
    Ends(Life),
    /// A program is about to stop, for less time than it takes to be declared dead.
    Pause(Life),
    /// The switch declared a program with this number dead.
    Declared(u16),
    /// The switch declared the node with this number dead.
    NodeDeclared(u16),
    /// A switch process has restored the state of an earlier one, or has left it.
    Restored,
    /// Everything is repaired: from now on nothing may fail.
    Repaired,
}

/// Events of pages.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub enum PageEvent {
    /// A page was allocated.
    Created(u64),
    Asked(u64),
    Shared(Version),
    Exclusive(Version),
    /// Refused, because its newest version is lost.
    Lost,
    Failed,
    /// The page that was got is about to be released, with or without a change of this version.
    Released(u64, Option<u64>),
    /// The directory took the change.
    Committed(u64),
    /// The directory did not take this version.
    NotTaken(u64, u64),
    FlushAsked,
    Flushed,
    /// The lost pages and their versions, as the directory has them.
    LostPages(Vec<(u64, u64)>),
    /// The loss of this version is about to be accepted; and whether it was.
    Accepts(u64, u64),
    Accepted(u64, bool),
    /// The program has a worker, of this number: it takes another one after it was declared dead.
    Worker(u16),
}

impl Event {
    /// The system and the number of a call, and whether this is its beginning: that of a request, a
    /// flush or a commit. None if it is of no call.
    pub fn call(&self) -> Option<(System, u32, bool)> {
        Some(match self {
            Self::Pages(_, PageEvent::LostPages(_)) => return None,
            Self::Pages(call, event) => {
                use PageEvent::{Asked, FlushAsked, Released};
                let begins = matches!(event, Asked(_) | FlushAsked | Released(..));
                (System::Pages, *call, begins)
            }
            Self::Index(call, event) => {
                let begins = matches!(event, IndexEvent::Asked(..) | IndexEvent::Scans(..));
                (System::Index, *call, begins)
            }
            Self::Sequencer(call, event) => {
                let begins = matches!(event, SequencerEvent::Asked(..));
                (System::Sequencer, *call, begins)
            }
            _ => return None,
        })
    }
}

/// A page as it was found: its version, and number, version and writer in its bytes.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub struct Version(pub u64, pub Option<(u64, u64, u16)>);

impl Version {
    pub fn new(version: u64, stamp: Option<PageStamp>) -> Self {
        let content = |stamp: PageStamp| (stamp.page, stamp.version, stamp.writer.node);
        Self(version, stamp.map(content))
    }

    pub fn stamp(self) -> Option<PageStamp> {
        let (page, version, node) = self.1?;
        let writer = Who { node, worker: 0 };
        Some(PageStamp {
            page,
            version,
            writer,
        })
    }
}

/// Most processes of a seed.
const LIVES_MAX: Life = 1 << 12;

/// A worker of a process, by its number.
pub const fn worker_of(life: Life, number: u16) -> Who {
    assert!(life < LIVES_MAX, "a seed has few processes");
    let node = life + number * LIVES_MAX;
    Who { node, worker: 0 }
}

/// Events of an index.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub enum IndexEvent {
    /// A key was loaded with the value of this number.
    Loaded(u64, u32),
    Asked(u64, Point),
    /// A get found the value of this number, or none.
    Found(Option<u32>),
    /// The result of another operation.
    Done(bool),
    /// It did not take effect.
    Refused,
    /// It may or may not take effect.
    Unknown,
    /// These keys are scanned, upwards or downwards.
    Scans(u64, u64, bool),
    /// The result, and whether it reached the end.
    Scanned(Vec<(u64, u32)>, bool),
    /// The endpoint at this node has started anew, without its keys: from the first to the last of
    /// these. Whether an attempt had failed before, which may have done the same.
    Restarted(u16, (u64, u64), bool),
    /// An endpoint has been replaced by its replica at this node.
    Replaced(u16),
}

/// An operation on one key, with the number of the value that it writes.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    Get,
    Insert(u32),
    Update(u32),
    Put(u32),
    Remove,
}

/// Events of sequencers.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub enum SequencerEvent {
    /// A sequencer with this number was made. One in the switch skips up to so many numbers when
    /// the switch restarts.
    Made(u32, u64),
    /// So many numbers are requested from it.
    Asked(u32, u64),
    /// The call asks again: it may not get what it has asked for before.
    Repeated,
    Got(u64, u64),
    Failed,
}

/// Events of an end of a connection.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub enum MessageEvent {
    Opened,
    /// A message of so many bytes is about to be sent.
    Sends(u64),
    /// Nothing follows.
    Finishes,
    /// A message with this number and so many bytes, all as they were sent, was received.
    Received(u32, u64),
    /// The peer sends no more.
    SawFinish,
    /// An end of a channel has ended: whether it is the sending one, and how.
    Ended(bool, Ending),
}

/// How an end of a channel ended; with the number of the reason.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub enum Ending {
    Well,
    ClosedHere(u16),
    ClosedThere(u16),
    Broken,
}

/// Events of a flow.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub enum FlowEvent {
    Made(FlowKind),
    /// A producer is about to push items to a destination: the number of the first, and how many.
    Pushes(u16, u16, (u64, u64)),
    /// A producer is about to finish.
    Finishes(u16),
    /// A consumer has taken items: producer, destination and number of each.
    Took(u16, Vec<(u16, u16, u64)>),
    /// A consumer has seen the end of its stream.
    Ended(u16),
    /// An end was aborted.
    Aborted,
    /// The controller's words for it.
    Over(Option<String>),
}

/// The shape of a flow. All programs produce and consume.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowKind {
    Shuffle,
    Balanced,
    Replicated,
}

/// The file of a process's events.
pub struct Journal {
    file: Mutex<File>,
    calls: AtomicU32,
}

impl Journal {
    /// Creates the file.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn create(path: &Path) -> io::Result<Self> {
        Ok(Self {
            file: Mutex::new(File::create(path)?),
            calls: AtomicU32::new(0),
        })
    }

    /// Writes that something is about to be done to a process, or has become known of one.
    pub fn fault(&self, fault: FaultEvent) {
        self.note(Event::Fault(fault));
    }

    /// Writes an event. A journal that cannot be written would make every verdict wrong.
    pub(super) fn note(&self, event: Event) {
        let mut file = self.file.lock().expect("no holder panics");
        // The time is taken under the lock: the events of a journal are in order.
        let at = now().as_nanos();
        let mut line = serde_json::to_vec(&Line { at, event }).expect("it has no odd keys");
        line.push(b'\n');
        file.write_all(&line).expect("the journal can be written");
    }

    /// Writes the first event of a call. Returns the call's number.
    pub(super) fn begin(&self, event: impl FnOnce(u32) -> Event) -> u32 {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        self.note(event(call));
        call
    }
}

/// Reads a journal. A last line that was cut short did not happen.
///
/// # Errors
/// If it cannot be read, or another line is damaged.
pub fn read(path: &Path) -> io::Result<Vec<Line>> {
    let text = std::fs::read(path)?;
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    let whole = lines.filter(|line| line.ends_with(b"\n"));
    whole
        .map(|line| serde_json::from_slice(line).map_err(io::Error::from))
        .collect()
}

/// The system's monotonic clock.
pub fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}
