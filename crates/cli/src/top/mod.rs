//! The command `top`: observes a command on this machine, or a hosted rack, in a terminal.
//!
//! One thread requests snapshots, another draws and reads keys. `state` is the content of the
//! screen and its changes by keys and snapshots, `view` draws it: a function of state and size
//! alone. `sections` are the tables, `ask` is the requesting thread.

mod ask;
mod sections;
mod state;
#[cfg(test)]
mod tests;
mod view;

use crate::globals::Globals;
use crate::live::args::TopArgs;
use crate::outcome::{CliError, Verdict};
use crate::rack_source::RackSource;
use crate::stat;
use ask::Asking;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use state::{State, Wish};
use std::io::IsTerminal;
use std::time::Duration;

/// How long to wait for a key before checking for a new snapshot.
const LISTEN: Duration = Duration::from_millis(50);

/// Runs the command.
///
/// # Errors
/// If there is no process to observe, or standard output is not a terminal.
pub fn run(args: &TopArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let interval = stat::interval(args.interval)?;
    if !std::io::stdout().is_terminal() {
        return Err(CliError::usage(
            "standard output is no terminal; `rackweave stat` prints the same as text, and \
             `rackweave stat --format json` for programs",
        ));
    }
    let mut source = RackSource::of(args.pid, args.hosted, globals)?;
    let mut state = State::new(args.interval, args.wait);
    // A missing process is reported in one line, without a screen.
    match source.look() {
        Ok(snapshot) => state.handle_look(Ok(snapshot)),
        Err(_) if args.wait => {}
        Err(error) => return Err(error.into()),
    }
    let asking = Asking::start(source, interval, args.wait)?;
    let terminal = ratatui::try_init();
    let mut terminal = terminal.map_err(|error| {
        ratatui::restore();
        CliError::run(format!("the terminal cannot be used: {error}"))
    })?;
    let ended = watch(&mut terminal, &mut state, &asking, globals);
    ratatui::restore();
    ended.map_err(|error| CliError::run(format!("the terminal cannot be used: {error}")))?;
    Ok(Verdict::Ended)
}

/// Draws and reads keys until the user quits.
fn watch(
    terminal: &mut DefaultTerminal,
    state: &mut State,
    asking: &Asking,
    globals: &Globals,
) -> std::io::Result<()> {
    let mut is_drawn = false;
    loop {
        if !is_drawn {
            terminal.draw(|frame| view::draw(frame, state))?;
            is_drawn = true;
        }
        if globals.interrupt.is_set() {
            return Ok(());
        }
        if event::poll(LISTEN)? {
            is_drawn = false;
            // A resize needs no handling: the next draw has the new size.
            if let Event::Key(key) = event::read()?
                && key.kind != KeyEventKind::Release
                && state.handle_key(key) == Wish::End
            {
                return Ok(());
            }
        }
        while let Some(look) = asking.news() {
            state.handle_look(look);
            is_drawn = false;
        }
    }
}
