//! Code shared by experiments and baselines: a run and its scale, racks, actors' verbs, results.
//!
//! [`Run`] has the scale, the seed and the progress. `drive` runs a rack and `tally` counts what
//! its programs do; `grid` measures systems at points. `metered` accounts for the cost of verbs and
//! of a core's work. `one_to_one` has the flows of several figures, `shuffle` the rack of the
//! shuffles, `blank` a namespace without contents. It knows neither baselines nor experiments.

pub(crate) mod blank;
pub(crate) mod drive;
pub(crate) mod grid;
pub(crate) mod metered;
pub(crate) mod one_to_one;
pub(crate) mod prelude;
pub(crate) mod shuffle;
pub(crate) mod tally;

/// The extent of an experiment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Few points, small data and short runs.
    Quick,
    /// All points that the claims need, and enough others to show the shape of the curves.
    Full,
    /// Every point of the paper's figure that this machine can run, with the longest runs.
    Paper,
}

impl Scale {
    /// All scales, the shortest first.
    pub const ALL: [Self; 3] = [Self::Quick, Self::Full, Self::Paper];

    /// `quick` for the quick scale, `others` for the other scales.
    pub fn pick<T>(self, quick: T, others: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full | Self::Paper => others,
        }
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
            Self::Paper => "paper",
        }
    }

    /// Its meaning, in a sentence.
    pub fn about(self) -> &'static str {
        match self {
            Self::Quick => {
                "Few points, small data and short runs: enough to see that everything works and \
                 where curves go. Claims are compared where the short runs allow it; what is \
                 shrunk is stated at each figure."
            }
            Self::Full => {
                "Every claim at the paper's point, and enough points for the shape of each curve. \
                 Where the paper's sweep or data would take too long, fewer points or shorter runs \
                 are taken, which is stated at the figure."
            }
            Self::Paper => {
                "The paper's sweeps as far as this machine can run them, with the longest runs. \
                 Data that does not fit is shrunk even so, which is stated at the figure."
            }
        }
    }
}

/// A run of an experiment, or a part of one.
pub struct Run<'a> {
    /// The extent of the run.
    pub scale: Scale,
    /// The seed of the simulator.
    pub seed: u64,
    /// Called with the completed share, from 0 to 1; returns whether to continue.
    progress: &'a mut dyn FnMut(f64) -> bool,
    /// Where this part begins and ends, as shares of the whole.
    from: f64,
    to: f64,
}

impl<'a> Run<'a> {
    /// A whole run. `progress` is called with the completed share, from 0 to 1, and returns whether
    /// to continue.
    pub fn new(scale: Scale, seed: u64, progress: &'a mut dyn FnMut(f64) -> bool) -> Self {
        Self {
            scale,
            seed,
            progress,
            from: 0.0,
            to: 1.0,
        }
    }

    /// Part `at` of `count` equal parts.
    pub fn part(&mut self, at: usize, count: usize) -> Run<'_> {
        let count = count.max(1) as f64;
        self.share(at as f64 / count, (at + 1) as f64 / count)
    }

    /// The part between two shares of this part.
    pub fn share(&mut self, from: f64, to: f64) -> Run<'_> {
        let whole = self.to - self.from;
        Run {
            scale: self.scale,
            seed: self.seed,
            progress: &mut *self.progress,
            from: self.from + from * whole,
            to: self.from + to * whole,
        }
    }

    /// Reports that this share of this part is done.
    ///
    /// # Errors
    /// If the user wishes to stop.
    pub fn at(&mut self, share: f64) -> Result<()> {
        match (self.progress)(self.from + share * (self.to - self.from)) {
            true => Ok(()),
            false => Err(ExperimentError::Interrupted),
        }
    }
}

#[cfg(test)]
impl Run<'static> {
    /// A short run that is never interrupted.
    pub fn quick(seed: u64) -> Self {
        Self::new(Scale::Quick, seed, Box::leak(Box::new(|_| true)))
    }
}

/// The result of an experiment, or of a part of one.
pub type Result<T, E = ExperimentError> = core::result::Result<T, E>;

/// Why an experiment has no figure.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ExperimentError {
    /// The rack could not be built.
    #[error(transparent)]
    Rack(#[from] rackweave_rack::RackError),
    /// A flow could not be set up or changed.
    #[error(transparent)]
    Flow(#[from] rackweave_controller::FlowError),
    /// The run did not end, or ended with a wrong result.
    #[error("{0}; the same seed replays it")]
    Run(String),
    /// The user wished to stop.
    #[error("interrupted")]
    Interrupted,
}

impl ExperimentError {
    /// Adds where the error happened, if it is a `Run` error.
    #[must_use]
    pub fn with(self, what: impl core::fmt::Display) -> Self {
        match self {
            Self::Run(error) => Self::Run(format!("{what}: {error}")),
            other => other,
        }
    }
}
