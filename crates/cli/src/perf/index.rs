//! The test `index`: the B+tree beside `std::collections::BTreeMap`, and its lookups by requests
//! and by READs beside those of a thread that has the tree.
//!
//! Keys are spread over all keys, values have eight bytes, every value that is found is verified.
//! One thread is the client and one the server; driver threads of the rack come on top.

mod local;
mod remote;

use super::report::{Setting, ratio, scaled, verdict};
use crate::args::PerfArgs;
use crate::globals::Globals;
use crate::interrupt::Interrupt;
use crate::mode::EMBEDDED;
use crate::outcome::{CliError, Verdict};
use crate::progress::Progress;
use local::Locally;
use rackweave_endpoint::btree::TreeConfig;
use remote::Remotely;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// Parts of the time: lookups in the map, in the tree by one thread and by two, by requests, by
/// READs without and with a cache.
const SPANS: f64 = 6.0;

/// Bytes of a tree node if the user does not say: what local threads do best with. Readers from
/// afar want more.
const NODE_SIZE: u32 = 512;

/// Bytes of upper tree nodes that a client with a cache keeps: more than there are.
const CACHE: u64 = 256 << 20;

#[derive(Clone, Copy, Debug, Serialize)]
struct Parameters {
    records: u64,
    node_size_bytes: u32,
    /// Lookups that the client has under way.
    window: u16,
}

/// What all measurements share.
struct Task<'a> {
    records: u64,
    seed: u64,
    span: Duration,
    interrupt: &'a Interrupt,
}

/// One kind of operation on the tree and on the map.
#[derive(Clone, Copy, Debug, Serialize)]
struct Beside {
    map_per_s: f64,
    tree_per_s: f64,
    tree_two_threads_per_s: f64,
    tree_to_map: f64,
    two_threads_to_one: f64,
}

/// One way to look up from afar.
#[derive(Clone, Copy, Debug, Serialize)]
struct Afar {
    lookups_per_s: f64,
    /// Beside one local thread.
    to_local: f64,
    /// READs for one lookup, if it is one-sided.
    #[serde(skip_serializing_if = "Option::is_none")]
    reads_per_lookup: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct IndexReport {
    #[serde(flatten)]
    setting: Setting,
    verified: bool,
    interrupted: bool,
    parameters: Parameters,
    lookups: Beside,
    inserts: Beside,
    rpc: Afar,
    one_sided: Afar,
    one_sided_cached: Afar,
}

impl Beside {
    fn new(map: f64, tree: f64, two: f64) -> Self {
        Self {
            map_per_s: map,
            tree_per_s: tree,
            tree_two_threads_per_s: two,
            tree_to_map: ratio(tree, map),
            two_threads_to_one: ratio(two, tree),
        }
    }
}

impl Afar {
    fn new(measured: Remotely, local: f64) -> Self {
        Self {
            lookups_per_s: measured.per_s,
            to_local: ratio(measured.per_s, local),
            reads_per_lookup: measured.reads_per_lookup,
        }
    }
}

/// The key of a record: all are different, and neighbours are far from each other.
fn key_of(record: u64) -> u64 {
    record.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The value of a key.
fn value_of(key: u64) -> u64 {
    !key.rotate_left(17)
}

/// Runs the test.
///
/// # Errors
/// If there is no memory for so many records, or the rack cannot be built.
pub fn run(args: &PerfArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let config = globals.rack_config(&args.rack)?;
    let records = args.records.unwrap_or(1_000_000);
    let tree = TreeConfig::for_keys(records, args.size.unwrap_or(NODE_SIZE), 8);
    tree.check()
        .map_err(|error| CliError::usage(error.to_string()))?;
    let window = args.window.unwrap_or(256);
    let span = Duration::from_secs_f64(args.duration.unwrap_or(6.0) / SPANS);
    let task = Task {
        records,
        seed: config.seed,
        span,
        interrupt: &globals.interrupt,
    };
    let mut progress = Progress::new(globals, super::name_of(args.test));
    let keys = task.shuffled();
    let map = local::map(&task, &keys);
    progress.set(|| 0.2);
    let one = local::tree(&task, &keys, 1, &tree)?;
    progress.set(|| 0.4);
    let pair = local::tree(&task, &keys, 2, &tree)?;
    drop(keys);
    let mut sound = map.sound && pair.sound && one.sound;
    let mut rig = remote::Rig::new(&config, &task, tree.node_size)?;
    globals.live.watch(rig.observer());
    let mut measure = |cache, done: f64| {
        let measured = rig.lookups(&task, window, cache)?;
        sound &= measured.sound;
        progress.set(|| done);
        Ok::<_, CliError>(Afar::new(measured, one.lookups_per_s))
    };
    let rpc = measure(None, 0.6)?;
    let one_sided = measure(Some(0), 0.8)?;
    let one_sided_cached = measure(Some(CACHE), 1.0)?;
    drop(progress);
    let beside = |rate: fn(&Locally) -> f64| Beside::new(rate(&map), rate(&one), rate(&pair));
    let report = IndexReport {
        setting: Setting::new(args.test, EMBEDDED, &config),
        verified: sound,
        interrupted: globals.interrupt.is_set(),
        parameters: Parameters {
            records,
            node_size_bytes: tree.node_size,
            window,
        },
        lookups: beside(|measured| measured.lookups_per_s),
        inserts: beside(|measured| measured.inserts_per_s),
        rpc,
        one_sided,
        one_sided_cached,
    };
    crate::output::print(globals, "perf", &report)?;
    Ok(Verdict::of(report.verified))
}

impl fmt::Display for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "BTreeMap {}/s, tree {}/s: {:.2} times; by two threads {}/s: {:.2} times one",
            scaled(self.map_per_s).trim_end(),
            scaled(self.tree_per_s).trim_end(),
            self.tree_to_map,
            scaled(self.tree_two_threads_per_s).trim_end(),
            self.two_threads_to_one
        )
    }
}

impl fmt::Display for Afar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}lookups/s, {:.2} of one local thread",
            scaled(self.lookups_per_s),
            self.to_local
        )?;
        match self.reads_per_lookup {
            Some(reads) => writeln!(f, "; {reads:.2} READs each"),
            None => writeln!(f),
        }
    }
}

impl fmt::Display for IndexReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = &self.parameters;
        write!(f, "{}", self.setting)?;
        writeln!(
            f,
            "{} records, tree nodes of {} bytes, {} lookups under way in the client",
            parameters.records, parameters.node_size_bytes, parameters.window
        )?;
        write!(f, "lookups: {}", self.lookups)?;
        write!(f, "inserts: {}", self.inserts)?;
        write!(f, "by requests:          {}", self.rpc)?;
        write!(f, "by READs, no cache:   {}", self.one_sided)?;
        write!(f, "by READs, with cache: {}", self.one_sided_cached)?;
        verdict(f, self.verified, self.interrupted)
    }
}
