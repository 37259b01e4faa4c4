//! Nodes with workers, driven step by step.

use super::*;
use rackweave_base::Instant;
use rackweave_endpoint::page_store::{Fix, PageGuard, Worker};
use rackweave_programs::pages::EntryState;
use std::cell::RefCell;
use std::rc::Rc;

/// Nodes with a worker each, leases after two verifications.
pub(super) struct Nodes {
    pub bench: Bench,
    pub workers: Vec<Rc<RefCell<Worker<Channel>>>>,
}

/// Polls a worker until it is idle.
struct Poller(Rc<RefCell<Worker<Channel>>>);

impl Actor for Poller {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let mut worker = self.0.borrow_mut();
        let now = context.now();
        while worker.poll(now, context.nic()) {}
        match worker.poll_timeout() {
            Some(due) => Step::WaitUntil(due),
            None if worker.is_idle() => Step::Done,
            None => Step::WaitForPacket,
        }
    }
}

/// Ends at this time.
struct Sleeper(Instant);

impl Actor for Sleeper {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        match context.now() < self.0 {
            true => Step::WaitUntil(self.0),
            false => Step::Done,
        }
    }
}

impl Nodes {
    /// Two nodes, or with the memory server three.
    pub fn new(count: usize) -> Self {
        let numbers = [0, 1, 3].map(NodeId);
        let options = PageOptions {
            nodes: numbers[..count]
                .iter()
                .map(|&node| page_node(node))
                .collect(),
            lease_after: Some(2),
            ..PageOptions::default()
        };
        let (bench, service) = Bench::with_options(PAGES, options, |_| {});
        let worker = |&node| {
            let mut workers = service.polled_workers(node, |_| {}).unwrap();
            Rc::new(RefCell::new(workers.remove(0)))
        };
        Self {
            workers: numbers[..count].iter().map(worker).collect(),
            bench,
        }
    }

    /// Runs the nodes' workers for a while.
    pub fn run(&mut self, span: Duration) {
        for (node, worker) in [0, 1, 3].into_iter().zip(&self.workers) {
            let poller = Box::new(Poller(Rc::clone(worker)));
            self.bench.rack.spawn(NodeId(node), poller);
        }
        let until = self.bench.rack.now() + span;
        self.bench.rack.spawn(NodeId(0), Box::new(Sleeper(until)));
        self.bench.rack.run(until);
    }

    pub fn ask(&mut self, node: usize, index: u64, mode: Mode) -> Fix {
        self.workers[node].borrow_mut().fix(page(index), mode)
    }

    /// Fixes a page by asking the directory.
    pub fn fix(&mut self, node: usize, index: u64, mode: Mode) -> PageGuard {
        let fix = self.ask(node, index, mode);
        self.run(Duration::from_millis(2));
        let taken = self.workers[node].borrow_mut().take(fix);
        taken.expect("it has ended").expect("the page is there")
    }

    /// The version that a node reads by a lease, if it has one.
    pub fn leased(&mut self, node: usize, index: u64) -> Option<u64> {
        let now = self.bench.rack.now();
        let mut worker = self.workers[node].borrow_mut();
        let guard = worker.fix_leased(page(index), || now)?;
        Some(guard.version())
    }

    /// Has a node read a page until it has a lease: once to fetch it, twice to verify it, and once
    /// more.
    pub fn lease(&mut self, node: usize, index: u64) -> u64 {
        for _ in 0..4 {
            drop(self.fix(node, index, Mode::Shared));
        }
        self.leased(node, index).expect("it is leased now")
    }

    pub fn change(&mut self, node: usize, index: u64) -> u64 {
        let mut guard = self.fix(node, index, Mode::Exclusive);
        guard.data_mut().write(0, &[1]);
        let version = guard.version() + 1;
        drop(guard);
        self.run(Duration::from_millis(1));
        version
    }

    pub fn entry(&self, index: u64) -> EntryState {
        let switch = self.bench.rack.switch();
        switch.program().pages.entry(page(index)).unwrap()
    }

    pub fn packets(&self) -> u64 {
        self.bench.rack.switch().counters().packets_in
    }
}
