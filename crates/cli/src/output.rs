//! A command's result on standard output: text, or one JSON object (docs/JSON.md).

use crate::args::Format;
use crate::globals::Globals;
use crate::outcome::CliError;
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

/// Prints the result of `command`, once: `body` is both forms of it. The JSON object starts with
/// `"schema": "rackweave/<command>/1"`.
///
/// # Errors
/// If standard output cannot be written. That nobody reads it is no error.
pub fn print<T: Serialize + Display>(
    globals: &Globals,
    command: &str,
    body: &T,
) -> Result<(), CliError> {
    let text = match globals.args.format {
        Format::Text => body.to_string(),
        Format::Json => {
            let envelope = Envelope {
                schema: format!("rackweave/{command}/1"),
                body,
            };
            serde_json::to_string_pretty(&envelope).map_err(CliError::run)?
        }
    };
    line(&text)
}

/// Prints text and sees that it ends its line.
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
