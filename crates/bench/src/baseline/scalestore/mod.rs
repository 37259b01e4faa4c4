//! A page cache in software, as ScaleStore has it: the baseline of figure 3 of Seamless.
//!
//! ScaleStore (Ziegler, Binnig, Leis, SIGMOD 2022) keeps pages in the memory of several nodes
//! coherent by messages between CPUs. Every page has an owner, who knows which nodes have it,
//! shared or exclusively ([`directory`]). A node that lacks a page asks the owner ([`cache`],
//! `worker`). If no node has it, the owner reads it from a drive and writes it into the asker's
//! frame (`server`); if one has, the asker is redirected and reads that node's frame by a one-sided
//! READ. Nodes use shared copies without asking again: before somebody may change a page, the owner
//! has all others give it up, and one of them write it into the asker's frame. A `housekeeper` per
//! node obeys such orders, and drops pages by second chance or has them written back before frames
//! run out.
//!
//! # What is chosen here
//!
//! Seamless (section 3) does not say how ScaleStore was given its storage. Here the storage node
//! owns the directory and the drives, with a handler on each of its cores. A page that nobody has
//! crosses the network once and costs one message each way. Had the compute nodes owned the pages
//! and read the drives by NVMe-oF, half of them would have crossed it twice, or have taken one more
//! round trip. So this is the better case for the baseline.
//!
//! # What differs from ScaleStore
//!
//! * Its workers have one fault at a time; ours have [`Config::depth`], as in Seamless.
//! * Its messages are WRITEs into mailboxes that are polled; ours are SENDs with a receive each.
//! * Its nodes copy shared pages by a message to the holder's handler, which writes the page; ours
//!   READ the frame and spare that CPU. The frame's header shows whether the page was there.
//! * Its askers ask the sharers themselves; here the owner does, and the holder writes the page.
//! * It has two page providers and four message handlers per node by default and evicts by epochs;
//!   here one thread per compute node does both, by second chance. One in a hundred frames is kept
//!   free, as by its default.
//! * Its owners cache pages, being compute nodes; ours does not.
//! * Latches between threads are not modelled: an access happens at one instant.
//!
//! CPU time is charged for every work request, completion, look and cache miss as for the other
//! baselines; an access itself costs [`Config::work`].

pub mod cache;
mod channel;
pub mod directory;
mod drives;
mod embedded;
mod frames;
mod housekeeper;
pub mod message;
pub mod page;
mod server;
mod set_up;
mod simulated;
mod tally;
mod worker;

use crate::baseline::set_up::SetUpError;
use rackweave_base::{Duration, Qpn};
use rackweave_rack::RackError;
use rackweave_verbs::{CompletionStatus, PostError};

pub use embedded::run_embedded;
pub use simulated::run_simulated;
pub use tally::{Outcome, Tally};

/// One access to a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The page, below [`Config::pages`].
    pub page: u64,
    /// Whether it is changed.
    pub write: bool,
}

/// What one worker accesses, one after the other.
pub type Accesses = Box<dyn FnMut() -> Access + Send>;

/// What is run.
#[derive(Clone, PartialEq, Debug)]
pub struct Config {
    /// Bytes of a page, a multiple of 4096.
    pub page_size: u32,
    /// Pages that there are.
    pub pages: u64,
    /// Buffer frames of each compute node.
    pub frames_per_node: u32,
    /// Nodes with workers.
    pub compute_nodes: u16,
    /// Workers of each.
    pub workers: u16,
    /// Accesses that a worker has under way at a time.
    pub depth: u16,
    /// Handlers of the storage node.
    pub handlers: u16,
    /// Drives of the storage node. An embedded rack has memory instead.
    pub ssds: u32,
    /// Whether NICs control their rate (DCQCN); only in the simulator. The fabric drops what its
    /// queues cannot hold.
    pub congestion_control: bool,
    /// What an access costs a worker once the page is there, finding it included; only in the
    /// simulator.
    pub work: Duration,
    /// Everything random comes from it.
    pub seed: u64,
    /// How long it runs before anything is counted.
    pub warm_up: Duration,
    /// How long is counted.
    pub window: Duration,
    /// Accesses after which a worker ends; then the run ends when all have, whatever the window.
    pub limit: Option<u64>,
}

