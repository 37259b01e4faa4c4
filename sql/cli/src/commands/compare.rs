//! `compare`.

use super::rounds::Rounds;
use super::{Connected, print_report, until_interrupted};
use crate::args::CompareArguments;
use crate::data::DataSet;
use crate::error::CommandError;
use crate::execute::explain;
use crate::query::{self, Query};
use crate::report::{CompareReport, ComparedQuery, Medians, Setting};
use crate::transport::Transport;

/// Runs the rounds and reports.
///
/// # Errors
/// A query fails, or the transports have different plans.
pub async fn run(arguments: &CompareArguments) -> Result<(), CommandError> {
    let data = DataSet::open(&arguments.session.data)?;
    let queries = query::parse(&arguments.query.query, data.scale_factor())?;
    let report = until_interrupted(Box::pin(rounds(arguments, &data, &queries))).await?;
    print_report(arguments.format, &report, || report.text());
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

async fn rounds(
    arguments: &CompareArguments,
    data: &DataSet,
    queries: &[Query],
) -> Result<CompareReport, CommandError> {
    let transports = &arguments.transports;
    let mut setting = None;
    // Of each transport with workers, the plans of all queries.
    let mut plans: Vec<(Transport, Vec<String>)> = Vec::new();
    let rounds = Rounds {
        transports,
        repeat: arguments.repeat,
        warm_up: arguments.warm_up,
        cases: queries.len(),
    };
    let open = async |transport: Transport| {
        let connected = Connected::open(transport, &arguments.session, data).await?;
        setting = Some(longer(
            setting.take(),
            connected.setting(&arguments.session, data),
        ));
        let is_known = plans.iter().any(|(known, _)| *known == transport);
        if transport != Transport::Single && !is_known {
            let mut shown = Vec::with_capacity(queries.len());
            for query in queries {
                shown.push(explain(&connected.context, &query.sql).await?);
            }
            plans.push((transport, shown));
        }
        Ok(connected)
    };
    let measure = async |connected: &mut Connected, query: usize| {
        let query = &queries[query];
        let executed = connected.execute(&query.sql).await;
        let execution =
            executed.map_err(|error| CommandError::Failed(format!("{}: {error}", query.name)))?;
        Ok(execution.measurement)
    };
    let sides = rounds.run(open, measure).await?;
    let compared = queries.iter().enumerate().map(|(index, query)| {
        let runs: Vec<_> = sides.iter().map(|side| side[index].clone()).collect();
        let mut plans = plans.iter().map(|(_, plans)| &plans[index]);
        let first = plans.next();
        ComparedQuery {
            name: query.name.clone(),
            plans_equal: plans.all(|plan| Some(plan) == first),
            medians: runs.iter().map(|runs| Medians::of(runs)).collect(),
            runs,
        }
    });
    let compared = compared.collect();
    let setting = setting.expect("clap asks for a round and a transport");
    Ok(CompareReport::new(transports.clone(), setting, compared))
}

/// `single` has no workers; the report has the number of the others.
fn longer(one: Option<Setting>, other: Setting) -> Setting {
    one.filter(|one| one.workers > other.workers)
        .unwrap_or(other)
}
