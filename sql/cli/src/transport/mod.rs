//! The transports that carry batches between the processes of a query.
//!
//! A transport gives two things to the rest of the program: [`connect`] makes a [`Cluster`], which
//! is what a session needs to know of it, and [`serve`] runs a worker. Sessions and workers
//! themselves are set up in [`crate::session`], so that they are the same for all transports.

mod counters;
pub mod flight;
pub mod rackweave;
pub mod storage;

pub use counters::Counters;

use self::storage::{Storage, StorageOptions};
use crate::data::DataSet;
use crate::error::CommandError;
use crate::processes::LocalProcess;
use crate::session::Compression;
use clap::ValueEnum;
use datafusion::common::DataFusionError;
use datafusion_distributed::{ChannelResolver, WorkerResolver};
use serde::Serialize;
use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use url::Url;

/// How long the exit status of a process may take to appear after its connections broke.
const EXIT_STATUS_DELAY: Duration = Duration::from_millis(50);

/// How batches get from process to process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Rackweave: one-sided writes into rings, through a switch.
    Rackweave,
    /// Arrow Flight over gRPC, as datafusion-distributed has it.
    Flight,
    /// No transport: one process executes the query.
    Single,
}

impl Transport {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rackweave => "rackweave",
            Self::Flight => "flight",
            Self::Single => "single",
        }
    }
}

/// Where the workers are.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Workers")]
pub struct WorkerOptions {
    /// Start N worker processes on this machine. They end with this command.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = crate::session::positive,
          conflicts_with = "workers")]
    pub local: usize,
    /// URLs of workers that run already, separated by commas. See `rackweave-sql worker`.
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    pub workers: Vec<Url>,
    /// Rackweave: join the rack that `rackweave up FILE` runs, as a guest. Its workers are those of
    /// --workers (`rackweave://NODE`), or all its compute nodes.
    #[arg(long, value_name = "FILE", conflicts_with = "local")]
    pub rack: Option<PathBuf>,
    /// Rackweave: how packets get from process to process, with --local.
    #[arg(long, value_enum, default_value_t = LinkChoice::SharedMemory)]
    pub link: LinkChoice,
    /// Rackweave: how batches get to several workers that need the same, with --local.
    #[arg(long, value_enum, default_value_t = Broadcasts::Each)]
    pub broadcasts: Broadcasts,
    /// Threads of each local worker [default: the number of CPUs].
    #[arg(long, value_name = "N", value_parser = crate::session::positive)]
    pub worker_threads: Option<usize>,
    #[command(flatten)]
    pub storage: StorageOptions,
}

/// How the packets of a local rack get from process to process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum LinkChoice {
    /// Rings in shared memory.
    SharedMemory,
    /// Datagrams over loopback.
    Udp,
}

impl LinkChoice {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::SharedMemory => "shared-memory",
            Self::Udp => "udp",
        }
    }
}

/// How the batches of a broadcast join get to the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Broadcasts {
    /// Once, by a flow that the switch replicates.
    Flow,
    /// To each of them.
    Each,
}

impl Broadcasts {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Each => "each",
        }
    }
}

/// The workers of a session, and the way to them.
pub struct Cluster {
    /// Opens channels to workers. It reuses connections.
    pub channels: Arc<dyn ChannelResolver + Send + Sync>,
    /// Lists the workers.
    pub workers: Arc<dyn WorkerResolver>,
    /// The processes that were started for these queries: workers, and a switch if the transport
    /// has one. Their CPU time is that of the queries. They end when this is dropped.
    pub processes: Vec<LocalProcess>,
    /// How processes ended that have been restarted, since [`Self::ended`] was called last.
    pub restarted: Vec<String>,
    /// Asks what the processes of a query hold, if the transport knows.
    pub counters: Option<Counters>,
    /// Where the tables are, if they are not read from files.
    pub storage: Option<Storage>,
    /// What else must live as long as the session. It is dropped before the processes end.
    pub keep: Option<Box<dyn Any + Send + Sync>>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.storage = None;
        self.keep = None;
    }
}

