//! YCSB over the index: its options and its report.

use super::args::{AccessArg, YcsbArgs};
use super::{errors, finish, with_progress};
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use crate::programs::RealRack;
use rackweave_bench::index::{Access, IndexOptions, Job, Outcome, embedded, simulated};
use rackweave_bench::ycsb::Nodes;
use rackweave_rack::config::{Role, TopologyName};
use serde_json::json;

/// Runs YCSB over the index.
///
/// # Errors
/// If the arguments or the configuration are invalid, or the rack cannot do what is requested.
pub fn run(args: &YcsbArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let (job, joined) = plan(args, globals)?;
    let explain = |error| errors::explain(&error, args);
    job.options.check().map_err(explain)?;
    let outcome = with_progress(globals, |progress| match (args.simulated, &joined) {
        (true, _) => simulated::run(&job, progress),
        (false, Some(rack)) => embedded::run_on(rack, &job, progress),
        (false, None) => {
            let rack = embedded::rack(&job)?;
            globals.live.watch(rack.observer());
            embedded::run_on(&rack, &job, progress)
        }
    });
    let Some(outcome) = outcome.map_err(explain)? else {
        return Ok(Verdict::Failed);
    };
    report(args, globals, &job, &outcome)
}

fn plan(args: &YcsbArgs, globals: &Globals) -> Result<(Job, Option<RealRack>), CliError> {
    let access = access(args, globals)?;
    let endpoints = args.endpoints.unwrap_or(1);
    let (mut config, joined) = super::config(args, endpoints.into(), globals)?;
    if globals.args.config.is_none() && joined.is_none() {
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
    let nodes = match &joined {
        Some(rack) => super::nodes_of(rack, endpoints.into()),
        None => super::nodes(args, &config)?,
    };
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
    let job = Job {
        config,
        nodes,
        options,
    };
    Ok((job, joined))
}

/// How threads access the tree. Options without a meaning for that access are refused.
fn access(args: &YcsbArgs, globals: &Globals) -> Result<Access, CliError> {
    let access = match args.access {
        Some(AccessArg::Local) => Access::Local,
        Some(AccessArg::OneSided) => Access::OneSided,
        Some(AccessArg::InNetwork) => Access::InNetwork,
        Some(AccessArg::Rpc) | None => Access::Rpc,
    };
    let remote = ["--nodes", "--depth", "--endpoints", "--server-threads"];
    if let (Access::Local, Some(flag)) = (access, globals.first_given(&remote)) {
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

/// Prints the results.
fn report(
    args: &YcsbArgs,
    globals: &Globals,
    job: &Job,
    outcome: &Outcome,
) -> Result<Verdict, CliError> {
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
    let found = (&options.load, outcome);
    finish((args, globals), "index", found, parameters, derived)
}
