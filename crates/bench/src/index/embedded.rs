//! A run on an embedded rack: real threads, real time.

use super::error::IndexRunError;
use super::network::{self, Caching};
use super::options::{Access, IndexOptions, Nodes};
use super::outcome::Outcome;
use super::run::Run;
use super::session::Session;
use super::spent::{Spent, shares};
use super::stage;
use super::way::Local;
use crate::ycsb::{Phase, Progress};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration as Time;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_endpoint::index::{ClientStatistics, EndpointId, IndexClient, ReaderStatistics};
use rackweave_rack::{
    EmbeddedRack, Index, IndexNetworkError, IndexNetworkSpec, Node, RackConfig, SharedServer,
};
use rackweave_workload::ycsb::PoissonSchedule;
use std::sync::Arc;
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

/// How soon an operation must be due for its worker not to rest.
const NEAR: Duration = Duration::from_micros(500);

/// How often the thread that waits for workers looks after them.
const LOOK: Time = Time::from_millis(5);

/// What to run, and on what.
#[derive(Debug)]
pub struct Job {
    /// The rack, before there is an index in it.
    pub config: RackConfig,
    /// Its nodes.
    pub nodes: Nodes,
    /// What to do.
    pub options: IndexOptions,
}

/// A worker and its way to the index.
struct Seat {
    number: u32,
    node: Node,
    connection: Connection,
}

enum Connection {
    Local(Local),
    Remote(Box<IndexClient>),
}

/// An index on a rack, and its records in it: what runs go over.
pub struct Loaded<'a> {
    rack: &'a EmbeddedRack,
    job: &'a Job,
    pub(super) index: Index,
    pub(super) run: Run,
    load_seconds: f64,
}

/// The workers of a run, and what they share.
struct Stage<'a> {
    seats: Vec<Seat>,
    run: Arc<Run>,
    caching: Option<Caching>,
    rack: &'a EmbeddedRack,
    index: &'a mut Index,
}

/// A worker's part of the run.
struct Part {
    session: Session,
    began: Instant,
    ended: Instant,
    spent: Spent,
}

/// A rack with room for what a job wants, with nothing in it yet.
///
/// # Errors
/// If the run makes no sense, or the rack cannot be built.
pub fn rack(job: &Job) -> Result<EmbeddedRack, IndexRunError> {
    rack_for(job, 1)
}

/// The same with room for the clients of several runs.
///
/// # Errors
/// As for [`rack`].
pub fn rack_for(job: &Job, runs: u16) -> Result<EmbeddedRack, IndexRunError> {
    job.options.check()?;
    let config = job.options.rack(&job.config, &job.nodes, runs);
    Ok(EmbeddedRack::new(&config)?)
}

/// Runs on an embedded rack of its own.
///
/// # Errors
/// If the run makes no sense, or rack, index or records cannot be set up.
pub fn run(job: &Job, progress: Progress<'_>) -> Result<Outcome, IndexRunError> {
    run_on(&rack(job)?, job, progress)
}

/// Runs on a rack that there is, which has room for the job ([`IndexOptions::rack`]). Its
/// configuration counts, not the job's.
///
/// # Errors
/// As for [`run`].
pub fn run_on(
    rack: &EmbeddedRack,
    job: &Job,
    progress: Progress<'_>,
) -> Result<Outcome, IndexRunError> {
    let threads = job.options.threads;
    Loaded::new(rack, job, 1, progress)?.operate(job.options.access, threads, progress)
}

impl<'a> Loaded<'a> {
    /// Sets an index up on a rack that has room for it, and loads the records. `runs` is how many
    /// runs may be made by clients, whose connections stay. If the job's access is in-network, the
    /// index is opened to the network, and runs of any access may be made.
    ///
    /// # Errors
    /// If the run makes no sense, or index or records cannot be set up.
    pub fn new(
        rack: &'a EmbeddedRack,
        job: &'a Job,
        runs: u16,
        progress: Progress<'_>,
    ) -> Result<Self, IndexRunError> {
        let options = &job.options;
        options.check()?;
        let started = std::time::Instant::now();
        let mut index = rack.create_index(stage::spec(job, runs)?)?;
        if options.access == Access::InNetwork {
            rack.open_index_network(&mut index, IndexNetworkSpec::default())?;
        }
        let run = Run::new(options);
        let watch = &mut |fraction| progress(Phase::Load, fraction);
        stage::load(&index, &run, watch)?;
        Ok(Self {
            rack,
            job,
            index,
            run,
            load_seconds: started.elapsed().as_secs_f64(),
        })
    }

