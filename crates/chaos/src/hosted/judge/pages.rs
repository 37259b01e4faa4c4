//! Pages, by the history of their versions.

use super::super::journal::{Event, FaultEvent, Life, PageEvent, System, Version, worker_of};
use super::super::report::SeedReport;
use super::{Entry, Journals, add};
use rackweave_base::{Duration, Instant};
use rackweave_sim::checkers::PageHistory;
use rackweave_sim::checkers::page_history::{Asked, FlushAsked, Got, PageStamp, Who};
use std::collections::{BTreeMap, BTreeSet};

/// The latch of a dead program passes to others within this time, also while the switch restarts.
const PATIENCE: Duration = Duration::from_secs(20);

/// A directory that was rebuilt has numbered all pages anew by then, also those whose newest
/// version a node had to find out.
pub(super) const SETTLED_AFTER: Duration = Duration::from_secs(2);

/// A death that is more recent than this may be unknown to a switch that starts.
const UNSETTLED: Duration = Duration::from_secs(4);

pub fn judge(journals: &Journals, report: &mut SeedReport) {
    let mut judge = Judge {
        history: PageHistory::new(PATIENCE),
        asked: BTreeMap::new(),
        flushes: BTreeMap::new(),
        lost: BTreeSet::new(),
        dead: BTreeSet::new(),
        workers: BTreeMap::new(),
        asked_in_vain: BTreeSet::new(),
        last_death: None,
        last_storage_fault: None,
        rebuilds_until: None,
        gained: Vec::new(),
    };
    let entries = &journals.0;
    for (at, entry) in entries.iter().enumerate() {
        match &entry.event {
            Event::Pages(_, PageEvent::Accepts(page, version))
                if judge.history.knows(*page) && was_accepted(&entries[at + 1..], *page) =>
            {
                judge.ask_ahead(&entries[at + 1..], *page);
                judge.history.accept(*page, *version);
            }
            Event::Pages(call, event) => judge.event(entry, *call, event),
            Event::Fault(fault) => judge.fault(entry.at, *fault),
            _ => {}
        }
    }
    for text in judge.gained {
        report.violations.push(format!("Pages: {text}"));
    }
    let (reads, writes) = judge.history.counts();
    report.count("pages_read", reads);
    report.count("pages_changed", writes);
    report.count("pages_lost", judge.lost.len() as u64);
    add(report, System::Pages, judge.history.finish());
}

struct Judge {
    history: PageHistory,
    /// Requests that have not ended, by process and call.
    asked: BTreeMap<(Life, u32), (u64, Asked)>,
    flushes: BTreeMap<(Life, u32), FlushAsked>,
    /// Losses that were reported.
    lost: BTreeSet<(u64, u64)>,
    dead: BTreeSet<Life>,
    /// The newest workers of programs.
    workers: BTreeMap<Life, u16>,
    /// Requests of programs that had been declared dead.
    asked_in_vain: BTreeSet<(Life, u32)>,
    last_death: Option<Instant>,
    last_storage_fault: Option<Instant>,
    /// A switch process may be rebuilding the directory until then.
    rebuilds_until: Option<Instant>,
    /// Pages that programs got to change after they had been declared dead.
    gained: Vec<String>,
}

impl Judge {
    fn fault(&mut self, at: Instant, fault: FaultEvent) {
        match fault {
            FaultEvent::Death(life) => {
                self.dead.insert(life);
                self.history.crash(at, self.worker(life).node);
                self.last_death = Some(at);
                self.rebuild(at);
            }
            // What a node had that dies at the same time as the switch is unknown.
            FaultEvent::Node(_) => {
                self.last_storage_fault = Some(at);
                self.last_death = Some(at);
                self.rebuild(at);
            }
            FaultEvent::SwitchDies => {
                // Versions that are changed meanwhile may be numbered anew, too.
                self.rebuilds_until = Some(at + PATIENCE);
                self.rebuild(at);
            }
            FaultEvent::Restored => self.rebuilds_until = Some(at + SETTLED_AFTER),
            FaultEvent::SwitchStops
            | FaultEvent::NodeDeclared(_)
            | FaultEvent::Pause(_)
            | FaultEvent::Ends(_)
            | FaultEvent::Declared(_)
            | FaultEvent::Repaired => {}
        }
    }

    /// Records that a directory which is rebuilt now may number the newest versions anew.
    fn rebuild(&mut self, at: Instant) {
        if self.rebuilds_until.is_none_or(|until| at > until) {
            return;
        }
        let is_recent = |last: Option<Instant>| last.is_some_and(|last| at.since(last) < UNSETTLED);
        self.history
            .made_again(is_recent(self.last_death), |_| false);
        if is_recent(self.last_storage_fault) {
            self.history.in_doubt();
        }
    }

