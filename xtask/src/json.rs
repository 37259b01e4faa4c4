//! Reads the few members of the project's JSON output that checks need.

use serde_json::Value;

/// The values of every member called `name`, at any depth; none if it is not JSON.
pub fn members(json: &str, name: &str) -> Vec<Value> {
    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_str(json) {
        collect(&value, name, &mut found);
    }
    found
}

/// Whether the first member called `name` is `value`.
pub fn is(json: &str, name: &str, value: impl Into<Value>) -> bool {
    members(json, name).first() == Some(&value.into())
}

fn collect(value: &Value, name: &str, found: &mut Vec<Value>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                if key == name {
                    found.push(value.clone());
                }
                collect(value, name, found);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, name, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_at_any_depth() {
        let json = r#"{"verified": true, "runs": [{"trace_hash": "ab"}, {"trace_hash": 7}]}"#;
        assert!(is(json, "verified", true));
        assert_eq!(members(json, "trace_hash"), [Value::from("ab"), 7.into()]);
        assert!(!is(json, "missing", true));
        assert!(!is(r#"{"verified": false}"#, "verified", true));
        assert!(members("\"verified\" is no member", "verified").is_empty());
    }
}
