//! Rackweave as the transport: each process is a node of a hosted rack, and has an exchange.
//!
//! Without `--rack`, this command starts a rack of its own: a process for the switch, which makes
//! a folder with the rack's configuration and sockets and removes it at its end, and one for each
//! worker and each storage node. With `--rack`, it joins one that `rackweave up` runs.

use super::storage::{Storage, StorageOptions};
use super::{Broadcasts, Cluster, Counters, LinkChoice, ServeOptions, WorkerOptions};
use crate::data::DataSet;
use crate::error::CommandError;
use crate::processes::LocalProcess;
use crate::session::{self, Compression};
use datafusion_distributed::WorkerResolver as _;
use rackweave::Rack;
use rackweave::config::{HostedSection, LinkKind, NodeConfig, RackConfig, Role, SecurityKind};
use rackweave::exchange::{Exchange, ExchangeOptions};
use rackweave::hosted::{self, SwitchProcess};
use rackweave_datafusion::channel::{
    ChannelOptions, RackweaveChannelResolver, RackweaveWorkerResolver, node_of, node_url,
};
use rackweave_datafusion::columns::StorageClient;
use rackweave_datafusion::counters::TaskCounter;
use rackweave_datafusion::worker::serve_counted;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use url::Url;

/// The node of the command itself in a rack of its own.
const COORDINATOR: &str = "coordinator";

/// Memory of a node for the buffers of its connections. Nothing of it is taken before it is used.
const MEMORY_BYTES: u64 = 1 << 30;

/// Joins the rack, or starts one.
///
/// # Errors
/// A process does not start, or the rack does not admit this one.
pub async fn connect(
    options: &WorkerOptions,
    compression: Compression,
    data: &DataSet,
) -> Result<Cluster, CommandError> {
    let (mut processes, mut nodes) = (Vec::new(), Vec::new());
    let rack = if let Some(file) = &options.rack {
        nodes = options
            .workers
            .iter()
            .map(|url| node_of(url).map(str::to_owned))
            .collect::<Result<_, _>>()?;
        join(file.clone(), None).await?
    } else {
        let (switch, file) = start_switch(options, data).await?;
        processes.push(switch);
        processes.extend(options.storage.start(&file, data).await?);
        for index in 0..options.local {
            let node = worker_name(index);
            processes.push(start_worker(&node, &file, options, compression).await?);
            nodes.push(node);
        }
        join(file, Some(COORDINATOR)).await?
    };
    if nodes.is_empty() {
        let config = rack.config();
        let names = config.nodes_of(Role::Compute).into_iter();
        nodes = names
            .map(|id| config.node[usize::from(id.0)].name.clone())
            .collect();
    }
    let exchange_options = ExchangeOptions {
        accepts: false,
        ..ExchangeOptions::default()
    };
    let exchange = start_exchange(&rack, exchange_options)?;
    let storage = if options.storage.is_used() {
        Some(Storage::connect(&options.storage, &rack, &exchange).await?)
    } else {
        None
    };
    let channel_options = ChannelOptions {
        compression: compression.into(),
        ..ChannelOptions::default()
    };
    let channels = RackweaveChannelResolver::new(exchange.clone(), channel_options);
    let workers = RackweaveWorkerResolver::new(nodes)?;
    Ok(Cluster {
        channels: Arc::new(channels.clone()),
        workers: Arc::new(workers.clone()),
        processes,
        restarted: Vec::new(),
        counters: Some(Counters::new(channels, workers.get_urls()?)),
        storage,
        keep: Some(Box::new((exchange, rack))),
    })
}

/// Serves tasks as a node of the rack until `stop` is ready.
///
/// # Errors
/// The node cannot join.
pub async fn serve(
    options: &ServeOptions,
    ready: impl FnOnce(&Url) + Send,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), CommandError> {
    let (Some(node), Some(file)) = (&options.node, &options.rack) else {
        return Err(CommandError::set_up(
            "give the node and its rack: `rackweave-sql worker NODE --rack rack.toml`",
        ));
    };
    let rack = join(file.clone(), Some(node)).await?;
    let exchange_options = ExchangeOptions {
        broadcasts: options.broadcasts == Broadcasts::Flow,
        ..ExchangeOptions::default()
    };
    let exchange = start_exchange(&rack, exchange_options)?;
    let channel_options = ChannelOptions {
        compression: options.compression.into(),
        ..ChannelOptions::default()
    };
    let channels = RackweaveChannelResolver::new(exchange.clone(), channel_options);
    let storage = StorageClient::start(&rack, &exchange)
        .map_err(|error| CommandError::set_up(format!("cannot start threads: {error}")))?;
    let tasks = TaskCounter::default();
    let worker = session::worker(Arc::new(channels), Some(storage), &tasks);
    ready(&node_url(node)?);
    tokio::select! {
        () = serve_counted(exchange.clone(), worker, tasks) => {}
        () = stop => {}
    }
    exchange.close();
    Ok(())
}

