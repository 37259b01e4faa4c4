//! A run on a simulated rack: workers and server threads are actors, time is virtual.
//!
//! Hosts are the modelled Xeons, a second endpoint is a modelled BlueField-2. What trees cost comes
//! from `rackweave_sim::TreeCost` and the number of records at the start. Records are loaded before
//! time begins.

use super::error::IndexRunError;
use super::loaded::{Job, Loaded};
use super::network;
use super::options::Access;
use super::outcome::{Outcome, TimeShare};
use super::price::{Price, core, loaded, request, work};
use super::run::Run;
use super::session::Session;
use super::way::Local;
use crate::experiment::bluefield::Core;
use crate::experiment::bluefield::tree::ENTRY_BYTES;
use crate::experiment::seamless_4::metered::Metered;
use crate::experiment::work::Priced;
use crate::ycsb::{Phase, Progress, Simulation};
use core::sync::atomic::Ordering;
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_endpoint::index::{ClientStatistics, EndpointId, IndexClient, ReaderStatistics};
use rackweave_rack::services::IndexService;
use rackweave_rack::{Attached, RunEnd, SharedServer, SimulatedRack};
use rackweave_sim::testbed::Server;
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_sim::{Category, CpuReport};
use rackweave_workload::ycsb::PoissonSchedule;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// Virtual time between two looks at the user.
const SLICE: Duration = Duration::from_millis(1);

/// Virtual time in which no operation ends, after which the run has failed: more than a client
/// waits for whoever does not answer.
const PATIENCE: Duration = Duration::from_secs(6);

/// The shortest time.
const SOON: Duration = Duration::from_nanos(1);

/// Runs on a simulated rack.
///
/// # Errors
/// As for [`super::embedded::run`].
pub fn run(job: &Job, progress: Progress<'_>) -> Result<Outcome, IndexRunError> {
    let options = &job.options;
    options.check()?;
    let started = std::time::Instant::now();
    let mut rack = SimulatedRack::new(&options.rack(&job.config, &job.nodes))?;
    let Loaded { index, run, .. } = Loaded::new(&rack, job, progress)?;
    let run = Arc::new(run);
    let common = Rc::new(Common::default());
    let began = rack.now();
    spawn(&mut rack, &index, &run, job, &common)?;
    let mut outcome = Outcome {
        records: options.ycsb.records,
        load_seconds: started.elapsed().as_secs_f64(),
        ..Outcome::default()
    };
    let started = std::time::Instant::now();
    drive(&mut rack, &index, &run, progress, &mut outcome)?;
    outcome.seconds = common.last_end.get().since(began).as_secs_f64();
    outcome.simulation = Some(Simulation {
        real_seconds: started.elapsed().as_secs_f64(),
        events: rack.events(),
        trace_hash: format!("{:016x}", rack.trace_hash()),
    });
    let is_remote = options.access != Access::Local;
    outcome.client = is_remote.then(|| *common.client.borrow());
    outcome.network = network::counts(&index);
    outcome.reader = options.access.is_by_read().then(|| *common.reader.borrow());
    time(&rack, job, &mut outcome);
    let sessions = common.sessions.borrow();
    outcome.take(&run, sessions.iter(), &index);
    Ok(outcome)
}

/// What all actors share.
#[derive(Default)]
struct Common {
    last_end: Cell<Instant>,
    sessions: RefCell<Vec<Session>>,
    client: RefCell<ClientStatistics>,
    reader: RefCell<ReaderStatistics>,
}

impl Common {
    fn end(&self, session: Session, now: Instant) {
        self.last_end.set(self.last_end.get().max(now));
        self.sessions.borrow_mut().push(session);
    }
}

/// A server thread.
struct ServerActor {
    server: SharedServer,
    price: Price,
}

impl Actor for ServerActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let (now, core) = (context.now(), core(self.price.server, context.cpu()));
        let mut thread = self.server.lock();
        let Some(thread) = thread.as_mut() else {
            return Step::Done;
        };
        let mut verbs = Metered::new(context.nic(), core.cpu);
        let price = |_, method, asked: &[u8], answered| {
            request(&self.price, &core, method, asked.len() as u64 + answered)
        };
        let mut service = Priced::new(&mut thread.service, price);
        thread.rpc.poll(now, &mut verbs, &mut service);
        let (communication, compute) = (verbs.spent(), service.spent);
        context.charge(Category::Communication, communication);
        context.charge(Category::Compute, compute);
        match communication + compute > Duration::ZERO {
            true => Step::Compute(SOON),
            false => Step::WaitForPacket,
        }
    }
}

/// A thread of a compute node.
struct ClientActor {
    client: Attached<IndexClient>,
    session: Option<Session>,
    /// READs of tree nodes that were paid for.
    node_reads: u64,
    node_bytes: u64,
    common: Rc<Common>,
}

impl Actor for ClientActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let Some(mut session) = self.session.take() else {
            return Step::Done;
        };
        let (now, core) = (context.now(), core(Server::Compute, context.cpu()));
        let mut verbs = Metered::new(context.nic(), core.cpu);
        self.client.advance(now, &mut verbs);
        let stepped = session.step(&|| now, &mut *self.client);
        if stepped.happened {
            self.client.advance(now, &mut verbs);
        }
        let communication = verbs.spent();
        let compute = work(&core, stepped) + self.walked(&core);
        context.charge(Category::Communication, communication);
        context.charge(Category::Compute, compute);
        if session.is_done() {
            *self.common.client.borrow_mut() += self.client.statistics();
            *self.common.reader.borrow_mut() += self.client.reader_statistics();
            self.common.end(session, now);
            return Step::Done;
        }
        let due = session.poll_timeout(now);
        self.session = Some(session);
        if communication + compute > Duration::ZERO {
            return Step::Compute(SOON);
        }
        wait(now, due.into_iter().chain(self.client.poll_timeout()).min())
    }
}