    /// Requests that are made while a loss is being accepted may be answered as before it.
    fn ask_ahead(&mut self, next: &[Entry], page: u64) {
        for entry in next {
            match &entry.event {
                Event::Pages(call, PageEvent::Asked(asked)) if *asked == page => {
                    self.ask(entry, *call, page);
                }
                Event::Pages(_, PageEvent::Accepted(accepted, _)) if *accepted == page => return,
                _ => {}
            }
        }
    }

    /// The current worker of a process.
    fn worker(&self, life: Life) -> Who {
        worker_of(life, self.workers.get(&life).copied().unwrap_or(0))
    }

    fn ask(&mut self, entry: &Entry, call: u32, page: u64) {
        let asked = self.history.ask(entry.at, self.worker(entry.life), page);
        self.asked
            .entry((entry.life, call))
            .or_insert((page, asked));
    }

    fn event(&mut self, entry: &Entry, call: u32, event: &PageEvent) {
        let (life, now) = (entry.life, entry.at);
        let key = (life, call);
        if let PageEvent::Worker(number) = event {
            self.dead.remove(&life);
            self.workers.insert(life, *number);
        }
        if self.dead.contains(&life) {
            return self.of_dead(key, event);
        }
        let who = self.worker(life);
        let (history, all_asked) = (&mut self.history, &mut self.asked);
        let mut answer = |add: &dyn Fn(&mut PageHistory, Asked)| {
            if let Some((_, asked)) = all_asked.remove(&key) {
                add(history, asked);
            }
        };
        match event {
            PageEvent::Created(page) => self.history.create(*page),
            PageEvent::Asked(page) => self.ask(entry, call, *page),
            PageEvent::Shared(version) => {
                answer(&|history, asked| history.shared(now, asked, got(*version)));
            }
            PageEvent::Exclusive(version) => {
                answer(&|history, asked| history.exclusive(now, asked, got(*version)));
            }
            PageEvent::Lost => answer(&|history, asked| history.refused_as_lost(now, asked)),
            PageEvent::Failed => {
                answer(&|history, asked| history.failed(now, asked));
                self.flushes.remove(&key);
            }
            PageEvent::Released(page, version) => {
                let stamp = version.map(|version| PageStamp {
                    page: *page,
                    version,
                    writer: who,
                });
                self.history.give_back(who, *page, stamp);
                self.rebuild(now);
            }
            PageEvent::Committed(page) => self.history.committed(who.node, *page),
            PageEvent::NotTaken(page, version) => {
                self.history.not_taken(who, *page, *version);
            }
            PageEvent::FlushAsked => {
                let asked = self.history.ask_flush(who.node);
                self.flushes.insert(key, asked);
            }
            PageEvent::Flushed => {
                if let Some(asked) = self.flushes.remove(&key) {
                    self.history.flushed(&asked);
                }
            }
            PageEvent::LostPages(lost) => {
                for &(page, version) in lost {
                    self.lost(page, version);
                }
            }
            PageEvent::Accepts(..) | PageEvent::Accepted(..) | PageEvent::Worker(_) => {}
        }
    }

    /// A program that was declared dead goes on for a while. It may find what it was given before,
    /// and must be given nothing to change any more.
    fn of_dead(&mut self, call: (Life, u32), event: &PageEvent) {
        match event {
            PageEvent::Asked(_) => _ = self.asked_in_vain.insert(call),
            PageEvent::Exclusive(version) if self.asked_in_vain.contains(&call) => {
                let text = format!("process {} was dead, and got {version:?} to change", call.0);
                self.gained.push(text);
            }
            _ => {}
        }
    }

    /// Each process reports the losses that it learns of, some again, and some late. Superblock and
    /// maps of pages in use are the service's own.
    fn lost(&mut self, page: u64, version: u64) {
        let is_new = self.lost.insert((page, version));
        if is_new && self.history.knows(page) {
            self.history.lost(page, version);
        }
    }
}

/// The result of accepting a loss.
fn was_accepted(next: &[Entry], page: u64) -> bool {
    let results = next.iter().filter_map(|entry| match entry.event {
        Event::Pages(_, PageEvent::Accepted(other, accepted)) if other == page => Some(accepted),
        _ => None,
    });
    results.take(1).any(|accepted| accepted)
}

fn got(version: Version) -> Got {
    Got {
        version: version.0,
        content: Ok(version.stamp()),
    }
}
