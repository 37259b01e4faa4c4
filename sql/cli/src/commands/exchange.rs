//! `exchange`.

use super::rounds::Rounds;
use super::{Connected, print_report, until_interrupted};
use crate::args::ExchangeArguments;
use crate::data::DataSet;
use crate::error::CommandError;
use crate::execute::{Measurement, execute_plan};
use crate::report::{ExchangeCase, ExchangeReport};
use crate::session::{self, SessionOptions};
use crate::traffic::{self, Traffic};
use crate::transport::{self, Transport};
use datafusion::prelude::SessionContext;
use datafusion_distributed::DistributedExt as _;
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// Runs the rounds and reports.
///
/// # Errors
/// The workers cannot be reached, or a consumer did not get what it must.
pub async fn run(arguments: &ExchangeArguments) -> Result<(), CommandError> {
    if arguments.transports.contains(&Transport::Single) {
        return Err(CommandError::set_up(
            "`single` exchanges nothing. Use --transports rackweave,flight",
        ));
    }
    let report = until_interrupted(Box::pin(rounds(arguments))).await?;
    print_report(arguments.format, &report, || report.text());
    Ok(())
}

async fn rounds(arguments: &ExchangeArguments) -> Result<ExchangeReport, CommandError> {
    let mut workers = 0;
    let rounds = Rounds {
        transports: &arguments.transports,
        repeat: arguments.repeat,
        warm_up: arguments.warm_up,
        cases: arguments.batch_rows.len(),
    };
    let open = async |transport| {
        let connected = open(transport, arguments).await?;
        workers = connected.workers();
        Ok(connected)
    };
    let measure = async |connected: &mut Connected, case: usize| {
        let traffic = traffic(arguments, connected.workers(), case);
        move_batches(connected, &traffic).await
    };
    let sides = rounds.run(open, measure).await?;
    let cases = (0..arguments.batch_rows.len()).map(|case| {
        let runs = sides.iter().map(|side| side[case].clone()).collect();
        ExchangeCase::new(&traffic(arguments, workers, case), runs)
    });
    Ok(ExchangeReport {
        transports: arguments.transports.clone(),
        workers,
        link: arguments.workers.link,
        compression: arguments.compression,
        partitions: arguments.partitions,
        budget: arguments.budget,
        cases: cases.collect(),
    })
}

fn traffic(arguments: &ExchangeArguments, workers: usize, case: usize) -> Traffic {
    let bytes = (arguments.size as u64) << 20;
    let batch_rows = arguments.batch_rows[case];
    Traffic::new(workers, arguments.partitions, batch_rows, bytes)
}

/// Starts workers, or reaches them.
async fn open(
    transport: Transport,
    arguments: &ExchangeArguments,
) -> Result<Connected, CommandError> {
    let options = SessionOptions {
        partitions: arguments.partitions,
        compression: arguments.compression,
        budget: arguments.budget,
        ..SessionOptions::default()
    };
    if arguments.workers.storage.is_used() {
        return Err(CommandError::set_up("`exchange` reads no tables"));
    }
    let no_tables = DataSet::empty("");
    let compression = options.compression;
    let cluster =
        transport::connect(transport, &arguments.workers, compression, &no_tables).await?;
    let cluster = cluster.ok_or_else(|| CommandError::set_up("there are no workers"))?;
    let workers = cluster.workers.get_urls()?;
    if workers.len() < 2 {
        return Err(CommandError::set_up(
            "an exchange needs two workers or more: --local 4",
        ));
    }
    let builder = session::distributed_builder(&options, &cluster.channels, &cluster.workers)?;
    let state = builder
        .with_distributed_route_tasks_handler(traffic::routes(workers))
        .build();
    Ok(Connected {
        context: SessionContext::new_with_state(state),
        cluster: Some(cluster),
    })
}

async fn move_batches(
    connected: &mut Connected,
    traffic: &Traffic,
) -> Result<Measurement, CommandError> {
    connected.restart_ended(false).await?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let query = Uuid::from_u128(now.unwrap_or_default().as_nanos());
    let plan = traffic.plan(query)?;
    let (context, processes) = (connected.context.task_ctx(), connected.processes());
    let moved = connected.supervise(execute_plan(plan, context, &processes));
    let (measurement, counted) = moved.await?;
    let checked = traffic.check(&counted);
    checked.map_err(|why| CommandError::Failed(format!("batches were lost or changed: {why}")))?;
    Ok(measurement)
}
