//! `shell`.

use super::Connected;
use crate::args::ShellArguments;
use crate::error::CommandError;
use crate::report::bytes;
use crate::statements;
use datafusion::arrow::util::pretty::pretty_format_batches;
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use tokio::runtime::Runtime;

/// Reads statements and prints their results until the input ends. The line editor blocks, so that
/// it has the calling thread, and queries have the runtime's.
///
/// # Errors
/// The workers cannot be reached; or a statement failed, and the input is not a terminal.
pub fn run(arguments: &ShellArguments, runtime: &Runtime) -> Result<(), CommandError> {
    let data = arguments.session.data_set()?;
    let open = Connected::open_cancellable(arguments.transport, &arguments.session, &data);
    let (mut connected, canceller) = runtime.block_on(open)?;
    let mut editor = DefaultEditor::new()
        .map_err(|error| CommandError::set_up(format!("cannot use the terminal: {error}")))?;
    let history = history_file();
    if let Some(file) = &history {
        // There is none before the first session.
        let _ = editor.load_history(file);
    }
    let interactive = std::io::stdin().is_terminal();
    if interactive {
        println!(
            "{} workers. Tables: {}",
            connected.workers(),
            connected.tables().join(", ")
        );
        println!("Statements end with `;`. Ctrl-C cancels, Ctrl-D ends.");
    }
    let mut failed = false;
    while let Some(text) = read(&mut editor, interactive)? {
        for statement in statements::statements(&text) {
            if matches!(statement.trim(), "quit" | "exit" | "\\q") {
                return ended(failed && !interactive);
            }
            let execution = canceller.run(print(&mut connected, statement));
            if let Err(error) = runtime.block_on(execution) {
                failed = true;
                eprintln!("{error}");
            }
        }
        if let Some(file) = history.as_ref().filter(|_| interactive) {
            let _ = editor.append_history(file);
        }
    }
    ended(failed && !interactive)
}

fn ended(failed: bool) -> Result<(), CommandError> {
    if failed {
        Err(CommandError::Failed("a statement failed".to_owned()))
    } else {
        Ok(())
    }
}

/// Reads lines until a statement is complete. `None` at the end of the input.
fn read(editor: &mut DefaultEditor, interactive: bool) -> Result<Option<String>, CommandError> {
    let mut text = String::new();
    loop {
        let prompt = match (interactive, text.is_empty()) {
            (false, _) => "",
            (true, true) => "sql> ",
            (true, false) => "  -> ",
        };
        match editor.readline(prompt) {
            Ok(line) => {
                text.push_str(&line);
                text.push('\n');
                let split = statements::split(&text);
                if split.rest.is_empty() && !split.complete.is_empty() {
                    let _ = editor.add_history_entry(text.trim());
                    return Ok(Some(text));
                }
                if text.trim().is_empty() {
                    text.clear();
                }
            }
            Err(ReadlineError::Interrupted) => text.clear(),
            Err(ReadlineError::Eof) if text.is_empty() => return Ok(None),
            // The last statement of a file needs no semicolon.
            Err(ReadlineError::Eof) => return Ok(Some(text)),
            Err(error) => {
                return Err(CommandError::set_up(format!("cannot read a line: {error}")));
            }
        }
    }
}

async fn print(connected: &mut Connected, statement: &str) -> Result<(), CommandError> {
    let execution = connected.execute(statement).await?;
    if !execution.batches.is_empty() {
        let table = pretty_format_batches(&execution.batches)
            .map_err(|error| CommandError::Failed(format!("cannot print the rows: {error}")))?;
        println!("{table}");
    }
    let measurement = execution.measurement;
    let transferred = |what: &str, count: Option<usize>| {
        let text = count.map(|count| format!(", {what} {}", bytes(count)));
        text.unwrap_or_default()
    };
    println!(
        "{} rows in {:.3} s{}{}",
        measurement.rows,
        measurement.seconds,
        transferred("exchanged", measurement.exchange_bytes),
        transferred("fetched", measurement.fetched_bytes)
    );
    Ok(())
}

/// Where the history is kept, as the XDG base directories say; `None` without a home directory.
fn history_file() -> Option<PathBuf> {
    let state = match std::env::var_os("XDG_STATE_HOME") {
        Some(directory) => PathBuf::from(directory),
        None => PathBuf::from(std::env::var_os("HOME")?).join(".local/state"),
    };
    let directory = state.join("rackweave");
    std::fs::create_dir_all(&directory).ok()?;
    Some(directory.join("sql-history"))
}
