//! Programs on the cores of an endpoint that access its part of the index directly.

use super::shared::{Shared, order};
use super::work::{Task, Work};
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::btree::Direction;
use rackweave_endpoint::index::{Denied, Shard};
use rackweave_rack::SharedServer;
use rackweave_sim::checkers::index_history::Operation;
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;
use std::sync::Arc;

/// A program. It ends when its work is done or its endpoint is down.
pub(super) struct Local {
    shared: Rc<Shared>,
    shard: Arc<Shard>,
    server: SharedServer,
    who: u32,
    work: Work,
    left: u32,
}

impl Local {
    pub fn new(
        shared: Rc<Shared>,
        (shard, server): (Arc<Shard>, SharedServer),
        who: u32,
        work: Work,
    ) -> Self {
        let left = shared.habits.operations;
        Self {
            shared,
            shard,
            server,
            who,
            work,
            left,
        }
    }

    fn act(&mut self, now: Instant, shard: &Shard) {
        match self.work.draw(&self.shared) {
            Task::Point {
                key,
                operation,
                value,
            } => self.point(now, shard, key, operation, &value),
            Task::Scan {
                low,
                last,
                direction,
                limit,
            } => self.scan(now, shard, (low, last), direction, limit),
        }
    }

    fn point(&self, now: Instant, shard: &Shard, key: u64, operation: Operation, value: &[u8]) {
        let shared = &self.shared;
        let id = shared
            .history
            .borrow_mut()
            .begin(now, self.who, key, operation);
        let result = match operation {
            Operation::Get => {
                let mut found = Vec::new();
                let result = shard.get(key, &mut found);
                if let Ok(is_there) = result {
                    return shared.found(now, id, key, is_there.then_some(&found));
                }
                result
            }
            Operation::Insert(_) => shard.insert(key, value).map(|done| !done),
            Operation::Update(_) => shard.update(key, value),
            Operation::Put(_) => shard.put(key, value).map(|new| !new),
            Operation::Remove => shard.remove(key),
        };
        match result {
            Ok(was_there) => shared.changed(now, id, operation, was_there),
            Err(denied) => {
                self.look_at(denied);
                shared.refused(id);
            }
        }
    }

    /// A scan is atomic, and covers the owned keys.
    fn scan(
        &self,
        now: Instant,
        shard: &Shard,
        (low, last): (u64, u64),
        direction: Direction,
        limit: u32,
    ) {
        let mut entries: Vec<(u64, Vec<u8>)> = Vec::new();
        let page = &mut entries;
        let visit = |page: &mut Vec<(u64, Vec<u8>)>, key, value: &[u8]| {
            let has_space = page.len() < limit as usize;
            if has_space {
                page.push((key, value.to_vec()));
            }
            has_space
        };
        let next = match shard.scan((low, last), direction, page, Vec::clear, visit) {
            Ok(next) => next,
            Err(denied) => return self.look_at(denied),
        };
        // The part before the key at which the scan continues.
        let range = match (next, direction) {
            (None, _) => low..=last,
            (Some(next), Direction::Forward) if next > low => low..=next - 1,
            (Some(next), Direction::Backward) if next < last => next + 1..=last,
            _ => return,
        };
        let mut history = self.shared.history.borrow_mut();
        let id = history.begin_scan(now, self.who, range, order(direction));
        let scanned = self.shared.scanned(&entries, true, |key, error| {
            history.torn_in_scan(id, key, error);
        });
        history.end_scan(now, id, scanned);
    }

    fn look_at(&self, denied: Denied) {
        use rackweave_endpoint::btree::TreeError;
        match denied {
            // No endpoint has a replica here.
            Denied::Moved { .. } | Denied::Busy | Denied::Replicated => {}
            Denied::Tree(TreeError::NodesUsedUp { .. } | TreeError::HeapFull { .. }) => {}
            Denied::Tree(error) => {
                let who = self.who;
                self.shared
                    .wrong
                    .push(format!("local program {who}: {error}"));
            }
        }
    }
}

impl Actor for Local {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        if self.left == 0 || self.server.is_stopped() {
            return Step::Done;
        }
        self.left -= 1;
        let shard = self.shard.clone();
        self.act(now, &shard);
        let most = self.shared.habits.pause_max.as_nanos();
        let pause = 200 + self.work.rng().below(most);
        Step::Sleep(Duration::from_nanos(pause))
    }
}
