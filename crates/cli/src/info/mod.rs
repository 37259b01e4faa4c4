//! The command `info`: the effective configuration, what it takes, and how a hosted rack is doing.
//!
//! In text form the output is a configuration file: everything but the settings is a comment.

mod paths;
mod rack;
mod report;
mod topology;

use crate::args::InfoArgs;
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use crate::switch_shape;
use rack::RackReport;
use rackweave_programs::PipelineConfig;
use rackweave_rack::paths::{Kind, Path};
use rackweave_rack::{EmbeddedRack, RackConfig, RackError};
use rackweave_switch::Ledger;
use rackweave_switch::budget::Stage;
use report::{
    Cpu, Feature, InfoReport, Links, MemoryUse, PerFlow, ProgramsUse, StageUse, SwitchUse,
};
use topology::TopologyReport;

/// Runs the command.
///
/// # Errors
/// If the configuration makes no sense, or somebody answers who is not this rack's switch.
pub fn run(args: &InfoArgs, globals: &Globals) -> Result<Verdict, CliError> {
    let hosted = globals.hosted(&args.rack)?;
    let rack = hosted.as_ref().map(RackReport::ask).transpose()?;
    let config = match hosted {
        Some(config) => config,
        None => globals.rack_config(&args.rack)?,
    };
    let is_whole = rack.as_ref().is_none_or(RackReport::is_whole);
    let toml = config.to_toml();
    let paths = rackweave_rack::paths::describe(&config).map_err(RackError::from)?;
    let of_switch_0 = switch_shape::ledger(&switch_shape::pipeline_config(&config));
    let report = InfoReport {
        version: env!("CARGO_PKG_VERSION"),
        config_file: globals
            .args
            .config
            .as_ref()
            .map(|path| path.display().to_string()),
        config_hash: format!("{:016x}", fnv1a(toml.as_bytes())),
        config_toml: toml,
        switch: switch_use(&config, &of_switch_0),
        topology: TopologyReport::of(&config).map_err(RackError::from)?,
        per_flow: per_flow(&config, &paths),
        memory: memory_use(&config)?,
        links: links(&config, &paths),
        paths,
        cpu: cpu(),
        rack,
        config,
    };
    crate::output::print(globals, "info", &report)?;
    Ok(Verdict::of(is_whole))
}

/// FNV-1a of 64 bits: tells configurations apart, anybody can compute it.
pub fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// What a switch's programs use of its budget.
fn switch_use(config: &RackConfig, ledger: &Ledger) -> SwitchUse {
    SwitchUse {
        budget: switch_shape::budget(config).to_string(),
        programs: programs_use(config, ledger),
    }
}

fn stage_use(stage: &Stage) -> StageUse {
    StageUse {
        sram_blocks: stage.sram,
        tcam_blocks: stage.tcam,
        register_units: stage.registers,
        tables: stage.tables,
    }
}

/// What programs use of the budget.
fn programs_use(config: &RackConfig, ledger: &Ledger) -> ProgramsUse {
    let budget = switch_shape::budget(config);
    ProgramsUse {
        stages_available: budget.stages(),
        stage_available: budget.stage().as_ref().map(stage_use),
        stages: ledger.stages().iter().map(stage_use).collect(),
        registers_bytes: ledger.bytes_registers(),
        tables_bytes: ledger.bytes_tables(),
    }
}

/// What one 1:1 flow more would take: a producer ring, a consumer ring and their lanes.
fn per_flow(config: &RackConfig, paths: &[Path]) -> PerFlow {
    let mut chosen = paths.iter();
    let chosen = chosen
        .find(|path| path.rack == Some(Kind::Embedded) && path.of == "flow.transfers")
        .and_then(|path| path.value.parse::<u16>().ok());
    let transfers = chosen.unwrap_or_else(|| config.flow.transfers.into());
    let lanes = 2 * (2 + transfers);
    let base = switch_shape::pipeline_config(config);
    let mut more = PipelineConfig { ..base };
    // Entries are counted one by one, so the difference of two sizes is what one flow takes.
    more.engine.lanes = base.engine.lanes.saturating_add(lanes);
    more.flows.threads = base.flows.threads.saturating_add(1);
    more.flows.producers = base.flows.producers.saturating_add(1);
    let (less, more) = (switch_shape::ledger(&base), switch_shape::ledger(&more));
    PerFlow {
        lanes,
        registers_bytes: more
            .bytes_registers()
            .saturating_sub(less.bytes_registers()),
        tables_bytes: more.bytes_tables().saturating_sub(less.bytes_tables()),
    }
}

fn memory_use(config: &RackConfig) -> Result<MemoryUse, CliError> {
    // No driver is needed to count.
    let rack = EmbeddedRack::new(&RackConfig {
        driver_threads: 0,
        ..config.clone()
    })?;
    let (overhead_bytes, overhead_bytes_max) = rack.bytes_overhead();
    Ok(MemoryUse {
        regions_bytes_max: config.memory_limit,
        overhead_bytes,
        overhead_bytes_max,
    })
}

/// What one of the paths of all nodes is like, in the kind of rack that the configuration is for.
fn links(config: &RackConfig, paths: &[Path]) -> Links {
    let kind = match config.hosted {
        Some(_) => Kind::Hosted,
        None => Kind::Embedded,
    };
    // All nodes do the same, since packets of one connection travel over two links.
    let mut icrc = paths.iter();
    let icrc = icrc.find(|path| path.rack == Some(kind) && path.what == "ICRC");
    Links {
        count: config.node.len(),
        embedded: "in-process queue",
        packets: config.link.packets,
        simulated_gigabits_per_s: config.link.gigabits_per_second,
        mtu_bytes: config.nic.mtu,
        icrc_computed: icrc.is_some_and(|path| path.value.starts_with("computed")),
        icrc_reason: icrc.map_or_else(String::new, |path| path.why.clone()),
        icrc_method: switch_shape::icrc_method(config),
    }
}

/// What makes CRC-32 fast on this machine, and whether it is there.
fn cpu() -> Cpu {
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
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Cpu {
        architecture: std::env::consts::ARCH,
        cores,
        features: features
            .map(|(name, present)| Feature { name, present })
            .to_vec(),
    }
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
        assert_eq!(flow.lanes, 8);
        assert!(flow.registers_bytes > 0 && flow.tables_bytes > 0);
    }
}
