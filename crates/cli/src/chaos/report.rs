//! What a campaign found.

use rackweave_chaos::{IndexAccess, Options, SeedReport, System, replay_command};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Failed seeds reported in full; the others are only counted.
const FAILURES_MAX: usize = 20;

/// Violations of one seed reported in full.
const VIOLATIONS_MAX: usize = 5;

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
    pub items_pushed: u64,
    pub items_popped: u64,
    pub pages_read: u64,
    pub pages_changed: u64,
    /// Fixes refused because a page's newest version went down with its node.
    pub pages_lost: u64,
    pub pages_damaged: u64,
    /// Of an index: gets, changes and scans that had a result; what was refused, and what may
    /// or may not have been done; READs that came torn or found what had been freed.
    pub keys_read: u64,
    pub keys_changed: u64,
    pub scans: u64,
    pub operations_refused: u64,
    pub operations_unknown: u64,
    pub reads_torn: u64,
    pub reads_stale: u64,
    pub endpoint_restarts: u64,
    /// Ranges of an index that went to another endpoint.
    pub ranges_moved: u64,
    /// Of an index in the network: READs that left it to the switches of which tree node, their
    /// answers by the level of the tree node (0: a leaf, 7: that or more), how many of them were
    /// left of the key, or led to no tree node for it; and plans that the switches were given.
    pub queries: u64,
    pub queries_led: [u64; 8],
    pub queries_followed: u64,
    pub queries_astray: u64,
    pub network_loads: u64,
    /// Ranges that sequencers handed out, numbers in them, and calls that ended in an error.
    pub ranges_handed_out: u64,
    pub numbers_handed_out: u64,
    pub calls_failed: u64,
    /// Of messaging: messages received whole and their bytes, connections that both units had and
    /// how many of them were closed or broken before all was done, handshakes that failed, and
    /// rogues by what they were found out for.
    pub messages: u64,
    pub message_bytes: u64,
    pub connections: u64,
    pub connections_closed: u64,
    pub connections_broken: u64,
    pub handshakes_failed: u64,
    pub rogues_caught: BTreeMap<String, u64>,
    pub packets_disturbed: u64,
    pub switch_restarts: u64,
    pub target_restarts: u64,
    pub node_crashes: u64,
    pub member_changes: u64,
    /// Pages that the switch began or ceased to index at command.
    pub index_changes: u64,
    /// Workloads broken off for good reason.
    pub aborted: u64,
    pub events: u64,
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
    /// Where it did not come to its end.
    pub stuck: Vec<String>,
    /// The command that repeats it.
    pub replay: String,
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
            items_pushed: 0,
            items_popped: 0,
            pages_read: 0,
            pages_changed: 0,
            pages_lost: 0,
            pages_damaged: 0,
            keys_read: 0,
            keys_changed: 0,
            scans: 0,
            operations_refused: 0,
            operations_unknown: 0,
            reads_torn: 0,
            reads_stale: 0,
            endpoint_restarts: 0,
            ranges_moved: 0,
            queries: 0,
            queries_led: [0; 8],
            queries_followed: 0,
            queries_astray: 0,
            network_loads: 0,
            ranges_handed_out: 0,
            numbers_handed_out: 0,
            calls_failed: 0,
            messages: 0,
            message_bytes: 0,
            connections: 0,
            connections_closed: 0,
            connections_broken: 0,
            handshakes_failed: 0,
            rogues_caught: BTreeMap::new(),
            packets_disturbed: 0,
            switch_restarts: 0,
            target_restarts: 0,
            node_crashes: 0,
            member_changes: 0,
            index_changes: 0,
            aborted: 0,
            events: 0,
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
        self.items_pushed += seed.pushed;
        self.items_popped += seed.popped;
        let (reads, writes) = match system {
            System::Index => (&mut self.keys_read, &mut self.keys_changed),
            _ => (&mut self.pages_read, &mut self.pages_changed),
        };
        *reads += seed.reads;
        *writes += seed.writes;
        self.scans += seed.scans;
        self.operations_refused += seed.refused;
        self.operations_unknown += seed.unknown;
        self.reads_torn += seed.torn;
        self.reads_stale += seed.stale;
        self.queries += seed.queries;
        for (sum, more) in self.queries_led.iter_mut().zip(seed.led) {
            *sum += more;
        }
        self.queries_followed += seed.followed;
        self.queries_astray += seed.astray;
        self.network_loads += seed.loads;
        self.pages_lost += seed.losses;
        self.pages_damaged += seed.damaged;
        self.ranges_handed_out += seed.ranges;
        self.numbers_handed_out += seed.numbers;
        self.calls_failed += seed.calls_failed;
        self.messages += seed.messages;
        self.message_bytes += seed.message_bytes;
        self.connections += seed.connections;
        self.connections_closed += seed.connections_closed;
        self.connections_broken += seed.connections_broken;
        self.handshakes_failed += seed.handshakes_failed;
        for (what, count) in &seed.rogues {
            *self.rogues_caught.entry(what.clone()).or_default() += count;
        }
        self.packets_disturbed += seed.packets_disturbed;
        let (restarts, changes) = match system {
            System::Flows | System::Sequencer | System::Messaging => {
                (&mut self.switch_restarts, &mut self.member_changes)
            }
            System::Pages => (&mut self.target_restarts, &mut self.index_changes),
            System::Index => (&mut self.endpoint_restarts, &mut self.ranges_moved),
        };
        *restarts += seed.restarts;
        self.switch_restarts += seed.switch_restarts;
        *changes += seed.changes;
        self.node_crashes += seed.crashes;
        self.aborted += u64::from(seed.aborted.is_some());
        self.events += seed.events;
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
            stuck: seed.stuck.into_iter().take(VIOLATIONS_MAX).collect(),
        });
        // If not all fit, violations come first.
        let order = |failure: &Failure| (failure.violations.is_empty(), failure.seed);
        self.failures.sort_by_key(order);
        self.failures.truncate(FAILURES_MAX);
    }

    /// What was attacked, and how its clients read if that was settled.
    pub fn name(&self) -> String {
        match self.options.access {
            Some(access) => format!("{} {access}", self.system),
            None => self.system.to_owned(),
        }
    }

    /// What only this system counts, the most telling first.
    pub fn of_system(&self) -> Vec<(&'static str, u64)> {
        match self.of {
            System::Flows => vec![
                ("items pushed", self.items_pushed),
                ("items popped", self.items_popped),
                ("switch restarts", self.switch_restarts),
                ("changes at work", self.member_changes),
                ("flows broken off", self.aborted),
            ],
            System::Pages => vec![
                ("pages read", self.pages_read),
                ("pages changed", self.pages_changed),
                ("fixes of lost", self.pages_lost),
                ("fixes of damaged", self.pages_damaged),
                ("target restarts", self.target_restarts),
                ("switch restarts", self.switch_restarts),
                ("index changes", self.index_changes),
            ],
            System::Index => vec![
                ("keys read", self.keys_read),
                ("keys changed", self.keys_changed),
                ("scans", self.scans),
                ("refused", self.operations_refused),
                ("unknown results", self.operations_unknown),
                ("torn READs", self.reads_torn),
                ("stale READs", self.reads_stale),
                ("endpoint restarts", self.endpoint_restarts),
                ("ranges moved", self.ranges_moved),
                ("queries led", self.queries),
                ("  to leaves", self.queries_led[0]),
                ("  to level 1", self.queries_led[1]),
                ("  to level 2", self.queries_led[2]),
                ("  higher", self.queries_led[3..].iter().sum()),
                ("  followed", self.queries_followed),
                ("  astray", self.queries_astray),
                ("loads of switches", self.network_loads),
                ("switch restarts", self.switch_restarts),
            ],
            System::Sequencer => vec![
                ("ranges", self.ranges_handed_out),
                ("numbers", self.numbers_handed_out),
                ("calls failed", self.calls_failed),
                ("switch restarts", self.switch_restarts),
            ],
            System::Messaging => vec![
                ("messages", self.messages),
                ("bytes", self.message_bytes),
                ("connections", self.connections),
                ("  closed", self.connections_closed),
                ("  broken", self.connections_broken),
                ("handshakes failed", self.handshakes_failed),
                ("rogues found out", self.rogues_caught.values().sum()),
                ("switch restarts", self.switch_restarts),
            ],
        }
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
            writeln!(f, "\nseed {}: {}", failure.seed, failure.plan)?;
            for violation in &failure.violations {
                writeln!(f, "  violation: {violation}")?;
            }
            for stuck in &failure.stuck {
                writeln!(f, "  stuck: {stuck}")?;
            }
            writeln!(f, "  repeat with: {}", failure.replay)?;
        }
        if !self.failures.is_empty() {
            writeln!(f)?;
        }
        let of_all = [
            ("packets disturbed", self.packets_disturbed),
            ("node crashes", self.node_crashes),
            ("simulated events", self.events),
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
