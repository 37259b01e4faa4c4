//! The tree and the map of the standard library, in this process's memory.

use super::{Task, key_of, value_of};
use crate::outcome::CliError;
use rackweave_base::{Memory, Rng};
use rackweave_endpoint::btree::{Tree, TreeConfig};
use std::collections::BTreeMap;
use std::sync::{Barrier, Mutex};
use std::time::Instant;

/// Operations between two looks at the clock.
const AT_ONCE: usize = 1024;

/// What was measured of a map or tree.
pub struct Locally {
    pub lookups_per_s: f64,
    pub inserts_per_s: f64,
    /// Whether everything was found, with its value.
    pub sound: bool,
}

/// What threads have done together.
struct Rate {
    per_s: f64,
    sound: bool,
}

impl Task<'_> {
    /// All keys, in a random order.
    pub fn shuffled(&self) -> Vec<u64> {
        let mut rng = Rng::new(self.seed).fork("order of inserts");
        let mut keys: Vec<u64> = (0..self.records).map(key_of).collect();
        for last in (1..keys.len()).rev() {
            keys.swap(last, rng.below(last as u64 + 1) as usize);
        }
        keys
    }

    /// Looks up random keys for a while.
    fn lookups(&self, threads: usize, lookup: impl Fn(u64) -> Option<u64> + Sync) -> Rate {
        let seeds = Mutex::new(Rng::new(self.seed).fork("lookups"));
        together(threads, |at| {
            let mut rng = seeds.lock().expect("nobody panics").fork(&at.to_string());
            let (mut done, mut sound) = (0, true);
            let started = Instant::now();
            while started.elapsed() < self.span && !self.interrupt.is_set() {
                for _ in 0..AT_ONCE {
                    let key = key_of(rng.below(self.records));
                    sound &= lookup(key) == Some(value_of(key));
                }
                done += AT_ONCE;
            }
            (done, sound)
        })
    }
}

/// Has threads work at the same time; `work` returns how much it did, and whether all was well.
fn together(threads: usize, work: impl Fn(usize) -> (usize, bool) + Sync) -> Rate {
    let (work, start) = (&work, &Barrier::new(threads));
    let one = move |at: usize| {
        start.wait();
        let began = Instant::now();
        let (done, sound) = work(at);
        (done, sound, began, Instant::now())
    };
    let parts: Vec<_> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map(|at| scope.spawn(move || one(at)))
            .collect();
        let own = one(0);
        let others = others.into_iter().map(|other| other.join());
        let others = others.map(|part| part.expect("a measurement does not panic"));
        others.chain([own]).collect()
    });
    let began = parts.iter().map(|part| part.2).min();
    let ended = parts.iter().map(|part| part.3).max();
    let seconds = began.zip(ended).map_or(0.0, |(began, ended)| {
        ended.duration_since(began).as_secs_f64()
    });
    let done: usize = parts.iter().map(|part| part.0).sum();
    Rate {
        per_s: super::ratio(done as f64, seconds),
        sound: parts.iter().all(|part| part.1),
    }
}

/// Measures the map of the standard library on one thread.
pub fn map(task: &Task<'_>, keys: &[u64]) -> Locally {
    let mut map = BTreeMap::new();
    let started = Instant::now();
    let mut inserted = 0;
    for part in keys.chunks(AT_ONCE) {
        if task.interrupt.is_set() {
            break;
        }
        for &key in part {
            map.insert(key, value_of(key));
        }
        inserted += part.len();
    }
    let inserts_per_s = super::ratio(inserted as f64, started.elapsed().as_secs_f64());
    let looked = task.lookups(1, |key| map.get(&key).copied());
    Locally {
        lookups_per_s: looked.per_s,
        inserts_per_s,
        sound: looked.sound && map.len() == inserted,
    }
}

/// Measures a tree with so many threads.
pub fn tree(
    task: &Task<'_>,
    keys: &[u64],
    threads: usize,
    config: &TreeConfig,
) -> Result<Locally, CliError> {
    let bytes = usize::try_from(config.bytes()).unwrap_or(usize::MAX);
    let memory = Memory::new(bytes.saturating_add(1 << 20));
    let block = memory.allocate(bytes).map_err(CliError::run)?;
    let tree = Tree::create(block, config).map_err(CliError::run)?;
    let failure = Mutex::new(None);
    let parts: Vec<_> = keys.chunks(keys.len().div_ceil(threads).max(1)).collect();
    let inserted = together(threads, |at| {
        let (keys, mut done) = (parts.get(at).copied().unwrap_or_default(), 0);
        let mut sound = true;
        for part in keys.chunks(AT_ONCE) {
            if task.interrupt.is_set() {
                break;
            }
            for &key in part {
                match tree.insert(key, &value_of(key).to_le_bytes()) {
                    Ok(new) => sound &= new,
                    Err(error) => {
                        *failure.lock().expect("nobody panics") = Some(error);
                        return (done, false);
                    }
                }
            }
            done += part.len();
        }
        (done, sound)
    });
    if let Some(error) = failure.into_inner().expect("nobody panics") {
        return Err(CliError::run(error));
    }
    let looked = task.lookups(threads, |key| tree.lookup_word(key));
    Ok(Locally {
        lookups_per_s: looked.per_s,
        inserts_per_s: inserted.per_s,
        sound: inserted.sound && looked.sound,
    })
}
