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
    #[serde(flatten)]
    pub programs: ProgramsUse,
}

/// What programs use of each stage, and in all.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramsUse {
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
        let mut rest = format!(
            "{}\n{}\n{}\n{}",
            self.switch,
            self.topology,
            self.machine(),
            PathsText(&self.paths)
        );
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

impl ProgramsUse {
    /// How many stages are used.
    pub fn stages(&self) -> String {
        let (used, has) = (self.stages.len(), self.stages_available);
        format!("{used} of {has} stages")
    }

    /// What is used in all.
    pub fn bytes(&self) -> String {
        let (registers, tables) = (self.registers_bytes, self.tables_bytes);
        format!("{registers} bytes of registers, {tables} bytes of tables")
    }

    /// What is used of each stage, and of what it has, if that is bounded.
    pub fn write_table(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<6} {:>12} {:>12} {:>12} {:>12}",
            "stage", "SRAM", "TCAM", "registers", "tables"
        )?;
        let columns: [fn(&StageUse) -> usize; 4] = [
            |stage| stage.sram_blocks,
            |stage| stage.tcam_blocks,
            |stage| stage.register_units,
            |stage| stage.tables,
        ];
        for (at, stage) in self.stages.iter().enumerate() {
            let cells = columns.map(|of| match &self.stage_available {
                Some(has) => format!("{} of {}", of(stage), of(has)),
                None => of(stage).to_string(),
            });
            let [sram, tcam, registers, tables] = cells;
            writeln!(
                f,
                "{at:<6} {sram:>12} {tcam:>12} {registers:>12} {tables:>12}"
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for SwitchUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (budget, programs) = (&self.budget, &self.programs);
        writeln!(f, "Switch: budget {budget}, {}", programs.stages())?;
        programs.write_table(f)?;
        writeln!(f, "{}", programs.bytes())
    }
}

impl InfoReport {
    /// A flow, memory, links, this machine.
    fn machine(&self) -> String {
        let (flow, memory, links, cpu) = (&self.per_flow, &self.memory, &self.links, &self.cpu);
        let not = if links.icrc_computed { "" } else { "not " };
        let features = cpu.features.iter().map(|Feature { name, present }| {
            let is_there = if *present { "yes" } else { "no" };
            format!(" {name} {is_there}")
        });
        format!(
            "One 1:1 flow: {} bytes of registers, {} bytes of tables, {} lanes\n\n\
             Memory of an embedded rack:\n\
             {} bytes of regions at most (memory_limit)\n\
             {} bytes beside them when it starts, {} at most: every queue that [nic] allows, made \
             as long as it allows\n\n\
             Links: {}, {} of {} packets each way\n\
             MTU {} bytes; simulated, {} Gbit/s\n\
             ICRC: {not}computed, because {}; rewritten packets keep theirs right by `{}`\n\n\
             CPU: {}, {} cores; for CRC-32:{}\n",
            flow.registers_bytes,
            flow.tables_bytes,
            flow.lanes,
            memory.regions_bytes_max,
            memory.overhead_bytes,
            memory.overhead_bytes_max,
            links.count,
            links.embedded,
            links.packets,
            links.mtu_bytes,
            links.simulated_gigabits_per_s,
            links.icrc_reason,
            links.icrc_method,
            cpu.architecture,
            cpu.cores,
            features.collect::<String>(),
        )
    }
}
