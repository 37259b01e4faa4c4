//! The threads of a point in real time.

use super::super::data::Data;
use super::super::ways::{Inlet, Outlet};
use core::ops::Range;
use rackweave_endpoint::flow::wait_until;
use rackweave_rack::Node;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// State shared by the threads of a point.
pub struct Point<'a> {
    source: &'a [u8],
    /// The same data, in the form that ends need.
    data: Data,
    threads: usize,
    /// Number of transfers, the first of which is not counted.
    pub rounds: usize,
    /// How many times a thread has reached the start of a round.
    arrived: AtomicUsize,
    /// Whether a thread has failed.
    failed: AtomicBool,
}

impl<'a> Point<'a> {
    /// A point with `threads` threads that transfer `source` in `rounds` rounds.
    pub fn new(source: &'a [u8], threads: usize, rounds: usize) -> Self {
        Self {
            source,
            data: Data::whole(source),
            threads,
            rounds,
            arrived: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
        }
    }

    /// Waits until all threads have reached the start of this round.
    fn begin(&self, round: usize) -> Result<(), String> {
        self.arrived.fetch_add(1, Ordering::AcqRel);
        while self.arrived.load(Ordering::Acquire) < self.threads * (round + 1) {
            self.go_on()?;
            thread::yield_now();
        }
        Ok(())
    }

    /// Returns an error if another thread has failed.
    fn go_on(&self) -> Result<(), String> {
        match self.failed.load(Ordering::Acquire) {
            true => Err("another thread has given up".into()),
            false => Ok(()),
        }
    }

    /// Waits until `done` returns a value, and drives the rack meanwhile.
    fn wait<R>(
        &self,
        node: &Node,
        mut done: impl FnMut() -> Result<Option<R>, String>,
    ) -> Result<R, String> {
        wait_until(node, || match self.go_on().and_then(|()| done()) {
            Ok(done) => done.map(Ok),
            Err(error) => Some(Err(error)),
        })
    }

    /// Returns the result of a thread; if it is an error, the other threads fail, too.
    pub fn ended<T>(&self, act: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let result = act();
        if result.is_err() {
            self.failed.store(true, Ordering::Release);
        }
        result
    }
}

/// When a sending thread began each transfer, and when a thread that sees its end ended it.
#[derive(Default)]
pub struct Times {
    /// Times of a sender.
    pub begins: Vec<Instant>,
    /// Times of a receiver, or of a sender without one.
    pub ends: Vec<Instant>,
}

/// Sends a part of the data. Returns when each transfer began, and its end if not consumed.
pub fn send(
    node: &Node,
    end: &mut dyn Outlet,
    is_consumed: bool,
    part: Range<u64>,
    point: &Point<'_>,
) -> Result<Times, String> {
    let mut times = Times::default();
    for round in 0..point.rounds {
        point.begin(round)?;
        times.begins.push(Instant::now());
        let mut at = part.start;
        if !part.is_empty() {
            end.begin(part.end - part.start)?;
        }
        while at < part.end {
            let free = point.wait(node, || {
                let now = node.now();
                node.poll(|nic| end.act(now, nic, false))?;
                Ok(Some(end.free() as u64).filter(|&free| free > 0))
            })?;
            let next = part.end.min(at + free);
            end.fill(&point.data, at..next, next == part.end);
            let now = node.now();
            node.with(|nic| end.act(now, nic, true))?;
            at = next;
        }
        point.wait(node, || {
            let now = node.now();
            node.poll(|nic| end.act(now, nic, false))?;
            Ok(end.is_over().then_some(()))
        })?;
        if !is_consumed {
            times.ends.push(Instant::now());
        }
    }
    match end.holds(&point.data, &part) {
        true => Ok(times),
        false => Err("the receive buffers hold something else".into()),
    }
}

/// Takes a part of the data. Returns when each transfer ended.
pub fn take(
    node: &Node,
    end: &mut dyn Inlet,
    part: Range<u64>,
    point: &Point<'_>,
) -> Result<Times, String> {
    let mut times = Times::default();
    let bytes = &point.source[part.start as usize..part.end as usize];
    let mut target = Vec::with_capacity(bytes.len());
    for round in 0..point.rounds {
        target.clear();
        point.begin(round)?;
        while target.len() < bytes.len() {
            point.wait(node, || node.poll(|nic| end.take(nic, &mut target)))?;
            let now = node.now();
            node.with(|nic| end.release(now, nic))?;
        }
        times.ends.push(Instant::now());
        // The sender must learn of the release before the next round.
        point.wait(node, || {
            let now = node.now();
            let settled = node.poll(|nic| end.settle(now, nic))?;
            Ok(settled.then_some(()))
        })?;
    }
    match target == bytes {
        true => Ok(times),
        false => Err("other bytes came than were sent".into()),
    }
}
