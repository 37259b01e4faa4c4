//! The switch that a configuration asks for, without a rack around it.

use rackweave_base::{Duration, MacAddr, Memory};
use rackweave_programs::flows::FlowConfig;
use rackweave_programs::{Pipeline, PipelineConfig};
use rackweave_rack::config::{BudgetName, IcrcMethod, index_config};
use rackweave_rack::{Address, RackConfig};
use rackweave_switch::transfer::EngineConfig;
use rackweave_switch::{Budget, Ledger, Program};
use rackweave_wire::Rewrite;

/// The switch's Ethernet address.
pub const SWITCH_MAC: MacAddr = Address::SWITCH.mac;

/// The sizes of the programs of switch 0.
pub fn pipeline_config(config: &RackConfig) -> PipelineConfig {
    PipelineConfig {
        ip: Address::SWITCH.ip,
        engine: EngineConfig {
            lanes: config.switch.lanes,
            timeout: Duration::from_secs(1),
            retries: config.transfer.retries,
            acknowledge_every: config.transfer.acknowledge_every,
            check: true,
            rewrite: match config.switch.icrc {
                IcrcMethod::Update => Rewrite::Update,
                IcrcMethod::Balance => Rewrite::Balance,
            },
            mac: SWITCH_MAC,
        },
        flows: FlowConfig {
            threads: config.switch.consumer_rings,
            producers: config.switch.producer_rings,
        },
        pages: rackweave_rack::pages_config(config),
        sequencer: rackweave_rack::sequencer_config(config),
        index: index_config(config, config.shape().top()),
        hosts: 256,
        routes: 256,
    }
}

/// The name of the method that keeps the ICRC of rewritten packets right.
pub fn icrc_method(config: &RackConfig) -> &'static str {
    match config.switch.icrc {
        IcrcMethod::Update => "update",
        IcrcMethod::Balance => "balance",
    }
}

/// What the programs must fit.
pub fn budget(config: &RackConfig) -> Budget {
    match config.switch.budget {
        BudgetName::Software => Budget::Software {
            bytes: usize::try_from(config.switch.memory).unwrap_or(usize::MAX),
        },
        BudgetName::Tofino1 => Budget::Tofino1,
        BudgetName::Tofino2 => Budget::Tofino2,
    }
}

/// What the programs use.
pub fn ledger(config: &PipelineConfig) -> Ledger {
    let mut ledger = Ledger::default();
    Pipeline::new(config, Memory::new(0)).declare(&mut ledger);
    ledger
}
