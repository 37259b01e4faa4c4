//! The switch of a configuration, without a rack.

use rackweave_base::{Duration, MacAddr, Memory};
use rackweave_programs::{Pipeline, PipelineConfig};
use rackweave_rack::config::{BudgetName, IcrcMethod};
use rackweave_rack::paths::Kind;
use rackweave_rack::{Address, RackConfig};
use rackweave_switch::{Budget, Ledger, Program};

/// The switch's Ethernet address.
pub const SWITCH_MAC: MacAddr = Address::SWITCH.mac;

/// The programs of switch 0, with the ICRC computed whether or not the links need it. Their sizes
/// are the same in every kind of rack.
pub fn pipeline_config(config: &RackConfig) -> PipelineConfig {
    let mut programs = rackweave_rack::pipeline_config(config, Kind::Embedded);
    programs.engine.check = true;
    // Without a rack, lost packets must not be requested again.
    programs.engine.timeout = Duration::from_secs(1);
    programs
}

/// The name of the method that keeps the ICRC of rewritten packets right.
pub fn icrc_method(config: &RackConfig) -> &'static str {
    match config.switch.icrc {
        IcrcMethod::Update => "update",
        IcrcMethod::Balance => "balance",
    }
}

/// The budget that the programs must fit.
pub fn budget(config: &RackConfig) -> Budget {
    match config.switch.budget {
        BudgetName::Software => Budget::Software {
            bytes: usize::try_from(config.switch.memory).unwrap_or(usize::MAX),
        },
        BudgetName::Tofino1 => Budget::Tofino1,
        BudgetName::Tofino2 => Budget::Tofino2,
    }
}

/// The resources that the programs use.
pub fn ledger(config: &PipelineConfig) -> Ledger {
    let mut ledger = Ledger::default();
    Pipeline::new(config, Memory::new(0)).declare(&mut ledger);
    ledger
}
