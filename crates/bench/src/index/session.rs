//! The operations of one worker, several under way at a time. Sans-IO: whoever has the session
//! steps it, and sees to it that its [`Way`] gets on.

use super::run::Run;
use super::scan::Scan;
use super::way::Way;
use crate::ycsb::{Kind, Latencies, share_of};
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::btree::Direction;
use rackweave_endpoint::index::{Op, Ticket};
use rackweave_workload::ycsb::{
    Floor, Generator, InsertError, Operation, OptionsError, PoissonSchedule, Stamp, write_record,
};
use std::sync::Arc;

/// How soon to look again whether a record's turn has come.
const LOOK_AGAIN: Duration = Duration::from_micros(5);

/// What a step did: what a simulated core is charged for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stepped {
    /// Operations that were asked for, and answers that came.
    pub messages: u64,
    /// Bytes of records that were verified or written.
    pub bytes: u64,
    /// Whether anything happened.
    pub happened: bool,
}

/// The operations of one worker.
#[derive(Debug)]
pub struct Session {
    pub(super) run: Arc<Run>,
    generator: Generator,
    schedule: Option<PoissonSchedule>,
    stamp: Stamp,
    left: u64,
    /// Few, and answers mostly come in the order of questions.
    doing: Vec<Doing>,
    /// Changes whose turn has not come.
    waiting: Vec<Waiting>,
    /// Changes that have read what they write anew.
    pub(super) read: Vec<Change>,
    waits: u64,
    pub(super) latencies: Latencies,
    record: Vec<u8>,
}

/// An operation that was asked for.
#[derive(Debug)]
pub(super) struct Doing {
    ticket: Ticket,
    pub kind: Kind,
    /// When it began, or was to begin.
    pub began: Instant,
    pub stage: Stage,
}

/// How far an operation has come.
#[derive(Debug)]
pub(super) enum Stage {
    Read {
        record: u64,
        floor: Floor,
    },
    /// A read that a write follows. The turn is taken, so this is the only version to be seen.
    Fetch {
        record: u64,
        floor: Floor,
        version: u64,
    },
    /// A write that makes this version. The turn is taken.
    Write {
        record: u64,
        version: u64,
    },
    Insert {
        record: u64,
    },
    Scan(Scan),
}

impl Stage {
    /// The record, or the first of several.
    pub fn record(&self) -> u64 {
        match self {
            Self::Read { record, .. }
            | Self::Fetch { record, .. }
            | Self::Write { record, .. }
            | Self::Insert { record } => *record,
            Self::Scan(scan) => scan.there.start,
        }
    }
}

/// A change whose turn has not come.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    kind: Kind,
    began: Instant,
    record: u64,
}

/// A write to be begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub kind: Kind,
    pub began: Instant,
    pub record: u64,
    pub version: u64,
}

impl Session {
    /// The session of worker `worker` of `workers`.
    ///
    /// # Errors
    /// If the workload makes no sense.
    pub fn new(run: &Arc<Run>, worker: u32, workers: u32) -> Result<Self, OptionsError> {
        let ycsb = &run.options.ycsb;
        Ok(Self {
            generator: Generator::new(ycsb, worker)?,
            schedule: None,
            stamp: Stamp {
                writer: worker as u16,
                sequence: 0,
            },
            left: share_of(ycsb.operations, worker, workers),
            doing: Vec::with_capacity(run.options.depth().into()),
            waiting: Vec::new(),
            read: Vec::new(),
            waits: 0,
            latencies: Latencies::default(),
            record: vec![0; ycsb.record_size as usize],
            run: Arc::clone(run),
        })
    }

    /// Has operations begin when `schedule` says, and latencies be measured from then on.
    pub fn set_schedule(&mut self, schedule: PoissonSchedule) {
        self.schedule = Some(schedule);
    }

    /// Whether all has ended that is to begin.
    pub fn is_done(&self) -> bool {
        let nothing = self.doing.is_empty() && self.waiting.is_empty() && self.read.is_empty();
        nothing && (self.left == 0 || self.run.findings.is_stopped())
    }

    /// Latencies by kind.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Changes that found another one of their record under way.
    pub fn waits(&self) -> u64 {
        self.waits
    }

