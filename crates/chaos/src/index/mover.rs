//! Moves ranges from endpoint to endpoint, step by step, as a coordinator does, with anything in
//! between. It acts on the shards themselves; the coordinator that asks for each step from afar is
//! tested beside its code.

use super::endpoint::Seat;
use super::plan::Keys;
use super::shared::{Shared, count};
use core::cell::{Cell, RefCell};
use rackweave_base::{Duration, Rng};
use rackweave_endpoint::index::{EndpointId, HandoverError, Marked, MoveId, PartitionMap, Shard};
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;
use std::sync::Arc;

/// What movers and harness share.
pub(super) struct Moves {
    pub seats: Vec<Rc<Seat>>,
    /// What was decided: whoever starts begins with it.
    pub map: RefCell<PartitionMap>,
    /// Whether one is at it.
    pub under_way: Cell<bool>,
    /// Ends the one that is, wherever it is.
    pub killed: Cell<bool>,
    pub done: Cell<u64>,
    next_id: Cell<u64>,
}

/// A move of one boundary, piece by piece.
pub(super) struct Mover {
    shared: Rc<Shared>,
    moves: Rc<Moves>,
    rng: Rng,
    left: EndpointId,
    /// The least key that shall be right of the boundary; none: no key shall.
    boundary: Option<u64>,
    entries_max: u32,
    phase: Phase,
}

#[derive(Clone, Copy)]
struct Piece {
    id: MoveId,
    from: EndpointId,
    to: EndpointId,
    marked: Marked,
}

enum Phase {
    Mark,
    Stage(Piece),
    /// From which key on; entries so far.
    Copy(Piece, u64, u64),
    Seal(Piece, u64),
    Commit(Piece),
    Adopt(Piece),
}

impl Moves {
    pub fn new(seats: Vec<Rc<Seat>>, map: PartitionMap) -> Rc<Self> {
        Rc::new(Self {
            seats,
            map: RefCell::new(map),
            under_way: Cell::new(false),
            killed: Cell::new(false),
            done: Cell::new(0),
            next_id: Cell::new(1),
        })
    }

    fn shard(&self, endpoint: EndpointId) -> Option<Arc<Shard>> {
        self.seats[endpoint.index()].shard()
    }

    /// Brings every move that was left half done to the one end or the other.
    pub fn resolve(&self) -> Result<(), String> {
        let map = self.map.borrow().clone();
        for seat in &self.seats {
            let Some(shard) = seat.shard() else { continue };
            let state = shard.state();
            let resolved = match (state.giving, state.getting) {
                (Some((id, marked)), _) if map.owner(marked.low) == seat.endpoint => {
                    shard.release(id);
                    Ok(())
                }
                (Some((id, _)), _) => shard.commit(id, &map),
                (_, Some((id, marked, _))) if map.owner(marked.low) == seat.endpoint => {
                    shard.adopt(id, &map)
                }
                (_, Some((id, ..))) => shard.discard(id),
                (None, None) => Ok(()),
            };
            resolved.map_err(|error| format!("{} does not settle: {error}", seat.endpoint))?;
        }
        Ok(())
    }
}

impl Mover {
    /// A mover, unless one is at work.
    pub fn new(
        shared: Rc<Shared>,
        moves: Rc<Moves>,
        mut rng: Rng,
        left: u16,
        place: u16,
    ) -> Option<Self> {
        if moves.under_way.get() {
            return None;
        }
        // Another may have been killed.
        if let Err(error) = moves.resolve() {
            shared.wrong(error);
        }
        moves.under_way.set(true);
        moves.killed.set(false);
        let Keys { count, .. } = shared.keys;
        let boundary = match place {
            0 => Some(0),
            1000.. => None,
            place => Some(shared.keys.key(count * u64::from(place) / 1000)),
        };
        Some(Self {
            entries_max: *rng.pick(&[2, 10, 1000]),
            rng,
            shared,
            moves,
            left: EndpointId(left),
            boundary,
            phase: Phase::Mark,
        })
    }

    /// What is on the wrong side of the boundary: from whom, to whom.
    fn next(&self) -> Option<(EndpointId, EndpointId, u64, u64)> {
        let (left, right) = (self.left, EndpointId(self.left.0 + 1));
        let map = self.moves.map.borrow();
        let (here, there) = (map.part_of(left), map.part_of(right));
        if let Some(part) = here
            && let Some(boundary) = self.boundary
            && part.last >= boundary
        {
            return Some((left, right, part.low.max(boundary), part.last));
        }
        let part = there?;
        let last = match self.boundary {
            None => part.last,
            Some(boundary) => part.last.min(boundary.checked_sub(1)?),
        };
        (part.low <= last).then_some((right, left, part.low, last))
    }

