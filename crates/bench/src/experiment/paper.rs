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
mod tests {
    use super::super::ALL;
    use super::*;

    #[test]
    fn every_experiment_has_its_paper_and_every_paper_its_experiments() {
        let of_papers: usize = PAPERS.iter().map(|paper| paper.experiments().count()).sum();
        assert_eq!(of_papers, ALL.len());
        for paper in &*PAPERS {
            assert!(paper.experiments().count() > 0, "{}", paper.name);
        }
        let order: Vec<&str> = PAPERS
            .iter()
            .flat_map(Paper::experiments)
            .map(|one| one.name)
            .collect();
        let listed: Vec<&str> = ALL.iter().map(|one| one.name).collect();
        assert_eq!(order, listed, "the list is in the papers' order");
    }

    #[test]
    fn places_are_figures_of_the_paper() {
        let place = |name: &str| {
            let found = ALL
                .iter()
                .find(|one| one.name == name)
                .expect("it is there");
            (found.place(), found.testbed())
        };
        assert_eq!(
            place("zero-sided-6"),
            ("figure 6".into(), Testbed::ZeroSided)
        );
        assert_eq!(
            place("fat-btree-10c"),
            ("figure 10c".into(), Testbed::FatBtreeEthernet)
        );
        assert_eq!(place("fat-btree-5").1, Testbed::FatBtreeRdma);
        assert_eq!(place("communication-4a").1, Testbed::Communication);
    }

    /// Every constant of `sim::devices` in an experiment's source file is listed for its testbed.
    #[test]
    fn constants_are_listed_for_the_testbeds_that_use_them() {
        use std::path::{Path, PathBuf};
        fn files(at: &Path, found: &mut Vec<PathBuf>) {
            for entry in std::fs::read_dir(at).expect("the folder can be read") {
                let path = entry.expect("its entries, too").path();
                if path.is_dir() {
                    files(&path, found);
                } else if path.extension().is_some_and(|end| end == "rs") {
                    found.push(path);
                }
            }
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut found = Vec::new();
        files(&root.join("src/experiment"), &mut found);
        found.extend(
            ["testbed", "testbed_fat_btree", "testbed_communication"]
                .map(|name| root.join(format!("../sim/src/{name}.rs"))),
        );
        let mut checked = 0;
        for path in found {
            let whole = path.to_string_lossy().into_owned();
            let whole = &whole[whole.rfind("/src/").expect("it is a source")..];
            let testbeds: &[Testbed] = match whole {
                _ if whole.contains("fat_btree") => {
                    &[Testbed::FatBtreeRdma, Testbed::FatBtreeEthernet]
                }
                _ if whole.contains("communication") => &[Testbed::Communication],
                _ if whole.contains("zero_sided") => &[Testbed::ZeroSided],
                _ if whole.contains("seamless") => &[Testbed::Seamless],
                _ if whole.contains("bluefield") || whole.ends_with("sim/src/testbed.rs") => {
                    &[Testbed::Bluefield]
                }
                _ => continue,
            };
            let text = std::fs::read_to_string(&path).expect("it can be read");
            // Comments may name constants that are not used.
            let code = text
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            let text: String = code.collect::<Vec<_>>().join("\n");
            for part in text.split("devices::").skip(1) {
                let is_name =
                    |letter: &char| letter.is_ascii_uppercase() || "_0123456789".contains(*letter);
                let name: String = part.chars().take_while(is_name).collect();
                let Some(constant) = rackweave_sim::devices::all().find(|one| one.name == name)
                else {
                    continue;
                };
                checked += 1;
                assert!(
                    constant.testbeds.iter().any(|one| testbeds.contains(one)),
                    "{name} is used by {whole}, and listed for {:?}",
                    constant.testbeds
                );
            }
        }
        assert!(checked > 50, "{checked}");
    }
}
