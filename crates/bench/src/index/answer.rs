//! What answers mean for the operations of a session.

use super::error::RunError;
use super::session::{Change, Doing, Session, Stage, Stepped};
use core::sync::atomic::Ordering;
use rackweave_base::Instant;
use rackweave_endpoint::index::Answer;
use rackweave_workload::ycsb::Floor;
use std::sync::Arc;

impl Session {
    /// Judges an answer. What has ended with it is measured.
    pub(super) fn take(
        &mut self,
        doing: Doing,
        result: Result<Answer, RunError>,
        clock: &dyn Fn() -> Instant,
        stepped: &mut Stepped,
    ) {
        let run = Arc::clone(&self.run);
        let (kind, began) = (doing.kind, doing.began);
        let answer = match result {
            Ok(answer) => answer,
            // Turns stay taken: nobody knows which version the record has.
            Err(error) => return run.findings.fail(error),
        };
        match (doing.stage, answer) {
            (Stage::Read { record, floor }, Answer::Value(value)) => {
                self.judge(record, value.as_deref(), floor, stepped);
            }
            (
                Stage::Fetch {
                    record,
                    floor,
                    version,
                },
                Answer::Value(value),
            ) => {
                let found = self.judge(record, value.as_deref(), floor, stepped);
                if let Some(found) = found.filter(|&found| found != version) {
                    let reason =
                        format!("it was read in version {found}, its only one is {version}");
                    run.note(record, reason);
                }
                let version = version + 1;
                self.read.push(Change {
                    kind,
                    began,
                    record,
                    version,
                });
                return;
            }
            (Stage::Write { record, version }, Answer::Found(found)) => {
                self.written(record, version, found);
            }
            (Stage::Insert { record }, Answer::Found(found)) => {
                if found {
                    run.note(record, "it was there before it was inserted");
                }
                run.inserts.acknowledge(record);
            }
            (Stage::Scan(scan), Answer::Entries(entries)) => {
                stepped.bytes += scan.judge(&run, &entries);
            }
            (stage, _) => {
                run.note(stage.record(), "the answer is to another question");
                return;
            }
        }
        self.latencies.record(kind, began, clock());
        run.ended.fetch_add(1, Ordering::Relaxed);
    }

    fn judge(
        &self,
        record: u64,
        value: Option<&[u8]>,
        floor: Floor,
        stepped: &mut Stepped,
    ) -> Option<u64> {
        let Some(bytes) = value else {
            self.run.note(record, "it is not there");
            return None;
        };
        stepped.bytes += bytes.len() as u64;
        self.run.verify(record, bytes, floor)
    }

    fn written(&self, record: u64, version: u64, found: bool) {
        let run = &self.run;
        if found {
            if let Err(error) = run.expectations.commit_update(record, version) {
                run.note(record, error);
            }
            run.turns.give_back(record, version);
        } else {
            run.note(record, "it was not there to be updated");
            if let Err(error) = run.expectations.cancel_update(record) {
                run.note(record, error);
            }
            run.turns.give_back(record, version - 1);
        }
    }
}