fn worker_name(index: usize) -> String {
    format!("worker{index}")
}

/// Joins a rack as a node, or as a guest. Waits until the rack runs.
pub(super) async fn join(file: PathBuf, node: Option<&str>) -> Result<Rack, CommandError> {
    let node = node.map(str::to_owned);
    let shown = file.display().to_string();
    let joined = tokio::task::spawn_blocking(move || match node {
        Some(node) => Rack::join(&file, &node),
        None => Rack::join_guest(&file),
    });
    let joined = joined.await.expect("joining does not panic");
    joined
        .map_err(|error| CommandError::set_up(format!("cannot join the rack of {shown}: {error}")))
}

pub(super) fn start_exchange(
    rack: &Rack,
    options: ExchangeOptions,
) -> Result<Exchange, CommandError> {
    let node = rack
        .nodes_here()
        .next()
        .expect("this process has joined as a node");
    Exchange::start(rack, &node, options)
        .map_err(|error| CommandError::set_up(format!("no exchange at {}: {error}", node.name())))
}

async fn start_switch(
    options: &WorkerOptions,
    data: &DataSet,
) -> Result<(LocalProcess, PathBuf), CommandError> {
    let storage = &options.storage;
    let (workers, nodes) = (options.local.to_string(), storage.storage.to_string());
    let memory = (MEMORY_BYTES + storage.memory_bytes(data)).to_string();
    let arguments = [
        "switch",
        "--workers",
        &workers,
        "--storage-nodes",
        &nodes,
        "--memory",
        &memory,
        "--link",
        options.link.name(),
    ];
    let arguments = arguments.map(OsString::from).into();
    let (process, line) = LocalProcess::start_again("the switch".to_owned(), arguments).await?;
    let file = PathBuf::from(line.trim_end());
    let again = vec!["switch".into(), "--rack".into(), file.clone().into()];
    Ok((process.with_restart(again), file))
}

async fn start_worker(
    node: &str,
    file: &Path,
    options: &WorkerOptions,
    compression: Compression,
) -> Result<LocalProcess, CommandError> {
    let mut arguments: Vec<OsString> = [
        "worker",
        node,
        "--transport",
        "rackweave",
        "--until-stdin-closes",
        "--rack",
    ]
    .map(OsString::from)
    .into();
    arguments.push(file.into());
    arguments.extend(["--compression", compression.name()].map(OsString::from));
    arguments.extend(["--broadcasts", options.broadcasts.name()].map(OsString::from));
    if let Some(threads) = options.worker_threads {
        arguments.extend(["--threads".into(), threads.to_string().into()]);
    }
    let (process, _url) =
        LocalProcess::start_again(format!("node {node}"), arguments.clone()).await?;
    Ok(process.with_restart(arguments))
}

/// The switch of a rack of its own, as the command line describes it.
#[derive(Debug, clap::Args)]
pub struct SwitchOptions {
    /// Worker nodes of the rack.
    #[arg(long, value_name = "N", value_parser = session::positive, default_value_t = 1)]
    pub workers: usize,
    /// Storage nodes of the rack.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub storage_nodes: usize,
    /// Memory of each node: its tables, and the buffers of its connections.
    #[arg(long, value_name = "BYTES", default_value_t = MEMORY_BYTES)]
    pub memory: u64,
    /// How packets get from process to process.
    #[arg(long, value_enum, default_value_t = LinkChoice::SharedMemory)]
    pub link: LinkChoice,
    /// The configuration of a rack whose switch has died.
    #[arg(long, value_name = "FILE")]
    pub rack: Option<PathBuf>,
}

