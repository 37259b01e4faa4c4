//! Progress of several figures: a bar for each running one, and one for all.

use crate::globals::Globals;
use crate::progress::{Progress, STEPS, style};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget};

/// The bars of a run, if they are shown.
pub struct Bars(Option<(MultiProgress, ProgressBar)>);

impl Bars {
    /// Bars for this many figures.
    pub fn new(globals: &Globals, figures: usize) -> Self {
        if !Progress::is_wanted(globals) {
            return Self(None);
        }
        let multi = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let all = ProgressBar::new(figures as u64).with_style(style("{msg:17} {pos} of {len}"));
        let all = multi.add(all.with_message("figures"));
        Self(Some((multi, all)))
    }

    /// Shows a figure that begins.
    pub fn begin(&self, name: &str) -> Progress {
        let Some((multi, all)) = &self.0 else {
            return Progress::hidden();
        };
        let bar = ProgressBar::new(STEPS).with_message(name.to_owned());
        let bar = bar.with_style(style("{msg:17} [{bar:40}] {percent:>3}% {elapsed}"));
        Progress::shown(multi.insert_before(all, bar))
    }

    /// Counts a figure that has ended.
    pub fn ended(&self) {
        if let Some((_, all)) = &self.0 {
            all.inc(1);
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        if let Some((_, all)) = &self.0 {
            all.finish_and_clear();
        }
    }
}
