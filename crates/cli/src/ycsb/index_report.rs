//! What a run of YCSB over the index found, as text and as JSON.

use super::args::YcsbArgs;
use super::report::{
    Common, Latency, Verdict, size, write_latencies, write_rate, write_simulation,
};
use rackweave_bench::index::{Access, EndpointCounts, Job, NetworkCounts, Outcome, TimeShare};
use rackweave_bench::ycsb::{Simulation, VerificationError};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// A run's result.
#[derive(Serialize)]
pub struct IndexReport {
    pub mode: &'static str,
    pub target: &'static str,
    pub access: Access,
    pub seed: u64,
    pub parameters: Parameters,
    pub load_seconds: f64,
    pub records_after: u64,
    pub operations: u64,
    pub seconds: f64,
    pub operations_per_s: f64,
    pub latency: Vec<Latency>,
    /// Changes that waited for another one of their record.
    pub waits: u64,
    pub client: Option<BTreeMap<&'static str, u64>>,
    pub reader: Option<BTreeMap<&'static str, u64>>,
    pub reads_per_lookup: Option<f64>,
    pub network: Option<NetworkCounts>,
    pub endpoints: Vec<EndpointCounts>,
    pub time: Vec<TimeShare>,
    pub verification_errors: u64,
    pub first_errors: Vec<VerificationError>,
    pub problems: Vec<String>,
    pub interrupted: bool,
    #[serde(flatten)]
    pub simulation: Option<Simulation>,
    pub verified: bool,
}

/// What the run was made with. What has no meaning for the access is null.
#[derive(Serialize)]
pub struct Parameters {
    #[serde(flatten)]
    pub common: Common,
    pub node_size_bytes: u32,
    pub fan_out: Option<u16>,
    pub scan_parts: Option<u16>,
    pub nodes: Option<usize>,
    pub threads: u16,
    pub depth: Option<u16>,
    pub server_threads: Option<u16>,
    pub cache_bytes: Option<u64>,
    pub rate: Option<f64>,
}

impl IndexReport {
    pub(super) fn new(args: &YcsbArgs, job: &Job, outcome: &Outcome) -> Self {
        let options = &job.options;
        let is_remote = options.access != Access::Local;
        let is_one_sided = options.access == Access::OneSided;
        let failure = outcome.failure;
        let client = outcome.client.map(|counts| counts.list().collect());
        let reader = outcome.reader.map(|counts| counts.list().collect());
        Self {
            mode: super::mode_name(args),
            target: "index",
            access: options.access,
            seed: options.ycsb.seed,
            parameters: Parameters {
                common: Common::new(&options.ycsb, outcome.records),
                node_size_bytes: options.node_size,
                fan_out: Some(options.tree().fan_out).filter(|&fan_out| fan_out > 0),
                scan_parts: options.access.is_by_read().then_some(options.scan_parts),
                nodes: is_remote.then_some(job.nodes.compute.len()),
                threads: options.threads,
                depth: is_remote.then_some(options.depth),
                server_threads: is_remote.then_some(options.server_threads),
                cache_bytes: is_one_sided.then_some(options.cache_bytes),
                rate: options.rate,
            },
            load_seconds: outcome.load_seconds,
            records_after: outcome.records_after,
            operations: outcome.operations,
            seconds: outcome.seconds,
            operations_per_s: outcome.throughput(),
            latency: Latency::all(&outcome.latencies),
            waits: outcome.waits,
            client,
            reader,
            reads_per_lookup: outcome.reads_per_lookup(),
            network: outcome.network.clone(),
            endpoints: outcome.endpoints.clone(),
            time: outcome.time.clone(),
            verification_errors: outcome.errors,
            first_errors: outcome.first_errors.clone(),
            problems: failure
                .map(|error| format!("the run ended early: {error}"))
                .into_iter()
                .collect(),
            interrupted: outcome.interrupted,
            simulation: outcome.simulation.clone(),
            verified: outcome.is_verified(),
        }
    }
}

impl fmt::Display for IndexReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_setting(f)?;
        let done = (self.operations, self.seconds, self.operations_per_s);
        write_rate(f, done, self.parameters.rate, self.simulation.is_some())?;
        write_latencies(f, &self.latency)?;
        self.write_counts(f)?;
        self.write_time(f)?;
        write_simulation(f, self.simulation.as_ref())?;
        Verdict {
            first_errors: &self.first_errors,
            problems: &self.problems,
            interrupted: self.interrupted,
            errors: self.verification_errors,
            verified: self.verified,
        }
        .fmt(f)
    }
}

