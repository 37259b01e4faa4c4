//! `explain`.

use super::{Connected, until_interrupted};
use crate::args::ExplainArguments;
use crate::error::CommandError;
use crate::execute::explain;
use crate::query;

/// Prints the plans.
///
/// # Errors
/// A query is wrong, or the workers cannot be reached.
pub async fn run(arguments: &ExplainArguments) -> Result<(), CommandError> {
    let data = arguments.session.data_set()?;
    let queries = query::parse(&arguments.query.query, data.scale_factor())?;
    until_interrupted(async {
        let connected = Connected::open(arguments.transport, &arguments.session, &data).await?;
        for query in queries {
            println!(
                "{}\n{}",
                query.name,
                explain(&connected.context, &query.sql).await?
            );
        }
        Ok(())
    })
    .await
}
