//! The commands, one in each file.

mod cancel;
pub mod compare;
pub mod exchange;
pub mod explain;
pub mod generate;
mod rounds;
pub mod run;
pub mod shell;
pub mod storage;
pub mod worker;

use crate::args::{Format, SessionArguments};
use crate::data::DataSet;
use crate::error::CommandError;
use crate::execute::{Execution, execute};
use crate::processes::{self, LocalProcess};
use crate::report::Setting;
use crate::session;
use crate::transport::{self, Cluster, Transport};
use cancel::Canceller;
use datafusion::prelude::SessionContext;
use datafusion_distributed::WorkerResolver as _;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// How often a running query has processes that died started again.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A session with its tables and its workers, which end when this is dropped.
struct Connected {
    context: SessionContext,
    cluster: Option<Cluster>,
}

impl Connected {
    async fn open(
        transport: Transport,
        arguments: &SessionArguments,
        data: &DataSet,
    ) -> Result<Self, CommandError> {
        let (workers, options) = (&arguments.workers, &arguments.options);
        let cluster = transport::connect(transport, workers, options.compression, data).await?;
        let storage = cluster
            .as_ref()
            .and_then(|cluster| cluster.storage.as_ref());
        let context = match &cluster {
            Some(cluster) => session::distributed(
                options,
                &cluster.channels,
                &cluster.workers,
                storage.map(|storage| &storage.client),
            )?,
            None => session::single(options),
        };
        match storage {
            Some(storage) => storage.register(&context)?,
            None => data.register(&context).await?,
        }
        Ok(Self { context, cluster })
    }

    /// As [`Self::open`], until Ctrl-C, and with what cancels its queries.
    async fn open_cancellable(
        transport: Transport,
        arguments: &SessionArguments,
        data: &DataSet,
    ) -> Result<(Self, Canceller), CommandError> {
        until_interrupted(async {
            let connected = Self::open(transport, arguments, data).await?;
            let cluster = connected.cluster.as_ref();
            let counters = cluster.and_then(|cluster| cluster.counters.clone());
            Ok((connected, Canceller::new(counters).await?))
        })
        .await
    }

    /// The processes whose CPU time is that of queries.
    fn processes(&self) -> Vec<u32> {
        let cluster = self.cluster.iter();
        let processes = cluster.flat_map(|cluster| &cluster.processes);
        processes.map(LocalProcess::pid).collect()
    }

    /// Starts processes in place of those that ended, where the transport allows it.
    async fn restart_ended(&mut self, is_running: bool) -> Result<(), CommandError> {
        match &mut self.cluster {
            Some(cluster) => cluster.restart_ended(is_running).await,
            None => Ok(()),
        }
    }

    /// Executes a statement.
    async fn execute(&mut self, sql: &str) -> Result<Execution, CommandError> {
        self.restart_ended(false).await?;
        let (context, processes) = (self.context.clone(), self.processes());
        self.supervise(execute(&context, sql, &processes)).await
    }

    /// Has processes that die while something is executed started again.
    async fn supervise<T>(
        &mut self,
        execution: impl Future<Output = Result<T, CommandError>>,
    ) -> Result<T, CommandError> {
        let mut execution = std::pin::pin!(execution);
        let mut looks = tokio::time::interval(LOOK_EVERY);
        let executed = loop {
            tokio::select! {
                executed = &mut execution => break executed,
                // A query may be waiting for a process that died, such as the switch.
                _ = looks.tick() => self.restart_ended(true).await?,
            }
        };
        executed.map_err(|error| self.explain_failure(error))
    }

    fn workers(&self) -> usize {
        let urls = self
            .cluster
            .as_ref()
            .and_then(|cluster| cluster.workers.get_urls().ok());
        urls.map_or(0, |urls| urls.len())
    }

    /// The names of the tables.
    fn tables(&self) -> Vec<String> {
        let schema = self.context.catalog("datafusion");
        let schema = schema.and_then(|catalog| catalog.schema("public"));
        let mut names = schema
            .map(|schema| schema.table_names())
            .unwrap_or_default();
        names.sort();
        names
    }

    /// The storage nodes with the tables; none if the tables are files.
    fn storage_nodes(&self) -> &[String] {
        let cluster = self.cluster.as_ref();
        let storage = cluster.and_then(|cluster| cluster.storage.as_ref());
        storage.map_or(&[], |storage| &storage.nodes)
    }

    /// Adds the workers that ended to an error: they are its likely cause.
    fn explain_failure(&mut self, error: CommandError) -> CommandError {
        let ended = self
            .cluster
            .as_mut()
            .map(Cluster::ended)
            .unwrap_or_default();
        match error {
            CommandError::Failed(message) if !ended.is_empty() => {
                CommandError::Failed(format!("{message} ({ended})"))
            }
            other => other,
        }
    }

    fn setting(&self, arguments: &SessionArguments, data: &DataSet) -> Setting {
        Setting {
            data: data.directory.display().to_string(),
            scale_factor: data.manifest.as_ref().map(|manifest| manifest.scale_factor),
            workers: self.workers(),
            storage_nodes: self.storage_nodes().to_vec(),
            options: arguments.options,
        }
    }
}

/// Runs a command until Ctrl-C, which drops it: queries are cancelled, and local workers end.
///
/// # Errors
/// Those of the command, and `Interrupted`.
async fn until_interrupted<T>(
    command: impl Future<Output = Result<T, CommandError>>,
) -> Result<T, CommandError> {
    tokio::select! {
        result = command => result,
        _ = tokio::signal::ctrl_c() => Err(CommandError::Interrupted),
    }
}

/// Ready when a process that serves has to end: by Ctrl-C or SIGTERM. If it was started by a
/// command, it also ends when its standard input closes.
///
/// # Errors
/// The system does not report SIGTERM.
fn stopped(
    until_stdin_closes: bool,
) -> Result<impl Future<Output = ()> + Send + 'static, CommandError> {
    if until_stdin_closes {
        processes::end_when_stdin_closes();
    }
    let mut terminate = signal(SignalKind::terminate())
        .map_err(|error| CommandError::set_up(format!("cannot wait for SIGTERM: {error}")))?;
    Ok(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => (),
            _ = terminate.recv() => (),
        }
    })
}

/// Prints a report in a format.
fn print_report(format: Format, report: &impl serde::Serialize, text: impl FnOnce() -> String) {
    match format {
        Format::Json => {
            let json = serde_json::to_string_pretty(report);
            println!("{}", json.expect("a report is plain data"));
        }
        Format::Text => print!("{}", text()),
    }
}

/// A progress bar on standard error; hidden where that is not a terminal.
fn progress(length: u64, template: &str) -> ProgressBar {
    let target = if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::with_draw_target(Some(length), target).with_style(style)
}

/// The template of a bar over queries.
const QUERIES_TEMPLATE: &str = "{bar:30} {pos}/{len} {msg}";
