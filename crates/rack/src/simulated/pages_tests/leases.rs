//! Leases: reads without requests, their revocation, and the times at which nobody can revoke them.

use super::*;
use rackweave_base::Instant;
use rackweave_endpoint::page_store::{Fix, PageGuard, Worker};
use rackweave_programs::pages::EntryState;
use std::cell::RefCell;
use std::rc::Rc;

/// Two nodes with a worker each, leases after two verifications.
struct Leases {
    bench: Bench,
    workers: [Rc<RefCell<Worker<Channel>>>; 2],
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

impl Leases {
    fn new() -> Self {
        let options = PageOptions {
            lease_after: Some(2),
            ..PageOptions::default()
        };
        let (bench, service) = Bench::with_options(PAGES, options, |_| {});
        let worker = |node| {
            let mut workers = service.polled_workers(NodeId(node), |_| {}).unwrap();
            Rc::new(RefCell::new(workers.remove(0)))
        };
        Self {
            workers: [worker(0), worker(1)],
            bench,
        }
    }

    /// Runs the nodes' workers for a while.
    fn run(&mut self, span: Duration) {
        for (node, worker) in (0..).zip(&self.workers) {
            let poller = Box::new(Poller(Rc::clone(worker)));
            self.bench.rack.spawn(NodeId(node), poller);
        }
        let until = self.bench.rack.now() + span;
        self.bench.rack.spawn(NodeId(0), Box::new(Sleeper(until)));
        self.bench.rack.run(until);
    }

    fn ask(&mut self, node: usize, index: u64, mode: Mode) -> Fix {
        self.workers[node].borrow_mut().fix(page(index), mode)
    }

    /// Fixes a page by asking the directory.
    fn fix(&mut self, node: usize, index: u64, mode: Mode) -> PageGuard {
        let fix = self.ask(node, index, mode);
        self.run(Duration::from_millis(2));
        let taken = self.workers[node].borrow_mut().take(fix);
        taken.expect("it has ended").expect("the page is there")
    }

    /// The version that a node reads by a lease, if it has one.
    fn leased(&mut self, node: usize, index: u64) -> Option<u64> {
        let now = self.bench.rack.now();
        let mut worker = self.workers[node].borrow_mut();
        let guard = worker.fix_leased(page(index), || now)?;
        Some(guard.version())
    }

    /// Has a node read a page until it has a lease: once to fetch it, twice to verify it, and once
    /// more.
    fn lease(&mut self, node: usize, index: u64) -> u64 {
        for _ in 0..4 {
            drop(self.fix(node, index, Mode::Shared));
        }
        self.leased(node, index).expect("it is leased now")
    }

    fn change(&mut self, node: usize, index: u64) -> u64 {
        let mut guard = self.fix(node, index, Mode::Exclusive);
        guard.data_mut().write(0, &[1]);
        let version = guard.version() + 1;
        drop(guard);
        self.run(Duration::from_millis(1));
        version
    }

    fn entry(&self, index: u64) -> EntryState {
        let switch = self.bench.rack.switch();
        switch.program().pages.entry(page(index)).unwrap()
    }

