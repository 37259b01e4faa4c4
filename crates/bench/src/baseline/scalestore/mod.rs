//! A page cache in software, as in ScaleStore: the baseline of figure 3 of Seamless.
//!
//! ScaleStore (Ziegler, Binnig, Leis, SIGMOD 2022) keeps pages in the memory of several nodes
//! coherent by messages between CPUs. Every page has an owner, which knows the nodes that have it
//! ([`server`]). A node that lacks a page sends a request to the owner ([`cache`], `worker`). If
//! no node has the page, the owner reads it from a drive and writes it into the requester's frame
//! (`server`); if one has, the requester is redirected and reads that node's frame by a one-sided
//! READ ([`cache`]). Nodes use their copies without further requests. A `housekeeper` per node
//! drops pages by second chance before frames run out, and notifies the owner.
//!
//! # What is left out
//!
//! The figure runs lookups only, so nothing here changes a page: there is no exclusive ownership,
//! no order to give a page up, and no writing back. None of these costs a lookup anything in
//! ScaleStore, except that its messages and its latches have to provide for them. Leaving them out
//! favours the baseline.
//!
//! # Two kinds
//!
//! Seamless (section 3) does not say how ScaleStore was given its storage. Without
//! [`Config::message_handlers`] everything favours the baseline:
//!
//! * The storage node owns the directory and the drives, with a handler on each of its cores. A
//!   page that no node has crosses the network once and costs one message each way.
//! * Workers have [`Config::depth`] faults at a time, as in Seamless; ScaleStore's have one.
//! * A node READs the frame of a node that has the page and spares that node's CPU. The frame's
//!   header shows whether the page was present.
//!
//! With [`Config::message_handlers`], and a depth of one, it does what ScaleStore does
//! ([`possession`] has the sources): compute nodes own the pages, and handlers on their cores send
//! them. Drives stay at the storage node, which reads a page for an owner as it does above.
//!
//! # What differs from ScaleStore in both
//!
//! * Its messages are WRITEs into mailboxes that are polled; these are SENDs with a receive each.
//!   They do not use the project's RPC, whose services answer at once: an answer here waits for a
//!   drive, or for a page that is being sent to another node.
//! * It has two page providers per node by default and evicts by epochs, which approximates the
//!   least recently used; here one thread per compute node evicts by second chance. One in a
//!   hundred frames is kept free, as by its default.
//! * Latches between threads are not modelled: an access happens at one instant.
//!
//! The drives are the ones that the page store's target has in the same figure, and accept as many
//! commands as there are staging buffers; the target executes 128 at a time. That, too, favours the
//! baseline.
//!
//! CPU time is charged for every work request, completion, poll and cache miss as for the other
//! baselines; an access itself costs [`Config::work`].

pub mod cache;
mod channel;
mod frames;
mod possession;
mod server;
mod store;
mod worker;

use super::verbs;
use crate::harness::prelude::*;
use store::Store;

/// The pages that one worker reads, one after the other; `None` when it has read all.
pub type Pages = Box<dyn FnMut() -> Option<u64>>;

#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Bytes of a page, a multiple of 4096.
    pub page_size: u32,
    pub pages: u64,
    pub frames_per_node: u32,
    pub compute_nodes: u16,
    pub workers: u16,
    /// Concurrent accesses of a worker.
    pub depth: u16,
    pub handlers: u16,
    /// Message handlers of each compute node, if these own the pages; else the storage node owns
    /// them, and nodes read each other's frames without a handler.
    pub message_handlers: Option<u16>,
    pub ssds: u32,
    /// Whether NICs control their rate (DCQCN). The fabric drops what its queues cannot hold.
    pub congestion_control: bool,
    /// The cost of an access for a worker once the page is present, including finding it.
    pub work: Duration,
    /// Duration of the run before counting starts.
    pub warm_up: Duration,
    /// Duration of counting.
    pub window: Duration,
}

impl Config {
    fn check(&self) -> Result<()> {
        let (size, frames) = (self.page_size.into(), self.frames_per_node.into());
        let nodes = self.compute_nodes.into();
        verbs::check(&[
            ("the size of a page", size, 4096..=1 << 20, 4096),
            ("the number of pages", self.pages, 1..=1 << 26, 1),
            ("the number of frames", frames, 4..=1 << 24, 1),
            ("the number of compute nodes", nodes, 1..=16, 1),
            ("the number of workers", self.workers.into(), 1..=64, 1),
            ("the depth", self.depth.into(), 1..=256, 1),
            ("the number of handlers", self.handlers.into(), 1..=64, 1),
            (
                "the number of message handlers",
                self.message_handlers.unwrap_or(1).into(),
                1..=64,
                1,
            ),
        ])
    }

    /// Start and end of counting.
    fn window(&self) -> (Instant, Instant) {
        let from = Instant::ZERO + self.warm_up;
        (from, from + self.window)
    }
}

/// Accesses by where their page was found, in the order of [`cache::PageSource`].
pub type Found = [u64; 4];

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Outcome {
    pub per_second: f64,
    pub found: Found,
    /// Packets that full queues dropped, over the whole run.
    pub packets_dropped: u64,
}

/// [`Found`], shared by the threads of a run.
type Shared = Rc<Cell<Found>>;

/// The next step of a thread: it polls again at once if anything happened.
fn next(happened: bool) -> Step {
    match happened {
        true => Step::Compute(Duration::from_nanos(1)),
        false => Step::WaitForPacket,
    }
}

/// Runs in virtual time; `pages` returns the pages of each worker, by its number among all workers.
pub fn run(
    run: &mut Run<'_>,
    config: &Config,
    pages: &mut dyn FnMut(usize) -> Pages,
) -> Result<Outcome> {
    let Store {
        mut rack, found, ..
    } = Store::new(config, run.seed, pages)?;
    rack.drive(run, Until::Time(config.window().1))?;
    let found = found.get();
    Ok(Outcome {
        per_second: found.iter().sum::<u64>() as f64 / config.window.as_secs_f64(),
        found,
        packets_dropped: shuffle::traffic(&rack).drops,
    })
}

#[cfg(test)]
mod tests;