impl IndexReport {
    fn write_setting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parameters = &self.parameters;
        writeln!(
            f,
            "YCSB {} over the index, access {}, {} rack, {}",
            parameters.common.workload,
            self.access.name(),
            self.mode,
            parameters.common.keys(),
        )?;
        writeln!(
            f,
            "  {} records of {} bytes, tree nodes of {}",
            parameters.common.records,
            parameters.common.record_size_bytes,
            size(u64::from(parameters.node_size_bytes)),
        )?;
        match (
            parameters.nodes,
            parameters.depth,
            parameters.server_threads,
        ) {
            (Some(nodes), Some(depth), Some(servers)) => writeln!(
                f,
                "  compute nodes: {nodes}, threads of each: {}, operations under way in each: \
                 {depth}; endpoints: {}, server threads of each: {servers}",
                parameters.threads,
                self.endpoints.len(),
            )?,
            _ => writeln!(f, "  threads of the storage node: {}", parameters.threads)?,
        }
        if let Some(cache) = parameters.cache_bytes {
            writeln!(
                f,
                "  upper tree nodes kept by each thread: {} at most",
                size(cache)
            )?;
        }
        writeln!(f, "  records ready after {:.2} s", self.load_seconds)
    }

    fn write_counts(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f)?;
        let of = |counts: &Option<BTreeMap<&'static str, u64>>, name| {
            let counts = counts.as_ref();
            counts.and_then(|counts| counts.get(name).copied())
        };
        if self.reader.is_some() {
            let count = |name| of(&self.reader, name).unwrap_or(0);
            let lookups = self.reads_per_lookup;
            let lookups =
                lookups.map_or_else(String::new, |reads| format!("{reads:.2} for a lookup; "));
            writeln!(
                f,
                "READs: {} ({lookups}tree nodes {}, records {}, map versions {})",
                count("reads"),
                count("node_reads"),
                count("record_reads"),
                count("version_reads"),
            )?;
            writeln!(
                f,
                "  torn {} and {} records, out of date {} and {} records, to the right {}, \
                 restarts {}, moved {}, cache {} of {}",
                count("torn"),
                count("records_torn"),
                count("stale"),
                count("records_stale"),
                count("followed"),
                count("restarts"),
                count("moved"),
                count("cache_hits"),
                count("cache_hits") + count("cache_misses"),
            )?;
        }
        if let Some(network) = &self.network {
            write_network(f, network, self.reader.as_ref())?;
        }
        if self.client.is_some() {
            let count = |name| of(&self.client, name).unwrap_or(0);
            writeln!(
                f,
                "requests: {}; moved {}, busy {}, maps fetched {}, instead of READs {}",
                count("calls"),
                count("moved"),
                count("busy"),
                count("maps_fetched"),
                count("fallbacks"),
            )?;
        }
        for endpoint in &self.endpoints {
            writeln!(
                f,
                "tree of {}: {} levels, {} tree nodes, {} of values; restarts {}, splits {}, \
                 merges {}; served {} lookups, {} writes, {} pages of scans",
                endpoint.node,
                endpoint.levels,
                endpoint.tree_nodes,
                size(endpoint.heap_bytes),
                endpoint.restarts,
                endpoint.splits,
                endpoint.merges,
                endpoint.gets,
                endpoint.writes,
                endpoint.scans,
            )?;
        }
        writeln!(
            f,
            "changes that waited for another of their record: {}",
            self.waits
        )
    }

    fn write_time(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n{:<20}{:>10}{:>15}{:>10}",
            "time of threads", "compute", "communication", "waiting"
        )?;
        for share in &self.time {
            writeln!(
                f,
                "  {:<18}{:>9.1}%{:>14.1}%{:>9.1}%",
                share.who,
                share.compute * 100.0,
                share.communication * 100.0,
                share.waiting * 100.0
            )?;
        }
        Ok(())
    }
}

/// What the switches were given, and how far they led.
fn write_network(
    f: &mut fmt::Formatter<'_>,
    network: &NetworkCounts,
    reader: Option<&BTreeMap<&'static str, u64>>,
) -> fmt::Result {
    let count = |name: &str| {
        let counts = reader.and_then(|reader| reader.get(name));
        counts.copied().unwrap_or(0)
    };
    let nodes: Vec<String> = network.nodes.iter().map(ToString::to_string).collect();
    writeln!(
        f,
        "Switches: {} ranges in the fat root, tree nodes by layer {}; loaded {} times",
        network.ranges,
        nodes.join(" + "),
        network.loads,
    )?;
    let all: u64 = network.by_depth.iter().sum();
    let share = |queries: u64| 100.0 * queries as f64 / all.max(1) as f64;
    let led = network
        .by_depth
        .iter()
        .enumerate()
        .map(|(depth, &queries)| {
            let where_to = match depth {
                0 => "the root".to_owned(),
                1 => "below the fat root".to_owned(),
                layer => format!("below layer {}", layer - 1),
            };
            format!("{where_to} {:.1} %", share(queries))
        });
    writeln!(
        f,
        "  queries led to: {}",
        led.collect::<Vec<_>>().join(", ")
    )?;
    let asked = count("network_queries");
    let levels = (0..8).filter_map(|level| {
        let answers = count(LEVELS[level]);
        let share = 100.0 * answers as f64 / asked.max(1) as f64;
        (answers > 0).then(|| match level {
            0 => format!("leaves {share:.1} %"),
            _ => format!("level {level} {share:.1} %"),
        })
    });
    let levels = levels.collect::<Vec<_>>().join(", ");
    writeln!(f, "  first answers of {asked} queries: {levels}")?;
    writeln!(
        f,
        "  to the right {}, astray {}, refused {}; dropped for an unknown queue pair {}, tree nodes \
         gone before they were pinned {}",
        count("network_followed"),
        count("network_astray"),
        count("network_refused"),
        network.unknown_pairs,
        network.gone,
    )
}

/// The counters of answers by level.
const LEVELS: [&str; 8] = [
    "network_levels_0",
    "network_levels_1",
    "network_levels_2",
    "network_levels_3",
    "network_levels_4",
    "network_levels_5",
    "network_levels_6",
    "network_levels_7",
];
