//! Every system on one rack, embedded or joined, one after another, each verified and compared with
//! what this machine can do without a rack.
//!
//! [`enlarged`] enlarges a configuration for all systems; [`course`] runs them and reports
//! progress; there is one file for each system. [`yardstick`] has the limits, [`report`] the final
//! table.

mod clock;
mod course;
mod enlarged;
mod flows;
mod messaging;
mod pages;
mod report;
mod scale;
mod sequencer;
mod tree;
mod yardstick;

use super::DemoPlan;
use crate::globals::Globals;
use crate::live::Live;
use crate::programs::RealRack;
use clap::ValueEnum;
use scale::Scale;
use serde::Serialize;

pub(super) use course::run;
pub use report::{SystemReport, table};

/// A system of the demo, in the order in which they run.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SystemName {
    /// TPC-H rows shuffled, balanced and replicated by the switch
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
    live: &'a Live,
}
