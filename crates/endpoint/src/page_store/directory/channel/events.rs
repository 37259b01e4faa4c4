//! Events of a channel: completions of its work requests, responses, time limits, and the loss of a
//! connection.

use super::{Channel, WATCH};
use crate::page_store::directory::step::Event;
use crate::page_store::directory::task::{Connection, Fruit, Then, Waits};
use rackweave_base::{Duration, Instant};
use rackweave_verbs::{Completion, CompletionStatus, QpState, Verbs};
use rackweave_wire::fabric::page::Status;

/// Maximum time for data to arrive. It exceeds the switch's wait for storage, so that the node gets
/// the switch's report of a storage timeout.
const DATA_LIMIT: Duration = Duration::from_secs(8);

impl Channel {
    /// Applies a completion to the operation that waits for it.
    pub(super) fn completed(
        &mut self,
        now: Instant,
        verbs: &mut dyn Verbs,
        completion: Completion,
    ) {
        let slot = completion.id as u16;
        let ok = completion.status == CompletionStatus::Success;
        let ours = completion.qpn == self.parts.requests;
        let link = if ours {
            &mut self.switch
        } else {
            &mut self.server
        };
        if completion.id >> 16 <= link.stale {
            return;
        }
        if !ok {
            // The operation that waits for it will see that the connection is lost.
            return link.lose(now);
        }
        let Some(Some(task)) = self.slots.get(usize::from(slot)) else {
            return;
        };
        let event = match task.waits {
            Waits::Response(id) if id == completion.id && ours => match self.parts.response(slot) {
                Some(response) if response.status == Status::Moving => {
                    let Some(task) = self.take(slot) else { return };
                    let waits = Waits::Data(response, now + DATA_LIMIT);
                    return self.wait(now, slot, task, waits);
                }
                Some(response) => Event::Answered(response),
                // No correct switch sends this.
                None => return self.switch.lose(now),
            },
            Waits::Server(id, fruit) if id == completion.id && !ours => match fruit {
                Fruit::Entry => {
                    let (latch, place) = self.parts.entry(slot);
                    Event::Entry(latch, place)
                }
                Fruit::Swapped => Event::Swapped(self.parts.swapped(slot)),
            },
            _ => return,
        };
        self.happened(now, verbs, slot, event);
    }

    fn happened(&mut self, now: Instant, verbs: &mut dyn Verbs, slot: u16, event: Event) {
        let Some(mut task) = self.take(slot) else {
            return;
        };
        let step = task.next(event);
        self.go_on(now, verbs, slot, task, step);
    }

    /// Checks every slot for arrived data and expired pauses.
    pub(super) fn look(&mut self, now: Instant, verbs: &mut dyn Verbs) {
        for slot in 0..self.parts.slots {
            let Some(task) = &self.slots[usize::from(slot)] else {
                continue;
            };
            match task.waits {
                Waits::Data(response, until) => {
                    if let Some(completion) = self.parts.completion(slot, response.command) {
                        self.happened(now, verbs, slot, Event::Moved(response, completion));
                        continue;
                    }
                    if now >= until {
                        self.switch.lose(now);
                    }
                    if self.switch.is_lost {
                        self.wait_for(now, slot, Connection::Switch);
                    }
                }
                Waits::Response(_) if self.switch.is_lost => {
                    self.wait_for(now, slot, Connection::Switch);
                }
                Waits::Server(..) if self.server.is_lost => {
                    self.wait_for(now, slot, Connection::Server);
                }
                Waits::Renewal(connection) if task.is_tired(now) => {
                    self.give_up(now, verbs, slot, connection);
                }
                Waits::Until(until, then) if now >= until => {
                    let tired = task.is_tired(now);
                    match then {
                        Then::Wake => self.happened(now, verbs, slot, Event::Due { tired }),
                        Then::Do(step) => {
                            if let Some(task) = self.take(slot) {
                                self.go_on(now, verbs, slot, task, step);
                            }
                        }
                        Then::Begin => {
                            if let Some(mut task) = self.take(slot) {
                                let step = task.start();
                                self.start(now, verbs, slot, task, step);
                            }
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn wait_for(&mut self, now: Instant, slot: u16, connection: Connection) {
        if let Some(task) = self.take(slot) {
            self.wait(now, slot, task, Waits::Renewal(connection));
        }
    }

    pub(super) fn watch(&mut self, now: Instant, verbs: &mut dyn Verbs) {
        if self.moving == 0 || now < self.watch {
            return;
        }
        self.watch = now + WATCH;
        if verbs.qp_state(self.parts.requests) != Some(QpState::ReadyToSend) {
            self.switch.lose(now);
        }
    }
}
