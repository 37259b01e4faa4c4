//! The name that was probably meant.

/// The nearest of `known` to `word`, if one is near enough.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    all_nearest(word, known).first().copied()
}

/// A question for the nearest name, or all names there are.
pub fn hint(word: &str, known: &[&str], what: &str) -> String {
    let near: Vec<String> = all_nearest(word, known)
        .iter()
        .map(|name| format!("`{name}`"))
        .collect();
    match near[..] {
        [] => format!("known {what}: {}", known.join(", ")),
        _ => format!("did you mean {}?", near.join(" or ")),
    }
}

/// All that are equally near, and near enough.
fn all_nearest<'a>(word: &str, known: &[&'a str]) -> Vec<&'a str> {
    let limit = (word.len() / 3).max(2);
    let far = |name: &str| distance(word, name);
    let least = known.iter().map(|name| far(name)).min();
    let Some(least) = least.filter(|&least| least <= limit) else {
        return Vec::new();
    };
    known
        .iter()
        .copied()
        .filter(|name| far(name) == least)
        .collect()
}

/// How many insertions, deletions, replacements and exchanges of neighbours lie between two words
/// (Damerau and Levenshtein, each place changed once at most).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_understood() {
        let known = ["memory_limit", "seed", "switch"];
        assert_eq!(nearest("memory_limits", &known), Some("memory_limit"));
        assert_eq!(nearest("swich", &known), Some("switch"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!(nearest("tow", &["one", "two", "fat-tree"]), Some("two"));
    }

    #[test]
    fn names_that_are_equally_near_are_all_told() {
        let known = ["name", "node", "bytes"];
        assert_eq!(
            hint("nome", &known, "ones"),
            "did you mean `name` or `node`?"
        );
        assert_eq!(
            hint("colour", &known, "ones"),
            "known ones: name, node, bytes"
        );
    }

    #[test]
    fn the_distance_counts_single_slips() {
        for (a, b, expected) in [
            ("", "", 0),
            ("", "ab", 2),
            ("ab", "ba", 1),
            ("abc", "ca", 3),
            ("kitten", "sitting", 3),
            ("mtu", "mut", 1),
            ("größe", "grösse", 2),
        ] {
            assert_eq!(distance(a, b), expected, "{a} {b}");
            assert_eq!(distance(b, a), expected, "{b} {a}");
        }
    }
}
