//! The command `info`: the effective configuration, its resources, and the state of a hosted rack.
//!
//! In text form the output is a configuration file: everything but the settings is a comment.

mod paths;
mod topology;

use crate::globals::{Globals, RackArgs};
use crate::outcome::{CliError, Verdict};
use crate::report::{self, joined, object};
use crate::{output, switch_shape};
use clap::Args;
use rackweave_base::NodeId;
use rackweave_programs::PipelineConfig;
use rackweave_rack::hosted::{Counters, HostedError, HostedRack};
use rackweave_rack::paths::{Kind, Path};
use rackweave_rack::{EmbeddedRack, RackConfig, RackError};
use rackweave_switch::Ledger;
use rackweave_switch::budget::Stage;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// What the numbers of `memory` mean.
const MEMORY: &str = "an embedded rack: its regions (memory_limit), and what it takes beside them \
                      when it starts, and at most, with every queue that [nic] allows made as long \
                      as it allows";

/// Arguments of `info`.
#[derive(Args, Clone, Debug)]
#[command(after_help = "\
Examples:
  rackweave info
  rackweave info --config rack.toml > effective.txt
  rackweave info --format json --drivers 2")]
pub struct InfoArgs {
    #[command(flatten)]
    pub rack: RackArgs,
}

/// Runs the command.
///
/// # Errors
/// If the configuration is invalid, or a process answers that is not this rack's switch.
pub fn run(args: &InfoArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let hosted = globals.hosted(&args.rack)?;
    let rack = hosted.as_ref().map(ask).transpose()?;
    let config = match hosted {
        Some(config) => config,
        None => globals.rack_config(&args.rack)?,
    };
    let is_whole = rack.as_ref().is_none_or(|rack| is_whole(rack, &config));
    let toml = config.to_toml();
    let paths = rackweave_rack::paths::describe(&config).map_err(RackError::from)?;
    let of_switch_0 = switch_shape::ledger(&switch_shape::pipeline_config(&config));
    let file = globals.args.config.as_ref();
    let mut found = object(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "config_file": file.map(|path| path.display().to_string()),
        "config_hash": format!("{:016x}", fnv1a(toml.as_bytes())),
        "config": config,
        "config_toml": toml,
        "switch": switch_use(&config, &of_switch_0),
        "topology": topology::of(&config).map_err(RackError::from)?,
        "per_flow": per_flow(&config, &paths),
        "memory": memory_use(&config)?,
        "links": links(&config, &paths),
        "paths": paths,
        "cpu": cpu(),
    }));
    // Only for a hosted rack.
    if let Some(rack) = rack {
        found.insert("rack".into(), rack);
    }
    output::print_as(globals, "info", &found, |found| text(found, &paths))?;
    Ok(Verdict::of(is_whole))
}

/// A configuration file: everything but the settings is a comment.
fn text(found: &Map<String, Value>, paths: &[Path]) -> String {
    let word = |key: &str| found[key].as_str().unwrap_or("defaults");
    let mut text = format!(
        "# rackweave {}\n\
         # The effective configuration, from {}; hash {}.\n\
         # The hash is the 64-bit FNV-1a of the lines from `seed` on up to the next comment.\n\n\
         {}\n\n",
        word("version"),
        word("config_file"),
        word("config_hash"),
        word("config_toml").trim_end(),
    );
    let mut shown = Map::new();
    for (key, value) in found {
        match key.as_str() {
            "version" | "config_file" | "config_hash" | "config" | "config_toml" => {}
            "paths" => shown.extend(paths::by_rack(paths)),
            _ => {
                shown.insert(key.clone(), value.clone());
            }
        }
    }
    shown["memory"]["of"] = MEMORY.into();
    for line in report::text(shown).lines() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", format!("# {line}").trim_end());
    }
    text
}

/// FNV-1a of 64 bits: distinguishes configurations, and is easy to recompute.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The resources of its budget that a switch's programs use.
fn switch_use(config: &RackConfig, ledger: &Ledger) -> Value {
    let budget = switch_shape::budget(config).to_string();
    joined([json!({ "budget": budget }), programs_use(config, ledger)])
}

/// Resources of one stage: blocks of SRAM and TCAM, register units, tables.
fn stage_use(stage: &Stage) -> Value {
    json!({
        "sram_blocks": stage.sram,
        "tcam_blocks": stage.tcam,
        "register_units": stage.registers,
        "tables": stage.tables,
    })
}

/// The resources that programs use in each stage of the budget, and in total.
fn programs_use(config: &RackConfig, ledger: &Ledger) -> Value {
    let budget = switch_shape::budget(config);
    json!({
        "stages_available": budget.stages(),
        "stage_available": budget.stage().as_ref().map(stage_use),
        "stages": ledger.stages().iter().map(stage_use).collect::<Vec<_>>(),
        "registers_bytes": ledger.bytes_registers(),
        "tables_bytes": ledger.bytes_tables(),
    })
}

/// The resources of one more 1:1 flow: a producer ring, a consumer ring and their lanes.
fn per_flow(config: &RackConfig, paths: &[Path]) -> Value {
    let mut chosen = paths.iter();
    let chosen = chosen
        .find(|path| path.rack == Some(Kind::Embedded) && path.of == "flow.transfers")
        .and_then(|path| path.value.parse::<u16>().ok());
    let transfers = chosen.unwrap_or_else(|| config.flow.transfers.into());
    let lanes = 2 * (2 + transfers);
    let base = switch_shape::pipeline_config(config);
    let mut more = PipelineConfig { ..base };
    // Entries are counted individually, so the difference of two sizes is that of one flow.
    more.engine.lanes = base.engine.lanes.saturating_add(lanes);
    more.flows.threads = base.flows.threads.saturating_add(1);
    more.flows.producers = base.flows.producers.saturating_add(1);
    let (less, more) = (switch_shape::ledger(&base), switch_shape::ledger(&more));
    let bytes = |of: fn(&Ledger) -> usize| of(&more).saturating_sub(of(&less));
    json!({
        "lanes": lanes,
        "registers_bytes": bytes(Ledger::bytes_registers),
        "tables_bytes": bytes(Ledger::bytes_tables),
    })
}

