//! The operations of one worker, several in flight at a time. Sans-IO: the owner of the session
//! steps it and drives its table.

use super::outcome::Latencies;
use super::prelude::*;
use rackweave_workload::ycsb::{Generator, InsertError, Operation, PoissonSchedule};

/// Poll interval while an operation waits for another worker.
const LOOK_AGAIN: Duration = Duration::from_micros(5);

#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub kind: Kind,
    /// The record, or the first of several.
    pub key: u64,
    /// The maximum number of records.
    pub length: u32,
    /// When it began, or was due to begin.
    pub began: Instant,
}

/// What a step did: the input of a simulated core's cost model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stepped {
    /// Pages that operations got, or requests to an index and its replies.
    pub handled: u64,
    /// Bytes of records that were verified or written.
    pub bytes: u64,
    /// Whether anything happened.
    pub happened: bool,
}

impl core::ops::AddAssign for Stepped {
    fn add_assign(&mut self, other: Self) {
        self.handled += other.handled;
        self.bytes += other.bytes;
        self.happened |= other.happened;
    }
}

/// One worker's access to the records: accepts operations, several at a time, and verifies the
/// records that they read.
pub trait Table {
    /// Begins an operation. One that cannot begin is recorded in the run.
    fn begin(&mut self, run: &Run, task: Task, stepped: &mut Stepped);

    /// Advances pending operations. Those that ended successfully are passed to `ended`.
    fn advance(&mut self, run: &Run, stepped: &mut Stepped, ended: impl FnMut(Task));

    /// Does the remaining work at the end of a step.
    fn end_step(&mut self, _run: &Run) {}

    /// Number of operations in flight.
    fn under_way(&self) -> usize;

    /// Whether an operation waits for another worker.
    fn is_waiting(&self) -> bool;
}

#[derive(Debug)]
pub struct Session {
    pub run: Arc<Run>,
    pub latencies: Latencies,
    generator: Generator,
    schedule: Option<PoissonSchedule>,
    left: u64,
}

impl Session {
    /// The session of worker `worker` of `workers`, which begins now.
    ///
    /// # Errors
    /// If the workload or its rate is invalid.
    pub fn new(run: &Arc<Run>, worker: u32, workers: u32, now: Instant) -> Result<Self> {
        Ok(Self {
            generator: Generator::new(&run.load.ycsb, worker)?,
            schedule: run.load.schedule(worker, workers, now)?,
            left: run.load.share_of(worker, workers),
            latencies: Latencies::default(),
            run: Arc::clone(run),
        })
    }

    /// Whether all operations of the session have ended.
    pub fn is_done(&self, table: &impl Table) -> bool {
        table.under_way() == 0 && (self.left == 0 || self.run.is_stopped())
    }

    /// When to step again even if the table has no news.
    pub fn poll_timeout(&self, now: Instant, table: &impl Table) -> Option<Instant> {
        let soon = table.is_waiting().then(|| now + LOOK_AGAIN);
        soon.into_iter().chain(self.due(table)).min()
    }

    /// When the schedule's next operation begins, if there is a schedule and a free slot.
    pub fn due(&self, table: &impl Table) -> Option<Instant> {
        let due = self.schedule.as_ref().map(PoissonSchedule::due);
        due.filter(|_| self.may_begin(table))
    }

    /// Advances all pending operations, and begins those that may begin.
    pub fn step(&mut self, clock: &impl Fn() -> Instant, table: &mut impl Table) -> Stepped {
        let mut stepped = Stepped::default();
        let (run, latencies) = (&self.run, &mut self.latencies);
        table.advance(run, &mut stepped, |task| {
            latencies.record(task.kind, task.began, clock());
            run.ended.fetch_add(1, Ordering::Relaxed);
        });
        while self.may_begin(table) {
            let now = clock();
            let began = match &mut self.schedule {
                Some(schedule) => schedule.take(now),
                None => Some(now),
            };
            let Some(task) = began.and_then(|began| self.draw(began)) else {
                break;
            };
            self.left -= 1;
            table.begin(&self.run, task, &mut stepped);
            stepped.happened = true;
        }
        table.end_step(&self.run);
        stepped
    }

    fn may_begin(&self, table: &impl Table) -> bool {
        let depth = usize::from(self.run.load.depth);
        self.left > 0 && table.under_way() < depth && !self.run.is_stopped()
    }

    /// Draws the next operation; none if it cannot begin now.
    fn draw(&mut self, began: Instant) -> Option<Task> {
        let inserts = &self.run.inserts;
        let (kind, key, length) = match self.generator.next(inserts.inserted()) {
            Operation::Read { key } => (Kind::Read, key, 1),
            Operation::Update { key } => (Kind::Update, key, 1),
            Operation::ReadModifyWrite { key } => (Kind::ReadModifyWrite, key, 1),
            Operation::Scan { key, length } => (Kind::Scan, key, length),
            Operation::Insert => match inserts.begin() {
                Ok(key) => (Kind::Insert, key, 1),
                // Other operations will end soon; the drawn operation is then drawn again.
                Err(InsertError::TooManyUnderWay { .. }) => return None,
                Err(error) => {
                    self.run.fail(error);
                    return None;
                }
            },
        };
        Some(Task {
            kind,
            key,
            length,
            began,
        })
    }
}
