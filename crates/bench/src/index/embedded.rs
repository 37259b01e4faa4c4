//! A run on an embedded rack: real threads, real time.

use super::error::IndexRunError;
use super::loaded::{Job, Loaded};
use super::network;
use super::options::{Access, IndexOptions};
use super::outcome::Outcome;
use super::run::Run;
use super::session::Session;
use super::spent::{Spent, shares};
use super::way::Local;
use crate::ycsb::{Phase, Progress};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration as Time;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_endpoint::index::{ClientStatistics, EndpointId, IndexClient, ReaderStatistics};
use rackweave_rack::services::IndexService;
use rackweave_rack::{Attached, EmbeddedRack, IndexNetworkError, Node, Rack, SharedServer};
use rackweave_workload::ycsb::PoissonSchedule;
use std::sync::Arc;
use std::thread::{Builder, Scope, ScopedJoinHandle, scope};

/// How soon an operation must be due for its worker not to rest.
const NEAR: Duration = Duration::from_micros(500);

/// How often the thread that waits for workers looks after them.
const LOOK: Time = Time::from_millis(5);

/// A worker and its way to the index.
struct Worker {
    number: u32,
    node: Node,
    connection: Connection,
}

enum Connection {
    Local(Local),
    Remote(Box<Attached<IndexClient>>),
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
    job.options.check()?;
    let config = job.options.rack(&job.config, &job.nodes);
    Ok(EmbeddedRack::new(&config)?)
}

/// Runs on an embedded rack of its own.
///
/// # Errors
/// If the run makes no sense, or rack, index or records cannot be set up.
pub fn run(job: &Job, progress: Progress<'_>) -> Result<Outcome, IndexRunError> {
    let rack = rack(job)?;
    run_on(&rack, job, progress)
}

/// Runs on a rack that there is, which has room for the job ([`IndexOptions::rack`]). Its
/// configuration counts, not the job's.
///
/// # Errors
/// As for [`run`].
pub fn run_on(rack: &Rack, job: &Job, progress: Progress<'_>) -> Result<Outcome, IndexRunError> {
    let threads = job.options.threads;
    Loaded::new(rack, job, progress)?.operate(job.options.access, threads, progress)
}

impl Loaded<'_> {
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
        if access == Access::InNetwork && self.index.index().network().is_none() {
            return Err(IndexNetworkError::NotOpen.into());
        }
        let mut workers = Vec::new();
        let operated = self.workers(&run.options, &mut workers).and_then(|()| {
            let mut outcome = Outcome {
                records: run.inserts.inserted(),
                load_seconds: self.load_seconds,
                ..Outcome::default()
            };
            operate(&self.index, &run, &mut workers, &mut outcome, progress)?;
            Ok(outcome)
        });
        for worker in workers {
            if let Connection::Remote(client) = worker.connection {
                self.index.release(*client);
            }
        }
        operated
    }

    fn workers(
        &self,
        options: &IndexOptions,
        workers: &mut Vec<Worker>,
    ) -> Result<(), IndexRunError> {
        let (index, nodes) = (&self.index, &self.job.nodes);
        let mut add = |node: NodeId, connection| {
            workers.push(Worker {
                number: workers.len() as u32,
                node: index.rack().node_at(node),
                connection,
            });
        };
        if options.access == Access::Local {
            if let Some(shard) = index.index().shard(EndpointId(0)) {
                for _ in 0..options.threads {
                    let local = Local::new(shard.tree().clone());
                    add(nodes.storage, Connection::Local(local));
                }
            }
            return Ok(());
        }
        for &node in &nodes.compute {
            for _ in 0..options.threads {
                let client = index.client(node, options.client())?;
                add(node, Connection::Remote(Box::new(client)));
            }
        }
        Ok(())
    }
}

/// What each worker made of its part.
type Parts = Vec<Result<Part, IndexRunError>>;

/// Has all workers do their operations, and looks at everything afterwards.
fn operate(
    index: &IndexService,
    run: &Arc<Run>,
    workers: &mut [Worker],
    outcome: &mut Outcome,
    progress: Progress<'_>,
) -> Result<(), IndexRunError> {
    let operations = run.options.ycsb.operations.max(1);
    let mut interrupted = false;
    let mut look = || {
        let ended = run.ended.load(Ordering::Relaxed);
        if !progress(Phase::Run, ended as f64 / operations as f64) {
            interrupted = true;
            run.findings.stop();
        }
    };
    let (parts, served) = all_threads(index, run, workers, &mut look)?;
    let parts = parts.into_iter().collect::<Result<Vec<_>, _>>()?;
    outcome.interrupted = interrupted;
    let began = parts.iter().map(|part| part.began).min();
    let ended = parts.iter().map(|part| part.ended).max();
    if let (Some(began), Some(ended)) = (began, ended) {
        outcome.seconds = ended.since(began).as_secs_f64();
    }
    let local = run.options.access == Access::Local;
    let who = if local { "local" } else { "clients" };
    let spent = parts.iter().map(|part| part.spent);
    outcome.time.extend(shares(who, spent));
    outcome.time.extend(shares("servers", served.into_iter()));
    for worker in workers {
        if let Connection::Remote(client) = &worker.connection {
            let sum = outcome.client.get_or_insert(ClientStatistics::default());
            *sum += client.statistics();
            if run.options.access.is_by_read() {
                let sum = outcome.reader.get_or_insert(ReaderStatistics::default());
                *sum += client.reader_statistics();
            }
        }
    }
    if run.options.access == Access::InNetwork {
        outcome.network = network::counts(index);
    }
    outcome.take(run, parts.iter().map(|part| &part.session), index);
    Ok(())
}

/// Runs a thread for each worker and each server thread, and calls `look` now and then.
fn all_threads(
    index: &IndexService,
    run: &Arc<Run>,
    workers: &mut [Worker],
    look: &mut dyn FnMut(),
) -> Result<(Parts, Vec<Spent>), IndexRunError> {
    let (count, rack) = (workers.len() as u32, index.rack());
    let done = &AtomicBool::new(false);
    let mut servers = Vec::new();
    if run.options.access != Access::Local {
        let all = index.index();
        let all = all.servers();
        servers.extend(all.map(|(_, node, server)| (rack.node_at(node), server.clone())));
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
        for worker in workers {
            let name = format!("worker-{}", worker.number);
            let work = move || worker.work(run, count);
            start(scope, name, work, &mut working, &mut refused);
        }
        if refused.is_some() {
            run.findings.stop();
        }
        while working.iter().any(|thread| !thread.is_finished()) {
            look();
            if run.options.access == Access::InNetwork {
                index.adapt(rack.now());
            }
            if let Some(error) = index.take_network_error() {
                run.findings.stop();
                refused = Some(error.into());
            }
            std::thread::sleep(LOOK);
        }
        let parts = working.into_iter().map(join).collect();
        done.store(true, Ordering::Relaxed);
        let served = serving.into_iter().map(join).collect();
        refused.map_or(Ok((parts, served)), Err)
    })
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

impl Worker {
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
                    let client: &mut IndexClient = client;
                    let stepped = session.step(&clock, client).happened;
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
