//! `run`.

use super::{Connected, QUERIES_TEMPLATE, print_report, progress};
use crate::args::{Format, RunArguments};
use crate::data::DataSet;
use crate::error::CommandError;
use crate::execute::{Execution, execute};
use crate::query::{self, Query};
use crate::report::{Check, QueryReport, RUN_HEADER, RunReport, median};
use crate::session;
use crate::tpch::answers::{self, Answer};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;

/// Runs the queries and reports.
///
/// # Errors
/// A query fails, or a result differs: the other queries run nevertheless.
pub async fn run(arguments: &RunArguments) -> Result<(), CommandError> {
    let data = arguments.session.data_set()?;
    let queries = query::parse(&arguments.query.query, data.scale_factor())?;
    let open = Connected::open_cancellable(arguments.transport, &arguments.session, &data);
    let (mut connected, canceller) = open.await?;
    let report = canceller
        .run(run_all(arguments, &data, &queries, &mut connected))
        .await?;
    print_report(arguments.format, &report, || {
        format!("{:<12}{:>9.3} s\n", "total", report.total_seconds)
    });
    let unsuccessful: Vec<&str> = report
        .queries
        .iter()
        .filter(|query| !query.succeeded())
        .map(|query| query.name.as_str())
        .collect();
    if unsuccessful.is_empty() {
        return Ok(());
    }
    let (count, names) = (unsuccessful.len(), unsuccessful.join(", "));
    Err(CommandError::Failed(format!(
        "{count} of {} failed: {names}",
        queries.len()
    )))
}

async fn run_all(
    arguments: &RunArguments,
    data: &DataSet,
    queries: &[Query],
    connected: &mut Connected,
) -> Result<RunReport, CommandError> {
    let mut reference = None;
    if arguments.check {
        let context = session::single(&arguments.session.options);
        data.register(&context).await?;
        reference = Some(context);
    }
    let text = arguments.format == Format::Text;
    if text {
        if let nodes @ [_, ..] = connected.storage_nodes() {
            println!("tables on {}", nodes.join(", "));
        }
        println!("{RUN_HEADER}");
    }
    let bar = progress(queries.len() as u64, QUERIES_TEMPLATE);
    let mut reports = Vec::with_capacity(queries.len());
    for query in queries {
        bar.set_message(query.name.clone());
        let (report, execution) =
            run_query(arguments, data, connected, reference.as_ref(), query).await;
        if text {
            bar.suspend(|| print(arguments, query, &report, execution.as_ref()));
        }
        reports.push(report);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let seconds =
        |report: &QueryReport| median(report.runs.iter().map(|measurement| measurement.seconds));
    Ok(RunReport {
        transport: arguments.transport,
        setting: connected.setting(&arguments.session, data),
        total_seconds: reports.iter().map(seconds).sum(),
        queries: reports,
    })
}

fn print(
    arguments: &RunArguments,
    query: &Query,
    report: &QueryReport,
    execution: Option<&Execution>,
) {
    println!("{}", report.text());
    let show = arguments.show || query.tpch.is_none();
    if let Some(execution) = execution.filter(|execution| show && !execution.batches.is_empty()) {
        match pretty_format_batches(&execution.batches) {
            Ok(table) => println!("{table}"),
            Err(error) => println!("cannot print the rows: {error}"),
        }
    }
}

async fn run_query(
    arguments: &RunArguments,
    data: &DataSet,
    connected: &mut Connected,
    reference: Option<&SessionContext>,
    query: &Query,
) -> (QueryReport, Option<Execution>) {
    let mut report = QueryReport {
        name: query.name.clone(),
        ..QueryReport::default()
    };
    let mut last = None;
    for _ in 0..arguments.repeat {
        match connected.execute(&query.sql).await {
            Ok(execution) => {
                report.runs.push(execution.measurement);
                last = Some(execution);
            }
            Err(error) => {
                report.error = Some(error.to_string());
                return (report, None);
            }
        }
    }
    if let (Some(reference), Some(execution)) = (reference, &last) {
        match check(data, reference, query, execution).await {
            Ok(check) => report.check = Some(check),
            Err(error) => report.error = Some(format!("cannot check: {error}")),
        }
    }
    (report, last)
}

async fn check(
    data: &DataSet,
    reference: &SessionContext,
    query: &Query,
    execution: &Execution,
) -> Result<Check, CommandError> {
    let table = execution.table()?;
    let expected = execute(reference, &query.sql, &[]).await?.table()?;
    let manifest = data.manifest.as_ref();
    let validation = manifest
        .is_some_and(|manifest| manifest.scale_factor.to_bits() == answers::SCALE_FACTOR.to_bits());
    let answer = query
        .tpch
        .filter(|_| validation)
        .and_then(Answer::published);
    Ok(Check {
        single: table.check("this run", &expected, "one process").into(),
        published: answer.map(|answer| answer.check(&table).into()),
    })
}