impl ClientActor {
    /// What verifying and searching the tree nodes has cost that READs have brought.
    fn walked(&mut self, core: &Core) -> Duration {
        let counts = self.client.reader_statistics();
        let node_reads = counts.node_reads + counts.network_queries;
        let more = node_reads - core::mem::replace(&mut self.node_reads, node_reads);
        let entries = self.node_bytes / ENTRY_BYTES;
        (core.verified(self.node_bytes) + core.searched(entries)) * more
    }
}

fn wait(now: Instant, due: Option<Instant>) -> Step {
    match due {
        Some(due) => Step::WaitUntil(due.max(now + SOON)),
        None => Step::WaitForPacket,
    }
}

/// A thread of the storage node. An operation ends when its time has passed, which is its next
/// step.
struct LocalActor {
    local: Local,
    session: Option<Session>,
    price: Price,
    common: Rc<Common>,
}

impl Actor for LocalActor {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let Some(mut session) = self.session.take() else {
            return Step::Done;
        };
        let (now, core) = (context.now(), core(self.price.server, context.cpu()));
        let stepped = session.step(&|| now, &mut self.local);
        let (used, tree) = (self.local.take_work(), self.price.tree);
        let searched = tree.lookup * used.lookups + tree.update * used.writes;
        let bytes = stepped.bytes + used.scanned_bytes;
        context.charge(Category::Compute, searched + loaded(&core.cpu, bytes));
        if session.is_done() {
            self.common.end(session, now);
            return Step::Done;
        }
        let due = session.poll_timeout(now);
        self.session = Some(session);
        match stepped.happened {
            true => Step::Compute(SOON),
            false => wait(now, due),
        }
    }
}

fn spawn(
    rack: &mut SimulatedRack,
    index: &IndexService,
    run: &Arc<Run>,
    job: &Job,
    common: &Rc<Common>,
) -> Result<(), IndexRunError> {
    let options = &job.options;
    let workers = options.workers(job.nodes.compute.len());
    let began = rack.now();
    let session = |number: u32| {
        let mut session = Session::new(run, number, workers)?;
        if let Some(rate) = options.rate {
            let (seed, rate) = (options.ycsb.seed, rate / f64::from(workers));
            session.set_schedule(PoissonSchedule::new(seed, number, rate, began)?);
        }
        Ok::<_, IndexRunError>(Some(session))
    };
    if options.access == Access::Local {
        let price = Price::of(&job.config, job.nodes.storage, options);
        for number in 0..workers {
            if let Some(shard) = index.index().shard(EndpointId(0)) {
                let actor = LocalActor {
                    local: Local::new(shard.tree().clone()),
                    session: session(number)?,
                    price,
                    common: Rc::clone(common),
                };
                rack.spawn(job.nodes.storage, Box::new(actor));
            }
        }
        return Ok(());
    }
    for (_, node, server) in index.index().servers() {
        let price = Price::of(&job.config, node, options);
        let server = server.clone();
        rack.spawn_server(node, Box::new(ServerActor { server, price }));
    }
    for number in 0..workers {
        let node = job.nodes.compute[(number / u32::from(options.threads)) as usize];
        let actor = ClientActor {
            client: index.client(node, options.client())?,
            session: session(number)?,
            node_reads: 0,
            node_bytes: options.node_size.into(),
            common: Rc::clone(common),
        };
        rack.spawn(node, Box::new(actor));
    }
    Ok(())
}

fn drive(
    rack: &mut SimulatedRack,
    index: &IndexService,
    run: &Run,
    progress: Progress<'_>,
    outcome: &mut Outcome,
) -> Result<(), IndexRunError> {
    let operations = run.options.ycsb.operations.max(1);
    let (mut seen, mut since) = (0, rack.now());
    loop {
        let end = rack.run(rack.now() + SLICE);
        let ended = run.ended.load(Ordering::Relaxed);
        if !progress(Phase::Run, ended as f64 / operations as f64) {
            outcome.interrupted = true;
            run.findings.stop();
        }
        match end {
            RunEnd::Done => return Ok(()),
            RunEnd::Stalled => return Err(IndexRunError::Stalled(0)),
            RunEnd::Deadline | RunEnd::Control(_) => index.adapt(rack.now()),
        }
        if let Some(error) = index.take_network_error() {
            return Err(error.into());
        }
        if ended > seen {
            (seen, since) = (ended, rack.now());
        } else if rack.now().since(since) > PATIENCE {
            return Err(IndexRunError::Stalled(PATIENCE.as_nanos() / 1_000_000_000));
        }
    }
}

/// Where the cores' time went.
fn time(rack: &SimulatedRack, job: &Job, outcome: &mut Outcome) {
    let mut note = |who, nodes: &[NodeId]| {
        let mut sum = CpuReport::default();
        for report in nodes.iter().filter_map(|&node| rack.cpu_report(node)) {
            sum.compute += report.compute;
            sum.communication += report.communication;
            sum.waiting += report.waiting;
        }
        let all = (sum.compute + sum.communication + sum.waiting).as_nanos();
        let share = |part: Duration| part.as_nanos() as f64 / all.max(1) as f64;
        outcome.time.push(TimeShare {
            who,
            compute: share(sum.compute),
            communication: share(sum.communication),
            waiting: share(sum.waiting),
        });
    };
    let endpoints = (0..job.options.endpoints).filter_map(|at| job.nodes.endpoint(at));
    let endpoints: Vec<_> = endpoints.collect();
    match job.options.access {
        Access::Local => note("local", &endpoints),
        _ => {
            note("clients", &job.nodes.compute);
            note("servers", &endpoints);
        }
    }
}
