//! The name that was probably meant.

/// The nearest of `known` to `word`, if one is near enough.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let limit = (word.len() / 3).max(2);
    known
        .iter()
        .map(|name| (distance(word, name), *name))
        .filter(|&(distance, _)| distance <= limit)
        .min()
        .map(|(_, name)| name)
}

/// A question for the nearest name, or all names there are.
pub fn hint(word: &str, known: &[&str], what: &str) -> String {
    match nearest(word, known) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("known {what}: {}", known.join(", ")),
    }
}

/// How many insertions, deletions and replacements lie between two words (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
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
    }
}
