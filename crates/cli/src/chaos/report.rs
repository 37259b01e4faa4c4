//! What a campaign found.

use rackweave_chaos::System::{Index, Pages};
use rackweave_chaos::{IndexAccess, Options, SeedReport, System, replay_command};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Failed seeds reported in full; the others are only counted.
const FAILURES_MAX: usize = 20;

/// Violations of one seed reported in full.
const VIOLATIONS_MAX: usize = 5;

/// What seeds count, by the names of the report: of the seed of a system, so many.
type Counter = (&'static str, fn(System, &SeedReport) -> u64);

const COUNTERS: [Counter; 36] = [
    ("items_pushed", |_, seed| seed.pushed),
    ("items_popped", |_, seed| seed.popped),
    ("pages_read", |of, seed| if_so(of != Index, seed.reads)),
    ("pages_changed", |of, seed| if_so(of != Index, seed.writes)),
    ("pages_lost", |_, seed| seed.losses),
    ("pages_damaged", |_, seed| seed.damaged),
    ("keys_read", |of, seed| if_so(of == Index, seed.reads)),
    ("keys_changed", |of, seed| if_so(of == Index, seed.writes)),
    ("scans", |_, seed| seed.scans),
    ("operations_refused", |_, seed| seed.refused),
    ("operations_unknown", |_, seed| seed.unknown),
    ("reads_torn", |_, seed| seed.torn),
    ("reads_stale", |_, seed| seed.stale),
    ("queries", |_, seed| seed.queries),
    ("queries_followed", |_, seed| seed.followed),
    ("queries_astray", |_, seed| seed.astray),
    ("network_loads", |_, seed| seed.loads),
    ("ranges_handed_out", |_, seed| seed.ranges),
    ("numbers_handed_out", |_, seed| seed.numbers),
    ("calls_failed", |_, seed| seed.calls_failed),
    ("messages", |_, seed| seed.messages),
    ("message_bytes", |_, seed| seed.message_bytes),
    ("connections", |_, seed| seed.connections),
    ("connections_closed", |_, seed| seed.connections_closed),
    ("connections_broken", |_, seed| seed.connections_broken),
    ("handshakes_failed", |_, seed| seed.handshakes_failed),
    ("packets_disturbed", |_, seed| seed.packets_disturbed),
    ("switch_restarts", |of, seed| {
        seed.switch_restarts + if_so(of != Pages && of != Index, seed.restarts)
    }),
    ("target_restarts", |of, seed| {
        if_so(of == Pages, seed.restarts)
    }),
    ("endpoint_restarts", |of, seed| {
        if_so(of == Index, seed.restarts)
    }),
    ("member_changes", |of, seed| {
        if_so(of != Pages && of != Index, seed.changes)
    }),
    ("index_changes", |of, seed| if_so(of == Pages, seed.changes)),
    ("ranges_moved", |of, seed| if_so(of == Index, seed.changes)),
    ("node_crashes", |_, seed| seed.crashes),
    ("aborted", |_, seed| u64::from(seed.aborted.is_some())),
    ("events", |_, seed| seed.events),
];

fn if_so(is_so: bool, count: u64) -> u64 {
    if is_so { count } else { 0 }
}

/// What all seeds did together.
#[derive(Serialize)]
pub struct CampaignReport {
    pub system: &'static str,
    /// How the clients of an index read; null: as their seeds say.
    pub access: Option<&'static str>,
    pub first_seed: u64,
    /// Seeds asked for.
    pub seeds: u64,
    /// Seeds run: fewer after an interruption, or after a failure with `--fail-fast`.
    pub seeds_run: u64,
    /// Whether all seeds were run and came to their end without a violation.
    pub verified: bool,
    /// Seeds with violations, and those that were stuck.
    pub seeds_failed: u64,
    pub violations: u64,
    /// Seeds that did not come to their end, be it without any other violation.
    pub seeds_stuck: u64,
    /// By the names of [`COUNTERS`].
    #[serde(flatten)]
    pub counts: BTreeMap<&'static str, u64>,
    /// Answers to queries of an index by the level of the tree node (0: a leaf, 7: that or more).
    pub queries_led: [u64; 8],
    /// Rogues of messaging by what they were found out for.
    pub rogues_caught: BTreeMap<String, u64>,
    pub virtual_seconds: f64,
    /// Of all seeds; the same seeds give the same hash.
    pub trace_hash: String,
    pub failures: Vec<Failure>,
    #[serde(skip)]
    of: System,
    #[serde(skip)]
    hash: u64,
    #[serde(skip)]
    options: Options,
}

/// A seed that failed.
#[derive(Serialize)]
pub struct Failure {
    pub seed: u64,
    pub plan: String,
    pub violations: Vec<String>,
    /// Where it did not come to its end (`stuck`), or what its processes said (`last_words`).
    #[serde(flatten)]
    pub more: BTreeMap<&'static str, Vec<String>>,
    /// The command that repeats it.
    pub replay: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nseed {}: {}", self.seed, self.plan)?;
        for violation in &self.violations {
            writeln!(f, "  violation: {violation}")?;
        }
        for (what, lines) in &self.more {
            let what = what.replace('_', " ");
            lines
                .iter()
                .try_for_each(|line| writeln!(f, "  {what}: {line}"))?;
        }
        writeln!(f, "  repeat with: {}", self.replay)
    }
}

