//! A run on an embedded rack: real threads, real time.

use super::crew::{Crew, Seat};
use super::error::PagesError;
use super::load;
use super::medium::Medium;
use super::options::{Nodes, PagesOptions};
use super::outcome::{Outcome, PageCounts};
use super::run::Run;
use super::session::Session;
use crate::ycsb::{Phase, Progress};
use core::sync::atomic::Ordering;
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::page_store::Statistics;
use rackweave_rack::{EmbeddedRack, RackConfig};
use rackweave_verbs::Progress as _;
use rackweave_workload::ycsb::PoissonSchedule;
use std::sync::Arc;

/// How soon an operation must be due for its worker not to rest.
const NEAR: Duration = Duration::from_micros(500);

/// What to run, and on what.
#[derive(Debug)]
pub struct Job {
    /// The rack, before there are pages in it.
    pub config: RackConfig,
    /// Its nodes.
    pub nodes: Nodes,
    /// What to do.
    pub options: PagesOptions,
    /// Whether there is a store in the medium, to be used again.
    pub reuse: bool,
    /// The number of records that such a store is to have, if that matters.
    pub records: Option<u64>,
}

/// A rack with room for what a job wants, with nothing in it yet.
///
/// # Errors
/// If the run makes no sense, or the rack cannot be built.
pub fn rack(job: &Job, medium: &Medium) -> Result<EmbeddedRack, PagesError> {
    let options = &job.options;
    options.check()?;
    let pages = medium.pages(options.page_size);
    let config = options.rack(&job.config, &job.nodes, pages)?;
    Ok(EmbeddedRack::new(&config)?)
}

/// Runs on an embedded rack of its own. The store is closed at the end, or the outcome says why
/// not.
///
/// # Errors
/// If the run makes no sense, the rack cannot be built, or the store cannot be made or opened.
pub fn run(job: &Job, medium: Medium, progress: Progress<'_>) -> Result<Outcome, PagesError> {
    let rack = rack(job, &medium)?;
    run_on(&rack, job, medium, progress)
}

/// Runs on a rack that there is, which has room for the job ([`PagesOptions::rack`]), and no page
/// directory so far: a rack has one at a time. Its configuration counts, not the job's.
///
/// # Errors
/// As for [`run`].
pub fn run_on(
    rack: &EmbeddedRack,
    job: &Job,
    medium: Medium,
    progress: Progress<'_>,
) -> Result<Outcome, PagesError> {
    let options = &job.options;
    options.check()?;
    let started = std::time::Instant::now();
    let pages = medium.pages(options.page_size);
    let backend = medium.into_backend();
    let mut crew = Crew::new(rack, &job.nodes, options, backend)?;
    let made = if job.reuse {
        let watch = &mut |fraction| progress(Phase::Open, fraction);
        load::open(&mut crew, options, job.records, watch)
    } else {
        let watch = &mut |fraction| progress(Phase::Load, fraction);
        load::load(&mut crew, options, pages, watch)
    };
    let run = Arc::new(made?);
    let mut outcome = Outcome {
        records: run.inserts.inserted(),
        store_pages: pages,
        indexed: options.indexed(pages),
        load_seconds: started.elapsed().as_secs_f64(),
        ..Outcome::default()
    };
    operate(&mut crew, &run, progress, &mut outcome)?;
    close(&mut crew, &run, &mut outcome);
    (outcome.errors, outcome.first_errors) = run.errors();
    Ok(outcome)
}

/// A worker's part of the run.
struct Part {
    session: Session,
    before: Statistics,
    after: Statistics,
    began: Instant,
    ended: Instant,
}

fn operate(
    crew: &mut Crew,
    run: &Arc<Run>,
    progress: Progress<'_>,
    outcome: &mut Outcome,
) -> Result<(), PagesError> {
    let workers = crew.seats.len() as u32;
    let operations = run.options.ycsb.operations.max(1);
    let mut interrupted = false;
    let mut look = || {
        let ended = run.ended.load(Ordering::Relaxed);
        if !progress(Phase::Run, ended as f64 / operations as f64) {
            interrupted = true;
            run.stop();
        }
    };
    let parts = crew.all(&mut look, |seat| operate_one(seat, run, workers))?;
    let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
    outcome.take(run, parts.iter().map(|part| &part.session));
    let (mut before, mut after) = (Statistics::default(), Statistics::default());
    for part in &parts {
        before += part.before;
        after += part.after;
    }
    outcome.pages = PageCounts::between(before, after);
    let began = parts.iter().map(|part| part.began).min();
    let ended = parts.iter().map(|part| part.ended).max();
    if let (Some(began), Some(ended)) = (began, ended) {
        outcome.seconds = ended.since(began).as_secs_f64();
    }
    outcome.interrupted = interrupted;
    Ok(())
}

fn operate_one(seat: &mut Seat, run: &Arc<Run>, workers: u32) -> Result<Part, PagesError> {
    let mut session = Session::new(run, seat.number, workers)?;
    let before = *seat.store.worker().statistics();
    let access = seat.access.clone();
    let clock = || access.now();
    let began = clock();
    if let Some(rate) = run.options.rate {
        let (seed, rate) = (run.options.ycsb.seed, rate / f64::from(workers));
        session.set_schedule(PoissonSchedule::new(seed, seat.number, rate, began)?);
    }
    let mut idle_rounds = 0;
    while !session.is_done() {
        let polled = seat.store.poll();
        let stepped = session.step(&clock, seat.store.worker_mut());
        while session.wants_page() {
            match seat.store.allocate() {
                Ok(page) => session.give_page(page, seat.store.worker_mut()),
                Err(error) => {
                    run.fail(error);
                    session.refuse_pages();
                }
            }
        }
        let moved = access.drive();
        if moved | stepped.happened | polled {
            idle_rounds = 0;
            continue;
        }
        let due = session.poll_timeout(clock());
        if due.is_none_or(|due| due.since(clock()) > NEAR) {
            access.relax(idle_rounds);
            idle_rounds = idle_rounds.saturating_add(1);
        }
    }
    let ended = clock();
    let after = *seat.store.worker().statistics();
    seat.store.settle()?;
    Ok(Part {
        session,
        before,
        after,
        began,
        ended,
    })
}

/// Writes everything home, and says what could not be.
fn close(crew: &mut Crew, run: &Run, outcome: &mut Outcome) {
    let mut not_flushed = None;
    let mut note = |what: String| {
        not_flushed.get_or_insert(what);
    };
    for seat in &mut crew.seats {
        if let Err(error) = seat.store.retire() {
            note(error.to_string());
        }
    }
    for seat in crew.first_of_nodes() {
        match seat.store.flush() {
            Ok(flushed) => outcome.flushed += flushed.written,
            Err(error) => note(error.to_string()),
        }
    }
    if let Some(seat) = crew.seats.first_mut()
        && let Err(error) = seat.store.close()
    {
        note(error.to_string());
    }
    for seat in crew.first_of_nodes() {
        for loss in seat.store.pool().losses() {
            let reason = format!("its change to version {} was not taken", loss.version);
            run.note(0, loss.page, reason);
        }
    }
    outcome.not_flushed = not_flushed;
}