    /// A step. None: it is over, or goes no further.
    fn go_on(&mut self) -> Result<Option<Phase>, HandoverError> {
        let moves = self.moves.clone();
        let map = moves.map.borrow().clone();
        let after = |piece: &Piece| {
            let Marked { low, last } = piece.marked;
            map.with_move(piece.from, piece.to, low, last)
        };
        Ok(match &self.phase {
            Phase::Mark => {
                let Some((from, to, low, last)) = self.next() else {
                    return Ok(None);
                };
                let (Some(source), Some(_)) = (moves.shard(from), moves.shard(to)) else {
                    return Ok(None);
                };
                let id = MoveId(moves.next_id.replace(moves.next_id.get() + 1));
                let marked = source.mark(id, to, (low, last), self.entries_max, &map)?;
                Some(Phase::Stage(Piece {
                    id,
                    from,
                    to,
                    marked,
                }))
            }
            Phase::Stage(piece) => {
                let Some(target) = moves.shard(piece.to) else {
                    return Ok(None);
                };
                let Marked { low, last } = piece.marked;
                target.stage(piece.id, (low, last), &map)?;
                Some(Phase::Copy(*piece, low, 0))
            }
            Phase::Copy(piece, from, entries) => {
                let ends = (moves.shard(piece.from), moves.shard(piece.to));
                let (Some(source), Some(target)) = ends else {
                    return Ok(None);
                };
                let mut page: Vec<(u64, Vec<u8>)> = Vec::new();
                let room = 1 + self.rng.below(10) as usize;
                let next = source.export(piece.id, *from, &mut |key, value| {
                    let fits = page.len() < room;
                    if fits {
                        page.push((key, value.to_vec()));
                    }
                    fits
                })?;
                let borrowed = page.iter().map(|(key, value)| (*key, &value[..]));
                target.install(piece.id, borrowed)?;
                let entries = entries + page.len() as u64;
                Some(match next {
                    Some(next) => Phase::Copy(*piece, next, entries),
                    None => Phase::Seal(*piece, entries),
                })
            }
            Phase::Seal(piece, entries) => {
                let Some(target) = moves.shard(piece.to) else {
                    return Ok(None);
                };
                target.seal(piece.id, *entries)?;
                Some(Phase::Commit(*piece))
            }
            Phase::Commit(piece) => {
                let ends = (moves.shard(piece.from), moves.shard(piece.to));
                let (Some(source), Some(_), Ok(next)) = (ends.0, ends.1, after(piece)) else {
                    return Ok(None);
                };
                source.commit(piece.id, &next)?;
                moves.map.replace(next);
                Some(Phase::Adopt(*piece))
            }
            Phase::Adopt(piece) => {
                let Some(target) = moves.shard(piece.to) else {
                    return Ok(None);
                };
                target.adopt(piece.id, &map)?;
                count(&moves.done);
                Some(Phase::Mark)
            }
        })
    }
}

impl Actor for Mover {
    fn step(&mut self, _: &mut Context<'_>) -> Step {
        if self.moves.killed.get() {
            self.moves.under_way.set(false);
            return Step::Done;
        }
        let phase = self.go_on();
        if let Err(HandoverError::Tree(error)) = &phase
            && !matches!(
                error,
                rackweave_endpoint::btree::TreeError::NodesUsedUp { .. }
                    | rackweave_endpoint::btree::TreeError::HeapFull { .. }
            )
        {
            self.shared.wrong(format!("a move: {error}"));
        }
        match phase {
            Ok(Some(phase)) => {
                self.phase = phase;
                let most = *self.rng.pick(&[100, 2_000, 20_000]);
                Step::Sleep(Duration::from_nanos(1 + self.rng.below(most)))
            }
            // Over, or refused for want of room or because an endpoint began anew.
            Ok(None) | Err(_) => {
                if let Err(error) = self.moves.resolve() {
                    self.shared.wrong(error);
                }
                self.moves.under_way.set(false);
                Step::Done
            }
        }
    }
}

impl Drop for Mover {
    /// With the node that it was on, perhaps.
    fn drop(&mut self) {
        self.moves.under_way.set(false);
    }
}
