//! What `info` says. The fields are described in docs/JSON.md.

use super::paths::PathsText;
use super::rack::RackReport;
use super::topology::TopologyReport;
use rackweave_rack::RackConfig;
use rackweave_rack::paths::Path;
use serde::Serialize;
use std::fmt::{self, Write};

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct InfoReport {
    pub version: &'static str,
    pub config_file: Option<String>,
    pub config_hash: String,
    pub config: RackConfig,
    /// The text that `config_hash` is of.
    pub config_toml: String,
    /// Of switch 0.
    pub switch: SwitchUse,
    pub topology: TopologyReport,
    pub per_flow: PerFlow,
    pub memory: MemoryUse,
    pub links: Links,
    /// What was chosen, and why.
    pub paths: Vec<Path>,
    pub cpu: Cpu,
    /// Only of a hosted rack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rack: Option<RackReport>,
}

/// What the switch's programs use of their budget.
#[derive(Clone, Debug, Serialize)]
pub struct SwitchUse {
    pub budget: String,
    pub stages_available: usize,
    pub stage_available: Option<StageUse>,
    pub stages: Vec<StageUse>,
    pub registers_bytes: usize,
    pub tables_bytes: usize,
}

/// Resources of one stage.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct StageUse {
    pub sram_blocks: usize,
    pub tcam_blocks: usize,
    pub register_units: usize,
    pub tables: usize,
}

/// What one 1:1 flow takes in the switch.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PerFlow {
    pub lanes: u16,
    pub registers_bytes: usize,
    pub tables_bytes: usize,
}

/// Memory of an embedded rack.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MemoryUse {
    pub regions_bytes_max: u64,
    pub overhead_bytes: usize,
    pub overhead_bytes_max: usize,
}

/// The links, and how packets on them are protected.
#[derive(Clone, Debug, Serialize)]
pub struct Links {
    pub count: usize,
    pub embedded: &'static str,
    pub packets: u32,
    pub simulated_gigabits_per_s: f64,
    pub mtu_bytes: u32,
    pub icrc_computed: bool,
    pub icrc_reason: String,
    pub icrc_method: &'static str,
}

/// This machine.
#[derive(Clone, Debug, Serialize)]
pub struct Cpu {
    pub architecture: &'static str,
    pub cores: usize,
    pub features: Vec<Feature>,
}

/// A feature of the CPU that makes CRC-32 fast.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Feature {
    pub name: &'static str,
    pub present: bool,
}

impl fmt::Display for InfoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from = self.config_file.as_deref().unwrap_or("defaults");
        writeln!(f, "# rackweave {}", self.version)?;
        writeln!(
            f,
            "# The effective configuration, from {from}; hash {}.",
            self.config_hash
        )?;
        writeln!(
            f,
            "# The hash is the 64-bit FNV-1a of the lines from `seed` on up to the next comment."
        )?;
        writeln!(f, "\n{}", self.config_toml.trim_end())?;
        let mut rest = String::new();
        write!(
            rest,
            "{}\n{}\n{}\n{}\n{}\n{}\n{}",
            self.switch,
            self.topology,
            self.per_flow,
            self.memory,
            self.links,
            self.cpu,
            PathsText(&self.paths)
        )?;
        if let Some(rack) = &self.rack {
            write!(rest, "\n{rack}")?;
        }
        writeln!(f)?;
        for line in rest.lines() {
            writeln!(f, "{}", format!("# {line}").trim_end())?;
        }
        Ok(())
    }
}

/// What is used of each stage, and of what it has, if that is bounded.
pub fn stage_table(
    f: &mut fmt::Formatter<'_>,
    stages: &[StageUse],
    available: Option<&StageUse>,
) -> fmt::Result {
    writeln!(
        f,
        "{:<6} {:>12} {:>12} {:>12} {:>12}",
        "stage", "SRAM", "TCAM", "registers", "tables"
    )?;
    for (at, stage) in stages.iter().enumerate() {
        let cell = |used: usize, of: fn(&StageUse) -> usize| match available {
            Some(has) => format!("{used} of {}", of(has)),
            None => used.to_string(),
        };
        writeln!(
            f,
            "{at:<6} {:>12} {:>12} {:>12} {:>12}",
            cell(stage.sram_blocks, |has| has.sram_blocks),
            cell(stage.tcam_blocks, |has| has.tcam_blocks),
            cell(stage.register_units, |has| has.register_units),
            cell(stage.tables, |has| has.tables)
        )?;
    }
    Ok(())
}

impl fmt::Display for SwitchUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, has) = (self.stages.len(), self.stages_available);
        writeln!(f, "Switch: budget {}, {used} of {has} stages", self.budget)?;
        stage_table(f, &self.stages, self.stage_available.as_ref())?;
        let (registers, tables) = (self.registers_bytes, self.tables_bytes);
        writeln!(
            f,
            "{registers} bytes of registers, {tables} bytes of tables"
        )
    }
}

impl fmt::Display for PerFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            lanes,
            registers_bytes,
            tables_bytes,
        } = self;
        writeln!(
            f,
            "One 1:1 flow: {registers_bytes} bytes of registers, {tables_bytes} bytes of tables, \
             {lanes} lanes"
        )
    }
}

impl fmt::Display for MemoryUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            regions_bytes_max,
            overhead_bytes,
            overhead_bytes_max,
        } = self;
        writeln!(f, "Memory of an embedded rack:")?;
        writeln!(
            f,
            "{regions_bytes_max} bytes of regions at most (memory_limit)"
        )?;
        writeln!(
            f,
            "{overhead_bytes} bytes beside them when it starts, {overhead_bytes_max} at most: \
             every queue that [nic] allows, made as long as it allows"
        )
    }
}

impl fmt::Display for Links {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "Links: {}, {} of {} packets each way",
            self.count, self.embedded, self.packets
        )?;
        writeln!(
            f,
            "MTU {} bytes; simulated, {} Gbit/s",
            self.mtu_bytes, self.simulated_gigabits_per_s
        )?;
        let computed = if self.icrc_computed {
            "computed"
        } else {
            "not computed"
        };
        writeln!(
            f,
            "ICRC: {computed}, because {}; rewritten packets keep theirs right by `{}`",
            self.icrc_reason, self.icrc_method
        )
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CPU: {}, {} cores; for CRC-32:",
            self.architecture, self.cores
        )?;
        for feature in &self.features {
            write!(
                f,
                " {} {}",
                feature.name,
                if feature.present { "yes" } else { "no" }
            )?;
        }
        writeln!(f)
    }
}