/// Runs the switch of a rack of its own, until standard input closes. Prints the path of the
/// rack's configuration. With `rack`, it is that of an earlier switch, in whose place this one is.
///
/// # Errors
/// The switch does not start.
pub fn run_switch(arguments: &SwitchOptions) -> Result<(), CommandError> {
    let (file, made) = match &arguments.rack {
        Some(file) => (file.clone(), None),
        None => {
            let folder = Folder::new(arguments)?;
            (folder.0.join(FILE), Some(folder))
        }
    };
    // As the nodes will read it: they and the switch compare their configurations.
    let config = RackConfig::read(&file)
        .map_err(|error| CommandError::set_up(format!("the rack's configuration: {error}")))?;
    let process = start(&config)?;
    // An earlier switch may have left the folder.
    let parent = file.parent().unwrap_or(Path::new(""));
    let _folder = made.unwrap_or_else(|| Folder(parent.to_owned()));
    let stop = Arc::new(AtomicBool::new(false));
    let stops = stop.clone();
    crate::processes::when_stdin_closes(move || stops.store(true, Ordering::Relaxed));
    println!("{}", file.display());
    process.run(&stop, &|_event| {});
    Ok(())
}

/// Starts the switch. One that was killed a moment ago may still have its address.
fn start(config: &RackConfig) -> Result<SwitchProcess, CommandError> {
    let until = Instant::now() + START_LIMIT;
    loop {
        let started = SwitchProcess::new(hosted::SwitchOptions {
            config: config.clone(),
            listen: None,
            is_standby: false,
            elector: None,
        });
        match started {
            Ok(process) => return Ok(process),
            Err(_) if Instant::now() < until => std::thread::sleep(START_EVERY),
            Err(error) => {
                let text = format!("the switch does not start: {error}");
                return Err(CommandError::set_up(text));
            }
        }
    }
}

/// How long, and how often, a switch tries to start.
const START_LIMIT: Duration = Duration::from_secs(3);
const START_EVERY: Duration = Duration::from_millis(50);

/// The file with the configuration, in the folder of a rack.
const FILE: &str = "rack.toml";

/// A folder for the rack's configuration and sockets, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(arguments: &SwitchOptions) -> Result<Self, CommandError> {
        // Others may write to the folder for what is temporary, but not to this one.
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default().as_nanos();
        let name = format!("rackweave-sql-{}-{now:x}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        let config = config(arguments, &folder.0)?;
        let made = std::fs::DirBuilder::new().mode(0o700).create(&folder.0);
        let written = made.and_then(|()| std::fs::write(folder.0.join(FILE), config.to_toml()));
        written.map_err(|error| {
            CommandError::set_up(format!("cannot write to {}: {error}", folder.0.display()))
        })?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What can't be removed is in a folder for what is temporary.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A rack on this machine with a node for each worker and storage process, and one for the command.
fn config(arguments: &SwitchOptions, folder: &Path) -> Result<RackConfig, CommandError> {
    let no_port = |error| CommandError::set_up(format!("no free port: {error}"));
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let control = TcpListener::bind(any)
        .and_then(|socket| socket.local_addr())
        .map_err(no_port)?;
    let udp = UdpSocket::bind(any)
        .and_then(|socket| socket.local_addr())
        .map_err(no_port)?;
    let workers = (0..arguments.workers).map(worker_name);
    let compute = workers.chain([COORDINATOR.to_owned()]);
    let compute = compute.map(|name| NodeConfig::new(name, Role::Compute));
    let storage = StorageOptions::names(arguments.storage_nodes);
    let storage = storage.map(|name| NodeConfig::new(name, Role::Storage));
    let mut config = RackConfig {
        node: compute.chain(storage).collect(),
        memory_limit: arguments.memory,
        ..RackConfig::default()
    };
    config.hosted = Some(HostedSection {
        control,
        udp,
        security: SecurityKind::Plain,
        directory: Some(folder.to_owned()),
        link: arguments.link.into(),
        ..HostedSection::default()
    });
    Ok(config)
}

impl From<LinkChoice> for LinkKind {
    fn from(link: LinkChoice) -> Self {
        match link {
            LinkChoice::SharedMemory => Self::SharedMemory,
            LinkChoice::Udp => Self::Udp,
        }
    }
}
