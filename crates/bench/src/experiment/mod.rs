//! One file per figure, and the list of all.
//!
//! `meter` measures and runs, `tally` counts operations and `drive` runs until it has; `metered`
//! notes what verbs cost and `work` what a core's work does; `one_to_one` has the flows that
//! several figures share.

pub mod bluefield;
pub mod bluefield_11;
pub mod bluefield_12;
pub mod bluefield_4;
pub mod bluefield_4b;
pub mod bluefield_5;
pub mod bluefield_6;
pub mod bluefield_9;
pub mod communication;
pub mod drive;
pub mod fat_btree;
pub mod fat_btree_10;
pub mod fat_btree_5;
pub mod fat_btree_6;
pub mod fat_btree_7;
pub mod fat_btree_8;
pub mod fat_btree_9;
pub mod meter;
pub mod metered;
pub mod one_to_one;
pub mod order;
pub mod paper;
pub mod ping_pong;
pub mod replication;
pub mod seamless_3;
pub mod seamless_4;
pub mod seamless_5;
pub mod shuffle;
pub mod tally;
pub mod units;
pub mod work;
pub mod zero_sided_10;
pub mod zero_sided_11;
pub mod zero_sided_12;
pub mod zero_sided_13;
pub mod zero_sided_14;
pub mod zero_sided_15;
pub mod zero_sided_16;
pub mod zero_sided_6;
pub mod zero_sided_7;
pub mod zero_sided_8;
pub mod zero_sided_9;
pub mod zero_sided_flows;

use crate::figure::Figure;

/// How much is run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Few points, small data and short runs.
    Quick,
    /// All that the claims speak of, with as many points as show the shape of the curves.
    Full,
    /// Every point of the paper's figure that this machine can run, with the longest runs.
    Paper,
}

impl Scale {
    /// All of them, the shortest first.
    pub const ALL: [Self; 3] = [Self::Quick, Self::Full, Self::Paper];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
            Self::Paper => "paper",
        }
    }

    /// What it means, in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::Quick => {
                "Few points, small data and short runs: enough to see that everything works and \
                 where curves go. Claims are compared where the short runs allow it; what is \
                 shrunk is told at each figure."
            }
            Self::Full => {
                "Every claim at the paper's point, and enough points for the shape of each curve. \
                 Where the paper's sweep or data would take too long, fewer points or shorter runs \
                 are taken, which is told at the figure."
            }
            Self::Paper => {
                "The paper's sweeps as far as this machine can run them, with the longest runs. \
                 Data that does not fit is shrunk even so, which is told at the figure."
            }
        }
    }
}

/// What an experiment is told while it runs.
pub struct Run<'a> {
    /// How much is run.
    pub scale: Scale,
    /// The seed of the simulator.
    pub seed: u64,
    /// Called with the share that is done, from 0 to 1; says whether to go on.
    pub progress: &'a mut dyn FnMut(f64) -> bool,
}

/// Why an experiment gave no figure.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The rack could not be built.
    #[error(transparent)]
    Rack(#[from] rackweave_rack::RackError),
    /// A flow could not be set up or changed.
    #[error(transparent)]
    Flow(#[from] rackweave_controller::FlowError),
    /// The run came to no end, or to a wrong one.
    #[error("{0}; the same seed replays it")]
    Run(String),
    /// The user wished to stop.
    #[error("interrupted")]
    Interrupted,
}

impl ExperimentError {
    /// The same error with where it happened, if it is one of a run.
    #[must_use]
    pub fn with(self, what: impl core::fmt::Display) -> Self {
        match self {
            Self::Run(error) => Self::Run(format!("{what}: {error}")),
            other => other,
        }
    }
}

/// One of the papers' figures.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line, such as "zero-sided-6".
    pub name: &'static str,
    /// What it shows, in a line.
    pub about: &'static str,
    /// Runs it.
    pub run: fn(&mut Run<'_>) -> Result<Figure, ExperimentError>,
}

/// Every experiment, in the papers' order.
pub const ALL: &[Experiment] = &[
    zero_sided_flows::EXPERIMENT,
    zero_sided_6::EXPERIMENT,
    zero_sided_7::EXPERIMENT,
    zero_sided_8::EXPERIMENT,
    zero_sided_9::EXPERIMENT,
    zero_sided_10::EXPERIMENT,
    zero_sided_11::EXPERIMENT,
    zero_sided_12::EXPERIMENT,
    zero_sided_13::EXPERIMENT,
    zero_sided_14::EXPERIMENT,
    zero_sided_15::EXPERIMENT,
    zero_sided_16::EXPERIMENT,
    seamless_3::EXPERIMENT,
    seamless_4::EXPERIMENT,
    seamless_5::EXPERIMENT,
    bluefield_4::EXPERIMENT,
    bluefield_4b::EXPERIMENT,
    bluefield_5::EXPERIMENT,
    bluefield_6::EXPERIMENT,
    bluefield_9::EXPERIMENT,
    bluefield_9::EXPERIMENT_10,
    bluefield_11::EXPERIMENT,
    bluefield_12::EXPERIMENT,
    fat_btree_5::EXPERIMENT,
    fat_btree_6::EXPERIMENT,
    fat_btree_7::EXPERIMENT,
    fat_btree_7::EXPERIMENT_B,
    fat_btree_8::EXPERIMENT,
    fat_btree_9::EXPERIMENT,
    fat_btree_10::EXPERIMENT,
    fat_btree_10::EXPERIMENT_B,
    fat_btree_10::EXPERIMENT_C,
    fat_btree_10::EXPERIMENT_D,
    communication::EXPERIMENT_4A,
    communication::EXPERIMENT_4B,
    communication::EXPERIMENT_5A,
    communication::EXPERIMENT_5B,
    communication::EXPERIMENT_6A,
    communication::EXPERIMENT_6B,
];