    fn packets(&self) -> u64 {
        self.bench.rack.switch().counters().packets_in
    }
}

#[test]
fn a_page_that_is_read_often_is_read_without_packets() {
    let mut leases = Leases::new();
    let version = leases.lease(0, 5);
    assert_eq!(leases.entry(5).leases, 1);
    let before = leases.packets();
    for _ in 0..100 {
        assert_eq!(leases.leased(0, 5), Some(version));
    }
    assert_eq!(leases.packets(), before);
    let statistics = *leases.workers[0].borrow().statistics();
    assert_eq!(statistics.leased_hits, 101);
    assert_eq!(leases.leased(1, 5), None, "the other node has none");
    assert_eq!(leases.leased(0, 6), None, "nor has another page");
}

#[test]
fn a_change_waits_until_the_leases_of_others_are_revoked() {
    let mut leases = Leases::new();
    let version = leases.lease(0, 5);
    let fix = leases.ask(1, 5, Mode::Exclusive);
    let mut guard = None;
    while guard.is_none() {
        let was_leased = leases.leased(0, 5);
        leases.run(Duration::from_nanos(50));
        guard = leases.workers[1].borrow_mut().take(fix);
        // Until then it reads the version that is still the newest.
        assert!(was_leased.is_none_or(|leased| leased == version));
    }
    assert_eq!(leases.leased(0, 5), None);
    assert_eq!(leases.entry(5).leases, 0);
    drop(guard);
    leases.run(Duration::from_millis(1));
    // A page that was latched must be verified again before it is leased.
    let version = leases.change(1, 5);
    drop(leases.fix(0, 5, Mode::Shared));
    drop(leases.fix(0, 5, Mode::Shared));
    assert_eq!(leases.leased(0, 5), None);
    assert_eq!(leases.lease(0, 5), version);
}

#[test]
fn a_node_keeps_its_lease_when_it_changes_the_page_itself() {
    let mut leases = Leases::new();
    leases.lease(0, 5);
    let version = leases.change(0, 5);
    assert_eq!(leases.leased(0, 5), Some(version));
}

#[test]
fn a_lease_expires_if_the_node_gets_no_answers() {
    let mut leases = Leases::new();
    let version = leases.lease(0, 5);
    leases.run(control::LEASE + Duration::from_millis(1));
    assert_eq!(leases.leased(0, 5), None);
    // One request is enough for all leases of the node.
    leases.lease(0, 6);
    assert_eq!(leases.leased(0, 5), Some(version));
}

#[test]
fn latches_are_held_back_while_a_node_that_is_declared_dead_may_read() {
    let mut leases = Leases::new();
    let version = leases.lease(0, 5);
    leases.bench.rack.declare_dead(NodeId(0));
    assert_eq!(leases.entry(5).leases, 0);
    let declared = leases.bench.rack.now();
    let fix = leases.ask(1, 5, Mode::Exclusive);
    let granted = loop {
        leases.run(Duration::from_micros(100));
        if let Some(guard) = leases.workers[1].borrow_mut().take(fix) {
            break guard;
        }
    };
    assert_eq!(granted.unwrap().version(), version);
    assert_eq!(leases.leased(0, 5), None, "it has expired");
    let waited = leases.bench.rack.now().since(declared);
    assert!(waited >= control::HOLD, "{waited:?}");
}

#[test]
fn a_restarted_switch_knows_no_leases_and_waits_for_them() {
    let mut leases = Leases::new();
    leases.lease(0, 5);
    leases.bench.rack.restart_switch().unwrap();
    let fix = leases.ask(1, 5, Mode::Exclusive);
    leases.run(Duration::from_nanos(control::HOLD.as_nanos() - 1_000_000));
    assert!(leases.workers[1].borrow_mut().take(fix).is_none());
    leases.run(Duration::from_millis(3));
    assert!(leases.workers[1].borrow_mut().take(fix).unwrap().is_ok());
    // Answers of the new directory do not make leases of the old one valid.
    leases.lease(0, 6);
    assert_eq!(leases.leased(0, 5), None);
}

#[test]
fn entries_leave_the_switch_without_leases() {
    let mut leases = Leases::new();
    leases.lease(0, 5);
    assert!(leases.bench.rack.demote(page(5)));
    assert_eq!(leases.leased(0, 5), None);
    assert!(leases.bench.rack.promote(page(5)));
    assert_eq!(leases.entry(5).leases, 0);
}

#[test]
fn a_store_that_is_closed_to_a_node_is_not_read_by_leases() {
    let mut leases = Leases::new();
    leases.lease(0, 5);
    assert!(leases.bench.rack.open_store_to(0, &[NodeId(1)]));
    assert_eq!(leases.leased(0, 5), None);
}

#[test]
fn a_loss_is_accepted_after_leases_on_the_lost_version_have_ended() {
    let mut leases = Leases::new();
    let version = leases.change(1, 5);
    assert_eq!(leases.lease(0, 5), version);
    leases.bench.rack.declare_dead(NodeId(1));
    assert!(leases.entry(5).place.is_lost());
    assert_eq!(
        leases.leased(0, 5),
        Some(version),
        "it was read before it was lost"
    );
    assert!(
        !leases.bench.rack.accept_loss(page(5)),
        "latches are held back"
    );
    leases.run(control::HOLD);
    assert!(leases.bench.rack.accept_loss(page(5)));
    assert_eq!(leases.leased(0, 5), None);
}
