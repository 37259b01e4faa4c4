//! A run on an embedded rack: real threads, real time.

use super::loaded::Loaded;
use super::options::{Access, IndexOptions};
use super::table::{IndexTable, Way};
use super::{Job, Outcome};
use crate::ycsb::embedded::{Driven, Spent, Worker, join, operate, shares, start};
use crate::ycsb::prelude::*;
use rackweave_rack::IndexNetworkError;
use std::thread::scope;

/// An empty rack large enough for a job.
///
/// # Errors
/// If the run is invalid, or the rack cannot be built.
pub fn rack(job: &Job) -> Result<EmbeddedRack> {
    job.options.check()?;
    let config = job.options.rack(&job.config, &job.nodes);
    Ok(EmbeddedRack::new(&config)?)
}

/// Runs on an existing rack, which must be large enough for the job ([`IndexOptions::rack`]). Its
/// configuration counts, not the job's.
///
/// # Errors
/// If the run is invalid, or index or records cannot be set up.
pub fn run_on(rack: &Rack, job: &Job, progress: Progress<'_>) -> Result<Outcome> {
    let threads = job.options.load.threads;
    Loaded::new(rack, job, progress)?.operate(job.options.access, threads, progress)
}

impl Loaded<'_> {
    /// Runs the job's operations with workers that reach the records by `access`, and checks
    /// everything afterwards. Successive runs see the records as the previous ones left them.
    /// `threads` is per compute node, or of the storage node if access is local. Counts of the
    /// endpoints start when the index was set up.
    ///
    /// # Errors
    /// If there is no capacity for clients, `access` is in-network and the index is not, or threads
    /// cannot be started.
    pub fn operate(
        &mut self,
        access: Access,
        threads: u16,
        progress: Progress<'_>,
    ) -> Result<Outcome> {
        let options = &self.job.options;
        let options = IndexOptions {
            access,
            load: Load {
                threads,
                ..options.load.clone()
            },
            ..options.clone()
        };
        options.check()?;
        if access == Access::InNetwork && self.index.index().network().is_none() {
            return Err(IndexNetworkError::NotOpen.into());
        }
        let run = Arc::new(self.run.again(options.load()));
        let mut outcome = Outcome {
            records: run.inserts.inserted(),
            load_seconds: self.load_seconds,
            ..Outcome::default()
        };
        let (rack, is_local) = (self.index.rack(), access == Access::Local);
        let worker = |((node, table), number)| Worker {
            number,
            node: rack.node_at(node),
            table,
        };
        let mut workers: Vec<_> = self
            .tables(&options)?
            .into_iter()
            .zip(0..)
            .map(worker)
            .collect();
        let who = if is_local { "local" } else { "clients" };
        let tend = &mut || self.tend(access, rack.now());
        let served = serving(&self.index, !is_local, || {
            operate(&mut workers, &run, who, &mut outcome, progress, tend)
        });
        for worker in workers {
            self.count(access, &worker.table, &mut outcome.table);
            self.release(worker.table);
        }
        outcome.time.extend(shares("servers", served?.into_iter()));
        self.conclude(access, &run, &mut outcome);
        Ok(outcome)
    }
}

/// Runs a thread for each server thread of the index while `work` is done, if `serves`. Returns
/// where their time went.
fn serving(
    index: &IndexService,
    serves: bool,
    work: impl FnOnce() -> Result<()>,
) -> Result<Vec<Spent>> {
    let done = &AtomicBool::new(false);
    let (rack, all) = (index.rack(), index.index());
    scope(|scope| {
        let servers = all.servers().filter(|_| serves).enumerate();
        let servers = servers.map(|(at, (_, node, server))| {
            let (node, server) = (rack.node_at(node), server.clone());
            let work = move || serve(&node, &server, done);
            start(scope, format!("server-{at}"), work)
        });
        let servers: Vec<_> = servers.collect();
        let refused = servers.iter().any(Result::is_err);
        let worked = if refused { Ok(()) } else { work() };
        done.store(true, Ordering::Relaxed);
        let served = servers.into_iter().map(|server| Ok(join(server?)));
        let served: Result<_> = served.collect();
        worked.and(served)
    })
}

/// A server thread: carries out requests and packets until all workers are done.
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

impl Driven for IndexTable {
    fn carries(&self) -> bool {
        self.way.client().is_some()
    }

    fn drive(&mut self, node: &Node) -> bool {
        match &mut self.way {
            Way::Local(_) => false,
            Way::Client(client) => {
                let now = node.now();
                node.with(|nic| client.advance(now, nic)) | node.drive()
            }
        }
    }
}