    /// Has workers that come to the records by `access` do the job's operations, and looks at
    /// everything afterwards: runs one after another find what those before have left. `threads`
    /// are those of each compute node, or of the storage node if access is local. Counts of the
    /// endpoints are since the index was set up.
    ///
    /// # Errors
    /// If there is no room for clients, the index is not in the network and `access` is, or
    /// threads cannot be started.
    pub fn operate(
        &mut self,
        access: Access,
        threads: u16,
        progress: Progress<'_>,
    ) -> Result<Outcome, IndexRunError> {
        let run = Arc::new(self.run.again(access, threads));
        run.options.check()?;
        if access == Access::InNetwork && self.index.network().is_none() {
            return Err(IndexNetworkError::NotOpen.into());
        }
        let seats = seats(self.rack, &mut self.index, self.job, &run.options)?;
        let caching = match access {
            Access::InNetwork => {
                let now = self.rack.node_at(self.job.nodes.storage).now();
                let when = (now, network::EVERY);
                Some(Caching::begin(self.rack, &mut self.index, when)?)
            }
            _ => None,
        };
        let mut outcome = Outcome {
            records: run.inserts.inserted(),
            load_seconds: self.load_seconds,
            ..Outcome::default()
        };
        let stage = Stage {
            seats,
            run,
            caching,
            rack: self.rack,
            index: &mut self.index,
        };
        stage.operate(&mut outcome, progress)?;
        Ok(outcome)
    }
}

fn seats(
    rack: &EmbeddedRack,
    index: &mut Index,
    job: &Job,
    options: &IndexOptions,
) -> Result<Vec<Seat>, IndexRunError> {
    let mut seats = Vec::new();
    let mut sit = |node: NodeId, connection| {
        let number = seats.len() as u32;
        let node = rack.node_at(node);
        seats.push(Seat {
            number,
            node,
            connection,
        });
    };
    if options.access == Access::Local {
        if let Some(shard) = index.shard(EndpointId(0)) {
            for _ in 0..options.threads {
                let local = Local::new(shard.tree().clone());
                sit(job.nodes.storage, Connection::Local(local));
            }
        }
        return Ok(seats);
    }
    for &node in &job.nodes.compute {
        for _ in 0..options.threads {
            let client = rack.add_index_client(index, node, options.client())?;
            sit(node, Connection::Remote(Box::new(client)));
        }
    }
    // Servers learn of their clients: receive requests are there before the first request is.
    for (endpoint, spec) in index.endpoints().zip(&index.spec().endpoints) {
        for server in index.servers(endpoint) {
            let node = rack.node_at(spec.node);
            let now = node.now();
            node.with(|nic| server.poll(now, nic));
        }
    }
    Ok(seats)
}

/// What each worker made of its part.
type Parts = Vec<Result<Part, IndexRunError>>;

impl Stage<'_> {
    /// Has all workers do their operations, and looks at everything afterwards.
    fn operate(
        mut self,
        outcome: &mut Outcome,
        progress: Progress<'_>,
    ) -> Result<(), IndexRunError> {
        let run = Arc::clone(&self.run);
        let operations = run.options.ycsb.operations.max(1);
        let mut interrupted = false;
        let mut look = || {
            let ended = run.ended.load(Ordering::Relaxed);
            if !progress(Phase::Run, ended as f64 / operations as f64) {
                interrupted = true;
                run.findings.stop();
            }
        };
        let (parts, served) = self.all_threads(&mut look)?;
        let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
        outcome.interrupted = interrupted;
        let began = parts.iter().map(|part| part.began).min();
        let ended = parts.iter().map(|part| part.ended).max();
        if let (Some(began), Some(ended)) = (began, ended) {
            outcome.seconds = ended.since(began).as_secs_f64();
        }
        let local = run.options.access == Access::Local;
        let workers = if local { "local" } else { "clients" };
        let spent = parts.iter().map(|part| part.spent);
        outcome.time.extend(shares(workers, spent));
        outcome.time.extend(shares("servers", served.into_iter()));
        self.count(outcome);
        if run.options.access == Access::InNetwork {
            outcome.network = network::counts(self.rack, self.index);
        }
        let sessions = parts.iter().map(|part| &part.session);
        outcome.take(&run, sessions, self.index, self.rack.config());
        Ok(())
    }

    /// What clients have seen.
    fn count(&self, outcome: &mut Outcome) {
        for seat in &self.seats {
            if let Connection::Remote(client) = &seat.connection {
                let sum = outcome.client.get_or_insert(ClientStatistics::default());
                *sum += client.statistics();
                if self.run.options.access.is_by_read() {
                    let sum = outcome.reader.get_or_insert(ReaderStatistics::default());
                    *sum += client.reader_statistics();
                }
            }
        }
    }

    /// Runs a thread for each worker and each server thread, and calls `look` now and then.
    fn all_threads(
        &mut self,
        look: &mut dyn FnMut(),
    ) -> Result<(Parts, Vec<Spent>), IndexRunError> {
        let (run, workers) = (&self.run, self.seats.len() as u32);
        let done = &AtomicBool::new(false);
        let mut servers = Vec::new();
        if run.options.access != Access::Local {
            for (endpoint, spec) in self.index.endpoints().zip(&self.index.spec().endpoints) {
                for server in self.index.servers(endpoint) {
                    servers.push((self.rack.node_at(spec.node), server.clone()));
                }
            }
        }
        scope(|scope| {
            let mut serving = Vec::new();
            let mut working = Vec::new();
            let mut refused = None;
            for (at, (node, server)) in servers.into_iter().enumerate() {
                let work = move || serve(&node, &server, done);
                start(
                    scope,
                    format!("server-{at}"),
                    work,
                    &mut serving,
                    &mut refused,
                );
            }
            for seat in &mut self.seats {
                let name = format!("worker-{}", seat.number);
                let work = move || seat.work(run, workers);
                start(scope, name, work, &mut working, &mut refused);
            }
            if refused.is_some() {
                run.findings.stop();
            }
            while working.iter().any(|thread| !thread.is_finished()) {
                look();
                if let Some(caching) = &mut self.caching {
                    let looked = caching.look(self.rack, self.index);
                    if let Err(error) = looked {
                        run.findings.stop();
                        refused = Some(error);
                        self.caching = None;
                    }
                }
                std::thread::sleep(LOOK);
            }
            let parts = working.into_iter().map(join).collect();
            done.store(true, Ordering::Relaxed);
            let served = serving.into_iter().map(join).collect();
            refused.map_or(Ok((parts, served)), Err)
        })
    }
}

