//! The threads of a point in real time.

use super::super::data::Data;
use super::super::node_pair::holds;
use super::super::ways::Outlet;
use crate::baseline::raw_writer::RawWriter;
use crate::baseline::single_buffer::SingleBuffer;
use core::ops::Range;
use rackweave_endpoint::flow::wait_until;
use rackweave_endpoint::messaging::{MessageReceiver, MessageSender};
use rackweave_rack::Node;
use rackweave_verbs::Region;
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

fn text(error: impl core::fmt::Display) -> String {
    error.to_string()
}

/// Sends a part of the data. Returns when each transfer began, and its end if not consumed.
pub fn send<O: Outlet>(
    node: &Node,
    end: &mut O,
    part: Range<u64>,
    point: &Point<'_>,
) -> Result<Times, String> {
    let mut times = Times::default();
    for round in 0..point.rounds {
        point.begin(round)?;
        times.begins.push(Instant::now());
        let mut at = part.start;
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
        if !O::IS_CONSUMED {
            times.ends.push(Instant::now());
        }
    }
    Ok(times)
}

/// Writes a part of the data to receive buffers that are never read. Returns begins and ends.
pub fn write(
    node: &Node,
    writer: &mut RawWriter,
    region: &Region,
    part: Range<u64>,
    point: &Point<'_>,
) -> Result<Times, String> {
    let times = send(node, writer, part.clone(), point)?;
    match holds(region, writer, &point.data, part) {
        true => Ok(times),
        false => Err("the receive buffers hold something else".into()),
    }
}

/// Takes the data out of the single buffer. Returns when each transfer ended.
pub fn take_single(
    node: &Node,
    end: &mut SingleBuffer,
    point: &Point<'_>,
) -> Result<Times, String> {
    let mut times = Times::default();
    let mut target = vec![0; point.source.len()];
    for round in 0..point.rounds {
        target.fill(0);
        point.begin(round)?;
        let mut taken = 0;
        while taken < target.len() {
            let header = point.wait(node, || end.look().map_err(text))?;
            let length = header.length as usize;
            if target.len() - taken < length {
                return Err(format!("{header:?} is more than was sent"));
            }
            end.copy_out(&mut target[taken..taken + length]);
            taken += length;
            let released = node.with(|nic| {
                end.release(nic)?;
                end.poll(nic)
            });
            released.map_err(text)?;
        }
        times.ends.push(Instant::now());
        // The sender must learn of the release before the next round.
        point.wait(node, || {
            node.poll(|nic| end.poll(nic)).map_err(text)?;
            Ok(end.is_free().then_some(()))
        })?;
    }
    match target == point.source {
        true => Ok(times),
        false => Err("other bytes came than were sent".into()),
    }
}

/// Sends a part of the data on a channel. Returns when each transfer began.
pub fn send_multi(
    sender: &mut MessageSender,
    part: Range<u64>,
    point: &Point<'_>,
) -> Result<Times, String> {
    let mut times = Times::default();
    let bytes = &point.source[part.start as usize..part.end as usize];
    for round in 0..point.rounds {
        point.begin(round)?;
        times.begins.push(Instant::now());
        if !bytes.is_empty() {
            sender.send(1, bytes).map_err(text)?;
            sender.consumed_wait().map_err(text)?;
        }
    }
    Ok(times)
}

/// Takes a part of the data from a channel. Returns when each transfer ended.
pub fn take_multi(
    receiver: &mut MessageReceiver,
    part: Range<u64>,
    point: &Point<'_>,
) -> Result<Times, String> {
    let mut times = Times::default();
    let bytes = &point.source[part.start as usize..part.end as usize];
    let mut target = vec![0; bytes.len()];
    for round in 0..point.rounds {
        target.fill(0);
        target.clear();
        point.begin(round)?;
        if !bytes.is_empty() {
            let message = receiver.receive(&mut target).map_err(text)?;
            message.ok_or("the sender has finished")?;
        }
        times.ends.push(Instant::now());
        // A handle may delay its notices of free buffers; the sender needs them before the next
        // round.
        while receiver.machine().owes() {
            point.go_on()?;
            receiver.poll().map_err(text)?;
        }
    }
    match target == bytes {
        true => Ok(times),
        false => Err("other bytes came than were sent".into()),
    }
}
