//! The order in which to start experiments when several run concurrently.

use super::Experiment;

/// The experiments that take longest in the full form, the longest first. One that started late
/// would run alone at the end.
const LONGEST: &[&str] = &[
    "communication-6a",
    "communication-5b",
    "fat-btree-10",
    "seamless-5",
    "seamless-3",
    "communication-6b",
    "seamless-4",
    "communication-5a",
    "fat-btree-10d",
    "fat-btree-10c",
    "fat-btree-10b",
    "fat-btree-8",
    "fat-btree-6",
    "zero-sided-15",
    "bluefield-4b",
    "bluefield-4",
];

/// Sorts `experiments` into start order: the longest first, the others in their given order.
pub fn longest_first(mut experiments: Vec<&'static Experiment>) -> Vec<&'static Experiment> {
    let place = |one: &&Experiment| {
        let found = LONGEST.iter().position(|&name| name == one.name);
        found.unwrap_or(LONGEST.len())
    };
    experiments.sort_by_key(place);
    experiments
}

#[cfg(test)]
mod tests {
    use super::super::ALL;
    use super::*;

    #[test]
    fn the_longest_begin_and_none_is_lost() {
        let order = longest_first(ALL.iter().collect());
        assert_eq!(order.len(), ALL.len());
        let names: Vec<&str> = order.iter().map(|one| one.name).collect();
        assert_eq!(names[..LONGEST.len()], *LONGEST);
        let others: Vec<&str> = ALL
            .iter()
            .map(|one| one.name)
            .filter(|name| !LONGEST.contains(name))
            .collect();
        assert_eq!(names[LONGEST.len()..], others);
    }
}
