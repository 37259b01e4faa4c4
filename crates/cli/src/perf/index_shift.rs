//! The test `index_shift`: an index in the network that adapts by itself, and how soon its switches
//! have a new plan when the set of popular keys changes.
//!
//! A client requests keys by a Zipfian distribution whose popular keys are scattered. When the
//! switches have adapted to them, the set of popular keys changes at once. The test measures the
//! time until a new plan is in use and the share of queries that the switches lead to a leaf.

use super::test_run::TestRun;
use crate::globals::Globals;
use crate::measure::ratio;
use crate::outcome::CliError;
use crate::programs::Patience;
use crate::report::joined;
use rackweave_base::{Duration, Instant, Rng};
use rackweave_controller::index::AdapterConfig;
use rackweave_endpoint::index::{Access, Answer, IndexClientConfig, Op, ReaderConfig, Ticket};
use rackweave_rack::config::{BudgetName, NodeConfig, Role};
use rackweave_rack::services::{IndexConnection, IndexOptions, IndexService};
use rackweave_rack::{IndexNetworkSpec, Rack, RackConfig};
use rackweave_workload::ycsb::{Scatter, Zipf};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Default number of records.
const RECORDS: u64 = 100_000;

/// The skew of YCSB.
const THETA: f64 = 0.99;

/// Default number of lookups in flight.
const WINDOW: u16 = 32;

/// Bytes of a tree node: it fits a switch's regular nodes.
const NODE_BYTES: u32 = 512;

/// Intervals of the adapter without a new plan, after which the switches have settled.
const SETTLED: u64 = 4;

/// Number of intervals over which a hit share is measured.
const MEASURED: u64 = 4;

/// Number of intervals after which a missing plan is an error.
const PATIENCE: u64 = 200;

/// The measurements. Times are virtual in a simulated rack.
#[derive(Serialize, Default)]
struct Shift {
    /// From the shift until a new plan was in use.
    replanned_s: f64,
    /// From the shift until the last plan that it caused was in use.
    settled_s: f64,
    /// Number of plans that it caused.
    plans: u64,
    /// Shares of queries led to a leaf: before the shift; from then until the first new plan was in
    /// use; after the last.
    hit_share_before: f64,
    hit_share_shifted: f64,
    hit_share_after: f64,
}

/// A client that keeps its window full.
struct Asker<'a> {
    connection: IndexConnection,
    globals: &'a Globals,
    keys: Scatter,
    zipf: Zipf,
    rng: Rng,
    window: usize,
    asked: HashMap<Ticket, u64>,
    lookups: u64,
    is_sound: bool,
}

/// The value of a key.
fn value_of(key: u64) -> [u8; 8] {
    (!key.rotate_left(17)).to_le_bytes()
}

impl Asker<'_> {
    fn rack(&self) -> &Rack {
        self.connection.service().rack()
    }

    /// Sends requests until `done` returns true, given the time and the number of plans put into
    /// use.
    fn ask(&mut self, mut done: impl FnMut(Instant, u64) -> bool) -> Result<(), CliError> {
        let node = self.connection.node().clone();
        let mut patience = Patience::new(&node);
        loop {
            while self.asked.len() < self.window {
                let key = self.keys.apply(self.zipf.sample(&mut self.rng));
                let ticket = self.connection.begin(&Op::Get { key })?;
                self.asked.insert(ticket, key);
            }
            let before = self.lookups;
            while let Some(reply) = self.connection.poll() {
                let key = self.asked.remove(&reply.ticket);
                let value = key.map(value_of).map(|value| value[..].into());
                self.is_sound &= reply.result == Ok(Answer::Value(value));
                self.lookups += 1;
            }
            if let Some(error) = self.connection.service().take_network_error() {
                return Err(error.into());
            }
            if done(node.now(), self.plans()) || self.globals.interrupt.is_set() {
                return Ok(());
            }
            patience.wait(self.lookups > before);
        }
    }

    /// Number of plans put into use.
    fn plans(&self) -> u64 {
        let index = self.connection.service().index();
        index.network().map_or(0, |it| it.summary().loads)
    }

    /// Queries so far, and those of them led to a leaf.
    fn led(&self) -> (u64, u64) {
        let seen = self.connection.reader_statistics();
        (seen.network_queries, seen.network_levels[0])
    }

    /// The share of queries led to a leaf since `before`.
    fn hit_share(&self, before: (u64, u64)) -> f64 {
        let now = self.led();
        ratio((now.1 - before.1) as f64, (now.0 - before.0) as f64)
    }

    /// Sends requests until the switches have had no new plan for a while, given the time of the
    /// last known plan and the number of plans. Returns the same for the last plan.
    fn settle(
        &mut self,
        last: (Instant, u64),
        every: Duration,
    ) -> Result<(Instant, u64), CliError> {
        let mut last = last;
        self.ask(|now, plans| {
            if plans > last.1 {
                last = (now, plans);
            }
            now.since(last.0) > every * SETTLED
        })?;
        Ok(last)
    }

    /// Measures the share of queries led to a leaf.
    fn measure(&mut self, every: Duration) -> Result<f64, CliError> {
        let (before, end) = (self.led(), self.rack().now() + every * MEASURED);
        self.ask(|now, _| now >= end)?;
        Ok(self.hit_share(before))
    }

    /// Makes other keys popular.
    fn shift(&mut self, keys: Scatter, every: Duration) -> Result<Shift, CliError> {
        let began = self.settle((self.rack().now(), 0), every)?;
        let hit_share_before = self.measure(every)?;
        self.keys = keys;
        let (shifted, before, plans) = (self.rack().now(), self.led(), began.1.max(self.plans()));
        let mut replanned = None;
        self.ask(|now, now_served| {
            if now_served > plans {
                replanned = Some((now, now_served));
            }
            replanned.is_some() || now.since(shifted) > every * PATIENCE
        })?;
        let hit_share_shifted = self.hit_share(before);
        let Some(first) = replanned else {
            if self.globals.interrupt.is_set() {
                return Ok(Shift::default());
            }
            return Err(CliError::run("the switches were given no other plan"));
        };
        let last = self.settle(first, every)?;
        Ok(Shift {
            replanned_s: first.0.since(shifted).as_secs_f64(),
            settled_s: last.0.since(shifted).as_secs_f64(),
            plans: last.1 - plans,
            hit_share_before,
            hit_share_shifted,
            hit_share_after: self.measure(every)?,
        })
    }
}

