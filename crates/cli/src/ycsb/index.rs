//! YCSB over the index: what is asked for.

use super::args::{AccessArg, YcsbArgs};
use super::index_report::IndexReport;
use super::{Bars, errors};
use crate::globals::Globals;
use crate::mode::Mode;
use crate::outcome::{CliError, Verdict};
use crate::output;
use rackweave_bench::index::{
    Access, IndexOptions, IndexRunError, Job, Nodes, embedded, simulated,
};
use rackweave_rack::RackConfig;
use rackweave_rack::config::TopologyName;

/// Runs over the index.
///
/// # Errors
/// If the arguments or the configuration make no sense, or the rack cannot do what is asked.
pub fn run(args: &YcsbArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let job = plan(args, globals)?;
    let mut bars = Bars::new(globals);
    let mut progress = |phase, fraction: f64| {
        globals.live.phase(super::name_of(phase));
        bars.set(phase, fraction)
    };
    let outcome = if args.simulated {
        simulated::run(&job, &mut progress)
    } else {
        embedded::rack(&job).and_then(|rack| {
            globals.live.watch(rack.observer());
            embedded::run_on(&rack, &job, &mut progress)
        })
    };
    drop(bars);
    let outcome = match outcome {
        // The user knows; there is nothing to report.
        Err(IndexRunError::Interrupted) => return Ok(Verdict::Failed),
        other => other.map_err(|error| errors::tell_index(&error))?,
    };
    let report = IndexReport::new(args, &job, &outcome);
    output::print(globals, "ycsb", &report)?;
    Ok(Verdict::of(report.verified))
}

fn plan(args: &YcsbArgs, globals: &Globals) -> Result<Job, CliError> {
    let mode = Mode::of(args.simulated, &args.rack, globals)?;
    if let Mode::Hosted(_) = mode {
        return Err(CliError::usage(
            "a hosted rack has no index yet; leave --hosted away, or use a configuration without \
             [hosted]",
        ));
    }
    let access = access(args)?;
    let mut config = mode.config(&args.rack, globals)?;
    let endpoints = args.endpoints.unwrap_or(1);
    if globals.args.config.is_none() {
        let compute = match access {
            Access::Local => 1,
            _ => args.nodes.unwrap_or(2),
        };
        config.node = Nodes::configs(compute, endpoints);
        if access == Access::InNetwork {
            config.switch.topology = TopologyName::Two;
        }
    }
    let nodes = nodes(args, &config)?;
    let defaults = IndexOptions::default();
    let options = IndexOptions {
        ycsb: super::workload(args, config.seed),
        access,
        node_size: args.node_size.map_or(defaults.node_size, |bytes| {
            u32::try_from(bytes).unwrap_or(u32::MAX)
        }),
        fan_out: args.fan_out.unwrap_or(defaults.fan_out),
        scan_parts: args.scan_parts.unwrap_or(defaults.scan_parts),
        endpoints,
        cache_bytes: args.cache.unwrap_or(defaults.cache_bytes),
        threads: args.threads,
        depth: args.depth.unwrap_or(super::DEPTH),
        server_threads: args.server_threads.unwrap_or(defaults.server_threads),
        rate: args.rate,
    };
    options
        .check()
        .map_err(|error| errors::tell_index(&error))?;
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

/// The nodes that the user means.
fn nodes(args: &YcsbArgs, config: &RackConfig) -> Result<Nodes, CliError> {
    let mut nodes = Nodes::of(config).ok_or_else(|| {
        CliError::usage(
            "a compute and a storage node are needed; add [[node]] entries with role = \"compute\" \
             and role = \"storage\" to the configuration",
        )
    })?;
    if let Some(count) = args.nodes {
        let has = nodes.compute.len();
        if usize::from(count) > has {
            return Err(CliError::usage(format!(
                "--nodes is {count}, and the configuration has {has} compute nodes"
            )));
        }
        nodes.compute.truncate(count.into());
    }
    Ok(nodes)
}