impl CampaignReport {
    pub fn new(system: System, options: Options, first_seed: u64, seeds: u64) -> Self {
        Self {
            system: system.name(),
            access: options.access.map(IndexAccess::name),
            first_seed,
            seeds,
            seeds_run: 0,
            verified: false,
            seeds_failed: 0,
            violations: 0,
            seeds_stuck: 0,
            counts: COUNTERS.iter().map(|(name, _)| (*name, 0)).collect(),
            queries_led: [0; 8],
            rogues_caught: BTreeMap::new(),
            virtual_seconds: 0.0,
            trace_hash: String::new(),
            failures: Vec::new(),
            of: system,
            hash: 0,
            options,
        }
    }

    /// Adds one seed. The order does not matter: threads finish as they like.
    pub fn add(&mut self, system: System, seed: SeedReport) {
        self.seeds_run += 1;
        self.violations += seed.violations.len() as u64;
        for (name, of_seed) in COUNTERS {
            *self.counts.entry(name).or_default() += of_seed(system, &seed);
        }
        for (sum, more) in self.queries_led.iter_mut().zip(seed.led) {
            *sum += more;
        }
        for (what, count) in &seed.rogues {
            *self.rogues_caught.entry(what.clone()).or_default() += count;
        }
        self.virtual_seconds += seed.time.as_secs_f64();
        let mixed =
            (seed.trace_hash ^ seed.seed.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.hash = self.hash.wrapping_add(mixed ^ (mixed >> 29));
        if seed.is_sound() {
            return;
        }
        self.seeds_failed += 1;
        self.seeds_stuck += u64::from(!seed.stuck.is_empty());
        self.failures.push(Failure {
            replay: replay_command(system, seed.seed, &self.options),
            seed: seed.seed,
            plan: seed.plan,
            violations: seed.violations.into_iter().take(VIOLATIONS_MAX).collect(),
            more: [(
                "stuck",
                seed.stuck.into_iter().take(VIOLATIONS_MAX).collect(),
            )]
            .into(),
        });
        // If not all fit, violations come first.
        let order = |failure: &Failure| (failure.violations.is_empty(), failure.seed);
        self.failures.sort_by_key(order);
        self.failures.truncate(FAILURES_MAX);
    }

    /// What was attacked, and how its clients read if that was settled.
    pub fn name(&self) -> String {
        match self.options.access {
            Some(access) => format!("{} {}", self.system, access.name()),
            None => self.system.to_owned(),
        }
    }

    /// What only this system counts, the most telling first.
    pub fn of_system(&self) -> Vec<(&'static str, u64)> {
        let led = &self.queries_led;
        let derived = [
            ("leaves", led[0]),
            ("level 1", led[1]),
            ("level 2", led[2]),
            ("higher", led[3..].iter().sum()),
            ("rogues", self.rogues_caught.values().sum()),
        ];
        let derived = BTreeMap::from(derived);
        let count = |name: &str| {
            let found = self.counts.get(name).or_else(|| derived.get(name));
            found.copied().unwrap_or(0)
        };
        let rows: &[(&'static str, &'static str)] = match self.of {
            System::Flows => &[
                ("items pushed", "items_pushed"),
                ("items popped", "items_popped"),
                ("switch restarts", "switch_restarts"),
                ("changes at work", "member_changes"),
                ("flows broken off", "aborted"),
            ],
            System::Pages => &[
                ("pages read", "pages_read"),
                ("pages changed", "pages_changed"),
                ("fixes of lost", "pages_lost"),
                ("fixes of damaged", "pages_damaged"),
                ("target restarts", "target_restarts"),
                ("switch restarts", "switch_restarts"),
                ("index changes", "index_changes"),
            ],
            System::Index => &[
                ("keys read", "keys_read"),
                ("keys changed", "keys_changed"),
                ("scans", "scans"),
                ("refused", "operations_refused"),
                ("unknown results", "operations_unknown"),
                ("torn READs", "reads_torn"),
                ("stale READs", "reads_stale"),
                ("endpoint restarts", "endpoint_restarts"),
                ("ranges moved", "ranges_moved"),
                ("queries led", "queries"),
                ("  to leaves", "leaves"),
                ("  to level 1", "level 1"),
                ("  to level 2", "level 2"),
                ("  higher", "higher"),
                ("  followed", "queries_followed"),
                ("  astray", "queries_astray"),
                ("loads of switches", "network_loads"),
                ("switch restarts", "switch_restarts"),
            ],
            System::Sequencer => &[
                ("ranges", "ranges_handed_out"),
                ("numbers", "numbers_handed_out"),
                ("calls failed", "calls_failed"),
                ("switch restarts", "switch_restarts"),
            ],
            System::Messaging => &[
                ("messages", "messages"),
                ("bytes", "message_bytes"),
                ("connections", "connections"),
                ("  closed", "connections_closed"),
                ("  broken", "connections_broken"),
                ("handshakes failed", "handshakes_failed"),
                ("rogues found out", "rogues"),
                ("switch restarts", "switch_restarts"),
            ],
        };
        let row = |&(what, name): &(_, _)| (what, count(name));
        rows.iter().map(row).collect()
    }

    /// All seeds have been added.
    pub fn conclude(&mut self) {
        self.verified = self.seeds_run == self.seeds && self.seeds_failed == 0;
        self.trace_hash = format!("{:016x}", self.hash);
        // Sums of floats depend on the order of threads in the last digits.
        self.virtual_seconds = (self.virtual_seconds * 1e6).round() / 1e6;
    }
}

impl fmt::Display for CampaignReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.first_seed + self.seeds - 1;
        writeln!(
            f,
            "chaos {}: seeds {} to {}",
            self.name(),
            self.first_seed,
            last
        )?;
        for failure in &self.failures {
            write!(f, "{failure}")?;
        }
        if !self.failures.is_empty() {
            writeln!(f)?;
        }
        let of_all = [
            ("packets disturbed", self.counts["packets_disturbed"]),
            ("node crashes", self.counts["node_crashes"]),
            ("simulated events", self.counts["events"]),
        ];
        writeln!(f, "  {:<18} {:>14}", "seeds run", self.seeds_run)?;
        for (what, value) in self.of_system().into_iter().chain(of_all) {
            writeln!(f, "  {what:<18} {value:>14}")?;
        }
        for (what, count) in &self.rogues_caught {
            writeln!(f, "  rogue: {what:<20} {count:>5}")?;
        }
        writeln!(
            f,
            "  {:<18} {:>14.3} s",
            "virtual time", self.virtual_seconds
        )?;
        writeln!(f, "  {:<18} {:>16}", "trace hash", self.trace_hash)?;
        writeln!(f, "  {:<18} {:>14}", "violations", self.violations)?;
        writeln!(f, "  {:<18} {:>14}", "runs stuck", self.seeds_stuck)?;
        write!(f, "verified: {}", self.verified)
    }
}
