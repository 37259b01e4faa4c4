//! The command `top`: observes a command on this machine, or a hosted rack, in a terminal.
//!
//! One thread requests snapshots, another draws and reads keys. `state` is the content of the
//! screen and its changes by keys and snapshots, `view` draws it: a function of state and size
//! alone. `sections` are the tables, `ask` is the requesting thread.

mod sections;
mod state;
#[cfg(test)]
mod tests;
mod view;

use crate::globals::Globals;
use crate::live::Snapshot;
use crate::outcome::{CliError, Verdict};
use crate::rack_source::{LookError, RackSource};
use crate::stat;
use clap::Args;
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use state::{State, Wish};
use std::io::{self, IsTerminal};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Arguments of `top`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave ycsb --operations 10000000 &      something to watch, such as this, or
  rackweave demo                              this in another terminal
  rackweave top                               watch it
  rackweave top --pid 4711                    watch this one of several
  rackweave top --hosted                      watch the rack that `rackweave up` runs

Keys: 1 to 5 and Tab choose a view, arrow keys scroll, p pauses, ? helps, q ends. A command is found
from the moment on at which it has a rack in its process; commands in virtual time have none.")]
pub struct TopArgs {
    /// The process; without it, the one that began last
    #[arg(long, value_name = "N")]
    pub pid: Option<u32>,
    /// Seconds between two looks, at least a quarter
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    pub interval: f64,
    /// Wait for a command to begin, and after its end for the next one
    #[arg(long)]
    pub wait: bool,
    /// Watch the hosted rack that runs: see `rackweave demo --help`
    #[arg(long)]
    pub hosted: bool,
}

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

/// Requests snapshots until this is dropped.
pub struct Asking {
    news: Receiver<Result<Snapshot, LookError>>,
    /// Closes when this is dropped.
    _stop: Sender<()>,
}

impl Asking {
    /// Starts to request snapshots. With `wait` the end of a process is not the end: another may
    /// start.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn start(source: RackSource, interval: Duration, wait: bool) -> io::Result<Self> {
        let (tell, news) = channel();
        let (_stop, over) = channel();
        std::thread::Builder::new()
            .name("ask".to_owned())
            .spawn(move || ask(source, interval, wait, &tell, &over))?;
        Ok(Self { news, _stop })
    }

    /// The next reply, if there is one.
    pub fn news(&self) -> Option<Result<Snapshot, LookError>> {
        self.news.try_recv().ok()
    }
}

fn ask(
    mut source: RackSource,
    interval: Duration,
    wait: bool,
    tell: &Sender<Result<Snapshot, LookError>>,
    over: &Receiver<()>,
) {
    while over.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        let look = source.look();
        let failed = look.is_err();
        if failed && wait {
            source.forget();
        }
        // A process that is only slow is asked again; after other errors it does not come back.
        let is_end = look.as_ref().err().is_some_and(LookError::is_end);
        if tell.send(look).is_err() || (is_end && !wait) {
            return;
        }
    }
}
