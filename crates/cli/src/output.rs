//! A command's result on standard output: text, one JSON object (docs/JSON.md), or metrics.

use crate::globals::{Format, Globals};
use crate::outcome::CliError;
use crate::report::{self, object, open_metrics};
use serde::Serialize;
use std::fmt::Display;
use std::io::{ErrorKind, Write};

/// The result with its schema in front.
#[derive(Serialize)]
struct Envelope<'a, T> {
    schema: String,
    #[serde(flatten)]
    body: &'a T,
}

/// Prints the result of `command`, once: `body` has a text form; metrics are made from the object.
/// The JSON object starts with `"schema": "rackweave/<command>/1"`.
///
/// # Errors
/// If standard output cannot be written. A closed reader is not an error.
pub fn print<T: Serialize + Display>(
    globals: &Globals,
    command: &str,
    body: &T,
) -> Result<(), CliError> {
    print_as(globals, command, body, T::to_string)
}

/// As [`print()`]; the text form is made from the object ([`crate::report`]).
///
/// # Errors
/// As for [`print()`].
pub fn report<T: Serialize>(globals: &Globals, command: &str, body: &T) -> Result<(), CliError> {
    print_as(globals, command, body, |body| report::text(object(body)))
}

/// As [`print()`]; `text` makes the text form.
///
/// # Errors
/// As for [`print()`].
pub fn print_as<T: Serialize>(
    globals: &Globals,
    command: &str,
    body: &T,
    text: impl FnOnce(&T) -> String,
) -> Result<(), CliError> {
    let text = match globals.args.format {
        Format::Text => text(body),
        Format::Json => {
            let envelope = Envelope {
                schema: format!("rackweave/{command}/1"),
                body,
            };
            serde_json::to_string_pretty(&envelope)?
        }
        Format::OpenMetrics => open_metrics::text(command, &object(body)),
    };
    line(&text)
}

/// Prints text and adds a missing line end.
///
/// # Errors
/// As for [`print()`].
pub fn line(text: &str) -> Result<(), CliError> {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let mut out = std::io::stdout().lock();
    match out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(end.as_bytes()))
        .and_then(|()| out.flush())
    {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(CliError::run(format!(
            "standard output cannot be written: {error}"
        ))),
        _ => Ok(()),
    }
}
