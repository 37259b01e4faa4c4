//! How far several figures have come: a bar for each that runs, and one for all.

use crate::globals::Globals;
use crate::progress::Progress;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// How often a bar is looked at.
const EVERY: Duration = Duration::from_millis(100);

const STEPS: u64 = 1000;

/// The bars of a run, if anybody wants them.
pub struct Bars(Option<(MultiProgress, ProgressBar)>);

/// The bar of one figure.
pub struct Bar {
    bar: Option<ProgressBar>,
    due: Instant,
}

impl Bars {
    /// Bars for so many figures.
    pub fn new(globals: &Globals, figures: usize) -> Self {
        if !Progress::is_wanted(globals) {
            return Self(None);
        }
        let multi = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
        let all = ProgressBar::new(figures as u64).with_style(style("{msg:17} {pos} of {len}"));
        let all = multi.add(all.with_message("figures"));
        Self(Some((multi, all)))
    }

    /// A figure begins.
    pub fn begin(&self, name: &str) -> Bar {
        let bar = self.0.as_ref().map(|(multi, all)| {
            let bar = ProgressBar::new(STEPS).with_message(name.to_owned());
            let bar = bar.with_style(style("{msg:17} [{bar:40}] {percent:>3}% {elapsed}"));
            multi.insert_before(all, bar)
        });
        Bar {
            bar,
            due: Instant::now(),
        }
    }

    /// A figure has ended.
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

impl Bar {
    /// It has come this far, from 0 to 1. Cheap; call it as often as you like.
    pub fn set(&mut self, share: f64) {
        let Some(bar) = &self.bar else {
            return;
        };
        let now = Instant::now();
        if now >= self.due {
            self.due = now + EVERY;
            bar.set_position((share.clamp(0.0, 1.0) * STEPS as f64) as u64);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.expect("the template is sound").progress_chars("=> ")
}
