//! The command `columns`: programs that join a hosted rack as nodes, of which some serve TPC-H's
//! lineitem by columns (`serve`), and others fetch the columns that a query needs (`query`).
//!
//! A server offers a service named after its node, by which clients learn its address and what it
//! serves. The columns themselves travel over messaging connections (docs/columns.md).

pub mod args;
mod query;
mod serve;

use crate::globals::{Format, Globals};
use crate::outcome::{CliError, Verdict};
use args::{ColumnsArgs, ColumnsCommand};
use rackweave_rack::{Rack, RackConfig};
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// What a server serves, as its service says.
#[derive(Serialize, Deserialize, Clone, Debug)]
struct Offer {
    /// The server's node.
    node: String,
    /// Where it accepts connections.
    address: SocketAddr,
    scale_factor: f64,
    /// The number of its part of the table, from one.
    part: u32,
    parts: u32,
}

/// The name of the service of a server at this node.
fn service_of(node: &str) -> String {
    format!("columns@{node}")
}

/// Runs the command.
///
/// # Errors
/// If no rack runs, the node is taken, or the rack cannot do what is requested.
pub fn run(args: &ColumnsArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let config = globals.hosted_process()?;
    match &args.command {
        ColumnsCommand::Serve(_) if globals.args.format == Format::OpenMetrics => {
            Err(CliError::usage(
                "columns serve reports events, of which there are no metrics; use --format json",
            ))
        }
        ColumnsCommand::Serve(args) => {
            serve::run(args, &join(&config, args.node.as_deref())?, globals)
        }
        ColumnsCommand::Query(args) => {
            query::run(args, &join(&config, args.node.as_deref())?, globals)
        }
    }
}

/// The running rack, joined as this node, or as a guest.
fn join(config: &RackConfig, node: Option<&str>) -> Result<Rack, CliError> {
    Ok(match node {
        Some(node) => Rack::join_as(config, &[node])?,
        None => Rack::join_guests(config, 1)?,
    })
}
