//! The command line.

use crate::data::DataSet;
use crate::error::CommandError;
use crate::session::{Compression, SessionOptions, positive};
use crate::transport::rackweave::SwitchOptions;
use crate::transport::storage::ServeStorageOptions;
use crate::transport::{ServeOptions, Transport, WorkerOptions};
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// SQL queries on several workers, over Rackweave or Arrow Flight.
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "\
Examples:
  rackweave-sql tpch gen --sf 1                                make data in tpch-sf1
  rackweave-sql run --data tpch-sf1 --query all --check        run the 22 queries and check them
  rackweave-sql explain --data tpch-sf1 --query 5              show the stages of a plan
  rackweave-sql compare --data tpch-sf1 --transports rackweave,flight --query all --repeat 5
  rackweave-sql exchange --transports rackweave,flight --local 4   compare the exchanges alone
  rackweave-sql shell --data tpch-sf1                          type statements

Exit status: 0 success; 1 a query failed or a result differs; 2 wrong arguments or set-up;
130 interrupted with Ctrl-C."
)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// TPC-H data.
    #[command(subcommand)]
    Tpch(TpchCommand),
    /// Runs queries and prints what each took.
    Run(RunArguments),
    /// Prints the distributed physical plan of queries: stages, tasks and exchanges.
    Explain(ExplainArguments),
    /// Runs the same queries over several transports, in turns, and compares what they took.
    Compare(CompareArguments),
    /// Moves batches from all workers to all others over several transports, in turns, and compares
    /// what that took.
    Exchange(ExchangeArguments),
    /// Serves tasks of other processes' queries until Ctrl-C. Prints its URL when it is ready.
    Worker(WorkerArguments),
    /// Holds tables in memory as a storage node of a rack, and serves their columns until Ctrl-C.
    /// Prints a line when it is ready.
    Storage(StorageArguments),
    /// Runs the switch of a rack of this machine's own, for `run --local`.
    #[command(hide = true)]
    Switch(SwitchOptions),
    /// Reads statements, which end with `;`, and prints their results.
    Shell(ShellArguments),
}

/// The commands for TPC-H data.
#[derive(Debug, Subcommand)]
pub enum TpchCommand {
    /// Makes the eight TPC-H tables as Parquet files.
    Gen(GenArguments),
}

/// `tpch gen`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rackweave-sql tpch gen --sf 0.1
  rackweave-sql tpch gen --sf 10 --out /data/tpch-sf10 --parts 16")]
pub struct GenArguments {
    /// Scale factor: 1 is the validation database, 6 million rows of lineitem.
    #[arg(long, value_name = "N", value_parser = scale_factor)]
    pub sf: f64,
    /// The directory to make [default: tpch-sfN].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Files of each large table. Scans are divided among workers by files and row groups.
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub parts: u32,
}

/// Data, workers and plans: what every command with queries needs.
#[derive(Debug, Args)]
pub struct SessionArguments {
    /// The directory with the tables, or its file:// URL.
    #[arg(long, value_name = "DIR|URL", default_value = "tpch-sf1")]
    pub data: String,
    #[command(flatten)]
    pub workers: WorkerOptions,
    #[command(flatten)]
    pub options: SessionOptions,
}

impl SessionArguments {
    /// The tables in files, which needn't be there if storage nodes have them.
    ///
    /// # Errors
    /// Those of [`DataSet::open`].
    pub fn data_set(&self) -> Result<DataSet, CommandError> {
        let opened = DataSet::open(&self.data);
        if self.workers.storage.tables_from.is_empty() {
            return opened;
        }
        Ok(opened.unwrap_or_else(|_| DataSet::empty(&self.data)))
    }
}

/// `run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rackweave-sql run --query 1,3..5 --transport rackweave --local 4
  rackweave-sql run --query all --transport flight --check --format json
  rackweave-sql run --query report.sql --workers http://10.0.0.1:9000,http://10.0.0.2:9000 \\
      --transport flight --data file:///data/tpch-sf1")]
pub struct RunArguments {
    #[command(flatten)]
    pub query: QueryArgument,
    /// How batches get from process to process.
    #[arg(long, value_enum, default_value_t = Transport::Rackweave)]
    pub transport: Transport,
    /// Compare each result with that of one process, and at scale factor 1 with the published
    /// answer.
    #[arg(long)]
    pub check: bool,
    /// Run each query N times.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    pub repeat: usize,
    /// Print the rows of TPC-H queries too; those of files are always printed.
    #[arg(long)]
    pub show: bool,
    /// How the report is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub session: SessionArguments,
}

/// `--query`.
#[derive(Debug, Args)]
pub struct QueryArgument {
    /// TPC-H queries by number or range, `all`, or files of SQL, separated by commas.
    #[arg(long, short, value_name = "1..22|all|FILE.sql[,...]", required = true)]
    pub query: String,
}

/// `explain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rackweave-sql explain --query 5 --transport flight --local 4")]
pub struct ExplainArguments {
    #[command(flatten)]
    pub query: QueryArgument,
    /// How batches get from process to process.
    #[arg(long, value_enum, default_value_t = Transport::Rackweave)]
    pub transport: Transport,
    #[command(flatten)]
    pub session: SessionArguments,
}

/// `compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each round starts the workers of one transport after the other, in the order given, runs all
queries, and stops the workers: with two transports A and B the order is ABAB. The times in the
table are medians over the rounds.

