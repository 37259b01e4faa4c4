//! Units of numbers: the suffixes of their keys, and how each output writes them.

use super::words::{binary, si, with_unit};
use serde_json::Value;

/// Suffixes of keys, with the unit in text, how text writes numbers, the base unit in OpenMetrics
/// after the words that belong to it, and the power of ten from one to the other.
const UNITS: [(&str, &str, Form, &str, i32); 22] = [
    ("gigabytes_per_second", " GB/s", GIGA, "bytes_per_second", 9),
    ("gigabytes_per_s", " GB/s", GIGA, "bytes_per_second", 9),
    ("gigabits_per_second", " Gbit/s", GIGA, "bits_per_second", 9),
    ("gigabits_per_s", " Gbit/s", GIGA, "bits_per_second", 9),
    ("per_s", "", Form::Scaled, "per_second", 0),
    ("percent_of_a_core", CORE, Form::Digits(2), "core ratio", -2),
    (
        "percent_of_a_core_waiting",
        CORE,
        Form::Digits(2),
        "core waiting ratio",
        -2,
    ),
    ("bytes_max", " at most", Form::Bytes, "max bytes", 0),
    ("bytes", "", Form::Bytes, "bytes", 0),
    (
        "ns_per_packet",
        " ns",
        Form::Digits(1),
        "seconds_per_packet",
        -9,
    ),
    ("ns", " us", Form::Micros, "seconds", -9),
    ("us", " us", Form::Digits(3), "seconds", -6),
    ("ms", " ms", Form::Digits(3), "seconds", -3),
    ("ms_max", " ms at most", Form::Digits(3), "max seconds", -3),
    (
        "ms_limit",
        " ms, the limit",
        Form::Digits(3),
        "limit seconds",
        -3,
    ),
    ("share", " %", Form::Percent, "ratio", 0),
    ("shares", " %", Form::Percent, "ratio", 0),
    ("time", " %", Form::Percent, "ratio", 0),
    ("utilisation", " %", Form::Percent, "ratio", 0),
    ("ratio", "", Form::Digits(3), "ratio", 0),
    ("seconds", " s", Form::Seconds, "seconds", 0),
    ("s", " s", Form::Seconds, "seconds", 0),
];

const GIGA: Form = Form::Digits(3);
const CORE: &str = " %";

/// Prefix of keys of bytes that are named after what happened to them: `bytes_written`.
const BYTES: &str = "bytes_";

#[derive(Clone, Copy, PartialEq)]
enum Form {
    Bytes,
    Digits(usize),
    Scaled,
    /// For nanoseconds.
    Micros,
    /// For fractions of one.
    Percent,
    /// For seconds, of which there may be a field with the same name.
    Seconds,
}

/// How numbers of a key are written.
#[derive(Clone, Copy)]
pub struct NumberUnit {
    name: &'static str,
    form: Form,
    /// The base unit in OpenMetrics, which ends the name of a metric, after further words of the
    /// name.
    pub base: &'static str,
    power: i32,
}

impl NumberUnit {
    /// The same without its name, for numbers below a heading that has it.
    pub fn bare(self) -> Self {
        Self { name: "", ..self }
    }

    /// The name in brackets, for a heading.
    pub fn in_brackets(self) -> String {
        match self.name.trim() {
            "" => String::new(),
            name => format!(" [{name}]"),
        }
    }

    /// A number in the base unit.
    pub fn in_base(self, number: f64) -> f64 {
        // The division is exact where a multiplication with 0.1 is not.
        match self.power < 0 {
            true => number / 10f64.powi(-self.power),
            false => number * 10f64.powi(self.power),
        }
    }
}

/// The key without its unit, and the unit.
fn split(key: &str) -> (&str, Option<NumberUnit>) {
    let is_whole = |rest: &str| rest.is_empty() || rest.ends_with('_');
    let found = UNITS.iter().find_map(|&(ending, name, form, base, power)| {
        let rest = key.strip_suffix(ending).filter(|rest| is_whole(rest))?;
        let unit = NumberUnit {
            name,
            form,
            base,
            power,
        };
        Some((rest.trim_end_matches('_'), Some(unit)))
    });
    let of_bytes = || {
        let unit = NumberUnit {
            name: "",
            form: Form::Bytes,
            base: "bytes",
            power: 0,
        };
        Some((key.strip_prefix(BYTES)?, Some(unit)))
    };
    found.or_else(of_bytes).unwrap_or((key, None))
}

