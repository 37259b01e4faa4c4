//! Reads the numbers in the output of programs.

use super::probe::Field;
use serde_json::Value;

#[cfg(test)]
mod tests;

/// The number at a JSON pointer. Lines before the object are ignored: MPI warns on some machines.
pub fn json(output: &str, pointer: &str) -> Result<f64, String> {
    let number = object(output)?.pointer(pointer).and_then(Value::as_f64);
    number.ok_or_else(|| format!("no number at {pointer} in the output"))
}

/// Whether a run of ours verified what it measured.
pub fn verified(output: &str) -> Result<(), String> {
    match object(output)?["verified"] {
        Value::Bool(true) => Ok(()),
        _ => Err("the run is not verified".to_owned()),
    }
}

fn object(output: &str) -> Result<Value, String> {
    let begin = output.find('{').ok_or("no JSON object in the output")?;
    serde_json::from_str(&output[begin..]).map_err(|error| format!("no JSON object: {error}"))
}

/// `ucx_perftest -f -v`: a line of names and one of numbers, separated by commas. Latencies are in
/// microseconds, half of the round trip in ping-pong tests.
pub fn ucx(output: &str, field: Field) -> Result<f64, String> {
    let column = match field {
        Field::Rate => "overall_mr",
        Field::Median => "50.0_percentile_lat",
    };
    csv(output, "iterations,", column)
}

/// `redis-benchmark --csv`: the same, in quotes. Latencies are in milliseconds.
pub fn redis(output: &str, field: Field) -> Result<f64, String> {
    let column = match field {
        Field::Rate => "rps",
        Field::Median => "p50_latency_ms",
    };
    csv(output, "\"test\",", column)
}

/// The number below `column`, in the line after the one that begins with `header`.
fn csv(output: &str, header: &str, column: &str) -> Result<f64, String> {
    let missing = || format!("no column {column} in the output");
    let mut lines = output.lines().skip_while(|line| !line.starts_with(header));
    let (names, numbers) = lines.next().zip(lines.next()).ok_or_else(missing)?;
    let bare = |word: &str| word.trim().trim_matches('"').to_owned();
    let at = names.split(',').position(|name| bare(name) == column);
    let number = at.and_then(|at| numbers.split(',').nth(at)).map(bare);
    let number = number.ok_or_else(missing)?;
    number
        .parse()
        .map_err(|_| format!("{column} is {number}, no number"))
}
