//! YCSB over the index: what is asked for, and what there is to say of it.

use super::args::{AccessArg, YcsbArgs};
use super::report::{Report, Text, size};
use super::{errors, with_progress};
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use crate::output;
use rackweave_bench::index::{
    Access, IndexOptions, IndexOutcome, Job, NetworkCounts, Outcome, embedded, simulated,
};
use rackweave_bench::ycsb::Nodes;
use rackweave_endpoint::index::ReaderStatistics;
use rackweave_rack::config::{Role, TopologyName};
use serde_json::json;

/// Runs over the index.
///
/// # Errors
/// If the arguments or the configuration make no sense, or the rack cannot do what is asked.
pub fn run(args: &YcsbArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let job = plan(args, globals)?;
    let explain = |error| errors::explain(&error, args);
    job.options.check().map_err(explain)?;
    let outcome = with_progress(globals, |progress| match args.simulated {
        true => simulated::run(&job, progress),
        false => {
            let rack = embedded::rack(&job)?;
            globals.live.watch(rack.observer());
            embedded::run_on(&rack, &job, progress)
        }
    });
    let Some(outcome) = outcome.map_err(explain)? else {
        return Ok(Verdict::Failed);
    };
    let report = report(args, &job, &outcome);
    output::print(globals, "ycsb", &report)?;
    Ok(Verdict::of(report.verified))
}

fn plan(args: &YcsbArgs, globals: &Globals) -> Result<Job, CliError> {
    let mut config = super::config(args, globals, "index")?;
    let access = access(args)?;
    let endpoints = args.endpoints.unwrap_or(1);
    if globals.args.config.is_none() {
        let compute = match access {
            Access::Local => 1,
            _ => args.nodes.unwrap_or(2),
        };
        let dpu: &[Role] = if endpoints > 1 { &[Role::Dpu] } else { &[] };
        config.node = Nodes::configs(compute, dpu);
        if access == Access::InNetwork {
            config.switch.topology = TopologyName::Two;
        }
    }
    let nodes = super::nodes(args, &config)?;
    let defaults = IndexOptions::default();
    let node_size = args.node_size.unwrap_or(defaults.node_size.into());
    let options = IndexOptions {
        load: super::load(args, config.seed),
        access,
        node_size: u32::try_from(node_size).unwrap_or(u32::MAX),
        fan_out: args.fan_out.unwrap_or(defaults.fan_out),
        scan_parts: args.scan_parts.unwrap_or(defaults.scan_parts),
        endpoints,
        cache_bytes: args.cache.unwrap_or(defaults.cache_bytes),
        server_threads: args.server_threads.unwrap_or(defaults.server_threads),
    };
    Ok(Job {
        config,
        nodes,
        options,
    })
}

/// How threads come to the tree. What has no meaning for that is refused.
fn access(args: &YcsbArgs) -> Result<Access, CliError> {
    let access = match args.access {
        Some(AccessArg::Local) => Access::Local,
        Some(AccessArg::OneSided) => Access::OneSided,
        Some(AccessArg::InNetwork) => Access::InNetwork,
        Some(AccessArg::Rpc) | None => Access::Rpc,
    };
    let remote = [
        (args.nodes.is_some(), "--nodes"),
        (args.depth.is_some(), "--depth"),
        (args.endpoints.is_some(), "--endpoints"),
        (args.server_threads.is_some(), "--server-threads"),
    ];
    let given = remote.iter().find(|(is_given, _)| *is_given);
    if let (Access::Local, Some((_, flag))) = (access, given) {
        return Err(CliError::usage(format!(
            "{flag} goes with --access rpc, one-sided and in-network: with local, threads of the \
             storage node call the tree, one operation at a time"
        )));
    }
    if access != Access::OneSided && args.cache.is_some() {
        return Err(CliError::usage(
            "--cache goes with --access one-sided: nobody else begins at the root by READs",
        ));
    }
    if !access.is_by_read() && args.scan_parts.is_some() {
        return Err(CliError::usage(
            "--scan-parts goes with --access one-sided and in-network: nobody else READs tree nodes",
        ));
    }
    Ok(access)
}