    /// When to step again even if no answer comes.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let soon = (!self.waiting.is_empty()).then(|| now + LOOK_AGAIN);
        soon.into_iter().chain(self.due()).min()
    }

    /// When the schedule has the next operation begin, if there is a schedule and room.
    pub fn due(&self) -> Option<Instant> {
        let stopped = self.run.findings.is_stopped();
        let due = self.schedule.as_ref().map(PoissonSchedule::due);
        due.filter(|_| self.left > 0 && self.has_room() && !stopped)
    }

    /// Gets on with everything: takes what has ended, and begins what may begin.
    pub fn step(&mut self, clock: &dyn Fn() -> Instant, way: &mut impl Way) -> Stepped {
        let mut stepped = Stepped::default();
        while let Some((ticket, result)) = way.take() {
            stepped.happened = true;
            stepped.messages += 1;
            let asked = |doing: &Doing| doing.ticket == ticket;
            let at = self.doing.iter().position(asked);
            let doing = self
                .doing
                .swap_remove(at.expect("an answer is to a question"));
            self.take(doing, result, clock, &mut stepped);
        }
        for change in core::mem::take(&mut self.read) {
            self.write(change, way, &mut stepped);
        }
        self.take_turns(way, &mut stepped);
        while self.left > 0 && self.has_room() && !self.run.findings.is_stopped() {
            let now = clock();
            let began = match &mut self.schedule {
                Some(schedule) => schedule.take(now),
                None => Some(now),
            };
            let Some(began) = began else {
                break;
            };
            if !self.begin(began, way, &mut stepped) {
                break;
            }
            stepped.happened = true;
        }
        stepped
    }

    fn has_room(&self) -> bool {
        let all = self.doing.len() + self.waiting.len() + self.read.len();
        all < usize::from(self.run.options.depth())
    }

    /// Begins an operation. False if none can begin now.
    fn begin(&mut self, began: Instant, way: &mut impl Way, stepped: &mut Stepped) -> bool {
        let operation = self.generator.next(self.run.inserts.inserted());
        let run = Arc::clone(&self.run);
        let waits = |kind, record| Waiting {
            kind,
            began,
            record,
        };
        match operation {
            Operation::Read { key: record } => {
                let floor = run.expectations.before_read(record);
                let key = run.keys.key(record);
                let stage = Stage::Read { record, floor };
                self.ask(Kind::Read, began, &Op::Get { key }, stage, way, stepped);
            }
            Operation::Update { key } => self.change(waits(Kind::Update, key), way, stepped),
            Operation::ReadModifyWrite { key } => {
                self.change(waits(Kind::ReadModifyWrite, key), way, stepped);
            }
            Operation::Scan { key, length } => {
                let op = Op::Scan {
                    low: run.keys.key(key),
                    last: match run.options.scan_parts {
                        0 | 1 => u64::MAX,
                        // Divided, it must end somewhere: with the last record that it can show.
                        _ => run.keys.key(key + u64::from(length) - 1),
                    },
                    direction: Direction::Forward,
                    limit: length,
                };
                let stage = Stage::Scan(Scan::new(&run, key, length));
                self.ask(Kind::Scan, began, &op, stage, way, stepped);
            }
            Operation::Insert => match run.inserts.begin() {
                Ok(record) => self.insert(record, began, way, stepped),
                // Others will have ended soon; the operation that was drawn is drawn again.
                Err(InsertError::TooManyUnderWay { .. }) => return false,
                Err(error) => {
                    run.findings.fail(error);
                    return false;
                }
            },
        }
        self.left -= 1;
        true
    }

    fn ask(
        &mut self,
        kind: Kind,
        began: Instant,
        op: &Op<'_>,
        stage: Stage,
        way: &mut impl Way,
        stepped: &mut Stepped,
    ) {
        stepped.messages += 1;
        match way.begin(op) {
            Ok(ticket) => self.doing.push(Doing {
                ticket,
                kind,
                began,
                stage,
            }),
            Err(error) => self.run.findings.fail(error),
        }
    }

    /// Begins a change, or lets it wait for its turn.
    fn change(&mut self, change: Waiting, way: &mut impl Way, stepped: &mut Stepped) {
        if !self.try_change(change, way, stepped) {
            self.waits += 1;
            self.waiting.push(change);
        }
    }

    fn take_turns(&mut self, way: &mut impl Way, stepped: &mut Stepped) {
        // A run that ends early has nobody wait for those whose operations failed.
        let mut waiting = core::mem::take(&mut self.waiting);
        if !self.run.findings.is_stopped() {
            waiting.retain(|&change| !self.try_change(change, way, stepped));
            self.waiting = waiting;
        }
    }

    /// Begins a change if it is its turn.
    fn try_change(&mut self, change: Waiting, way: &mut impl Way, stepped: &mut Stepped) -> bool {
        let Waiting {
            kind,
            began,
            record,
        } = change;
        let Some(version) = self.run.turns.take(record) else {
            return false;
        };
        stepped.happened = true;
        if kind == Kind::ReadModifyWrite {
            let floor = self.run.expectations.before_read(record);
            let key = self.run.keys.key(record);
            let stage = Stage::Fetch {
                record,
                floor,
                version,
            };
            self.ask(kind, began, &Op::Get { key }, stage, way, stepped);
        } else {
            let version = version + 1;
            let change = Change {
                kind,
                began,
                record,
                version,
            };
            self.write(change, way, stepped);
        }
        true
    }

    /// Writes a record whose turn is taken.
    fn write(&mut self, change: Change, way: &mut impl Way, stepped: &mut Stepped) {
        let Change {
            kind,
            began,
            record,
            version,
        } = change;
        if let Err(error) = self.run.expectations.begin_update(record) {
            self.run.note(record, error);
        }
        let bytes = self.fill(record, version, stepped);
        let key = self.run.keys.key(record);
        let op = Op::Update { key, value: &bytes };
        let stage = Stage::Write { record, version };
        self.ask(kind, began, &op, stage, way, stepped);
        self.record = bytes;
    }

    fn insert(&mut self, record: u64, began: Instant, way: &mut impl Way, stepped: &mut Stepped) {
        let bytes = self.fill(record, 0, stepped);
        let key = self.run.keys.key(record);
        let op = Op::Insert { key, value: &bytes };
        let stage = Stage::Insert { record };
        self.ask(Kind::Insert, began, &op, stage, way, stepped);
        self.record = bytes;
    }

    /// A record's bytes, in the memory for them.
    fn fill(&mut self, record: u64, version: u64, stepped: &mut Stepped) -> Vec<u8> {
        let mut bytes = core::mem::take(&mut self.record);
        if let Err(error) = write_record(&mut bytes, record, version, self.stamp) {
            self.run.note(record, error);
        }
        self.stamp.sequence += 1;
        stepped.bytes += bytes.len() as u64;
        bytes
    }
}
