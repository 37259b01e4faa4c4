//! One file per figure, the list of all experiments, and the papers; [`crate::harness`] is shared.

mod bluefield;
mod bluefield_11;
mod bluefield_12;
mod bluefield_4;
mod bluefield_5;
mod bluefield_9;
pub mod communication;
mod fat_btree;
mod fat_btree_10;
mod ping_pong;
mod replication;
mod seamless_3;
mod seamless_4;
mod seamless_5;
mod units;
mod zero_sided_10;
mod zero_sided_11;
mod zero_sided_12;
mod zero_sided_13;
mod zero_sided_14;
mod zero_sided_15;
mod zero_sided_16;
mod zero_sided_6;
mod zero_sided_8;
mod zero_sided_9;
mod zero_sided_flows;

use crate::figure::{self, Figure, FigureText, Texts};
use crate::harness::prelude::*;
use fat_btree::lookups;
use serde::Deserialize;

/// One of the papers' figures.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line, such as "zero-sided-6".
    pub name: &'static str,
    /// Runs it. [`Experiment::figure`] makes a figure of what it has measured.
    run: fn(&mut Run<'_>) -> Result<Measured>,
}

impl Experiment {
    fn text(&self) -> &'static FigureText {
        text_of(self.name)
    }

    /// What it shows, in one line.
    pub fn about(&self) -> &'static str {
        &self.text().about
    }

    /// Runs it.
    ///
    /// # Errors
    /// If a measurement fails or has a wrong result, or the user wishes to stop.
    pub fn figure(&self, run: &mut Run<'_>) -> Result<Figure> {
        let measured = (self.run)(run)?;
        let text = self.text();
        Ok(text.figure(self.name, run.seed, measured, &TEXTS))
    }
}

/// Files of texts beside this one, by their names.
macro_rules! files {
    ($($name:ident)*) => {
        &[$((stringify!($name), include_str!(concat!(stringify!($name), ".toml")))),*]
    };
}

const fn experiment(name: &'static str, run: fn(&mut Run<'_>) -> Result<Measured>) -> Experiment {
    Experiment { name, run }
}

/// What the figures say.
static TEXTS: LazyLock<Texts> = LazyLock::new(|| figure::read(FILES));

/// What a figure says.
fn text_of(name: &str) -> &'static FigureText {
    &TEXTS[name]
}

/// The tables of texts beside the experiments.
const FILES: &[(&str, &str)] = files! {
    zero_sided_flows zero_sided_6 zero_sided_7 zero_sided_8 zero_sided_9 zero_sided_10
    zero_sided_11 zero_sided_12 zero_sided_13 zero_sided_14 zero_sided_15 zero_sided_16
    seamless_3 seamless_4 seamless_5
    bluefield_4 bluefield_5 bluefield_6 bluefield_9 bluefield_11 bluefield_12
    fat_btree communication
};

/// Every experiment, in the papers' order.
pub const ALL: &[Experiment] = &[
    experiment("zero-sided-flows", zero_sided_flows::run),
    experiment("zero-sided-6", zero_sided_6::run),
    experiment("zero-sided-7", zero_sided_6::run_batching),
    experiment("zero-sided-8", zero_sided_8::run),
    experiment("zero-sided-9", zero_sided_9::run),
    experiment("zero-sided-10", zero_sided_10::run),
    experiment("zero-sided-11", zero_sided_11::run),
    experiment("zero-sided-12", zero_sided_12::run),
    experiment("zero-sided-13", zero_sided_13::run),
    experiment("zero-sided-14", zero_sided_14::run),
    experiment("zero-sided-15", zero_sided_15::run),
    experiment("zero-sided-16", zero_sided_16::run),
    experiment("seamless-3", seamless_3::run),
    experiment("seamless-4", seamless_4::run),
    experiment("seamless-5", seamless_5::run),
    experiment("bluefield-4", bluefield_4::run),
    experiment("bluefield-4b", bluefield_4::rebalance::run),
    experiment("bluefield-5", bluefield_5::run),
    experiment("bluefield-6", bluefield_4::run_latency),
    experiment("bluefield-9", bluefield_9::run_throughput),
    experiment("bluefield-10", bluefield_9::run_latency),
    experiment("bluefield-11", bluefield_11::run),
    experiment("bluefield-12", bluefield_12::run),
    experiment("fat-btree-5", |run| lookups::run(run, "fat-btree-5")),
    experiment("fat-btree-6", |run| lookups::run(run, "fat-btree-6")),
    experiment("fat-btree-7", |run| lookups::run(run, "fat-btree-7")),
    experiment("fat-btree-7b", lookups::run_distributions),
    experiment("fat-btree-8", |run| lookups::run(run, "fat-btree-8")),
    experiment("fat-btree-9", |run| lookups::run(run, "fat-btree-9")),
    experiment("fat-btree-10", fat_btree_10::run::<0>),
    experiment("fat-btree-10b", fat_btree_10::run::<1>),
    experiment("fat-btree-10c", fat_btree_10::run::<2>),
    experiment("fat-btree-10d", fat_btree_10::run::<3>),
    experiment("communication-4a", communication::figures::run::<0>),
    experiment("communication-4b", communication::figures::run::<1>),
    experiment("communication-5a", communication::figures::run::<2>),
    experiment("communication-5b", communication::figures::run::<3>),
    experiment("communication-6a", communication::figures::run::<4>),
    experiment("communication-6b", communication::figures::run::<5>),
];

