//! The programs of the switches, the resources they take, and the access paths to an index.

use super::{Group, Kind, Path};
use crate::build::{pipeline_config, switch_config_of};
use crate::config::choices::{self, Choice};
use crate::config::{BudgetName, ConfigError, RackConfig};
use rackweave_base::Memory;
use rackweave_programs::flows::FlowConfig;
use rackweave_programs::index::IndexConfig;
use rackweave_programs::pages::PagesConfig;
use rackweave_programs::sequencer::SequencerConfig;
use rackweave_programs::{Pipeline, PipelineConfig};
use rackweave_switch::{Ledger, Program};

/// The resources that these programs take.
fn ledger(config: &PipelineConfig) -> Ledger {
    let mut ledger = Ledger::default();
    Pipeline::new(config, Memory::new(0)).declare(&mut ledger);
    ledger
}

pub(super) fn describe(config: &RackConfig, paths: &mut Vec<Path>) -> Result<(), ConfigError> {
    let all = pipeline_config(config, Kind::Embedded);
    let without_flows = PipelineConfig {
        flows: FlowConfig {
            threads: 0,
            producers: 0,
        },
        ..all
    };
    let without_pages = PipelineConfig {
        pages: PagesConfig::NONE,
        ..all
    };
    let without_sequencers = PipelineConfig {
        sequencer: SequencerConfig::NONE,
        ..all
    };
    let without_index = PipelineConfig {
        index: IndexConfig::NONE,
        ..all
    };
    for (name, loaded, without) in [
        ("flows", choices::flows(config), without_flows),
        ("pages", choices::pages(config), without_pages),
        ("sequencer", choices::sequencers(config), without_sequencers),
        ("index", choices::index(config), without_index),
    ] {
        let of = (None, Group::Program, name);
        let is_loaded = loaded.value;
        paths.push(Path::new(of, "program", loaded, |loaded| match loaded {
            true => "loaded".to_owned(),
            false => "not loaded".to_owned(),
        }));
        if is_loaded {
            paths.push(takes(config, of, &ledger(&all), &ledger(&without)));
        }
    }
    Ok(())
}

/// The resources that one program takes of the budget of switch 0: those of all programs, less
/// those of the others.
fn takes(
    config: &RackConfig,
    of: (Option<Kind>, Group, &str),
    all: &Ledger,
    without: &Ledger,
) -> Path {
    let mut units = [0; 4];
    let mut stages = 0;
    for (at, stage) in all.stages().iter().enumerate() {
        let less = without.stages().get(at);
        let of = |unit: fn(&rackweave_switch::budget::Stage) -> usize| {
            unit(stage).saturating_sub(less.map_or(0, unit))
        };
        let here = [
            of(|s| s.sram),
            of(|s| s.tcam),
            of(|s| s.registers),
            of(|s| s.tables),
        ];
        stages += usize::from(here.iter().any(|&unit| unit > 0));
        units.iter_mut().zip(here).for_each(|(sum, n)| *sum += n);
    }
    let registers = all.bytes_registers() - without.bytes_registers();
    let tables = all.bytes_tables() - without.bytes_tables();
    let bytes = registers + tables;
    let [sram, tcam, register_units, table_count] = units;
    let (value, budget) = match config.switch.budget {
        BudgetName::Software => (format!("{bytes} bytes"), "software: only bytes count"),
        BudgetName::Tofino1 => (format!("{sram} SRAM blocks"), "tofino1"),
        BudgetName::Tofino2 => (format!("{sram} SRAM blocks"), "tofino2"),
    };
    let why = format!(
        "its sizes ask for {registers} bytes of registers and {tables} of tables: \
         {register_units} register units, {table_count} tables, {tcam} TCAM blocks in {stages} \
         stages of switch 0; switch.budget is {budget}"
    );
    Path::new(of, "takes", Choice::new(value, why), |value| value)
}

/// The access paths to an index.
pub(super) fn describe_index(
    config: &RackConfig,
    paths: &mut Vec<Path>,
) -> Result<(), ConfigError> {
    let of = |way| (None, Group::Index, way);
    let rpc = Choice::new(
        (),
        "every endpoint of an index answers requests; writes always go so",
    );
    let text = |()| "yes".to_owned();
    paths.push(Path::new(of("rpc"), "access", rpc, text));
    let why = "every endpoint of an index lends its memory to READs, for clients with access \
               one-sided";
    let one_sided = Choice::new((), why);
    paths.push(Path::new(of("one-sided"), "access", one_sided, text));
    let loaded = choices::index(config);
    let (mut levels, mut parts) = (0, Vec::new());
    let topology = config.topology()?;
    let all = pipeline_config(config, Kind::Embedded);
    let switches: Vec<_> = (0..topology.switches()).collect();
    for alike in switches.chunk_by(|&a, &b| topology.role(a) == topology.role(b)) {
        let part = switch_config_of(all, config, &topology, alike[0]).index;
        levels += usize::from(part.fat_ranges > 0) + usize::from(part.layers);
        parts.extend(part_text(&part, alike));
    }
    let network = match loaded.value {
        false => loaded,
        true => {
            let why = format!(
                "{}, for clients with access in-network: {}",
                loaded.why,
                parts.join("; ")
            );
            Choice::new(true, why)
        }
    };
    let value = |is_there| match is_there {
        false => "no".to_owned(),
        true => format!("{levels} levels"),
    };
    paths.push(Path::new(of("in-network"), "access", network, value));
    Ok(())
}

/// The part of an index that each of these switches holds.
fn part_text(part: &IndexConfig, switches: &[usize]) -> Option<String> {
    let mut knows = Vec::new();
    if part.fat_ranges > 0 {
        knows.push(format!("a fat root of {} ranges", part.fat_ranges));
    }
    let (first, nodes) = (part.first_layer, part.nodes);
    match part.layers {
        0 => {}
        1 => knows.push(format!("layer {first} of {nodes} tree nodes")),
        layers => {
            let last = first + layers - 1;
            knows.push(format!(
                "layers {first} to {last} of {nodes} tree nodes each"
            ));
        }
    }
    let knows = (!knows.is_empty()).then(|| knows.join(" and "))?;
    Some(match switches {
        [first, .., last] => format!("switches {first} to {last} have {knows}"),
        _ => format!("switch {} has {knows}", switches.first()?),
    })
}