/// The label of a key in text, and the unit of its numbers. A key with blanks is a title.
pub fn label(key: &str) -> (String, Option<NumberUnit>) {
    if key.contains(' ') {
        return (key.to_owned(), None);
    }
    let (rest, unit) = split(key);
    if rank(key).is_some() {
        return (rest.replace('_', "."), unit);
    }
    let words = match (rest, unit.map(|unit| unit.form)) {
        ("", Some(form)) if form == GIGA && key.contains("_per_") => "throughput",
        ("", Some(Form::Seconds)) => "elapsed",
        ("", _) | (_, Some(Form::Percent | Form::Scaled)) => key,
        (_, _) if key.starts_with(BYTES) => key,
        (rest, _) => rest,
    };
    let words = match (words.strip_suffix("_per_s"), key.strip_suffix("_seconds")) {
        (Some(counted), _) => format!("{counted}/s"),
        // There may be a field with the name alone.
        (None, Some(rest)) => format!("{rest} time"),
        (None, None) => words.to_owned(),
    };
    (words.replace('_', " "), unit)
}

/// The part of a metric's name that a key makes, without the base unit that follows it, and the
/// unit. A word such as `share` stays, because the base unit does not say it.
pub fn stem(key: &str) -> (&str, Option<NumberUnit>) {
    let (rest, unit) = split(key);
    match unit {
        Some(unit) if unit.form == Form::Percent => (key, Some(unit)),
        unit => (rest, unit),
    }
}

/// The quantile of a percentile's key: 0.999 for `p99.9`, `p99_9` and `p99_9_ns`.
pub fn rank(key: &str) -> Option<f64> {
    let digits = split(key).0.strip_prefix('p')?.replace('_', ".");
    let is_number = digits.starts_with(|first: char| first.is_ascii_digit());
    let percent: f64 = digits.parse().ok().filter(|_| is_number)?;
    // Without the error of a division by 100: 0.999.
    (percent <= 100.0).then(|| (percent * 1e4).round() / 1e6)
}

/// A large number scaled to thousands, millions or billions.
pub fn scaled(number: f64) -> String {
    match number {
        n if n >= 1e9 => format!("{:.2} G", n / 1e9),
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e3 => format!("{:.2} k", n / 1e3),
        n => format!("{n:.2} "),
    }
}

/// Bytes in the largest binary unit that divides them, if few are left; a number that is not of a
/// person's choosing, such as 49.9 GB, with three digits.
fn bytes(bytes: u64) -> String {
    let exact = binary(bytes);
    let digits = exact.split(' ').next().unwrap_or_default();
    match digits.len() {
        ..=5 => exact,
        _ => with_unit(bytes as f64, "B"),
    }
}

/// Seconds with the digits that they have, three to six.
fn seconds(seconds: f64) -> String {
    let all = format!("{seconds:.6}");
    let least = all.len() - 3;
    let used = all.trim_end_matches('0').len();
    all[..used.max(least)].to_owned()
}

/// A number, word or flag.
pub fn scalar(value: &Value, unit: Option<NumberUnit>) -> String {
    let (text, name) = match (value, unit) {
        (Value::Number(number), Some(NumberUnit { name, form, .. })) => {
            let float = number.as_f64().unwrap_or_default();
            let text = match form {
                Form::Bytes => number.as_u64().map_or_else(|| number.to_string(), bytes),
                Form::Micros => format!("{:.3}", float / 1e3),
                Form::Percent => format!("{:.1}", float * 100.0),
                Form::Scaled => scaled(float).trim_end().to_owned(),
                Form::Seconds => seconds(float),
                Form::Digits(_) if number.is_u64() => number.to_string(),
                Form::Digits(digits) => format!("{float:.digits$}"),
            };
            (text, name)
        }
        (Value::Number(number), None) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            let text = match float.abs() >= 1e3 {
                true => si(float),
                false => format!("{float:.3}"),
            };
            (text, "")
        }
        (Value::Bool(is_so), _) => (if *is_so { "yes" } else { "no" }.into(), ""),
        (Value::String(text), _) => (text.clone(), ""),
        (Value::Null, _) => ("-".into(), ""),
        (other, _) => (other.to_string(), ""),
    };
    text + name
}
