//! The workers of an embedded rack, a thread each while a phase of a run lasts.

use super::error::PagesError;
use super::options::{Nodes, PagesOptions};
use core::time::Duration as Time;
use rackweave_endpoint::page_store::PageStore;
use rackweave_endpoint::page_store::directory::Channel;
use rackweave_rack::{Node, Rack};
use rackweave_target::Backend;
use rackweave_verbs::Progress as _;
use std::sync::Arc;
use std::thread::{Builder, scope};

/// How often a thread that waits for workers looks after them.
const LOOK: Time = Time::from_millis(5);

/// A worker and its way to its node.
pub(super) struct Seat {
    /// Of all workers.
    pub number: u32,
    /// Which of its node's workers.
    pub at_node: u16,
    pub store: PageStore<Channel>,
    pub access: Node,
}

/// All workers.
pub(super) struct Crew {
    pub seats: Vec<Seat>,
}

impl Crew {
    /// A store in `backend` on a rack that is large enough for it, and its workers.
    pub fn new(
        rack: &Rack,
        nodes: &Nodes,
        options: &PagesOptions,
        backend: Box<dyn Backend>,
    ) -> Result<Self, PagesError> {
        let pages = nodes.pages(rack, options, backend)?;
        let mut seats = Vec::new();
        for &node in &nodes.compute {
            let access = rack.node_at(node);
            let workers = pages.polled_workers(node, |pool| pool.seed = options.ycsb.seed)?;
            for (worker, at_node) in workers.into_iter().zip(0..) {
                seats.push(Seat {
                    number: seats.len() as u32,
                    at_node,
                    store: PageStore::new(worker, Arc::new(access.clone())),
                    access: access.clone(),
                });
            }
        }
        Ok(Self { seats })
    }

    /// Has every worker do `work` in a thread of its own, and calls `watch` now and then. What they
    /// return comes in their order.
    pub fn all<T: Send>(
        &mut self,
        watch: &mut dyn FnMut(),
        work: impl Fn(&mut Seat) -> T + Sync,
    ) -> Result<Vec<T>, PagesError> {
        let work = &work;
        scope(|scope| {
            let mut threads = Vec::new();
            let mut refused = None;
            for seat in &mut self.seats {
                let name = format!("worker-{}", seat.number);
                let started = Builder::new()
                    .name(name)
                    .spawn_scoped(scope, move || work(seat));
                match started {
                    Ok(thread) => threads.push(thread),
                    Err(error) => {
                        refused = Some(PagesError::Thread(error.to_string()));
                        break;
                    }
                }
            }
            while threads.iter().any(|thread| !thread.is_finished()) {
                watch();
                std::thread::sleep(LOOK);
            }
            let results = threads
                .into_iter()
                .map(|thread| thread.join().expect("a worker does not panic"))
                .collect();
            refused.map_or(Ok(results), Err)
        })
    }

    /// The first worker of each node.
    pub fn first_of_nodes(&mut self) -> impl Iterator<Item = &mut Seat> {
        self.seats.iter_mut().filter(|seat| seat.at_node == 0)
    }
}

impl Seat {
    /// Polls the worker and drives the rack until `step` says that it is done; `step` returns
    /// whether it is, and whether anything happened.
    pub fn until(&mut self, mut step: impl FnMut(&mut PageStore<Channel>) -> (bool, bool)) {
        let mut idle_rounds = 0;
        loop {
            let polled = self.store.poll();
            let (done, happened) = step(&mut self.store);
            if done {
                return;
            }
            if self.access.drive() | happened | polled {
                idle_rounds = 0;
            } else {
                self.access.relax(idle_rounds);
                idle_rounds = idle_rounds.saturating_add(1);
            }
        }
    }
}
