//! Workers of an embedded rack: one thread each during a phase of a run, in real time.

use super::outcome::{Outcome, TimeShare};
use super::prelude::*;
use core::time::Duration as Time;
use rackweave_verbs::Progress as _;
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

/// A worker does not rest if an operation is due within this time.
const NEAR: Duration = Duration::from_micros(500);

/// How often the thread that waits for workers checks them.
const LOOK: Time = Time::from_millis(5);

/// A table driven by a thread of an embedded rack.
pub(crate) trait Driven: Table {
    /// Whether the table drives communication, whose time is then measured.
    fn carries(&self) -> bool {
        true
    }

    /// Advances pending operations. True if anything progressed.
    fn drive(&mut self, node: &Node) -> bool;

    /// Completes background work that is pending behind the operations.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

/// A worker and its access to the records.
pub(crate) struct Worker<T> {
    /// Its number among all workers.
    pub number: u32,
    pub node: Node,
    pub table: T,
}

/// A worker's part of the run.
struct Part {
    session: Session,
    began: Instant,
    ended: Instant,
    spent: Spent,
}

/// Runs `work` for every worker in its own thread, and periodically calls `look`, which returns
/// whether to continue; `stop` makes the workers end. Returns their results, in their order, and
/// whether they were stopped.
pub(crate) fn all<T: Send, R: Send>(
    workers: &mut [Worker<T>],
    look: &mut dyn FnMut() -> bool,
    stop: &dyn Fn(),
    work: impl Fn(&mut Worker<T>) -> Result<R> + Sync,
) -> Result<(Vec<R>, bool)> {
    let work = &work;
    let (results, stopped) = scope(|scope| {
        let (mut threads, mut refused, mut stopped) = (Vec::new(), None, false);
        for worker in workers {
            let name = format!("worker-{}", worker.number);
            match start(scope, name, move || work(worker)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    stop();
                    refused = Some(error);
                    break;
                }
            }
        }
        while threads.iter().any(|thread| !thread.is_finished()) {
            if !look() {
                stopped = true;
                stop();
            }
            std::thread::sleep(LOOK);
        }
        let results: Vec<_> = threads.into_iter().map(join).collect();
        refused.map_or(Ok((results, stopped)), Err)
    })?;
    Ok((results.into_iter().collect::<Result<_, _>>()?, stopped))
}

pub(crate) fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: String,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    let started = Builder::new().name(name).spawn_scoped(scope, work);
    started.map_err(|error| YcsbError::Thread(error.to_string()))
}

/// Waits for a thread that is about to end.
pub(crate) fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().expect("a worker does not panic")
}

/// Runs the operations of all workers and collects their measurements; `tend` is called
/// periodically meanwhile. `who` names these threads in the time shares.
pub(crate) fn operate<T: Driven + Send, C>(
    workers: &mut [Worker<T>],
    run: &Arc<Run>,
    who: &'static str,
    outcome: &mut Outcome<C>,
    progress: Progress<'_>,
    tend: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let (count, mut failed) = (workers.len() as u32, None);
    let mut look = || {
        failed = failed.take().or_else(|| tend().err());
        run.report(progress) && failed.is_none()
    };
    let work = |worker: &mut Worker<T>| worker.operate(run, count);
    let (parts, stopped) = all(workers, &mut look, &|| run.stop(), work)?;
    failed.map_or(Ok(()), Err)?;
    outcome.interrupted = stopped;
    let began = parts.iter().map(|part| part.began).min();
    let ended = parts.iter().map(|part| part.ended).max();
    if let (Some(began), Some(ended)) = (began, ended) {
        outcome.seconds = ended.since(began).as_secs_f64();
    }
    outcome
        .time
        .extend(shares(who, parts.iter().map(|part| part.spent)));
    outcome.measured(parts.iter().map(|part| &part.session.latencies));
    Ok(())
}

