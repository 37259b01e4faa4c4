//! Figures and their texts belong together.

use super::*;
use rackweave_sim::devices::Testbed;

#[test]
fn every_figure_has_a_text_and_every_text_a_figure() {
    let shared = TEXTS.values().flat_map(|text| &text.shared);
    let mut used: Vec<&str> = shared.map(String::as_str).collect();
    used.extend(ALL.iter().map(|one| one.name));
    used.sort_unstable();
    used.dedup();
    let named: Vec<&str> = TEXTS.keys().map(String::as_str).collect();
    assert_eq!(named, used);
    for one in ALL {
        let (text, about) = (one.text(), one.about());
        assert!(!text.title.is_empty() && !about.is_empty(), "{}", one.name);
    }
}

#[test]
fn the_longest_begin_and_none_is_lost() {
    let order = longest_first(ALL.iter().collect());
    assert_eq!(order.len(), ALL.len());
    let slow = order.iter().filter_map(|one| one.text().slow);
    assert!(slow.eq(1..=16), "each place is one experiment's");
    assert_eq!(order[0].name, "communication-6a");
    assert_eq!(order[16].name, ALL[0].name, "the others keep their order");
}

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
            _ if whole.contains("fat_btree") => &[Testbed::FatBtreeRdma, Testbed::FatBtreeEthernet],
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
            let Some(constant) = rackweave_sim::devices::all().find(|one| one.name == name) else {
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