fn report<'a>(args: &YcsbArgs, job: &'a Job, outcome: &'a Outcome) -> Report<'a, IndexOutcome> {
    let options = &job.options;
    let is_remote = options.access != Access::Local;
    let is_one_sided = options.access == Access::OneSided;
    let parameters = json!({
        "node_size_bytes": options.node_size,
        "fan_out": Some(options.tree().fan_out).filter(|&fan_out| fan_out > 0),
        "scan_parts": options.access.is_by_read().then_some(options.scan_parts),
        "nodes": is_remote.then_some(job.nodes.compute.len()),
        "depth": is_remote.then_some(options.load.depth),
        "server_threads": is_remote.then_some(options.server_threads),
        "cache_bytes": is_one_sided.then_some(options.cache_bytes),
    });
    let derived = json!({
        "access": options.access,
        "reads_per_lookup": outcome.table.reads_per_lookup(),
    });
    let text = Text {
        over: format!("the index, access {}", options.access.name()),
        setting: setting(job, outcome),
        counts: counts(&outcome.table),
    };
    let found = (&options.load, outcome);
    Report::new(args, "index", found, parameters, derived, text)
}

fn setting(job: &Job, outcome: &Outcome) -> String {
    let (options, load) = (&job.options, &job.options.load);
    let mut text = format!(
        "  {} records of {} bytes, tree nodes of {}\n",
        outcome.records,
        load.ycsb.record_size,
        size(options.node_size.into()),
    );
    text += &match options.access {
        Access::Local => format!("  threads of the storage node: {}\n", load.threads),
        _ => format!(
            "  compute nodes: {}, threads of each: {}, operations under way in each: {}; \
             endpoints: {}, server threads of each: {}\n",
            job.nodes.compute.len(),
            load.threads,
            load.depth,
            outcome.table.endpoints.len(),
            options.server_threads,
        ),
    };
    if options.access == Access::OneSided {
        let cache = size(options.cache_bytes);
        text += &format!("  upper tree nodes kept by each thread: {cache} at most\n");
    }
    text
}

fn counts(found: &IndexOutcome) -> String {
    let mut text = String::new();
    if let Some(reader) = &found.reader {
        let lookups = found.reads_per_lookup();
        let lookups =
            lookups.map_or_else(String::new, |reads| format!("{reads:.2} for a lookup; "));
        text += &format!(
            "READs: {} ({lookups}tree nodes {}, records {}, map versions {})\n",
            reader.reads, reader.node_reads, reader.record_reads, reader.version_reads,
        );
        text += &format!(
            "  torn {} and {} records, out of date {} and {} records, to the right {}, restarts \
             {}, moved {}, cache {} of {}\n",
            reader.torn,
            reader.records_torn,
            reader.stale,
            reader.records_stale,
            reader.followed,
            reader.restarts,
            reader.moved,
            reader.cache_hits,
            reader.cache_hits + reader.cache_misses,
        );
    }
    if let (Some(network), Some(reader)) = (&found.network, &found.reader) {
        text += &network_counts(network, reader);
    }
    if let Some(client) = &found.client {
        text += &format!(
            "requests: {}; moved {}, busy {}, maps fetched {}, instead of READs {}\n",
            client.calls, client.moved, client.busy, client.maps_fetched, client.fallbacks,
        );
    }
    for endpoint in &found.endpoints {
        text += &format!(
            "tree of {}: {} levels, {} tree nodes, {} of values; restarts {}, splits {}, merges \
             {}; served {} lookups, {} writes, {} pages of scans\n",
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
        );
    }
    let waits = found.waits;
    text + &format!("changes that waited for another of their record: {waits}\n")
}

/// What the switches were given, and how far they led.
fn network_counts(network: &NetworkCounts, reader: &ReaderStatistics) -> String {
    let nodes: Vec<String> = network.nodes.iter().map(ToString::to_string).collect();
    let all: u64 = network.by_depth.iter().sum();
    let share = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
    let led = network
        .by_depth
        .iter()
        .enumerate()
        .map(|(depth, &queries)| {
            let place = match depth {
                0 => "the root".to_owned(),
                1 => "below the fat root".to_owned(),
                layer => format!("below layer {}", layer - 1),
            };
            format!("{place} {:.1} %", share(queries, all))
        });
    let asked = reader.network_queries;
    let levels = reader.network_levels.iter().enumerate();
    let levels = levels.filter(|(_, answers)| **answers > 0);
    let levels = levels.map(|(level, &answers)| match level {
        0 => format!("leaves {:.1} %", share(answers, asked)),
        _ => format!("level {level} {:.1} %", share(answers, asked)),
    });
    format!(
        "Switches: {} ranges in the fat root, tree nodes by layer {}; loaded {} times\n  queries \
         led to: {}\n  first answers of {asked} queries: {}\n  to the right {}, astray {}, \
         refused {}; dropped for an unknown queue pair {}, tree nodes gone before they were pinned \
         {}\n",
        network.ranges,
        nodes.join(" + "),
        network.loads,
        led.collect::<Vec<_>>().join(", "),
        levels.collect::<Vec<_>>().join(", "),
        reader.network_followed,
        reader.network_astray,
        reader.network_refused,
        network.unknown_pairs,
        network.gone,
    )
}
