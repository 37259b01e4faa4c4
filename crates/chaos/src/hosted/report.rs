//! Results of a campaign on hosted racks.

use super::NAME;
use super::journal::System;
use super::plan::{DEAD_AFTER_MS, HostedPlan};
use crate::report::Failure;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// Limit in milliseconds on a join, and on a recovery, while another node hinders the rack.
pub const WAIT_MS_LIMIT: u64 = DEAD_AFTER_MS + 1000;

/// Maximum number of different errors in a report.
const ERRORS_MAX: usize = 60;

/// Maximum number of violations of one seed in a report.
const VIOLATIONS_MAX: usize = 10;

/// The longest times of healthy nodes while another node hindered them; none if no node did.
#[derive(Clone, Copy, Default, Serialize)]
pub struct Slowest {
    /// From the start of a process until its node joined.
    pub join_ms_max: Option<u64>,
    /// From then until a flow with it was created and closed.
    pub recovery_ms_max: Option<u64>,
}

impl Slowest {
    /// Takes the longer times of both.
    pub fn merge(&mut self, other: Self) {
        self.join_ms_max = self.join_ms_max.max(other.join_ms_max);
        self.recovery_ms_max = self.recovery_ms_max.max(other.recovery_ms_max);
    }
}

/// Counts of one rack, or of all of them, by the report's names: what the checkers saw; faults, and
/// how many of them affected the switch or programs; nodes that were stopped, and that were slow,
/// while another joined.
const COUNTS: [&str; 29] = [
    "pages_read",
    "pages_changed",
    "pages_lost",
    "keys_read",
    "keys_changed",
    "operations_unknown",
    "scans",
    "endpoints_replaced",
    "numbers_handed_out",
    "messages",
    "connections",
    "connections_broken",
    "items",
    "flows_ended",
    "flows_aborted",
    "kills",
    "stops",
    "cuts",
    "restarts",
    "switch_faults",
    "program_faults",
    "declared_dead",
    "stalls",
    "slow_nodes",
    "standby_faults",
    "etcd_faults",
    "etcd_emptied",
    "takeovers",
    "calls_failed",
];

type Counts = BTreeMap<&'static str, u64>;

fn no_counts() -> Counts {
    COUNTS.map(|name| (name, 0)).into()
}

/// The results of one seed.
#[derive(Default)]
pub struct SeedReport {
    /// The seed.
    pub seed: u64,
    /// Description of its plan.
    pub plan: String,
    /// The kind of link.
    pub link: &'static str,
    counts: Counts,
    /// Errors under fault, by system, and how often they occurred.
    pub errors: BTreeMap<String, u64>,
    /// The delays of other nodes meanwhile.
    pub slowest: Slowest,
    /// All violations.
    pub violations: Vec<String>,
    /// The last output of its processes.
    pub last_words: Vec<String>,
    /// The user interrupted it: it was not completed.
    pub interrupted: bool,
}

impl SeedReport {
    /// Nothing has happened yet.
    pub fn new(plan: &HostedPlan) -> Self {
        Self {
            seed: plan.seed,
            plan: plan.to_string(),
            link: plan.config.hosted().link.name(),
            counts: no_counts(),
            ..Self::default()
        }
    }

    /// Adds `more` to one of `COUNTS`.
    pub fn count(&mut self, name: &str, more: u64) {
        *self.counts.get_mut(name).expect("it has a name") += more;
    }

    /// Counts an error of a call under fault. Equal errors differ in numbers: of pages, nodes and
    /// ports.
    pub fn add_error(&mut self, system: System, error: &str) {
        self.count("calls_failed", 1);
        let mut words = String::new();
        for letter in error.chars() {
            match letter.is_ascii_digit() {
                true if words.ends_with('#') => {}
                true => words.push('#'),
                false => words.push(letter),
            }
        }
        *self
            .errors
            .entry(format!("{system:?}: {words}"))
            .or_default() += 1;
    }
}

/// The results of all seeds.
#[derive(Serialize, Default)]
pub struct CampaignReport {
    /// The name of the campaign.
    pub system: &'static str,
    /// The first requested seed.
    pub first_seed: u64,
    /// Requested seeds.
    pub seeds: u64,
    /// Completed seeds: fewer after an interruption.
    pub seeds_run: u64,
    /// Whether all seeds were completed without a violation.
    pub verified: bool,
    /// Seeds with violations.
    pub seeds_failed: u64,
    /// Violations of all seeds.
    pub violations: u64,
    /// What the checkers saw, and faults, by name.
    #[serde(flatten)]
    pub counts: Counts,
    /// The longest times of all seeds.
    #[serde(flatten)]
    pub slowest: Slowest,
    /// The limit on these times.
    pub wait_ms_limit: u64,
    /// Seeds by kind of link.
    pub links: BTreeMap<&'static str, u64>,
    /// Errors of calls under fault, and how often they occurred.
    pub errors: BTreeMap<String, u64>,
    /// The seeds with violations.
    pub failures: Vec<Failure>,
    /// The options that the command for one seed needs, too.
    #[serde(skip)]
    options: String,
}

impl CampaignReport {
    /// `config` is the template's file, `faults` the requested maximum.
    pub fn new(first_seed: u64, seeds: u64, config: Option<&Path>, faults: Option<u32>) -> Self {
        let config = config.map(|path| format!(" --config {}", path.display()));
        let faults = faults.map(|most| format!(" --faults {most}"));
        Self {
            system: NAME,
            first_seed,
            seeds,
            counts: no_counts(),
            wait_ms_limit: WAIT_MS_LIMIT,
            options: config.into_iter().chain(faults).collect(),
            ..Self::default()
        }
    }

    /// Adds one seed.
    pub fn add(&mut self, seed: SeedReport) {
        self.seeds_run += u64::from(!seed.interrupted);
        self.violations += seed.violations.len() as u64;
        for (name, more) in &seed.counts {
            *self.counts.entry(name).or_default() += more;
        }
        self.slowest.merge(seed.slowest);
        *self.links.entry(seed.link).or_default() += 1;
        for (error, count) in seed.errors {
            if self.errors.len() < ERRORS_MAX || self.errors.contains_key(&error) {
                *self.errors.entry(error).or_default() += count;
            }
        }
        if seed.violations.is_empty() {
            return;
        }
        self.seeds_failed += 1;
        let mut violations = seed.violations;
        violations.truncate(VIOLATIONS_MAX);
        let (number, options) = (seed.seed, &self.options);
        self.failures.push(Failure {
            replay: format!("rackweave chaos --system {NAME} --seeds 1 --seed {number}{options}"),
            seed: number,
            plan: seed.plan,
            violations,
            more: [("last_words", seed.last_words)].into(),
        });
    }

    /// The counts, in the order of the names.
    pub fn counts_in_order(&self) -> impl Iterator<Item = (&'static str, u64)> {
        COUNTS.iter().map(|&name| (name, self.counts[name]))
    }

    /// To be called after all seeds have been added.
    pub fn conclude(&mut self) {
        self.verified = self.seeds_run == self.seeds && self.seeds_failed == 0;
    }
}