impl Default for Config {
    /// The experiment of seamless, figure 3, with one page and one frame for every 128 of the
    /// paper's: two nodes, each with frames for half of the pages.
    fn default() -> Self {
        Self {
            page_size: 64 << 10,
            pages: 1 << 14,
            frames_per_node: 1 << 13,
            compute_nodes: 2,
            workers: 28,
            // The paper's queues hold 128 requests; 28 times that would be half of our frames.
            depth: 8,
            handlers: rackweave_sim::devices::HOST_CORES,
            ssds: 4,
            congestion_control: true,
            work: Duration::from_nanos(500),
            seed: 1,
            // Filling the frames takes about 60 ms when all links are full.
            warm_up: Duration::from_millis(150),
            window: Duration::from_millis(20),
            limit: None,
        }
    }
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum ScaleStoreError {
    /// A setting makes no sense.
    #[error("{what} is {value}; {rule}")]
    Config {
        /// The setting.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What it should be.
        rule: &'static str,
    },
    /// The rack could not be built.
    #[error(transparent)]
    Rack(#[from] RackError),
    /// A node's part could not be set up.
    #[error(transparent)]
    SetUp(#[from] SetUpError),
    /// A request was refused.
    #[error(transparent)]
    Post(#[from] PostError),
    /// A request failed.
    #[error("queue pair {qpn}: {status}")]
    Completion {
        /// The queue pair.
        qpn: Qpn,
        /// How it ended.
        status: CompletionStatus,
    },
    /// What came is no message.
    #[error(transparent)]
    Message(#[from] message::BadMessage),
    /// A node does not keep to the protocol.
    #[error(transparent)]
    Breach(#[from] directory::Breach),
    /// A page is damaged, or an answer came that nobody waits for.
    #[error(transparent)]
    Cache(#[from] cache::CacheError),
    /// A page that was to be stored is damaged.
    #[error("page {0} came damaged to be stored")]
    Stored(u64),
    /// A message names a node, a tag or a buffer that there is not.
    #[error("a message names a node, a tag or a buffer that there is not")]
    NoPath,
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(std::io::Error),
    /// Nothing moves any more.
    #[error("the workers have come to no end in {0} of virtual time")]
    Stuck(Duration),
}

impl Config {
    /// Whether every setting makes sense.
    ///
    /// # Errors
    /// If one does not.
    pub fn check(&self) -> Result<(), ScaleStoreError> {
        let size = u64::from(self.page_size);
        let is_size = (4096..=1 << 20).contains(&size) && size.is_multiple_of(4096);
        let frames = u64::from(self.frames_per_node);
        let (nodes, workers) = (u64::from(self.compute_nodes), u64::from(self.workers));
        let (depth, handlers) = (u64::from(self.depth), u64::from(self.handlers));
        let within = |value: u64, most: u64| (1..=most).contains(&value);
        let nodes_rule = "1 to 16 are possible";
        for (what, value, is_good, rule) in [
            (
                "the size of a page",
                size,
                is_size,
                "a multiple of 4096 up to 1048576 is possible",
            ),
            (
                "the number of pages",
                self.pages,
                within(self.pages, 1 << 26),
                "1 to 67108864 are possible",
            ),
            (
                "the number of frames",
                frames,
                (4..=1 << 24).contains(&frames),
                "4 to 16777216 are possible",
            ),
            (
                "the number of compute nodes",
                nodes,
                within(nodes, 16),
                nodes_rule,
            ),
            (
                "the number of workers",
                workers,
                within(workers, 64),
                "1 to 64 are possible",
            ),
            (
                "the depth",
                depth,
                within(depth, 256),
                "1 to 256 are possible",
            ),
            (
                "the number of handlers",
                handlers,
                within(handlers, 64),
                "1 to 64 are possible",
            ),
        ] {
            if !is_good {
                return Err(ScaleStoreError::Config { what, value, rule });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
