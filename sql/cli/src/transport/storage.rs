//! Storage nodes: processes that hold the tables in memory, and serve their columns.

use super::rackweave::{join, start_exchange};
use crate::data::DataSet;
use crate::error::CommandError;
use crate::processes::LocalProcess;
use crate::session::positive;
use crate::storage::{Share, load};
use datafusion::prelude::SessionContext;
use futures::future::try_join_all;
use rackweave::Rack;
use rackweave::config::Role;
use rackweave::exchange::{Exchange, ExchangeOptions};
use rackweave_datafusion::columns::{
    StorageClient, StorageError, StorageServer, StorageTable, StorageTables, TablePart, combine,
    tables,
};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Rows of a chunk: a scan is divided among workers by chunks, and a column of a chunk is what is
/// fetched at a time.
const CHUNK_ROWS: usize = 128 * 1024;

/// Parquet files are compressed; columns in memory are not.
const EXPANSION_MAX: u64 = 10;

/// Asks all storage nodes of a rack.
const ALL: &str = "all";

/// Where tables are, if they aren't files.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Tables on storage nodes")]
pub struct StorageOptions {
    /// Rackweave: have N storage processes on this machine load the tables of --data into memory,
    /// and read them from there. They end with this command.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true,
          conflicts_with_all = ["workers", "rack"])]
    pub storage: usize,
    /// Rackweave: read the tables from these storage nodes of --rack, or from `all` that serve
    /// tables. See `rackweave-sql storage`.
    #[arg(
        long,
        value_name = "NODE,...|all",
        value_delimiter = ',',
        requires = "rack"
    )]
    pub tables_from: Vec<String>,
    /// Rows of a chunk, with --storage.
    #[arg(long, value_name = "ROWS", default_value_t = CHUNK_ROWS, value_parser = positive)]
    pub chunk_rows: usize,
}

impl StorageOptions {
    /// Whether tables are read from storage nodes.
    pub fn is_used(&self) -> bool {
        self.storage > 0 || !self.tables_from.is_empty()
    }

    /// The storage nodes of a local rack.
    pub fn names(count: usize) -> impl Iterator<Item = String> {
        (0..count).map(|index| format!("storage{index}"))
    }

    /// The most memory that a local storage node needs for its tables.
    pub fn memory_bytes(&self, data: &DataSet) -> u64 {
        if self.storage > 0 {
            data.bytes() * EXPANSION_MAX
        } else {
            0
        }
    }

    /// Starts the storage processes of a local rack, which load their shares at the same time.
    ///
    /// # Errors
    /// A process does not start.
    pub async fn start(
        &self,
        rack: &Path,
        data: &DataSet,
    ) -> Result<Vec<LocalProcess>, CommandError> {
        let start = async |(index, node): (usize, String)| {
            let share = Share::new(index, self.storage).expect("it is one of them");
            let mut arguments: Vec<OsString> = vec!["storage".into(), node.clone().into()];
            arguments.extend(["--until-stdin-closes".into(), "--rack".into(), rack.into()]);
            arguments.extend(["--data".into(), data.directory.clone().into()]);
            arguments.extend(["--share".into(), share.to_string().into()]);
            arguments.extend(["--chunk-rows".into(), self.chunk_rows.to_string().into()]);
            let name = format!("node {node}");
            let (process, _) = LocalProcess::start_loading(name, arguments.clone()).await?;
            Ok(process.with_restart(arguments))
        };
        try_join_all(Self::names(self.storage).enumerate().map(start)).await
    }

    /// The storage nodes that are to be asked, and whether one that serves no tables is an error.
    fn nodes(&self, rack: &Rack) -> (Vec<String>, bool) {
        if self.storage > 0 {
            return (Self::names(self.storage).collect(), true);
        }
        if self.tables_from != [ALL] {
            return (self.tables_from.clone(), true);
        }
        let config = rack.config();
        let ids = config.nodes_of(Role::Storage).into_iter();
        let name = |id: rackweave::NodeId| config.node[usize::from(id.0)].name.clone();
        (ids.map(name).collect(), false)
    }
}

/// The tables of a session at storage nodes.
#[derive(Debug)]
pub struct Storage {
    /// Fetches columns to this process.
    pub client: StorageClient,
    /// The storage nodes.
    pub nodes: Vec<String>,
    tables: Vec<StorageTable>,
}

