//! Progress bars: on standard error, for a user, and only for operations that take noticeable time.

use crate::globals::{Format, Globals};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Operations that end earlier show no bar.
const PATIENCE: Duration = Duration::from_millis(500);

/// Update interval of the bar.
const EVERY: Duration = Duration::from_millis(100);

/// Number of steps of a bar.
pub const STEPS: u64 = 1000;

/// The progress of an operation.
pub struct Progress {
    what: String,
    wanted: bool,
    due: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// A bar that is not shown yet.
    pub fn new(globals: &Globals, what: impl Into<String>) -> Self {
        Self {
            what: what.into(),
            wanted: Self::is_wanted(globals),
            due: Instant::now() + PATIENCE,
            bar: None,
        }
    }

    /// A bar that is already shown.
    pub fn shown(bar: ProgressBar) -> Self {
        Self {
            what: String::new(),
            wanted: true,
            due: Instant::now(),
            bar: Some(bar),
        }
    }

    /// A bar that is never shown.
    pub fn hidden() -> Self {
        Self::shown(ProgressBar::hidden())
    }

    /// Whether a bar would be visible and is not disabled.
    pub fn is_wanted(globals: &Globals) -> bool {
        !globals.args.quiet
            && globals.args.format == Format::Text
            && std::io::stderr().is_terminal()
    }

    /// Sets the progress, from 0 to 1. Cheap: may be called often.
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

/// The style of a bar.
pub fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.expect("the template is sound").progress_chars("=> ")
}
