//! `compare`.

use super::{Connected, QUERIES_TEMPLATE, progress, until_interrupted};
use crate::args::{CompareArguments, Format};
use crate::data::DataSet;
use crate::error::CommandError;
use crate::execute::{Measurement, explain};
use crate::query::{self, Query};
use crate::report::{CompareReport, ComparedQuery, Medians, Setting};
use indicatif::ProgressBar;

/// Runs the rounds and reports.
///
/// # Errors
/// A query fails, or the transports have different plans.
pub async fn run(arguments: &CompareArguments) -> Result<(), CommandError> {
    let data = DataSet::open(&arguments.session.data)?;
    let queries = query::parse(&arguments.query.query, data.scale_factor())?;
    let report = until_interrupted(rounds(arguments, &data, &queries)).await?;
    match arguments.format {
        Format::Json => {
            println!(
                "{}",
                serde_json::to_string_pretty(&report).expect("a report is plain data")
            );
        }
        Format::Text => print!("{}", report.text()),
    }
    let different: Vec<&str> = report
        .queries
        .iter()
        .filter(|query| !query.plans_equal)
        .map(|query| query.name.as_str())
        .collect();
    if different.is_empty() {
        return Ok(());
    }
    let names = different.join(", ");
    Err(CommandError::Failed(format!(
        "the transports have different plans for {names}"
    )))
}

/// What one transport did in all rounds.
#[derive(Debug, Default)]
struct Side {
    /// For each query, the plan of the first round.
    plans: Vec<String>,
    /// For each query, one measurement for each round.
    runs: Vec<Vec<Measurement>>,
}

async fn rounds(
    arguments: &CompareArguments,
    data: &DataSet,
    queries: &[Query],
) -> Result<CompareReport, CommandError> {
    let transports = &arguments.transports;
    let passes = arguments.repeat * transports.len() * (arguments.warm_up + 1);
    let bar = progress((passes * queries.len()) as u64, QUERIES_TEMPLATE);
    let empty = || Side {
        plans: Vec::new(),
        runs: vec![Vec::new(); queries.len()],
    };
    let mut sides: Vec<Side> = transports.iter().map(|_| empty()).collect();
    let mut setting = None;
    for round in 0..arguments.repeat {
        for (side, &transport) in sides.iter_mut().zip(transports) {
            let mut connected = Connected::open(transport, &arguments.session, data).await?;
            setting = Some(longer(setting, connected.setting(&arguments.session, data)));
            let label = format!("{} round {}", transport.name(), round + 1);
            bar.set_message(label.clone());
            if round == 0 {
                for query in queries {
                    side.plans
                        .push(explain(&connected.context, &query.sql).await?);
                }
            }
            let pass = one_round(arguments, &mut connected, queries, side, &bar).await;
            pass.map_err(|error| CommandError::Failed(format!("{label}: {error}")))?;
        }
    }
    bar.finish_and_clear();
    let compared = queries.iter().enumerate().map(|(index, query)| {
        let runs: Vec<_> = sides.iter().map(|side| side.runs[index].clone()).collect();
        ComparedQuery {
            name: query.name.clone(),
            plans_equal: plans_equal(&sides, transports, index),
            medians: runs.iter().map(|runs| Medians::of(runs)).collect(),
            runs,
        }
    });
    let setting = setting.expect("clap asks for a round and a transport");
    Ok(CompareReport::new(
        transports.clone(),
        setting,
        compared.collect(),
    ))
}

/// `single` has no workers; the report has the number of the others.
fn longer(one: Option<Setting>, other: Setting) -> Setting {
    one.filter(|one| one.workers > other.workers)
        .unwrap_or(other)
}

/// Whether the transports with workers have the same plan for a query.
fn plans_equal(sides: &[Side], transports: &[crate::transport::Transport], query: usize) -> bool {
    let distributed = sides.iter().zip(transports);
    let mut plans = distributed
        .filter(|(_, transport)| **transport != crate::transport::Transport::Single)
        .map(|(side, _)| &side.plans[query]);
    let first = plans.next();
    plans.all(|plan| Some(plan) == first)
}

async fn one_round(
    arguments: &CompareArguments,
    connected: &mut Connected,
    queries: &[Query],
    side: &mut Side,
    bar: &ProgressBar,
) -> Result<(), CommandError> {
    for pass in 0..=arguments.warm_up {
        for (query, runs) in queries.iter().zip(&mut side.runs) {
            let executed = connected.execute(&query.sql).await;
            let execution = executed
                .map_err(|error| CommandError::Failed(format!("{}: {error}", query.name)))?;
            if pass == arguments.warm_up {
                runs.push(execution.measurement);
            }
            bar.inc(1);
        }
    }
    Ok(())
}
