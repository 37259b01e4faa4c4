//! Arrow Flight over gRPC: the transport that datafusion-distributed has by default.

use super::{Cluster, FixedWorkers, ServeOptions, WorkerOptions};
use crate::error::CommandError;
use crate::processes::LocalProcess;
use crate::session;
use datafusion_distributed::grpc::DefaultChannelResolver;
use rackweave_datafusion::counters::TaskCounter;
use std::sync::Arc;
use tokio::net::TcpListener;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use url::Url;

/// Connects to the given workers, or starts local ones.
///
/// # Errors
/// A worker does not start, or cannot be reached.
pub async fn connect(options: &WorkerOptions) -> Result<Cluster, CommandError> {
    let mut processes = Vec::new();
    let mut urls = options.workers.clone();
    if urls.is_empty() {
        let mut arguments = vec!["--transport".to_owned(), "flight".to_owned()];
        if let Some(threads) = options.worker_threads {
            arguments.extend(["--threads".to_owned(), threads.to_string()]);
        }
        for index in 0..options.local {
            let name = format!("worker {index}");
            let (process, url) = LocalProcess::start_worker(name, arguments.clone()).await?;
            processes.push(process);
            urls.push(url);
        }
    }
    let channels = DefaultChannelResolver::default();
    for url in &urls {
        channels.get_channel(url).await.map_err(|error| {
            CommandError::set_up(format!(
                "cannot connect to the worker {url}: {}. Start it with \
                 `rackweave-sql worker --transport flight --listen ADDRESS:PORT`",
                error.strip_backtrace()
            ))
        })?;
    }
    Ok(Cluster {
        channels: Arc::new(channels),
        workers: Arc::new(FixedWorkers(urls)),
        processes,
        restarted: Vec::new(),
        counters: None,
        storage: None,
        keep: None,
    })
}

/// Serves tasks over gRPC until `stop` is ready.
///
/// # Errors
/// The address is taken.
pub async fn serve(
    options: &ServeOptions,
    ready: impl FnOnce(&Url) + Send,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), CommandError> {
    let cannot = |error: &dyn std::fmt::Display| {
        CommandError::set_up(format!("cannot listen on {}: {error}", options.listen))
    };
    let listener = TcpListener::bind(options.listen)
        .await
        .map_err(|error| cannot(&error))?;
    let address = listener.local_addr().map_err(|error| cannot(&error))?;
    let url = Url::parse(&format!("http://{address}")).expect("an address is a host and a port");
    let worker = session::worker(
        Arc::new(DefaultChannelResolver::default()),
        None,
        &TaskCounter::default(),
    );
    ready(&url);
    Server::builder()
        .add_service(worker.into_worker_server())
        .serve_with_incoming_shutdown(TcpIncoming::from(listener).with_nodelay(Some(true)), stop)
        .await
        .map_err(|error| CommandError::Failed(format!("the worker failed: {error}")))
}
