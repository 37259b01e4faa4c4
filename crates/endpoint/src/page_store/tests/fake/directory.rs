//! One worker's directory on the fake rack.

use super::{FakeDirectory, From, Phase, UnderWay, lone};
use crate::page_store::directory::{Answer, Directory, Op, Reply, Ticket};
use rackweave_base::Instant;
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::page::LatchWord;

/// Its node dies with operations in flight: its writes home arrive, or do not.
impl Drop for FakeDirectory {
    fn drop(&mut self) {
        if self.under_way.is_empty() || std::thread::panicking() {
            return;
        }
        let rack = self.rack.clone();
        let mut model = rack.model();
        for under_way in self.under_way.drain(..) {
            if let Some(page) = lone(under_way.op) {
                model.busy.remove(&(self.node, page));
            }
            match (under_way.phase, under_way.op) {
                (Phase::Half { from, .. }, _) => {
                    if let From::Frame { node, group, .. } = from
                        && let Some(node) = model.nodes.get_mut(usize::from(node))
                    {
                        node.groups[group] -= 1;
                    }
                }
                (Phase::Writing(bytes), Op::Evict { page, frame, .. }) => {
                    model.writes.remove(&page);
                    if model.rng.chance(0.5) {
                        model.homes.insert(page, bytes);
                    }
                    if let Some(entry) = model.entries.get_mut(&page) {
                        entry.place = entry.place.written(self.node, frame, false, true);
                    }
                }
                _ => {}
            }
        }
    }
}

impl Directory for FakeDirectory {
    fn capacity(&self) -> usize {
        self.room - self.under_way.len()
    }

    fn begin(&mut self, now: Instant, _: &mut dyn Verbs, op: Op) -> Option<Ticket> {
        if self.capacity() == 0 {
            return None;
        }
        let mut model = self.rack.model();
        if let Some(page) = lone(op) {
            let first = model.busy.insert((self.node, page));
            assert!(first, "{op:?} while something is under way for the page");
        }
        let due = now + model.delay();
        self.next += 1;
        let ticket = Ticket(self.next);
        self.under_way.push(UnderWay {
            ticket,
            op,
            due,
            phase: Phase::Ask,
            beginning: model.beginnings,
        });
        Some(ticket)
    }

    fn poll(&mut self, now: Instant, _: &mut dyn Verbs) -> Option<Reply> {
        let rack = self.rack.clone();
        let mut model = rack.model();
        let mut at = 0;
        while at < self.under_way.len() {
            let under_way = &mut self.under_way[at];
            if under_way.due > now {
                at += 1;
                continue;
            }
            let op = under_way.op;
            let is_other = under_way.beginning != model.beginnings;
            let finds_out = matches!(op, Op::Own { .. } | Op::Disown { .. });
            let gives_back = matches!(op, Op::Unfix { .. } | Op::Release { .. });
            let is_slow = (finds_out || gives_back) && model.rng.chance(0.3);
            let result = match core::mem::replace(&mut under_way.phase, Phase::Ask) {
                Phase::Ask | Phase::Answered(..) if is_other && finds_out => {
                    Ok((Answer::Gone, LatchWord(0)))
                }
                Phase::Answered(answer, latch) => Ok((answer, latch)),
                Phase::Ask => match model.ask(self.node, op) {
                    Ok((answer, latch)) if is_slow => Err(Phase::Answered(answer, latch)),
                    other => other,
                },
                Phase::Half { from, latch } => match op {
                    Op::Fetch {
                        page, mode, frame, ..
                    } => Ok(model.moved(self.node, (page, mode, frame), from, latch)),
                    _ => unreachable!(),
                },
                Phase::Writing(before) => Ok(model.written(self.node, op, before)),
            };
            match result {
                Ok((answer, latch)) => {
                    if let Some(page) = lone(op) {
                        model.busy.remove(&(self.node, page));
                    }
                    let ticket = self.under_way.swap_remove(at).ticket;
                    return Some(Reply {
                        ticket,
                        answer,
                        latch,
                    });
                }
                Err(phase) => {
                    under_way.phase = phase;
                    under_way.due = now + model.delay();
                    at += 1;
                }
            }
        }
        None
    }

    fn beginnings(&self) -> u64 {
        self.rack.model().beginnings
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.under_way.iter().map(|under_way| under_way.due).min()
    }
}