Example:
  rackweave-sql compare --transports rackweave,flight --query all --repeat 5 --local 4")]
pub struct CompareArguments {
    #[command(flatten)]
    pub query: QueryArgument,
    /// The transports, separated by commas. Ratios are those of the others to the last one.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "rackweave,flight"
    )]
    pub transports: Vec<Transport>,
    /// Rounds.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = positive)]
    pub repeat: usize,
    /// Times that a round runs all queries before it measures.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warm_up: usize,
    /// How the report is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub session: SessionArguments,
}

/// `exchange`.
#[derive(Debug, Args)]
#[command(after_help = "\
Each worker makes a few batches, and sends references to them to each other worker, which counts
the rows and drops them: what is measured is the encoding, the way and the decoding. Rows, bytes
and a sum are checked. Bytes are those of the columns in memory, the same for all transports; the
time contains that of sending the plans. Rounds are as in `compare`.

Example:
  rackweave-sql exchange --transports rackweave,flight --local 4 --batch-rows 1024,8192 --repeat 5")]
pub struct ExchangeArguments {
    /// The transports, separated by commas. Ratios are those of the others to the last one.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "rackweave,flight"
    )]
    pub transports: Vec<Transport>,
    /// MiB of batches that all workers together get in a round.
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = positive)]
    pub size: usize,
    /// Rows of a batch; several numbers are measured one after the other.
    #[arg(long, value_name = "ROWS[,...]", value_delimiter = ',', default_value = "8192",
          value_parser = positive)]
    pub batch_rows: Vec<usize>,
    /// Partitions that a worker reads from each other one at a time.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = positive)]
    pub partitions: usize,
    /// Compression of batches on the way between processes.
    #[arg(long, value_enum, default_value_t = Compression::None)]
    pub compression: Compression,
    /// MiB of batches that may have arrived and wait to be taken: at a node over Rackweave, in a
    /// connection over Flight.
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = positive)]
    pub budget: usize,
    /// Rounds.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = positive)]
    pub repeat: usize,
    /// Times that a round moves all batches before it measures.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warm_up: usize,
    /// How the report is printed.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
    #[command(flatten)]
    pub workers: WorkerOptions,
}

/// `worker`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rackweave-sql worker --transport flight --listen 10.0.0.1:9000
  rackweave-sql worker compute0 --transport rackweave")]
pub struct WorkerArguments {
    #[command(flatten)]
    pub serve: ServeOptions,
}

/// `storage`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  rackweave-sql storage storage0 --rack rack.toml --data tpch-sf1 --share 1/2
  rackweave-sql storage storage1 --rack rack.toml --data tpch-sf1 --share 2/2
  rackweave-sql run --query all --rack rack.toml --tables-from all")]
pub struct StorageArguments {
    #[command(flatten)]
    pub serve: ServeStorageOptions,
}

/// `shell`.
#[derive(Debug, Args)]
#[command(after_help = "\
Ctrl-C cancels the running query or the line; Ctrl-D or `quit;` ends. `show tables;` lists the
tables, `explain SELECT ...;` shows a plan.

Example:
  rackweave-sql shell --data tpch-sf1 --transport flight --local 4")]
pub struct ShellArguments {
    /// How batches get from process to process.
    #[arg(long, value_enum, default_value_t = Transport::Rackweave)]
    pub transport: Transport,
    #[command(flatten)]
    pub session: SessionArguments,
}

/// How a report is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Tables for people.
    Text,
    /// One JSON document.
    Json,
}

fn scale_factor(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if (0.001..=100_000.0).contains(&number) => Ok(number),
        _ => Err("expected a number from 0.001 to 100000".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::{CommandFactory, Parser};

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let check = |line: &str, accepted: bool| {
            let parsed = Arguments::try_parse_from(line.split(' '));
            assert_eq!(parsed.is_ok(), accepted, "{line}: {:?}", parsed.err());
        };
        check("rackweave-sql run --query 1 --local 4", true);
        check(
            "rackweave-sql run --query 1 --workers http://a:1,http://b:2",
            true,
        );
        check(
            "rackweave-sql run --query 1 --local 4 --workers http://a:1",
            false,
        );
        check("rackweave-sql run", false);
        check("rackweave-sql run --query 1 --repeat 0", false);
        check("rackweave-sql tpch gen --sf 0", false);
        check("rackweave-sql tpch gen --sf 1 --parts 8", true);
        check(
            "rackweave-sql compare --query all --transports flight,single",
            true,
        );
        check("rackweave-sql worker --listen nowhere", false);
        check(
            "rackweave-sql exchange --local 4 --batch-rows 1024,8192 --link udp --size 64",
            true,
        );
        check("rackweave-sql exchange --batch-rows 0", false);
        check("rackweave-sql exchange --batch-rows 1024,", false);
        check("rackweave-sql run --query 1 --local 2 --storage 2", true);
        check("rackweave-sql run --query 1 --rack f --storage 2", false);
        check(
            "rackweave-sql run --query 1 --rack f --tables-from a,b",
            true,
        );
        check("rackweave-sql run --query 1 --tables-from a,b", false);
        let storage = "rackweave-sql storage s0 --rack f --share";
        check(&format!("{storage} 2/2"), true);
        check(&format!("{storage} 3/2"), false);
        check(&format!("{storage} 0/2"), false);
    }
}
