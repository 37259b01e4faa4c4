//! The index, by the history of its operations.

use super::super::journal::{Event, FaultEvent, IndexEvent, Life, Point, System};
use super::super::report::SeedReport;
use super::{Journals, add};
use rackweave_sim::checkers::IndexHistory;
use rackweave_sim::checkers::index_history::{
    Operation, Outcome, PointId, ScanId, ScanOrder, Scanned, ValueStamp,
};
use std::collections::BTreeMap;

pub fn judge(journals: &Journals, report: &mut SeedReport) {
    let mut history = IndexHistory::new();
    let mut points: BTreeMap<(Life, u32), PointId> = BTreeMap::new();
    let mut scans: BTreeMap<(Life, u32), ScanId> = BTreeMap::new();
    let mut faults = BTreeMap::new();
    let mut replaced = 0;
    for entry in &journals.0 {
        let (now, life) = (entry.at, entry.life);
        let (call, event) = match &entry.event {
            Event::Fault(FaultEvent::Node(node)) => {
                faults.insert(*node, history.moment_now(now));
                continue;
            }
            Event::Index(call, event) => ((life, *call), event),
            _ => continue,
        };
        let mut end = |history: &mut IndexHistory, outcome| {
            if let Some(id) = points.remove(&call) {
                history.end(now, id, outcome);
            }
        };
        match event {
            IndexEvent::Loaded(key, value) => history.load(*key, ValueStamp::new(*value)),
            IndexEvent::Asked(key, point) => {
                let id = history.begin(now, life.into(), *key, operation(*point));
                points.insert(call, id);
            }
            IndexEvent::Found(value) => {
                end(&mut history, Outcome::Found(value.map(ValueStamp::new)));
            }
            IndexEvent::Done(done) => end(&mut history, Outcome::Done(*done)),
            IndexEvent::Refused => {
                // A scan without a result shows nothing.
                if let Some(id) = points.remove(&call) {
                    history.refused(id);
                }
            }
            IndexEvent::Unknown => _ = points.remove(&call),
            IndexEvent::Scans(low, last, up) => {
                let order = match up {
                    true => ScanOrder::Ascending,
                    false => ScanOrder::Descending,
                };
                let id = history.begin_scan(now, life.into(), *low..=*last, order);
                scans.insert(call, id);
            }
            IndexEvent::Scanned(entries, whole) => {
                let stamped = entries
                    .iter()
                    .map(|&(key, value)| (key, ValueStamp::new(value)));
                let (entries, whole) = (stamped.collect(), *whole);
                if let Some(id) = scans.remove(&call) {
                    history.end_scan(now, id, Scanned { entries, whole });
                }
            }
            // Nothing may be lost.
            IndexEvent::Replaced(_) => replaced += 1,
            IndexEvent::Restarted(node, (low, last), has_failed) => {
                // Without a fault nothing may be lost.
                if let Some(&begun) = faults.get(node) {
                    let range = *low..=*last;
                    history.restarted(now, begun, range.clone(), Vec::new(), true);
                    if *has_failed {
                        history.restarted(now, begun, range, Vec::new(), false);
                    }
                }
            }
        }
    }
    report.count("endpoints_replaced", replaced);
    conclude(history, report);
}

fn conclude(history: IndexHistory, report: &mut SeedReport) {
    let counts = history.counts();
    report.count("keys_read", counts.gets);
    report.count("keys_changed", counts.changes);
    report.count("operations_unknown", counts.unknown);
    report.count("scans", counts.scans);
    add(report, System::Index, history.finish());
}

fn operation(point: Point) -> Operation {
    match point {
        Point::Get => Operation::Get,
        Point::Insert(value) => Operation::Insert(ValueStamp::new(value)),
        Point::Update(value) => Operation::Update(ValueStamp::new(value)),
        Point::Put(value) => Operation::Put(ValueStamp::new(value)),
        Point::Remove => Operation::Remove,
    }
}
