//! The operations of one worker, several in flight at a time. Sans-IO: the owner of the session
//! steps it and drives its table. And the state shared by all workers of a run: visible versions,
//! errors, whether it continues.

use super::outcome::Latencies;
use super::prelude::*;
use rackweave_workload::ycsb::{
    Expectations, Generator, InsertCounter, InsertError, Operation, PoissonSchedule,
};
use std::sync::MutexGuard;

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

/// Number of records whose versions are remembered; if there are more, every n-th is.
const REMEMBERED_MAX: u64 = 1 << 22;

/// Number of verification errors that are kept; further ones are only counted.
const KEPT: usize = 8;

/// A read that returned something wrong.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct VerificationError {
    /// The record.
    pub key: u64,
    /// Its page in the store, if records lie in pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page: Option<u64>,
    /// What is wrong.
    pub reason: String,
}

/// State shared by all workers of a run.
#[derive(Debug)]
pub struct Run {
    /// The requested operations.
    pub load: Load,
    /// The versions that readers may see. Successive runs over the same records share it.
    pub expectations: Arc<Expectations>,
    /// The number of records.
    pub inserts: Arc<InsertCounter>,
    /// Operations that have ended.
    pub ended: AtomicU64,
    stop: AtomicBool,
    errors: AtomicU64,
    first_errors: Mutex<Vec<VerificationError>>,
    failure: Mutex<Option<RunError>>,
}

impl Run {
    /// A run over `records` records, all in version 0, which may grow to `records_max`.
    pub fn new(load: Load, records: u64, records_max: u64) -> Self {
        let expectations = Expectations::new(records_max, REMEMBERED_MAX);
        let inserts = InsertCounter::new(records, records_max);
        Self::over(load, Arc::new(expectations), Arc::new(inserts))
    }

    /// Another run over the records that this one leaves.
    pub fn again(&self, load: Load) -> Self {
        Self::over(
            load,
            Arc::clone(&self.expectations),
            Arc::clone(&self.inserts),
        )
    }

    fn over(load: Load, expectations: Arc<Expectations>, inserts: Arc<InsertCounter>) -> Self {
        Self {
            load,
            expectations,
            inserts,
            ended: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            errors: AtomicU64::new(0),
            first_errors: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    /// Makes all workers begin no new operation.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Whether no new operation is to begin.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reports the progress of the run; false if the user wants to stop.
    pub(crate) fn report(&self, progress: Progress<'_>) -> bool {
        let all = self.load.ycsb.operations.max(1);
        let ended = self.ended.load(Ordering::Relaxed);
        progress(Phase::Run, ended as f64 / all as f64)
    }

    /// Records a verification error.
    pub fn note(&self, key: u64, page: Option<u64>, reason: impl ToString) {
        self.errors.fetch_add(1, Ordering::Relaxed);
        let mut first = lock(&self.first_errors);
        if first.len() < KEPT {
            let reason = reason.to_string();
            first.push(VerificationError { key, page, reason });
        }
    }

    /// Records a verification error if there is one.
    pub(crate) fn check<E: ToString>(&self, key: u64, page: Option<u64>, checked: Result<(), E>) {
        if let Err(error) = checked {
            self.note(key, page, error);
        }
    }

    /// Ends the run, which cannot continue.
    pub fn fail(&self, error: impl Into<RunError>) {
        lock(&self.failure).get_or_insert(error.into());
        self.stop();
    }

    /// The number of verification errors, and the first of them.
    pub fn errors(&self) -> (u64, Vec<VerificationError>) {
        let first = lock(&self.first_errors).clone();
        (self.errors.load(Ordering::Relaxed), first)
    }

    /// Why the run ended early, if it did.
    pub fn failure(&self) -> Option<RunError> {
        *lock(&self.failure)
    }

    /// Verifies a record that was read: every byte, and that a reader that knew `floor` before may
    /// see this version. Returns the version if the record is intact.
    pub fn verify(&self, key: u64, page: Option<u64>, bytes: &[u8], floor: Floor) -> Option<u64> {
        let version = self.whole(key, page, bytes)?;
        self.check(key, page, self.expectations.after_read(key, version, floor));
        Some(version)
    }

    /// Verifies every byte of a record. Returns its version if the record is intact.
    pub fn whole(&self, key: u64, page: Option<u64>, bytes: &[u8]) -> Option<u64> {
        let (len, expected) = (bytes.len(), self.load.ycsb.record_size as usize);
        if len != expected {
            let reason = format!("it has {len} bytes, and {expected} were written");
            self.note(key, page, reason);
            return None;
        }
        let verified = verify_record(bytes, key).map(|view| view.version);
        verified.map_err(|error| self.note(key, page, error)).ok()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder of this lock panics")
}

#[cfg(test)]
mod tests;
