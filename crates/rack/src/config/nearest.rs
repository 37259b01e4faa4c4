//! Finds the name that was probably meant.

/// The nearest of `known` to `word`, if one is near enough.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    all_nearest(word, known).first().copied()
}

/// A question about the nearest name, or a list of all names.
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

/// All names that are equally near, and near enough.
fn all_nearest<'a>(word: &str, known: &[&'a str]) -> Vec<&'a str> {
    let limit = (word.len() / 3).max(2);
    let far = |name: &str| strsim::osa_distance(word, name);
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
}