impl Storage {
    /// Asks storage nodes for their tables.
    ///
    /// # Errors
    /// A node serves none, or they have not all chunks of the tables.
    pub async fn connect(
        options: &StorageOptions,
        rack: &Rack,
        exchange: &Exchange,
    ) -> Result<Self, CommandError> {
        let client = StorageClient::start(rack, exchange)
            .map_err(|error| CommandError::set_up(format!("cannot start threads: {error}")))?;
        let failed = |error: StorageError| {
            CommandError::set_up(format!(
                "{error}. Storage nodes are started with `rackweave-sql storage NODE --rack FILE`"
            ))
        };
        let (mut nodes, is_complete) = options.nodes(rack);
        if is_complete {
            let tables = tables(&client, &nodes).await.map_err(failed)?;
            return Ok(Self {
                client,
                nodes,
                tables,
            });
        }
        let mut answers: Vec<(Arc<str>, Vec<TablePart>)> = Vec::new();
        for node in &nodes {
            match client.tables(node).await {
                Ok(parts) => answers.push((Arc::from(node.as_str()), parts)),
                Err(StorageError::Unreachable { .. }) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        if answers.is_empty() {
            return Err(CommandError::set_up(
                "no storage node of the rack serves tables. Start them with \
                 `rackweave-sql storage NODE --rack FILE`",
            ));
        }
        nodes = answers.iter().map(|(node, _)| node.to_string()).collect();
        let tables = combine(&client, answers).map_err(failed)?;
        Ok(Self {
            client,
            nodes,
            tables,
        })
    }

    /// Makes the tables known to a session.
    ///
    /// # Errors
    /// The session has a table of the same name.
    pub fn register(&self, context: &SessionContext) -> Result<(), CommandError> {
        for table in &self.tables {
            context.register_table(table.name(), Arc::new(table.clone()))?;
        }
        Ok(())
    }
}

/// A storage node as the command line describes it.
#[derive(Debug, Clone, clap::Args)]
pub struct ServeStorageOptions {
    /// The name of the rack's node which this process is.
    pub node: String,
    /// The configuration of the rack.
    #[arg(long, value_name = "FILE")]
    pub rack: PathBuf,
    /// The directory with the tables, or its file:// URL.
    #[arg(long, value_name = "DIR|URL", default_value = "tpch-sf1")]
    pub data: String,
    /// The share of the row groups that this node loads: 1/2 is the first of two.
    #[arg(long, value_name = "I/N", default_value = "1/1", value_parser = Share::parse)]
    pub share: Share,
    /// Rows of a chunk. All storage nodes must have the same.
    #[arg(long, value_name = "ROWS", default_value_t = CHUNK_ROWS, value_parser = positive)]
    pub chunk_rows: usize,
    /// Where workers connect: an address that all of them reach; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    pub listen: SocketAddr,
    /// End when standard input closes: a local process must not outlive the command that started
    /// it.
    #[arg(long, hide = true)]
    pub until_stdin_closes: bool,
}

/// Loads the tables, and serves them until `stop` is ready. `advanced` is called with the rows of
/// each chunk, `ready` once when they are served.
///
/// # Errors
/// The node can't join, or the tables can't be loaded.
pub async fn serve(
    options: &ServeStorageOptions,
    data: DataSet,
    advanced: impl Fn(u64) + Send + Sync + 'static,
    ready: impl FnOnce(Served) + Send,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), CommandError> {
    let rack = join(options.rack.clone(), Some(&options.node)).await?;
    let (share, chunk_rows) = (options.share, options.chunk_rows);
    let mut tables = StorageTables::new(&rack);
    let loading = tokio::task::spawn_blocking(move || {
        load(&data, share, chunk_rows, &mut tables, &advanced)?;
        Ok::<_, CommandError>(tables)
    });
    let tables = loading.await.expect("loading does not panic")?;
    let served = Served::of(&tables);
    // Others find the node from here on.
    let exchange = start_exchange(&rack, ExchangeOptions::default())?;
    let server = StorageServer::start(&rack, exchange.clone(), options.listen, tables)
        .map_err(|error| CommandError::set_up(format!("cannot serve columns: {error}")))?;
    ready(served);
    tokio::select! {
        () = server.serve() => {}
        () = stop => {}
    }
    exchange.close();
    Ok(())
}

/// What a storage node serves.
#[derive(Debug, Clone, Copy)]
pub struct Served {
    /// Tables, of which it may have no rows.
    pub tables: usize,
    /// Chunks of all of them.
    pub chunks: usize,
    /// Their rows.
    pub rows: u64,
    /// The bytes of all columns.
    pub bytes: usize,
}

impl Served {
    fn of(tables: &StorageTables) -> Self {
        let chunks = || tables.parts().iter().flat_map(|part| &part.chunks);
        let bytes: u64 = chunks().flat_map(|chunk| &chunk.column_bytes).sum();
        Self {
            tables: tables.parts().len(),
            chunks: chunks().count(),
            rows: chunks().map(|chunk| chunk.rows).sum(),
            bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        }
    }
}