/// Two nodes, and a switch that can hold a part of the tree.
fn rack_config(config: &mut RackConfig, records: u64) {
    config.node = vec![
        NodeConfig::new("client", Role::Compute),
        NodeConfig::new("server", Role::Storage),
    ];
    let switch = &mut config.switch;
    switch.budget = BudgetName::Software;
    (switch.consumer_rings, switch.producer_rings) = (0, 0);
    (switch.index_servers, switch.index_queries) = (2, 16);
    switch.index_layers = 2;
    // A leaf has about 25 keys, and a tree node above it about 14 leaves.
    let above_leaves = records.div_ceil(25 * 14);
    switch.index_nodes = (above_leaves / 4).clamp(4, 4096) as u16;
    switch.index_fat_ranges = switch.index_nodes;
}

/// A loaded index in the network of a rack of this test; its adapter evaluates the load at
/// intervals of `every`.
fn loaded(test: &mut TestRun<'_>, records: u64, every: Duration) -> Result<IndexService, CliError> {
    let options = IndexOptions {
        nodes: vec![test.nodes[1]],
        keys: records,
        value_max: 8,
        node_bytes: NODE_BYTES,
        network: Some(IndexNetworkSpec::default()),
        ..IndexOptions::default()
    };
    let spec = IndexNetworkSpec {
        grace: Duration::from_nanos(every.as_nanos() / 5),
        ..IndexNetworkSpec::default()
    };
    let adapt = AdapterConfig {
        every,
        half_life: every * 2,
        ..AdapterConfig::default()
    };
    let index = options.spec(&test.config)?;
    let bytes = index.endpoints[0].tree.bytes();
    test.config.memory_limit = test.config.memory_limit.max(bytes + (64 << 20));
    let rack: Rack = match test.args.simulated {
        true => Rack::builder()
            .config(test.config.clone())
            .simulated()
            .build()?,
        false => (*test.real_rack()?).clone(),
    };
    let service = IndexService::with_spec(&rack, index, Some(spec), Some(adapt))?;
    service.load((0..records).map(|key| (key, value_of(key))))?;
    Ok(service)
}

/// Runs the test.
///
/// # Errors
/// If the rack cannot be built, or the switches get no new plan.
pub fn measure(test: &mut TestRun<'_>) -> Result<Value, CliError> {
    let args = test.args;
    let records = args.records.unwrap_or(RECORDS);
    let window = args.window.unwrap_or(WINDOW);
    let every = Duration::from_millis(if args.simulated { 5 } else { 100 });
    if !test.is_hosted() {
        rack_config(&mut test.config, records);
    }
    let service = loaded(test, records, every)?;
    let client = IndexClientConfig {
        access: Access::InNetwork,
        operations: window,
        reader: ReaderConfig {
            walks: window,
            ..ReaderConfig::default()
        },
        ..IndexClientConfig::default()
    };
    let mut rng = Rng::new(test.config.seed).fork("index shift");
    let mut asker = Asker {
        connection: service.connect_with(test.nodes[0], client)?,
        globals: test.globals,
        keys: Scatter::new(records, rng.next_u64()),
        zipf: Zipf::new(records, THETA)?,
        window: window.into(),
        asked: HashMap::new(),
        lookups: 0,
        is_sound: true,
        rng: rng.fork("keys"),
    };
    let other = Scatter::new(records, rng.next_u64());
    let shift = asker.shift(other, every)?;
    test.verified = asker.is_sound && asker.lookups > 0;
    let found = json!({
        "parameters": {
            "records": records,
            "theta": THETA,
            "window": window,
            "look_every_s": every.as_secs_f64(),
        },
        "lookups": asker.lookups,
    });
    Ok(joined([found, json!(shift)]))
}
