//! Judges the journals of a rack by the checkers of the simulated campaigns.
//!
//! The journals are merged by time. An event that begins something was written before it began, one
//! that ends something after it had ended, so the merged order is one that the checkers may be
//! given.

mod flows;
mod index;
mod messages;
mod pages;
mod sequencer;

use super::journal::{self, CAMPAIGN, Event, FaultEvent, Life, Line, System};
use super::report::SeedReport;
use rackweave_base::{Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

/// A call takes no longer than this: the time limits of programs, and the time for which a program
/// may be stopped.
const CALL_LIMIT: Duration = Duration::from_secs(12);

/// All journals of a rack, in the order of time.
pub struct Journals(Vec<Entry>);

/// An event of a process.
pub struct Entry {
    pub at: Instant,
    pub life: Life,
    pub event: Event,
}

impl Journals {
    /// Reads the journals of these processes. One that died before it had created its journal has
    /// none.
    ///
    /// # Errors
    /// If one cannot be read, or is damaged.
    pub fn read(lives: impl Iterator<Item = (Life, PathBuf)>) -> io::Result<Self> {
        let mut all = Vec::new();
        for (life, path) in lives {
            let lines = match journal::read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                lines => lines?,
            };
            all.extend(lines.into_iter().map(|Line { at, event }| Entry {
                at: Instant::from_nanos(at),
                life,
                event,
            }));
        }
        // Events of one journal keep their order.
        all.sort_by_key(|entry| entry.at);
        Ok(Self(all))
    }

    fn faults(&self) -> impl Iterator<Item = (Instant, FaultEvent)> {
        self.0.iter().filter_map(|entry| match entry.event {
            Event::Fault(fault) => Some((entry.at, fault)),
            _ => None,
        })
    }

    /// Judges every system, and adds the findings to `report`.
    pub fn judge(&self, seed: u64, report: &mut SeedReport) {
        for entry in &self.0 {
            let life = entry.life;
            match &entry.event {
                Event::Wrong(text) => report.violations.push(format!("process {life}: {text}")),
                Event::Failed(system, error) => report.add_error(*system, error),
                _ => {}
            }
        }
        self.fails_without_cause(report);
        self.declared_without_cause(report);
        self.calls_end(report);
        pages::judge(self, report);
        index::judge(self, report);
        sequencer::judge(self, report);
        messages::judge(self, seed, report);
        flows::judge(self, seed, report);
    }

    /// Every call ends, in good order or with an error, unless its process dies before.
    fn calls_end(&self, report: &mut SeedReport) {
        let mut open: BTreeMap<(Life, System, u32), Instant> = BTreeMap::new();
        let mut late = BTreeSet::new();
        for entry in &self.0 {
            let is_late = |begun: &Instant| entry.at.since(*begun) > CALL_LIMIT;
            if let Event::Fault(FaultEvent::Death(life)) = &entry.event {
                let of_it = open.iter().filter(|(key, _)| key.0 == *life);
                let of_it = of_it.filter(|(_, begun)| is_late(begun));
                late.extend(of_it.map(|(&key, &begun)| (key, begun)));
            }
            // What the campaign notes is not a call.
            let call = entry.event.call().filter(|_| entry.life != CAMPAIGN);
            let Some((system, call, begins)) = call else {
                continue;
            };
            let key = (entry.life, system, call);
            let ended = open.remove(&key).filter(is_late);
            late.extend(ended.map(|begun| (key, begun)));
            if begins {
                open.insert(key, entry.at);
            }
        }
        for ((life, system, call), begun) in late {
            let text =
                format!("{system:?}: call {call} of process {life}, at {begun:?}, did not end");
            report.violations.push(text);
        }
    }

    /// Before the first fault nothing fails that was made before the programs were started.
    fn fails_without_cause(&self, report: &mut SeedReport) {
        let before = self
            .0
            .iter()
            .take_while(|entry| !matches!(entry.event, Event::Fault(_)));
        for entry in before {
            if let Event::Failed(
                system @ (System::Rack | System::Pages | System::Index | System::Sequencer),
                error,
            ) = &entry.event
            {
                report.violations.push(format!(
                    "process {}: {system:?} failed before the first fault: {error}",
                    entry.life
                ));
            }
        }
    }

    /// A node or a program to which nothing was done must not be declared dead.
    fn declared_without_cause(&self, report: &mut SeedReport) {
        let mut hit = BTreeSet::new();
        for (at, fault) in self.faults() {
            match fault {
                FaultEvent::Node(node) => _ = hit.insert(node),
                FaultEvent::NodeDeclared(node) if !hit.contains(&node) => {
                    let text = format!("node{node} was declared dead at {at:?} without a fault");
                    report.violations.push(text);
                }
                _ => {}
            }
        }
        let count = |is: fn(&FaultEvent) -> bool| self.faults().filter(|(_, it)| is(it)).count();
        // The switch may notice a death before the campaign does.
        let deaths = count(|fault| matches!(fault, FaultEvent::Death(_) | FaultEvent::Ends(_)));
        let declared = count(|fault| matches!(fault, FaultEvent::Declared(_)));
        if declared > deaths {
            report.violations.push(format!(
                "programs were declared dead {declared} times, and {deaths} of them had died"
            ));
        }
    }
}

/// Adds the violations of a system to a report. Returns what its checker counts if there are none.
fn add<T, V: std::fmt::Display>(
    report: &mut SeedReport,
    system: System,
    found: Result<T, Vec<V>>,
) -> Option<T> {
    let add = |found: Vec<V>| {
        let found = found
            .iter()
            .map(|violation| format!("{system:?}: {violation}"));
        report.violations.extend(found);
    };
    found.map_err(add).ok()
}

#[cfg(test)]
mod tests;
