//! The content of the screen, and its changes by keys and snapshots.

use crate::live::{Change, Snapshot};
use crate::rack_source::{AskError, LookError};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use std::collections::{HashMap, VecDeque};

/// Number of rates that are kept for small charts.
const HISTORY_MAX: usize = 120;

/// The text shown while no process is found.
const WAITING: &str = "waiting for a command with a rack of its own";

/// The view shown.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum View {
    /// Some of everything.
    #[default]
    All,
    Nodes,
    Flows,
    /// The page directory, the index, the sequencers.
    Programs,
    Drops,
}

impl View {
    /// Every view, in the order of the keys 1 to 5.
    pub const ALL: [View; 5] = [
        View::All,
        View::Nodes,
        View::Flows,
        View::Programs,
        View::Drops,
    ];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            View::All => "all",
            View::Nodes => "nodes",
            View::Flows => "flows",
            View::Programs => "pages, index",
            View::Drops => "drops",
        }
    }
}

/// What the user wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    GoOn,
    End,
}

/// Bytes per second, the newest last.
pub type History = VecDeque<f64>;

/// What is on the screen.
#[derive(Default)]
pub struct State {
    pub view: View,
    /// Rows of the view that are above the screen.
    pub scroll: usize,
    pub paused: bool,
    pub help: bool,
    pub interval: f64,
    waits: bool,
    /// The last snapshot, and the activity before it.
    pub shown: Option<(Snapshot, Option<Change>)>,
    /// Why there is no newer snapshot.
    pub trouble: Option<String>,
    /// Rates sent by all nodes together.
    pub total: History,
    /// Rates sent by each node.
    pub nodes: HashMap<String, History>,
}

impl State {
    /// The state before the first snapshot.
    pub fn new(interval: f64, waits: bool) -> Self {
        Self {
            interval,
            waits,
            trouble: waits.then(|| WAITING.to_owned()),
            ..Self::default()
        }
    }

    /// Handles a snapshot or an error.
    pub fn handle_look(&mut self, look: Result<Snapshot, LookError>) {
        let now = match look {
            Ok(now) => now,
            Err(error) => {
                let nobody = matches!(error, LookError::Ask(AskError::Nobody));
                match (error.is_end(), self.waits) {
                    // The start of the absence is already shown.
                    (true, true) if nobody && self.trouble.is_some() => {}
                    (true, true) if nobody => self.trouble = Some(WAITING.to_owned()),
                    (true, true) => self.trouble = Some(format!("{error}; {WAITING}")),
                    (true, false) => {
                        self.trouble = Some(format!("{error}; this is the last of it"));
                    }
                    (false, _) => self.trouble = Some(error.to_string()),
                }
                return;
            }
        };
        self.trouble = None;
        let before = self.shown.as_ref().map(|(before, _)| before);
        let is_old = before.is_some_and(|before| is_same_look(before, &now));
        if self.paused || is_old {
            return;
        }
        if before.is_some_and(|before| before.pid != now.pid) {
            self.total.clear();
            self.nodes.clear();
        }
        let change = Change::between(before, &now);
        if let Some(change) = change.as_ref().filter(|change| !change.is_since_start) {
            note(&mut self.total, change.bytes_out_per_s());
            for node in &change.nodes {
                let history = self.nodes.entry(node.name.clone()).or_default();
                note(history, node.bytes_in_per_s + node.bytes_out_per_s);
            }
        }
        self.shown = Some((now, change));
    }

    /// Handles a key.
    pub fn handle_key(&mut self, key: KeyEvent) -> Wish {
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            return Wish::End;
        }
        if self.help {
            // Any key leaves the help, except for those that quit.
            self.help = false;
            return match key.code {
                KeyCode::Char('q') => Wish::End,
                _ => Wish::GoOn,
            };
        }
        let views = View::ALL.len();
        let at = View::ALL.iter().position(|view| *view == self.view);
        let at = at.unwrap_or(0);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Wish::End,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('?' | 'h') => self.help = true,
            KeyCode::Char(digit @ '1'..='5') => {
                let at = digit as usize - '1' as usize;
                self.show(View::ALL[at]);
            }
            KeyCode::Tab | KeyCode::Right => self.show(View::ALL[(at + 1) % views]),
            KeyCode::BackTab | KeyCode::Left => self.show(View::ALL[(at + views - 1) % views]),
            KeyCode::Down | KeyCode::Char('j') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(10),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Home => self.scroll = 0,
            _ => {}
        }
        Wish::GoOn
    }

    fn show(&mut self, view: View) {
        self.view = view;
        self.scroll = 0;
    }
}

/// Whether two replies have the same snapshot: another client may have requested it just before.
fn is_same_look(before: &Snapshot, now: &Snapshot) -> bool {
    let at = |snapshot: &Snapshot| (snapshot.pid, snapshot.up_seconds.to_bits());
    at(before) == at(now)
}

fn note(history: &mut History, rate: f64) {
    if history.len() == HISTORY_MAX {
        history.pop_front();
    }
    history.push_back(rate);
}
