//! The command `columns`: programs that join a hosted rack as nodes, of which some serve TPC-H's
//! lineitem by columns (`serve`), and others fetch the columns that a query needs (`query`).
//!
//! A server offers a service named after its node, by which clients learn its address and what it
//! serves. The columns themselves travel over messaging connections (docs/columns.md).

mod query;
mod serve;

use crate::globals::{Format, Globals};
use crate::outcome::{CliError, Verdict};
use clap::{Args, Subcommand, ValueEnum};
use rackweave_rack::{Rack, RackConfig};
use rackweave_workload::columns::{Q1_COLUMNS, Q6_COLUMNS};
use rackweave_workload::tpch::{Part, ScaleFactor};
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

/// Arguments of `columns`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples, on the rack that `rackweave up` runs, each in a terminal of its own:
  rackweave columns serve --part 1/2 --scale-factor 1
  rackweave columns serve --part 2/2 --scale-factor 1
  rackweave columns query q6
  rackweave columns query q1 --format json
  rackweave columns serve storage0     as this node, with `rackweave up --without storage0`")]
pub struct ColumnsArgs {
    #[command(subcommand)]
    pub command: ColumnsCommand,
}

/// What to do with columns.
#[derive(Subcommand, Clone, Debug)]
pub enum ColumnsCommand {
    /// Join a hosted rack as a node, and serve TPC-H's lineitem by columns, until Ctrl-C
    Serve(ServeArgs),
    /// Join a hosted rack as a node, fetch the columns that a query needs, and answer it
    Query(QueryArgs),
}

/// Arguments of `columns serve`.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// The node to join as; without it, a guest
    #[arg(value_name = "NODE")]
    pub node: Option<String>,
    /// How many rows the table has: 1 is six million
    #[arg(long, value_name = "F", default_value = "0.1")]
    pub scale_factor: ScaleFactor,
    /// The part of the table that is served, of as many as there are servers
    #[arg(long, value_name = "I/N", default_value = "1/1", value_parser = share)]
    pub part: Share,
    /// Where clients connect; without it, a free port of the address that reaches the controller
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
}

/// Arguments of `columns query`.
#[derive(Args, Clone, Debug)]
pub struct QueryArgs {
    /// The query
    #[arg(value_enum)]
    pub query: Query,
    /// The node to join as; without it, a guest
    #[arg(value_name = "NODE")]
    pub node: Option<String>,
}

/// A query of TPC-H over lineitem.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Query {
    /// The pricing summary, over seven columns
    Q1,
    /// The forecast of a change of revenue, over four columns
    Q6,
}

impl Query {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Q1 => "q1",
            Self::Q6 => "q6",
        }
    }

    /// The columns that it needs, in the order in which it takes them.
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Q1 => &Q1_COLUMNS,
            Self::Q6 => &Q6_COLUMNS,
        }
    }
}

/// A part of the table: its number, from one, and the number of parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    pub number: u32,
    pub parts: u32,
    pub part: Part,
}

fn share(text: &str) -> Result<Share, String> {
    let numbers = text.split_once('/').and_then(|(number, parts)| {
        let number: u32 = number.parse().ok()?;
        Some((number.checked_sub(1)?, parts.parse().ok()?))
    });
    let (index, parts) = numbers.ok_or("a part looks like 1/2: the first of two")?;
    let part = Part::new(index, parts).map_err(|error| error.to_string())?;
    let number = index + 1;
    Ok(Share {
        number,
        parts,
        part,
    })
}