fn memory_use(config: &RackConfig) -> Result<Value, CliError> {
    // Counting needs no driver.
    let rack = EmbeddedRack::new(&RackConfig {
        driver_threads: 0,
        ..config.clone()
    })?;
    let (overhead_bytes, overhead_bytes_max) = rack.bytes_overhead();
    Ok(json!({
        "regions_bytes_max": config.memory_limit,
        "overhead_bytes": overhead_bytes,
        "overhead_bytes_max": overhead_bytes_max,
    }))
}

/// The properties of one path of all nodes, in the configured kind of rack.
fn links(config: &RackConfig, paths: &[Path]) -> Value {
    let kind = match config.hosted {
        Some(_) => Kind::Hosted,
        None => Kind::Embedded,
    };
    // All nodes do the same, since packets of one connection travel over two links.
    let mut icrc = paths.iter();
    let icrc = icrc.find(|path| path.rack == Some(kind) && path.what == "ICRC");
    json!({
        "count": config.node.len(),
        "embedded": "in-process queue",
        "packets": config.link.packets,
        "simulated_gigabits_per_s": config.link.gigabits_per_second,
        "mtu_bytes": config.nic.mtu,
        "icrc_computed": icrc.is_some_and(|path| path.value.starts_with("computed")),
        "icrc_reason": icrc.map_or("", |path| &path.why),
        "icrc_method": switch_shape::icrc_method(config),
    })
}

/// The CPU features that accelerate CRC-32, and whether this machine has them.
fn cpu() -> Value {
    #[cfg(target_arch = "x86_64")]
    let features = [
        ("pclmulqdq", is_x86_feature_detected!("pclmulqdq")),
        ("sse4.1", is_x86_feature_detected!("sse4.1")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("vpclmulqdq", is_x86_feature_detected!("vpclmulqdq")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
    ];
    #[cfg(target_arch = "aarch64")]
    let features = [
        ("crc", std::arch::is_aarch64_feature_detected!("crc")),
        ("pmull", std::arch::is_aarch64_feature_detected!("pmull")),
    ];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let features = [];
    let feature = |(name, present)| json!({"name": name, "present": present});
    json!({
        "architecture": std::env::consts::ARCH,
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "features": features.map(feature).to_vec(),
    })
}

/// The state of the rack's processes as reported by the switch, or why it is unknown. A switch that
/// does not answer is not an error.
///
/// # Errors
/// If keys are missing for a rack that runs, or a process answers that is not this rack's switch.
pub fn ask(config: &RackConfig) -> Result<Value, CliError> {
    let hosted = config.hosted();
    let (mut rack, problem) = match HostedRack::connect(config) {
        Ok(rack) => (Some(rack), None),
        Err(error @ HostedError::NotRunning { .. }) => (None, Some(error.to_string())),
        Err(error) => return Err(error.into()),
    };
    let status = rack.as_mut().map(HostedRack::status).transpose()?;
    let status = status.as_ref();
    let mut nodes = Vec::new();
    if let (Some(rack), Some(status)) = (&mut rack, status) {
        for (at, status) in status.nodes.iter().enumerate() {
            let mut node = object(status);
            // A node that has just died has none.
            let counters = rack.node_counters(NodeId(at as u16)).unwrap_or_default();
            let some: Counters = counters.into_iter().filter(|&(_, n)| n > 0).collect();
            node.insert("counters".into(), json!(some));
            nodes.push(node);
        }
    }
    Ok(json!({
        "control": hosted.control.to_string(),
        "security": hosted.security,
        "running": status.is_some(),
        "problem": problem,
        "switch_pid": status.map(|it| it.pid),
        "switch_process": status.map(|it| &it.process),
        "term": status.map(|it| it.term),
        "up_seconds": status.map(|it| it.up_seconds),
        "lanes_used": status.map(|it| it.lanes_used),
        "switch_counters": status.map_or_else(Counters::new, |it| it.switch_counters.clone()),
        "refused": status.map_or_else(Counters::new, |it| it.refused.clone()),
        "nodes": nodes,
        "hosts": status.map_or(&[][..], |it| &it.hosts),
    }))
}

/// Whether the switch answers and all nodes have joined, apart from guests.
pub fn is_whole(rack: &Value, config: &RackConfig) -> bool {
    let residents: Vec<&str> = config.residents().map(|node| &*node.name).collect();
    let is_missing = |node: &&Value| {
        let name = node["name"].as_str().unwrap_or_default();
        node["joined"] != true && residents.contains(&name)
    };
    let nodes = rack["nodes"].as_array();
    rack["running"] == true && nodes.is_some_and(|all| !all.iter().any(|node| is_missing(&node)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_fnv1a() {
        // From the authors' test vectors (isthe.com/chongo/tech/comp/fnv).
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn a_flow_takes_what_the_ledger_says() {
        let config = RackConfig::default();
        let paths = rackweave_rack::paths::describe(&config).unwrap();
        let flow = per_flow(&config, &paths);
        assert_eq!(flow["lanes"], 8);
        assert!(flow["registers_bytes"].as_u64() > Some(0));
        assert!(flow["tables_bytes"].as_u64() > Some(0));
    }
}
