//! Requests about an entry of the directory: who holds the latch, where the page is, and what is to
//! be moved.

use super::{Asked, Taken};
use crate::pages::movement::Work;
use crate::pages::registers::DOUBTED;
use crate::pages::second::source;
use crate::pages::{Digests, PageTask, Pages, SecondPlace, Tasks};
use rackweave_base::canary::{Canary, planted};
use rackweave_switch::Pass;
use rackweave_wire::fabric::page::{LatchWord, Operation, PageLocation, Request, Status};

impl Pages {
    /// Processes a request about an entry of the directory.
    pub(super) fn take_indexed<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        asked: &Asked,
        entry: usize,
    ) -> Taken {
        let me = asked.lanes.node;
        let Request {
            operation,
            frame,
            argument,
            ..
        } = asked.request;
        let is_held = self.holds_latches(pass.now);
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let turn = registers.holder.update(cursor, entry, |holder| {
            Turn::take(holder, me, operation, is_held)
        });
        let Turn {
            is_mine, is_others, ..
        } = turn;
        let latch = registers.latch.update(cursor, entry, |latch| {
            let before = LatchWord(*latch);
            let after = match operation {
                Operation::Unfix | Operation::Own | Operation::Disown if is_mine => {
                    before.changed()
                }
                Operation::Release if is_mine => before.released(),
                _ if operation.is_exclusive() && is_mine => before.locked(),
                _ => before,
            };
            *latch = after.0;
            after
        });
        registers
            .since
            .write(cursor, usize::from(asked.slot), latch.0);
        let is_current = match operation {
            Operation::RefreshShared | Operation::RefreshExclusive => {
                argument == Request::have(latch)
            }
            _ => false,
        };
        let state = (is_mine, is_others, is_current);
        let (second, was_second) = registers.second.update(cursor, entry, |cell| {
            let (second, was_second) = SecondPlace(*cell).requested(me, operation, state);
            *cell = second.0;
            (second, was_second)
        });
        let (place, moves) = registers.place.update(cursor, entry, |place| {
            let before = PageLocation(*place);
            let after = placed(before, (me, frame), operation, state);
            let after = if was_second { after.counted() } else { after };
            *place = after.0;
            (before, after.moves())
        });
        let taken = Indexed {
            turn,
            latch,
            is_current,
            place,
            second,
            moves,
        };
        let is_open = !is_mine && !is_others && !latch.is_locked() && !place.is_lost();
        let leases = self.leases(pass, asked, entry, (latch, is_open, is_mine));
        if operation == Operation::Revoke {
            return revoke(asked.slot, &taken, (leases.first, is_held));
        }
        Taken {
            leased: leases.leased,
            ..self.answer_indexed(pass, asked, &taken)
        }
    }

    /// The answer to a request about an entry of the directory, once the entry has changed.
    fn answer_indexed<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        asked: &Asked,
        entry: &Indexed,
    ) -> Taken {
        let (me, frame) = (asked.lanes.node, asked.request.frame);
        let operation = asked.request.operation;
        let &Indexed {
            turn,
            latch,
            is_current,
            place,
            second,
            moves,
        } = entry;
        let Turn {
            is_mine,
            is_others,
            in_doubt,
        } = turn;
        let gives_back = matches!(
            operation,
            Operation::Unfix | Operation::Release | Operation::Own | Operation::Disown
        );
        let refused = Taken::plain(Status::Locked, latch);
        let done = Taken {
            granted: is_mine && !gives_back,
            ..Taken::plain(Status::Current, latch)
        };
        match operation {
            Operation::Verify => done,
            // The node has to determine that first.
            _ if in_doubt && !operation.is_fix() => refused,
            _ if gives_back && is_mine => done,
            _ if gives_back => Taken::plain(Status::NotHolder, latch),
            // The latch holder publishes the newest version, or it is lost with that node.
            Operation::Evict if place.is_lost() && latch.is_locked() => refused,
            Operation::Evict if place.is_lost() => Taken::plain(Status::Lost, latch),
            Operation::Evict if !place.is_at(me, frame) || !place.is_dirty() => {
                Taken::plain(Status::Superseded, latch)
            }
            Operation::Evict if place.is_writing() && planted(Canary::PagesOlderWriteLast) => {
                Taken::plain(Status::Superseded, latch)
            }
            Operation::Evict if place.is_writing() => Taken::plain(Status::Busy, latch),
            Operation::Evict => Taken {
                work: Some(self.storage_command(asked)),
                ..Taken::plain(Status::Moving, latch)
            },
            _ if is_others => refused,
            _ if place.is_lost() => Taken {
                status: Status::Lost,
                ..done
            },
            _ if is_current || place.is_at(me, frame) && place.is_dirty() => done,
            _ => {
                let from = source(me, asked.psn, place, second);
                let (status, work) = self.move_page(pass, asked, from);
                Taken {
                    status,
                    work,
                    moves,
                    ..done
                }
            }
        }
    }
}

