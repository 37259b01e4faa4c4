//! The few members of the project's JSON output that checks look at.
//!
//! Not a JSON parser: it finds members by name, at any depth, which is enough for output of our
//! own, and it needs no crate.

/// The values of every member called `name`, in order, as they are written.
pub fn members<'a>(json: &'a str, name: &str) -> Vec<&'a str> {
    let key = format!("\"{name}\"");
    let mut values = Vec::new();
    let mut rest = json;
    while let Some(at) = rest.find(&key) {
        rest = rest[at + key.len()..].trim_start();
        if let Some(value) = rest.strip_prefix(':') {
            values.push(value_of(value.trim_start()));
        }
    }
    values
}

/// Whether the first member called `name` is `value`.
pub fn is(json: &str, name: &str, value: &str) -> bool {
    members(json, name).first() == Some(&value)
}

/// The value that `text` begins with: a string, or what comes before the next delimiter.
fn value_of(text: &str) -> &str {
    if let Some(string) = text.strip_prefix('"') {
        return string.split('"').next().unwrap_or_default();
    }
    let end = text.find([',', '}', ']', '\n']).unwrap_or(text.len());
    text[..end].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_whatever_the_layout() {
        let json =
            "{ \"verified\" : true,\n\"runs\":[{\"trace_hash\":\"ab\"},{\"trace_hash\": 7}] }";
        assert!(is(json, "verified", "true"));
        assert_eq!(members(json, "trace_hash"), ["ab", "7"]);
        assert!(!is(json, "missing", "true"));
        assert!(!is("{\"verified\":false}", "verified", "true"));
        assert!(members("\"verified\" is no member", "verified").is_empty());
    }
}
