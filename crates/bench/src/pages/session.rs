//! The operations of one worker, several under way at a time. Sans-IO: whoever has the worker polls
//! it, and steps the session.
//!
//! An operation holds at most one page at a time, and only within one call, so no two operations
//! wait for each other in a circle. One that changes a record has ended when it has dropped the
//! page's guard: the latch is on its way back, and until it is there nobody sees an older version.

use super::run::Run;
use super::stage::{Doing, Stage};
use crate::ycsb::{Kind, Latencies, share_of};
use core::sync::atomic::Ordering;
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::page_store::directory::Directory;
use rackweave_endpoint::page_store::{Mode, Worker};
use rackweave_wire::fabric::page::PageId;
use rackweave_workload::ycsb::{
    Generator, InsertError, Operation, OptionsError, PoissonSchedule, Stamp,
};
use std::sync::Arc;

/// How soon to look again for what another worker's insert does.
const LOOK_AGAIN: Duration = Duration::from_micros(5);

/// What a step did: what a simulated core is charged for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stepped {
    /// Operations that began, and pages that operations got.
    pub pages: u64,
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
    pub(super) stamp: Stamp,
    left: u64,
    doing: Vec<Doing>,
    latencies: Latencies,
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
            doing: Vec::with_capacity(run.options.depth.into()),
            latencies: Latencies::default(),
            run: Arc::clone(run),
        })
    }

    /// Has operations begin when `schedule` says, and latencies be measured from then on.
    pub fn set_schedule(&mut self, schedule: PoissonSchedule) {
        self.schedule = Some(schedule);
    }

    /// Whether all has ended that is to begin.
    pub fn is_done(&self) -> bool {
        self.doing.is_empty() && (self.left == 0 || self.run.is_stopped())
    }

    /// Latencies by [`Kind`].
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Whether an insert waits for a page of its own: [`Self::give_page`].
    pub fn wants_page(&self) -> bool {
        let wants = |doing: &Doing| matches!(doing.stage, Stage::Wanting { .. });
        self.doing.iter().any(wants)
    }

    /// A page of the store that nobody uses.
    pub fn give_page<D: Directory>(&mut self, page: PageId, worker: &mut Worker<D>) {
        let wanting = |doing: &&mut Doing| matches!(doing.stage, Stage::Wanting { .. });
        if let Some(doing) = self.doing.iter_mut().find(wanting)
            && let Stage::Wanting { key } = doing.stage
        {
            let fix = worker.fix_in_turn(page, Mode::Exclusive);
            doing.stage = Stage::Insert {
                key,
                page,
                fresh: true,
                fix,
            };
        }
    }

    /// No page is to be had: the run has failed.
    pub fn refuse_pages(&mut self) {
        self.doing
            .retain(|doing| !matches!(doing.stage, Stage::Wanting { .. }));
    }

    /// When to step again even if the worker has nothing new.
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        let waits = |doing: &Doing| matches!(doing.stage, Stage::Waiting { .. });
        let soon = self.doing.iter().any(waits).then_some(now + LOOK_AGAIN);
        let may_begin = self.left > 0 && self.has_room() && !self.run.is_stopped();
        let due = self.schedule.as_ref().map(PoissonSchedule::due);
        soon.into_iter().chain(due.filter(|_| may_begin)).min()
    }

    /// Gets on with everything: takes what the worker has fixed, and begins new operations.
    pub fn step<D: Directory>(
        &mut self,
        clock: &dyn Fn() -> Instant,
        worker: &mut Worker<D>,
    ) -> Stepped {
        let mut stepped = Stepped::default();
        let mut doing = core::mem::take(&mut self.doing);
        doing.retain_mut(|one| {
            let goes_on = self.advance(one, worker, &mut stepped);
            if !goes_on {
                self.end(one, clock());
            }
            goes_on
        });
        self.doing = doing;
        while self.left > 0 && self.has_room() && !self.run.is_stopped() {
            let now = clock();
            let Some(began) = self.may_begin(now) else {
                break;
            };
            if !self.begin(began, worker) {
                break;
            }
            stepped.happened = true;
        }
        stepped
    }

    fn has_room(&self) -> bool {
        self.doing.len() < usize::from(self.run.options.depth)
    }

    fn may_begin(&mut self, now: Instant) -> Option<Instant> {
        match &mut self.schedule {
            Some(schedule) => schedule.take(now),
            None => Some(now),
        }
    }

    fn begin<D: Directory>(&mut self, began: Instant, worker: &mut Worker<D>) -> bool {
        let operation = self.generator.next(self.run.inserts.inserted());
        let (kind, stage) = match operation {
            Operation::Read { key } => (Kind::Read, self.read(key, worker)),
            Operation::Update { key } => (Kind::Update, self.change(key, worker)),
            Operation::ReadModifyWrite { key } => (Kind::ReadModifyWrite, self.change(key, worker)),
            Operation::Scan { key, length } => {
                let end = (key + u64::from(length)).min(self.run.inserts.inserted());
                (Kind::Scan, self.scan(key, end, Vec::new(), worker))
            }
            Operation::Insert => match self.run.inserts.begin() {
                Ok(key) => (Kind::Insert, Some(Stage::Waiting { key })),
                // Others will have ended soon; the operation that was drawn is drawn again.
                Err(InsertError::TooManyUnderWay { .. }) => return false,
                Err(error) => {
                    self.run.fail(error);
                    return false;
                }
            },
        };
        self.left -= 1;
        if let Some(stage) = stage {
            self.doing.push(Doing { kind, began, stage });
        }
        true
    }

    fn end(&mut self, doing: &Doing, now: Instant) {
        if !matches!(doing.stage, Stage::Failed) {
            self.latencies.record(doing.kind, doing.began, now);
            self.run.ended.fetch_add(1, Ordering::Relaxed);
        }
    }
}