impl Cluster {
    /// Starts processes in place of those that ended, where the transport allows it. While a query
    /// is running, those that load tables are left: the query ends sooner than they start.
    ///
    /// # Errors
    /// A process does not start.
    pub async fn restart_ended(&mut self, is_running: bool) -> Result<(), CommandError> {
        let processes = self.processes.iter_mut();
        for process in processes.filter(|process| !(is_running && process.loads())) {
            if let Some(ended) = process.restart().await? {
                eprintln!("{ended}, and was started again");
                self.restarted.push(ended);
            }
        }
        Ok(())
    }

    /// Describes processes that ended although the session needs them; empty if there are none.
    pub fn ended(&mut self) -> String {
        if !self.processes.is_empty() {
            // The kernel closes the sockets of a dying process before its status can be read.
            std::thread::sleep(EXIT_STATUS_DELAY);
        }
        let mut ended = std::mem::take(&mut self.restarted);
        ended.extend(self.processes.iter_mut().filter_map(LocalProcess::ended));
        ended.join("; ")
    }
}

/// Connects to workers, or starts them. `None` for [`Transport::Single`].
///
/// # Errors
/// A worker does not start, or the options do not fit the transport.
pub async fn connect(
    transport: Transport,
    options: &WorkerOptions,
    compression: Compression,
    data: &DataSet,
) -> Result<Option<Cluster>, CommandError> {
    if transport != Transport::Rackweave && options.storage.is_used() {
        return Err(CommandError::set_up(
            "tables on storage nodes are read over Rackweave only: use --transport rackweave",
        ));
    }
    match transport {
        Transport::Flight => flight::connect(options).await.map(Some),
        Transport::Rackweave => rackweave::connect(options, compression, data)
            .await
            .map(Some),
        Transport::Single => Ok(None),
    }
}

/// A worker as the command line describes it.
#[derive(Debug, Clone, clap::Args)]
pub struct ServeOptions {
    /// Rackweave: the name of the rack's node which this worker is.
    pub node: Option<String>,
    /// Rackweave: the configuration of the rack.
    #[arg(long, value_name = "FILE")]
    pub rack: Option<PathBuf>,
    /// Rackweave: compression of the batches that other workers send to this one.
    #[arg(long, value_enum, default_value_t = Compression::None)]
    pub compression: Compression,
    /// Rackweave: how batches get to several workers that need the same.
    #[arg(long, value_enum, default_value_t = Broadcasts::Each)]
    pub broadcasts: Broadcasts,
    /// How batches get from process to process.
    #[arg(long, value_enum, default_value_t = Transport::Rackweave)]
    pub transport: Transport,
    /// Flight: the address and port to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: std::net::SocketAddr,
    /// Threads that execute tasks [default: the number of CPUs].
    #[arg(long, value_name = "N", value_parser = crate::session::positive)]
    pub threads: Option<usize>,
    /// End when standard input closes: a local worker must not outlive the command that started it.
    #[arg(long, hide = true)]
    pub until_stdin_closes: bool,
}

/// Serves tasks until `stop` is ready. `ready` is called once with the worker's URL.
///
/// # Errors
/// The address is taken, or the options do not fit the transport.
pub async fn serve(
    options: &ServeOptions,
    ready: impl FnOnce(&Url) + Send,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), CommandError> {
    match options.transport {
        Transport::Flight => flight::serve(options, ready, stop).await,
        Transport::Rackweave => rackweave::serve(options, ready, stop).await,
        Transport::Single => Err(CommandError::set_up(
            "`single` has no workers. Use --transport flight",
        )),
    }
}

/// A fixed list of workers.
#[derive(Debug, Clone)]
pub struct FixedWorkers(pub Vec<Url>);

impl WorkerResolver for FixedWorkers {
    fn get_urls(&self) -> Result<Vec<Url>, DataFusionError> {
        Ok(self.0.clone())
    }
}
