//! Progress bars: on standard error, for a person, and only for what takes longer than a moment.

use crate::globals::{Format, Globals};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// What is over before this shows no bar.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often the bar is looked at.
const EVERY: Duration = Duration::from_millis(100);

/// Steps of a bar.
pub const STEPS: u64 = 1000;

/// How far something has come.
pub struct Progress {
    what: String,
    wanted: bool,
    due: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Nothing is shown yet.
    pub fn new(globals: &Globals, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            wanted: Self::is_wanted(globals),
            due: Instant::now() + PATIENCE,
            bar: None,
        }
    }

    /// One that is shown already.
    pub fn shown(bar: ProgressBar) -> Self {
        Self {
            what: String::new(),
            wanted: true,
            due: Instant::now(),
            bar: Some(bar),
        }
    }

    /// One that nobody wants to see.
    pub fn hidden() -> Self {
        Self::shown(ProgressBar::hidden())
    }

    /// Whether anybody would see a bar and wants to.
    pub fn is_wanted(globals: &Globals) -> bool {
        !globals.args.quiet
            && globals.args.format == Format::Text
            && std::io::stderr().is_terminal()
    }

    /// It has come this far, from 0 to 1. Cheap; call it as often as you like.
    pub fn set(&mut self, fraction: impl FnOnce() -> f64) {
        if !self.wanted {
            return;
        }
        let now = Instant::now();
        if now < self.due {
            return;
        }
        self.due = now + EVERY;
        let bar = self.bar.get_or_insert_with(|| {
            ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr())
                .with_style(style("{msg} [{bar:40}] {percent}% {eta}"))
                .with_message(self.what.clone())
        });
        bar.set_position((fraction().clamp(0.0, 1.0) * STEPS as f64) as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// How a bar looks.
pub fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.expect("the template is sound").progress_chars("=> ")
}