/// Starts a thread, unless one was refused before.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: String,
    work: impl FnOnce() -> T + Send + 'scope,
    threads: &mut Vec<ScopedJoinHandle<'scope, T>>,
    refused: &mut Option<IndexRunError>,
) {
    if refused.is_none() {
        match Builder::new().name(name).spawn_scoped(scope, work) {
            Ok(thread) => threads.push(thread),
            Err(error) => *refused = Some(IndexRunError::Thread(error.to_string())),
        }
    }
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().expect("a worker does not panic")
}

/// A server thread: carries out requests and packets until everybody is done.
fn serve(node: &Node, server: &SharedServer, done: &AtomicBool) -> Spent {
    let mut spent = Spent::default();
    let began = node.now();
    let mut idle_rounds = 0;
    while !done.load(Ordering::Relaxed) {
        let mut round = spent.begin(node);
        let now = node.now();
        let served = node.with(|nic| server.poll(now, nic));
        round.computed(node);
        let moved = node.drive() | served;
        spent.end(node, round, moved);
        idle_rounds = spent.rest(node, moved, idle_rounds);
    }
    spent.all = node.now().since(began).as_nanos();
    spent
}

impl Seat {
    /// A worker: does all of its operations.
    fn work(&mut self, run: &Arc<Run>, workers: u32) -> Result<Part, IndexRunError> {
        let mut session = Session::new(run, self.number, workers)?;
        let (node, connection) = (&self.node, &mut self.connection);
        let clock = || node.now();
        let began = clock();
        if let Some(rate) = run.options.rate {
            let (seed, rate) = (run.options.ycsb.seed, rate / f64::from(workers));
            session.set_schedule(PoissonSchedule::new(seed, self.number, rate, began)?);
        }
        let mut spent = Spent::default();
        let mut idle_rounds = 0;
        while !session.is_done() {
            let mut round = spent.begin(node);
            let moved = match connection {
                Connection::Local(local) => session.step(&clock, local).happened,
                Connection::Remote(client) => {
                    let stepped = session.step(&clock, &mut **client).happened;
                    round.computed(node);
                    let now = clock();
                    let came = node.with(|nic| client.advance(now, nic));
                    stepped | came | node.drive()
                }
            };
            spent.end(node, round, moved);
            idle_rounds = if moved || is_near(&session, &clock) {
                0
            } else {
                spent.rest(node, false, idle_rounds)
            };
        }
        let ended = clock();
        spent.all = ended.since(began).as_nanos();
        Ok(Part {
            session,
            began,
            ended,
            spent,
        })
    }
}

/// Whether an operation is due so soon that its worker does not rest. One who waits for a turn
/// does: who has it may need the core.
fn is_near(session: &Session, clock: &dyn Fn() -> Instant) -> bool {
    // Without a schedule nothing is ever due, and the clock is not worth a look.
    let due = session.due();
    due.is_some_and(|due| due.since(clock()) <= NEAR)
}
