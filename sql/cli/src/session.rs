//! The one set-up of sessions and workers. All transports use it, so that their plans are equal.

use crate::error::CommandError;
use crate::traffic::TrafficCodec;
use clap::ValueEnum;
use datafusion::common::DataFusionError;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_distributed::{
    ChannelResolver, CompressionType, DistributedExt, SessionStateBuilderExt, Worker,
    WorkerQueryContext, WorkerResolver,
};
use rackweave_datafusion::codec::Compression as WireCompression;
use rackweave_datafusion::columns::{StorageClient, with_column_scans};
use rackweave_datafusion::counters::TaskCounter;
use serde::Serialize;
use std::sync::Arc;

/// What plans and their execution depend on.
#[derive(Debug, Clone, Copy, Serialize, clap::Args)]
#[command(next_help_heading = "Plans")]
pub struct SessionOptions {
    /// Rows of a batch, on the coordinator and on the workers.
    #[arg(long, value_name = "ROWS", default_value_t = 8192, value_parser = positive)]
    pub batch_size: usize,
    /// Partitions that each task of a plan works on at a time [default: the number of CPUs].
    #[arg(long, value_name = "N", default_value_t = default_partitions(), hide_default_value = true,
          value_parser = positive)]
    pub partitions: usize,
    /// Bytes of files per partition: a scan of more than this times --partitions has several
    /// tasks.
    #[arg(long, value_name = "BYTES", default_value_t = 1024 * 1024, value_parser = positive)]
    pub bytes_per_partition: usize,
    /// Compression of batches on the way between processes.
    #[arg(long, value_enum, default_value_t = Compression::Lz4)]
    pub compression: Compression,
    /// MiB of a query's batches that may have arrived and wait to be taken: at a node over
    /// Rackweave, in a connection over Flight.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = positive)]
    pub budget: usize,
    /// Shuffle both sides of a join, even where one is small enough for all workers.
    #[arg(long)]
    pub no_broadcast: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            batch_size: 8192,
            partitions: default_partitions(),
            bytes_per_partition: 1024 * 1024,
            compression: Compression::Lz4,
            budget: 64,
            no_broadcast: false,
        }
    }
}

/// Compression of batches between processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// None.
    None,
    /// LZ4 frames.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl From<Compression> for WireCompression {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::None => Self::None,
            Compression::Lz4 => Self::Lz4,
            Compression::Zstd => Self::Zstd,
        }
    }
}

impl From<Compression> for Option<CompressionType> {
    fn from(compression: Compression) -> Self {
        match compression {
            Compression::None => None,
            Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
            Compression::Zstd => Some(CompressionType::ZSTD),
        }
    }
}

fn default_partitions() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// A parser of arguments.
pub fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err("expected a whole number of at least 1".to_owned()),
    }
}

/// A session which executes everything in this process: the reference of checks.
pub fn single(options: &SessionOptions) -> SessionContext {
    let state = SessionStateBuilder::new()
        .with_default_features()
        .with_config(config(options));
    SessionContext::new_with_state(state.build())
}

/// A session which divides queries among the workers of a cluster.
///
/// # Errors
/// The options are not consistent.
pub fn distributed(
    options: &SessionOptions,
    channels: &Arc<dyn ChannelResolver + Send + Sync>,
    workers: &Arc<dyn WorkerResolver>,
    storage: Option<&StorageClient>,
) -> Result<SessionContext, CommandError> {
    let state = distributed_builder(options, channels, workers)?;
    let state = match storage {
        Some(client) => with_column_scans(state, client),
        None => state,
    };
    Ok(SessionContext::new_with_state(state.build()))
}

/// As [`distributed`], for a session that needs more.
///
/// # Errors
/// The options are not consistent.
pub fn distributed_builder(
    options: &SessionOptions,
    channels: &Arc<dyn ChannelResolver + Send + Sync>,
    workers: &Arc<dyn WorkerResolver>,
) -> Result<SessionStateBuilder, CommandError> {
    let build = || {
        SessionStateBuilder::new()
            .with_default_features()
            .with_config(config(options))
            .with_distributed_planner()
            .with_distributed_worker_resolver(Arc::clone(workers))
            .with_distributed_channel_resolver(Arc::clone(channels))
            // A plan has the position of the codec that encoded a node, so this is the first one
            // of workers, too.
            .with_distributed_user_codec(TrafficCodec)
            .with_distributed_file_scan_config_bytes_per_partition(options.bytes_per_partition)?
            .with_distributed_broadcast_joins(!options.no_broadcast)?
            .with_distributed_compression(options.compression.into())?
            // A worker has its own configuration; this is the part of it that a session sends.
            .with_distributed_shuffle_batch_size(options.batch_size)?
            .with_distributed_worker_connection_buffer_budget_bytes(options.budget << 20)?
            .with_distributed_metrics_collection(true)
    };
    build().map_err(|error: DataFusionError| {
        CommandError::set_up(format!(
            "cannot set up the session: {}",
            error.strip_backtrace()
        ))
    })
}

/// A worker, which connects to other workers through `channels`, and to storage nodes through
/// `storage`. `tasks` counts what it executes.
pub fn worker(
    channels: Arc<dyn ChannelResolver + Send + Sync>,
    storage: Option<StorageClient>,
    tasks: &TaskCounter,
) -> Worker {
    let tasks = tasks.clone();
    Worker::from_session_builder(move |query: WorkerQueryContext| {
        let builder = tasks
            .watch(query)
            .with_distributed_channel_resolver(Arc::clone(&channels))
            .with_distributed_user_codec(TrafficCodec);
        let builder = match &storage {
            Some(client) => with_column_scans(builder, client),
            None => builder,
        };
        std::future::ready(Ok(builder.build()))
    })
}

fn config(options: &SessionOptions) -> SessionConfig {
    SessionConfig::new()
        .with_information_schema(true)
        .with_batch_size(options.batch_size)
        .with_target_partitions(options.partitions)
}
