//! The command `top`: watches a command that runs here, or a hosted rack, in a terminal.
//!
//! One thread asks, another draws and listens to keys. `state` is what is on the screen and how
//! keys and news change it, `view` how it is drawn: a function of state and size alone. `sections`
//! are the tables, `ask` is the thread that asks.

mod ask;
mod sections;
mod state;
#[cfg(test)]
mod tests;
mod view;

use crate::globals::Globals;
use crate::live::args::TopArgs;
use crate::live::source::Source;
use crate::outcome::{CliError, Verdict};
use crate::stat;
use ask::Asking;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use state::{State, Wish};
use std::io::IsTerminal;
use std::time::Duration;

/// How long keys are listened to before news are looked for.
const LISTEN: Duration = Duration::from_millis(50);

/// Runs the command.
///
/// # Errors
/// If there is nobody to be watched, or standard output is no terminal.
pub fn run(args: &TopArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let interval = stat::interval(args.interval)?;
    if !std::io::stdout().is_terminal() {
        return Err(CliError::usage(
            "standard output is no terminal; `rackweave stat` prints the same as text, and \
             `rackweave stat --format json` for programs",
        ));
    }
    let mut source = Source::of(args.pid, args.hosted, globals)?;
    let mut state = State::new(args.interval, args.wait);
    // Who is not there is told in one line, without a screen.
    match source.look() {
        Ok(snapshot) => state.handle_look(Ok(snapshot)),
        Err(_) if args.wait => {}
        Err(error) => return Err(error.into()),
    }
    let asking = Asking::start(source, interval, args.wait).map_err(CliError::run)?;
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

/// Draws and listens until the user wants an end.
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
            // Of a new size nothing need be known: it is that of the next draw.
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