impl<T: Driven> Worker<T> {
    fn operate(&mut self, run: &Arc<Run>, workers: u32) -> Result<Part> {
        let (node, table) = (&self.node, &mut self.table);
        let clock = || node.now();
        let began = clock();
        let mut session = Session::new(run, self.number, workers, began)?;
        let mut spent = Spent::default();
        let mut idle_rounds = 0;
        while !session.is_done(table) {
            let mut round = spent.begin(node);
            let stepped = session.step(&clock, table).happened;
            if table.carries() {
                round.computed(node);
            }
            let moved = table.drive(node) | stepped;
            spent.end(node, round, moved);
            // A worker that waits for another one rests, because the other may need the core.
            // Without a schedule nothing is ever due, and the clock is not read.
            let is_near = || {
                session
                    .due(table)
                    .is_some_and(|due| due.since(clock()) <= NEAR)
            };
            idle_rounds = match moved || is_near() {
                true => 0,
                false => spent.rest(node, false, idle_rounds),
            };
        }
        let ended = clock();
        spent.all = ended.since(began).as_nanos();
        table.finish()?;
        Ok(Part {
            session,
            began,
            ended,
            spent,
        })
    }
}

/// One in this many rounds of a thread is measured, because reading the clock takes time.
const MEASURED_EVERY: u32 = 16;

/// Where a thread's time went, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spent {
    rounds: u32,
    /// Of measured rounds.
    compute: u64,
    /// Of measured rounds.
    communication: u64,
    waiting: u64,
    pub all: u64,
}

/// A round of a thread: it first computes, then communicates.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    /// Present if the round is measured.
    began: Option<Instant>,
    computed: Option<Instant>,
}

impl Round {
    /// Marks the end of computing; the rest of the round is communication.
    pub fn computed(&mut self, node: &Node) {
        if self.began.is_some() {
            self.computed = Some(node.now());
        }
    }
}

impl Spent {
    pub fn begin(&mut self, node: &Node) -> Round {
        self.rounds = self.rounds.wrapping_add(1);
        let is_measured = self.rounds.is_multiple_of(MEASURED_EVERY);
        Round {
            began: is_measured.then(|| node.now()),
            computed: None,
        }
    }

    /// Ends a round. A round without progress counts as waiting.
    pub fn end(&mut self, node: &Node, round: Round, moved: bool) {
        if let Some(began) = round.began.filter(|_| moved) {
            let now = node.now();
            let computed = round.computed.unwrap_or(now);
            self.compute += computed.since(began).as_nanos();
            self.communication += now.since(computed).as_nanos();
        }
    }

    /// Rests if nothing progressed; `idle_rounds` is the number of such rounds so far.
    pub fn rest(&mut self, node: &Node, moved: bool, idle_rounds: u32) -> u32 {
        if moved {
            return 0;
        }
        let began = node.now();
        node.relax(idle_rounds);
        self.waiting += node.now().since(began).as_nanos();
        idle_rounds.saturating_add(1)
    }
}

/// Adds up where the time of the threads went, if there are any.
pub(crate) fn shares(who: &'static str, threads: impl Iterator<Item = Spent>) -> Option<TimeShare> {
    let mut sum = Spent::default();
    let mut count = 0;
    for spent in threads {
        count += 1;
        sum.compute += spent.compute;
        sum.communication += spent.communication;
        sum.waiting += spent.waiting;
        sum.all += spent.all;
    }
    let waiting = sum.waiting as f64 / sum.all.max(1) as f64;
    let measured = sum.compute + sum.communication;
    // Local threads do not communicate and are not measured.
    let compute = match measured {
        0 => 1.0,
        _ => sum.compute as f64 / measured as f64,
    };
    (count > 0).then_some(TimeShare {
        who,
        compute: (1.0 - waiting) * compute,
        communication: (1.0 - waiting) * (1.0 - compute),
        waiting,
    })
}
