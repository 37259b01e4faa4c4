//! A distributed hash join: cores of storage nodes shuffle both tables, accelerators join.
//!
//! A producer is a thread on a core; it partitions its share of the build table by the join key,
//! then its share of the probe table, into the given outlet. A consumer is a part of a GPU: it
//! builds its hash table while tuples arrive, and probes it in the same way (zero-sided RDMA,
//! section 7.2, "Distributed join"). The hash table is a real one, so the result is real as well.

use super::ends::{Inlet, Outlet, Took};
use super::tuples;
use super::worker::Production;
use crate::harness::prelude::*;
use rackweave_endpoint::flow::hash_key;

/// Bytes of a tuple: key and payload.
pub const TUPLE_BYTES: usize = 16;

/// The sizes of the two tables. Build keys are distinct; every probe tuple has one match, whose
/// number is uniformly distributed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tables {
    pub build: u64,
    pub probe: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Joined {
    pub matches: u64,
    /// A sum over all matches that depends on both payloads.
    pub sum: u64,
}

impl Joined {
    fn add(&mut self, build_payload: u64, probe_payload: u64) {
        self.matches += 1;
        let pair = hash_key(build_payload ^ probe_payload.rotate_left(32));
        self.sum = self.sum.wrapping_add(pair);
    }
}

impl Tables {
    /// The number of the build tuple that probe tuple `number` matches.
    fn partner(self, number: u64) -> u64 {
        let draw = hash_key(number ^ 0x5851_f42d_4c95_7f2d);
        ((u128::from(draw) * u128::from(self.build)) >> 64) as u64
    }

    /// The result, computed directly.
    pub fn expected(self) -> Joined {
        let mut joined = Joined::default();
        for number in 0..self.probe {
            joined.add(self.partner(number), number);
        }
        joined
    }
}

/// Payloads by key.
type HashTable = HashMap<u64, u64>;

/// Results of all parts of one join.
#[derive(Default, Debug)]
pub struct JoinLedger {
    /// When the last consumer saw the end.
    pub finished_at: Instant,
    pub joined: Joined,
    /// Tuples that arrived at the wrong consumer.
    pub wrong: u64,
    /// Build tuples that arrived.
    pub built: u64,
}

/// A core that scans and shuffles: number `own` of `cores` that share both tables.
pub fn scanner(
    tables: Tables,
    mut outlet: Box<dyn Outlet>,
    (own, cores): (usize, usize),
) -> impl Program {
    let [mut build, mut probe] =
        [tables.build, tables.probe].map(|count| Production::share(count, own, cores, TUPLE_BYTES));
    let mut phase = 0;
    move |context: &mut Context<'_>| -> Turn {
        let (production, is_build) = match phase {
            0 => (&mut build, true),
            1 => (&mut probe, false),
            _ => return Ok(Step::Done),
        };
        let has_moved = if production.is_done() {
            let has_ended = outlet.end_phase(context)?;
            phase += usize::from(has_ended);
            has_ended
        } else {
            let make = |number: u64, bytes: &mut [u8]| {
                let partner = match is_build {
                    true => number,
                    false => tables.partner(number),
                };
                let key = tuples::key_of(partner);
                bytes[..8].copy_from_slice(&key.to_le_bytes());
                bytes[8..].copy_from_slice(&number.to_le_bytes());
                key
            };
            production.batch(context, &mut *outlet, make)? > 0
        };
        Ok(match has_moved {
            true => Step::Compute(Duration::ZERO),
            false => Step::WaitForPacket,
        })
    }
}

/// A part of a GPU that joins: number `own` of `joiners`, of which `share` have one GPU together.
pub fn joiner(
    mut inlet: Box<dyn Inlet>,
    (own, joiners): (usize, usize),
    share: u64,
    ledger: Rc<RefCell<JoinLedger>>,
) -> impl Program {
    let bytes_per_second = devices::GPU_MEMORY_BYTES_PER_SECOND / share.max(1);
    let mut table = HashTable::default();
    let mut is_probing = false;
    let (mut joined, mut wrong) = (Joined::default(), 0);
    move |context: &mut Context<'_>| -> Turn {
        let took = inlet.take(context, &mut |bytes| {
            let tuples = bytes.as_chunks::<TUPLE_BYTES>().0;
            for tuple in tuples {
                let [key, payload] = [0, 8].map(|at| {
                    let word = tuple[at..].first_chunk().copied();
                    u64::from_le_bytes(word.unwrap_or_default())
                });
                if key == 0 || tuples::destination(key, joiners) != own {
                    wrong += 1;
                } else if !is_probing {
                    table.insert(key, payload);
                } else if let Some(&build) = table.get(&key) {
                    joined.add(build, payload);
                }
            }
            tuples.len() as u64
        })?;
        match took {
            Took::Empty => Ok(Step::WaitForPacket),
            Took::Tuples(count) => {
                let accesses = match is_probing {
                    true => devices::GPU_PROBE_ACCESSES,
                    false => devices::GPU_BUILD_ACCESSES,
                };
                let bytes = count * (TUPLE_BYTES as u64 + accesses * devices::GPU_SECTOR_BYTES);
                let nanos = (bytes * 1_000_000_000).div_ceil(bytes_per_second);
                context.charge(Category::Compute, Duration::from_nanos(nanos));
                Ok(Step::Compute(Duration::ZERO))
            }
            Took::PhaseEnded if !is_probing => {
                ledger.borrow_mut().built += table.len() as u64;
                is_probing = true;
                Ok(Step::Compute(Duration::ZERO))
            }
            Took::PhaseEnded => {
                let mut ledger = ledger.borrow_mut();
                ledger.finished_at = ledger.finished_at.max(context.now());
                ledger.joined.matches += joined.matches;
                ledger.joined.sum = ledger.joined.sum.wrapping_add(joined.sum);
                ledger.wrong += wrong;
                Ok(Step::Done)
            }
        }
    }
}

#[cfg(test)]
mod tests;
