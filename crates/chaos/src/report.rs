//! Results of a campaign, as JSON: counters of all seeds added up, and the seeds that failed.

use crate::System::{Flows, Index, Messaging, Pages, Sequencer};
use crate::{IndexAccess, Options, SeedReport, System, replay_command};
use serde::Serialize;
use std::collections::BTreeMap;

/// Maximum number of failed seeds in a report; further ones are only counted.
const FAILURES_MAX: usize = 20;

/// Maximum number of violations of one seed in a report.
const VIOLATIONS_MAX: usize = 5;

/// A counter of seeds: its name in the report, the only system that has it, and its value. Counters
/// with one name are added up.
type Counter = (&'static str, Option<System>, fn(&SeedReport) -> u64);

/// The counters of a system are in order of significance.
const COUNTERS: [Counter; 40] = [
    ("items_pushed", Some(Flows), |seed| seed.pushed),
    ("items_popped", Some(Flows), |seed| seed.popped),
    ("pages_read", Some(Pages), |seed| seed.reads),
    ("pages_changed", Some(Pages), |seed| seed.writes),
    ("pages_lost", Some(Pages), |seed| seed.losses),
    ("pages_damaged", Some(Pages), |seed| seed.damaged),
    ("keys_read", Some(Index), |seed| seed.reads),
    ("keys_changed", Some(Index), |seed| seed.writes),
    ("scans", Some(Index), |seed| seed.scans),
    ("operations_refused", Some(Index), |seed| seed.refused),
    ("operations_unknown", Some(Index), |seed| seed.unknown),
    ("reads_torn", Some(Index), |seed| seed.torn),
    ("reads_stale", Some(Index), |seed| seed.stale),
    ("queries", Some(Index), |seed| seed.queries),
    ("queries_followed", Some(Index), |seed| seed.followed),
    ("queries_astray", Some(Index), |seed| seed.astray),
    ("network_loads", Some(Index), |seed| seed.loads),
    ("ranges_handed_out", Some(Sequencer), |seed| seed.ranges),
    ("numbers_handed_out", Some(Sequencer), |seed| seed.numbers),
    ("calls_failed", Some(Sequencer), |seed| seed.calls_failed),
    ("messages", Some(Messaging), |seed| seed.messages),
    ("message_bytes", Some(Messaging), |seed| seed.message_bytes),
    ("connections", Some(Messaging), |seed| seed.connections),
    ("connections_closed", Some(Messaging), |seed| {
        seed.connections_closed
    }),
    ("connections_broken", Some(Messaging), |seed| {
        seed.connections_broken
    }),
    ("handshakes_failed", Some(Messaging), |seed| {
        seed.handshakes_failed
    }),
    ("packets_disturbed", None, |seed| seed.packets_disturbed),
    ("switch_restarts", None, |seed| seed.switch_restarts),
    ("switch_restarts", Some(Flows), |seed| seed.restarts),
    ("switch_restarts", Some(Sequencer), |seed| seed.restarts),
    ("switch_restarts", Some(Messaging), |seed| seed.restarts),
    ("target_restarts", Some(Pages), |seed| seed.restarts),
    ("endpoint_restarts", Some(Index), |seed| seed.restarts),
    ("endpoints_replaced", Some(Index), |seed| seed.replaced),
    ("member_changes", Some(Flows), |seed| seed.changes),
    ("index_changes", Some(Pages), |seed| seed.changes),
    ("ranges_moved", Some(Index), |seed| seed.changes),
    ("node_crashes", None, |seed| seed.crashes),
    ("aborted", Some(Flows), |seed| {
        u64::from(seed.aborted.is_some())
    }),
    ("events", None, |seed| seed.events),
];

/// The results of all seeds.
#[derive(Serialize)]
pub struct CampaignReport {
    /// The name of the attacked system.
    pub system: &'static str,
    /// How the clients of an index read; null: as their seeds choose.
    pub access: Option<&'static str>,
    /// The first requested seed.
    pub first_seed: u64,
    /// Requested seeds.
    pub seeds: u64,
    /// Seeds run: fewer after an interruption, or after a failure with `--fail-fast`.
    pub seeds_run: u64,
    /// Whether all seeds were run and completed without a violation.
    pub verified: bool,
    /// Seeds with violations, and stuck seeds.
    pub seeds_failed: u64,
    /// Violations of all seeds.
    pub violations: u64,
    /// Stuck seeds, even if they have no other violation.
    pub seeds_stuck: u64,
    /// Counters by name, those of other systems included.
    #[serde(flatten)]
    pub counts: BTreeMap<&'static str, u64>,
    /// Replies to queries of an index by the level of the tree node (0: a leaf, 7: that or more).
    pub queries_led: [u64; 8],
    /// Misbehaving messaging peers by the violation that was detected.
    pub rogues_caught: BTreeMap<String, u64>,
    /// Virtual time of all seeds.
    pub virtual_seconds: f64,
    /// Hash over all seeds; the same seeds give the same hash.
    pub trace_hash: String,
    /// The failed seeds, those with violations first.
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
    /// The seed.
    pub seed: u64,
    /// Description of what followed from it.
    pub plan: String,
    /// Its first violations.
    pub violations: Vec<String>,
    /// Where it was stuck (`stuck`), or the last output of its processes (`last_words`).
    #[serde(flatten)]
    pub more: BTreeMap<&'static str, Vec<String>>,
    /// The command that reproduces it.
    pub replay: String,
}

impl CampaignReport {
    /// No seed has been run yet.
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
            counts: COUNTERS.iter().map(|(name, ..)| (*name, 0)).collect(),
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

    /// Adds one seed. The order does not matter, because threads finish in any order.
    pub fn add(&mut self, system: System, seed: SeedReport) {
        self.seeds_run += 1;
        self.violations += seed.violations.len() as u64;
        for (name, of, of_seed) in COUNTERS {
            if of.is_none_or(|of| of == system) {
                *self.counts.entry(name).or_default() += of_seed(&seed);
            }
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

    /// The attacked system, and how its clients read if that was set.
    pub fn name(&self) -> String {
        match self.options.access {
            Some(access) => format!("{} {}", self.system, access.name()),
            None => self.system.to_owned(),
        }
    }

    /// The counters that only this system has, in order of significance.
    pub fn of_system(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let own = COUNTERS.iter().filter(|(_, of, _)| *of == Some(self.of));
        own.map(|(name, ..)| (*name, self.counts[name]))
    }

    /// These and the counters of every system, in their order.
    pub fn counts_of_system(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let own = COUNTERS.iter();
        let own = own.filter(|(_, of, _)| of.is_none_or(|of| of == self.of));
        own.map(|(name, ..)| (*name, self.counts[name]))
    }

    /// To be called after all seeds have been added.
    pub fn conclude(&mut self) {
        self.verified = self.seeds_run == self.seeds && self.seeds_failed == 0;
        self.trace_hash = format!("{:016x}", self.hash);
        // The last digits of a floating-point sum depend on the order of threads.
        self.virtual_seconds = (self.virtual_seconds * 1e6).round() / 1e6;
    }
}
