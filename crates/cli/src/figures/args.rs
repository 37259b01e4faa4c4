//! Arguments of `figures`.

use clap::{Args, ValueEnum};
use rackweave_bench::experiment::ALL;
use rackweave_bench::harness::Scale;
use std::path::PathBuf;

/// Arguments of `figures`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave figures --list
  rackweave figures                                  all of them: minutes
  rackweave figures zero-sided-6 --quick --out /tmp/figures
  rackweave figures zero-sided-7 --format json
  rackweave figures communication-6a --embedded

report.html has everything in one page: open it in a browser. Of each figure NAME.csv has the curves
and NAME.svg the picture; claims.csv has what the papers say beside what was measured. The racks are
the papers' testbeds: --config changes nothing here. A ratio that is far from one is no failure.")]
pub struct FiguresArgs {
    /// Which figures; without names, all
    #[arg(value_name = "NAME",
          value_parser = clap::builder::PossibleValuesParser::new(
              ALL.iter().map(|one| one.name)))]
    pub names: Vec<String>,
    /// How much is run
    #[arg(long, value_enum, default_value_t = FiguresScale::Full, conflicts_with = "quick")]
    pub scale: FiguresScale,
    /// Few points and short runs: short for --scale quick
    #[arg(long)]
    pub quick: bool,
    /// Figures that run at a time, each on one core; without it, as many as there are cores. The
    /// result does not depend on it
    #[arg(long, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
    /// Where the files go
    #[arg(long, value_name = "DIR", default_value = "figures")]
    pub out: PathBuf,
    /// Measure on an embedded rack in real time instead, beside this machine's memcpy; the
    /// communication tier's figures only
    #[arg(long, requires = "names")]
    pub embedded: bool,
    /// Print what there is, and run nothing
    #[arg(long)]
    pub list: bool,
}

/// How much of the figures is run.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum FiguresScale {
    /// Few points, small data and short runs
    Quick,
    /// Every claim at the paper's point, and enough points for the shape of each curve
    Full,
    /// The paper's sweeps as far as this machine can run them; takes long
    Paper,
}

impl FiguresArgs {
    /// How much is run.
    pub fn scale(&self) -> Scale {
        match self.scale {
            _ if self.quick => Scale::Quick,
            FiguresScale::Quick => Scale::Quick,
            FiguresScale::Full => Scale::Full,
            FiguresScale::Paper => Scale::Paper,
        }
    }
}
