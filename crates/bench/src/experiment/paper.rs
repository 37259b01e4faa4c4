//! The five papers: titles, testbeds, and the figures that are not repeated here, with the reasons.

use super::Experiment;
use rackweave_sim::devices::Testbed;
use serde::Deserialize;
use std::sync::LazyLock;

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
        let all = super::ALL.iter();
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
    pub fn testbed(&self) -> Testbed {
        match self.paper().name.as_str() {
            "zero-sided" => Testbed::ZeroSided,
            "seamless" => Testbed::Seamless,
            "bluefield" => Testbed::Bluefield,
            "fat-btree" if self.name.starts_with("fat-btree-10") => Testbed::FatBtreeEthernet,
            "fat-btree" => Testbed::FatBtreeRdma,
            _ => Testbed::Communication,
        }
    }
}

#[cfg(test)]
mod tests;