/// Sorts `experiments` into start order when several run concurrently: first those that take
/// longest in the full form, since one that started late would run alone at the end; the others in
/// their given order.
pub fn longest_first(mut experiments: Vec<&'static Experiment>) -> Vec<&'static Experiment> {
    experiments.sort_by_key(|one| one.text().slow.unwrap_or(u32::MAX));
    experiments
}

/// A paper whose figures are repeated.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Prefix of the names of its experiments, such as "zero-sided".
    pub name: String,
    /// Its title.
    pub title: String,
    /// Its authors.
    pub authors: String,
    /// Where it was published; empty if it was not.
    #[serde(default)]
    pub venue: String,
    /// Measurements that are not repeated. Pictures that measure nothing are not listed.
    #[serde(default)]
    pub left_out: Vec<LeftOut>,
}

/// A measurement of a paper that is not repeated.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeftOut {
    /// The part of the paper, such as "figure 3".
    pub what: String,
    /// What it shows, and why it is not repeated.
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Papers {
    paper: Vec<Paper>,
}

/// The papers, in the order of the report.
pub static PAPERS: LazyLock<Vec<Paper>> = LazyLock::new(|| {
    let papers: Papers = toml::from_str(include_str!("papers.toml")).expect("it is well formed");
    papers.paper
});

impl Paper {
    /// Its experiments, in the paper's order.
    pub fn experiments(&self) -> impl Iterator<Item = &'static Experiment> + '_ {
        let all = ALL.iter();
        all.filter(|one| one.paper().name == self.name)
    }
}

impl Experiment {
    /// The paper whose figure it repeats.
    pub fn paper(&self) -> &'static Paper {
        let found = PAPERS.iter().find(|paper| {
            let rest = self.name.strip_prefix(&paper.name);
            rest.is_some_and(|rest| rest.starts_with('-'))
        });
        found.expect("every experiment's name begins with its paper's")
    }

    /// The part of the paper that it repeats, such as "figure 6", or a claim that has no figure.
    pub fn place(&self) -> String {
        match &self.name[self.paper().name.len() + 1..] {
            "flows" => "a claim of section 6".into(),
            "4b" if self.paper().name == "bluefield" => "beyond figure 4: rebalancing".into(),
            number => format!("figure {number}"),
        }
    }

    /// The testbed whose constants its models use.
    pub fn testbed(&self) -> devices::Testbed {
        match self.paper().name.as_str() {
            "zero-sided" => devices::Testbed::ZeroSided,
            "seamless" => devices::Testbed::Seamless,
            "bluefield" => devices::Testbed::Bluefield,
            "fat-btree" if self.name.starts_with("fat-btree-10") => {
                devices::Testbed::FatBtreeEthernet
            }
            "fat-btree" => devices::Testbed::FatBtreeRdma,
            _ => devices::Testbed::Communication,
        }
    }
}

#[cfg(test)]
mod tests;