/// The place of a page after a request for it. `is_mine` and `is_others`: who has the latch;
/// `is_current`: the requester has the newest version.
fn placed(
    before: PageLocation,
    (me, frame): (u16, u32),
    operation: Operation,
    (is_mine, is_others, is_current): (bool, bool, bool),
) -> PageLocation {
    match operation {
        Operation::Unfix | Operation::Own if is_mine => before.moved(me, frame),
        Operation::Disown if is_mine => before.accepted(),
        Operation::Evict
            if before.is_at(me, frame) && before.is_dirty() && !before.is_writing() =>
        {
            before.writing()
        }
        // A request for a page that the node itself caches shows that the node has dropped it.
        _ if operation.is_fix() && !is_others && !is_current => before.dropped_by(me),
        _ => before,
    }
}

/// The answer to [`Operation::Revoke`]. While latches are held back, leases that cannot be revoked
/// may be valid.
fn revoke(slot: u16, entry: &Indexed, (first, is_held): (Option<u16>, bool)) -> Taken {
    let granted = Taken {
        granted: true,
        ..Taken::plain(Status::Current, entry.latch)
    };
    match first {
        _ if !entry.turn.is_mine => Taken::plain(Status::NotHolder, entry.latch),
        Some(node) => Taken {
            status: Status::Moving,
            work: Some(Work::Page(PageTask::Revoke { slot, node })),
            ..granted
        },
        None if is_held => Taken {
            status: Status::Busy,
            ..granted
        },
        None => granted,
    }
}

/// The effect of a request's pass on an entry of the directory.
struct Indexed {
    turn: Turn,
    /// The latch after the pass.
    pub(super) latch: LatchWord,
    /// The requester has this version and only needs a newer one.
    is_current: bool,
    /// The previous location of the page.
    place: PageLocation,
    second: SecondPlace,
    /// Number of moves of its place.
    pub(super) moves: u32,
}

/// The effect of a request's pass on the latch's holder.
#[derive(Clone, Copy)]
struct Turn {
    /// The requester holds the latch, or has just released it.
    is_mine: bool,
    is_others: bool,
    /// The requester holds it, and has to determine whether it has the newest version.
    in_doubt: bool,
}

impl Turn {
    /// Takes or releases the latch, if the operation does so and may.
    pub(super) fn take(holder: &mut u16, me: u16, operation: Operation, is_held: bool) -> Self {
        let (before, mine) = (*holder, me + 1);
        let was_mine = before == mine;
        let turn = |is_mine| Self {
            is_mine,
            is_others: before != 0 && !is_mine,
            in_doubt: false,
        };
        if before == mine | DOUBTED {
            if matches!(operation, Operation::Own | Operation::Disown) {
                *holder = 0;
                return turn(true);
            }
            return Self {
                in_doubt: true,
                ..turn(false)
            };
        }
        if operation.is_exclusive() && before == 0 {
            if is_held && !planted(Canary::PagesNoHold) {
                return Self {
                    is_others: true,
                    ..turn(false)
                };
            }
            *holder = mine;
            return turn(true);
        }
        let anyone = planted(Canary::PagesUnlockAnyone) && before != 0;
        let gives_back = matches!(operation, Operation::Unfix | Operation::Release);
        if gives_back && (was_mine || anyone) {
            *holder = 0;
            return turn(true);
        }
        turn(was_mine && !matches!(operation, Operation::Own | Operation::Disown))
    }
}
