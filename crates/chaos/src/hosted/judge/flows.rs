//! Flows, each by the history of its items.

use super::super::journal::{Event, FaultEvent, FlowEvent, FlowKind, Life, System};
use super::super::plan::{DEAD_AFTER_MS, PROGRAMS};
use super::super::report::SeedReport;
use super::super::shared::ITEM_BYTES;
use super::{Journals, add};
use rackweave_base::{Duration, Instant};
use rackweave_sim::checkers::{FlowHistory, Shape, stamp};
use std::collections::BTreeMap;

/// More items than a flow has.
const ITEMS_MAX: u64 = 1 << 32;

/// A fault shows within this time, also if the switch restarts meanwhile.
const SHOWS_WITHIN: Duration = Duration::from_millis(3 * DEAD_AFTER_MS);

pub fn judge(journals: &Journals, seed: u64, report: &mut SeedReport) {
    let mut flows: BTreeMap<u32, Judged> = BTreeMap::new();
    for entry in &journals.0 {
        let Event::Flow(number, event) = &entry.event else {
            continue;
        };
        if let FlowEvent::Made(kind) = event {
            let flow = Judged::new(*kind, seed ^ u64::from(*number), entry.at);
            flows.insert(*number, flow);
        } else if let Some(flow) = flows.get_mut(number) {
            flow.event((entry.at, entry.life), event);
        }
    }
    for (number, flow) in flows {
        flow.finish(journals, number, report);
    }
}

/// Whether a flow between programs may be aborted because of this fault. One that is set up goes on
/// while a program or the switch stands still, and does not depend on other nodes.
fn aborts(fault: FaultEvent) -> bool {
    matches!(
        fault,
        FaultEvent::Death(_) | FaultEvent::Ends(_) | FaultEvent::SwitchDies
    )
}

struct Judged {
    history: FlowHistory,
    seed: u64,
    made: Instant,
    /// When an end of it was first seen aborted, and the reason that the controller gave.
    aborted: Option<(Instant, String)>,
    /// The processes of consumers that have not seen the end.
    consumers: BTreeMap<u16, Life>,
    /// Whether the controller said that all items were delivered.
    has_ended: bool,
}

impl Judged {
    fn new(kind: FlowKind, seed: u64, made: Instant) -> Self {
        let shape = match kind {
            FlowKind::Shuffle => Shape::Routed,
            FlowKind::Balanced => Shape::Balanced,
            FlowKind::Replicated => Shape::Replicated,
        };
        Self {
            history: FlowHistory::new(shape, PROGRAMS, seed),
            seed,
            made,
            aborted: None,
            consumers: BTreeMap::new(),
            has_ended: false,
        }
    }

    fn event(&mut self, (at, life): (Instant, Life), event: &FlowEvent) {
        match event {
            FlowEvent::Made(_) => {}
            FlowEvent::Pushes(producer, destination, (first, count)) => {
                // A program's consumer has the number of its producer.
                if *first == 0 {
                    self.consumers.entry(*producer).or_insert(life);
                }
                for sequence in *first..first + count {
                    let item = self.item((*producer, *destination, sequence));
                    let hash = FlowHistory::item_hash(&item);
                    self.history.push(*producer, *destination, sequence, hash);
                }
            }
            FlowEvent::Finishes(producer) => self.history.close(*producer),
            FlowEvent::Took(consumer, items) => {
                self.consumers.insert(*consumer, life);
                for stamp in items {
                    self.history.pop(*consumer, &self.item(*stamp));
                }
            }
            FlowEvent::Ended(consumer) => {
                self.consumers.remove(consumer);
                self.history.end(*consumer);
            }
            FlowEvent::Aborted => self.abort(at, "an end saw it"),
            FlowEvent::Over(Some(reason)) => {
                let seen = self.aborted.as_ref().map_or(at, |(seen, _)| *seen);
                self.aborted = Some((seen, reason.clone()));
            }
            FlowEvent::Over(None) => self.has_ended = true,
        }
    }

    fn abort(&mut self, at: Instant, reason: &str) {
        self.aborted.get_or_insert_with(|| (at, reason.to_owned()));
    }

    /// The item with this stamp: its taker has compared every byte.
    fn item(&self, (producer, destination, sequence): (u16, u16, u64)) -> Vec<u8> {
        let mut item = vec![0; ITEM_BYTES as usize];
        stamp::fill(&mut item, producer, destination, sequence, self.seed);
        item
    }

    /// A flow ends when everything has been delivered: a consumer may die before it has taken it.
    fn excuse_dead(&mut self, journals: &Journals) {
        for (&consumer, &life) in &self.consumers {
            let dies = |fault| matches!(fault, FaultEvent::Death(of) if of == life);
            if journals.faults().any(|(_, fault)| dies(fault)) {
                self.history.abandon_consumer(consumer);
                self.history.excuse(consumer, ITEMS_MAX);
            }
        }
    }

    fn finish(mut self, journals: &Journals, number: u32, report: &mut SeedReport) {
        report.count("items", self.history.popped());
        match &self.aborted {
            // Whatever an end saw, only a process that died need not have taken everything.
            _ if self.has_ended => self.excuse_dead(journals),
            Some((at, reason)) => {
                self.history.abort();
                let is_cause = |(when, fault): (Instant, FaultEvent)| {
                    aborts(fault) && when + SHOWS_WITHIN >= self.made && when <= *at
                };
                if !journals.faults().any(is_cause) {
                    let text = format!(
                        "Flows: flow {number}, made at {:?}, was aborted at {at:?} without a cause: \
                         {reason}",
                        self.made
                    );
                    report.violations.push(text);
                }
            }
            // It was not set up, or still ran at the end of the run.
            None => self.history.abort(),
        }
        let ended = u64::from(self.has_ended);
        report.count("flows_ended", ended);
        report.count("flows_aborted", 1 - ended);
        add(report, System::Flows, self.history.finish());
    }
}
