//! Every system on one rack, embedded or joined, one after another, each verified and compared with
//! what this machine can do without a rack.
//!
//! [`enlarged`] enlarges a configuration for all systems; [`course`] runs them and reports
//! progress; there is one file for each system. [`yardstick`] has the limits, [`report`] the final
//! table.

mod course;
mod enlarged;
mod flows;
mod messaging;
mod pages;
mod report;
mod sequencer;
mod tree;
mod yardstick;

use super::DemoPlan;
use crate::globals::Globals;
use crate::programs::RealRack;
use crate::progress::Progress;
use crate::ycsb::doing;
use clap::ValueEnum;
pub(super) use course::run;
use rackweave_bench::ycsb::{Load, Phase};
use rackweave_rack::RackConfig;
use rackweave_workload::ycsb::{Workload, YcsbOptions};
pub use report::{SystemReport, table};
use serde::Serialize;
use std::time::{Duration, Instant};

/// A system of the demo, in the order in which they run.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SystemName {
    /// TPC-H rows shuffled, balanced and replicated by the switch
    #[default]
    Flows,
    /// YCSB over the page store
    Pages,
    /// YCSB over a B+tree, with and without the switch's help
    Tree,
    /// Long and small messages
    Messaging,
    /// Numbers from the switch and from a host
    Sequencer,
}

impl SystemName {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::Pages => "pages",
            Self::Tree => "tree",
            Self::Messaging => "messaging",
            Self::Sequencer => "sequencer",
        }
    }

    /// What it does, in a few words.
    fn in_words(self) -> &'static str {
        match self {
            Self::Flows => "TPC-H rows through the switch: shuffled, balanced, replicated",
            Self::Pages => "YCSB over the page store, every read verified",
            Self::Tree => "YCSB over a B+tree, with and without the switch's help",
            Self::Messaging => "long and small messages, every byte compared",
            Self::Sequencer => "numbers from the switch and from a host, each exactly once",
        }
    }
}

/// What every system receives.
pub struct SystemRun<'a> {
    rack: &'a RealRack,
    plan: &'a DemoPlan,
    scale: Scale,
    globals: &'a Globals,
}

/// Minimum fraction of a system's time: enough for some operations on a slow machine.
const SHARE_MIN: f64 = 0.02;

/// The amount of work.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    factor: f64,
}

impl Scale {
    /// For a scale factor of TPC-H.
    pub fn new(factor: f64) -> Self {
        Self { factor }
    }

    /// The running time of something that takes `seconds` at scale factor 1. More data does not
    /// extend the time.
    pub fn span(self, seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds * self.factor.clamp(SHARE_MIN, 1.0))
    }

    /// The number of records, given the number at scale factor 1.
    pub fn records(self, at_one: u64) -> u64 {
        ((at_one as f64 * self.factor) as u64).clamp(at_one / 100, at_one * 10)
    }
}

/// Operations of a worker in flight.
const DEPTH: u16 = 8;

/// More operations than any machine can do in the available time.
const OPERATIONS: u64 = 1 << 36;

/// Workload b, until a clock ends it.
pub fn load(config: &RackConfig) -> Load {
    Load {
        ycsb: YcsbOptions {
            workload: Workload::B,
            operations: OPERATIONS,
            seed: config.seed,
            ..YcsbOptions::default()
        },
        depth: DEPTH,
        ..Load::default()
    }
}

/// Ends a run of YCSB on time, and shows its progress: operations run for `span`, from the first
/// one on.
///
/// The result says whether the run is to continue, given its phase and the progress of phases that
/// have no time limit, or the share of a run's operations that have ended: on a busy machine none
/// may have begun within its span, and one at least is needed.
pub fn clock<'a>(
    globals: &'a Globals,
    what: &'static str,
    span: Duration,
) -> impl FnMut(Phase, f64) -> bool + 'a {
    let (mut began, mut bar) = (None::<Instant>, None::<(Phase, Progress)>);
    move |phase, fraction| {
        let (elapsed, share) = match phase {
            Phase::Load | Phase::Open => (Duration::ZERO, fraction),
            Phase::Run => {
                let elapsed = began.get_or_insert_with(Instant::now).elapsed();
                (
                    elapsed,
                    elapsed.as_secs_f64() / span.as_secs_f64().max(1e-9),
                )
            }
        };
        if bar.as_ref().is_none_or(|(at, _)| *at != phase) {
            let what = format!("{what}: {}", doing(phase));
            bar = Some((phase, Progress::new(globals, what)));
        }
        if let Some((_, bar)) = &mut bar {
            bar.set(|| share);
        }
        let is_over = elapsed >= span && fraction > 0.0;
        !is_over && !globals.interrupt.is_set()
    }
}
