//! The operations on the index.

use super::shared::Shared;
use rackweave_base::Rng;
use rackweave_endpoint::btree::Direction;
use rackweave_sim::checkers::index_history::Operation;

/// One operation to be done.
pub(super) enum Task {
    Point {
        key: u64,
        operation: Operation,
        /// Empty for operations that write nothing.
        value: Vec<u8>,
    },
    Scan {
        low: u64,
        last: u64,
        direction: Direction,
        limit: u32,
    },
}

/// Draws tasks: a user's own sequence over the keys.
pub(super) struct Work {
    rng: Rng,
    /// The position of its sweep, its start, and whether it deletes at present.
    sweep_at: u64,
    sweep_from: u64,
    deletes: bool,
}

impl Work {
    pub fn new(shared: &Shared, mut rng: Rng) -> Self {
        let sweep_from = rng.below(shared.keys.count);
        Self {
            sweep_at: 0,
            sweep_from,
            deletes: rng.chance(0.5),
            rng,
        }
    }

    pub fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    pub fn draw(&mut self, shared: &Shared) -> Task {
        let habits = &shared.habits;
        let total: u64 = habits.weights.iter().sum();
        let mut drawn = self.rng.below(total);
        let kind = habits.weights.iter().position(|&weight| {
            let is_this = drawn < weight;
            drawn = drawn.wrapping_sub(weight);
            is_this
        });
        let (index, kind) = match kind {
            Some(5) => return self.draw_scan(shared),
            Some(kind) if kind > 0 && self.rng.chance(habits.sweep_share) => self.sweep(shared),
            kind => (self.index(shared), kind.unwrap_or(0)),
        };
        let key = shared.keys.key(index);
        let mut value = Vec::new();
        let mut written = |wrap: fn(_) -> Operation, rng: &mut Rng| {
            let len = shared.values.len(rng);
            let (stamp, bytes) = shared.value(key, len);
            value = bytes;
            wrap(stamp)
        };
        let operation = match kind {
            0 => Operation::Get,
            1 => written(Operation::Insert, &mut self.rng),
            2 => written(Operation::Update, &mut self.rng),
            3 => written(Operation::Put, &mut self.rng),
            _ => Operation::Remove,
        };
        Task::Point {
            key,
            operation,
            value,
        }
    }

    fn index(&mut self, shared: &Shared) -> u64 {
        let habits = &shared.habits;
        let most = if self.rng.chance(habits.hot_share) {
            habits.hot_keys
        } else {
            shared.keys.count
        };
        self.rng.below(most)
    }

    /// The next key of the sweep, and the operation on it.
    fn sweep(&mut self, shared: &Shared) -> (u64, usize) {
        let index = (self.sweep_from + self.sweep_at) % shared.keys.count;
        self.sweep_at += 1;
        let kind = if self.deletes { 4 } else { 1 };
        if self.sweep_at >= shared.habits.sweep_keys {
            self.sweep_at = 0;
            self.deletes = !self.deletes;
            if !self.deletes {
                self.sweep_from = self.rng.below(shared.keys.count);
            }
        }
        (index, kind)
    }

    fn draw_scan(&mut self, shared: &Shared) -> Task {
        let (keys, habits) = (&shared.keys, &shared.habits);
        let from = self.rng.below(keys.count);
        let to = (from + self.rng.below(habits.scan_keys)).min(keys.count - 1);
        // Includes keys between two existing ones.
        let beside = self.rng.below(keys.stride.min(3));
        let low = keys.key(from).saturating_sub(beside);
        let last = if self.rng.chance(0.1) {
            u64::MAX
        } else {
            keys.key(to).saturating_add(beside)
        };
        let limit = match self.rng.chance(0.5) {
            true => habits.scan_limit,
            false => u32::MAX,
        };
        let direction = match self.rng.chance(0.5) {
            true => Direction::Forward,
            false => Direction::Backward,
        };
        Task::Scan {
            low,
            last,
            direction,
            limit,
        }
    }
}
