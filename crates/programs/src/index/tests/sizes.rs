//! The resources that the index takes, and the switches that it fits.

use super::*;

/// The sizes of the paper: 1024 children of the fat root, 4096 tree nodes per layer.
const PAPER: IndexConfig = IndexConfig {
    queries: 4096,
    servers: 16,
    fat_ranges: 1024,
    first_layer: 1,
    layers: 1,
    nodes: 4096,
    first_stage: 0,
};

fn load(index: IndexConfig, budget: Budget) -> Result<Ledger, String> {
    let config = pipeline(index, Rewrite::Update);
    let program = Pipeline::new(&config, Memory::new(1 << 20));
    Switch::load(program, budget, SwitchConfig::default())
        .map(|switch| switch.ledger())
        .map_err(|error| error.to_string())
}

#[test]
fn fat_root_and_a_layer_fit_the_first_tofino_beside_forwarding_and_engine() {
    let ledger = load(PAPER, Budget::Tofino1).unwrap();
    assert_eq!(ledger.stages().len(), 12);
    let alone = load(IndexConfig::NONE, Budget::Tofino1).unwrap();
    let added: Vec<_> = (0..12)
        .map(|at| {
            let with = ledger.stages()[at];
            let without = alone.stages().get(at).copied().unwrap_or_default();
            let [sram, tcam] = [with.sram - without.sram, with.tcam - without.tcam];
            [
                sram,
                tcam,
                with.registers - without.registers,
                with.tables - without.tables,
            ]
        })
        .collect();
    // SRAM and TCAM blocks, register units, tables.
    let expect = [
        [1, 0, 0, 1],
        [1, 16, 0, 1],
        [1, 16, 0, 1],
        [7, 16, 0, 4],
        [2, 16, 0, 2],
        [3, 0, 1, 1],
        [40, 0, 0, 8],
        [48, 0, 0, 16],
        [8, 0, 0, 8],
        [1, 0, 0, 1],
        [72, 0, 0, 1],
        [32, 0, 1, 0],
    ];
    assert_eq!(added, expect);
}

#[test]
fn two_layers_fit_another_switch() {
    let layers = IndexConfig {
        fat_ranges: 0,
        layers: 2,
        ..PAPER
    };
    let ledger = load(layers, Budget::Tofino1).unwrap();
    assert_eq!(ledger.stages().len(), 12);
    let all = IndexConfig { layers: 2, ..PAPER };
    assert_eq!(
        load(all, Budget::Tofino1).unwrap_err(),
        "the program needs 18 stages; tofino1 has 12"
    );
    assert_eq!(load(all, Budget::Tofino2).unwrap().stages().len(), 18);
}

#[test]
fn what_does_not_fit_is_refused_with_its_numbers() {
    let wide = IndexConfig {
        fat_ranges: 2048,
        ..PAPER
    };
    assert_eq!(
        load(wide, Budget::Tofino1).unwrap_err(),
        "stage 1 needs 32 TCAM blocks; tofino1 has 24: lower the capacities under [switch]"
    );
    let late = IndexConfig {
        first_stage: 1,
        ..PAPER
    };
    assert_eq!(
        load(late, Budget::Tofino1).unwrap_err(),
        "the program needs 13 stages; tofino1 has 12"
    );
    let software = Budget::Software { bytes: 1 << 20 };
    let refused = load(PAPER, software).unwrap_err();
    assert!(
        refused.ends_with("software (1048576 bytes) has 1048576"),
        "{refused}"
    );
}

#[test]
fn an_index_of_size_zero_takes_nothing() {
    let config = pipeline(IndexConfig::NONE, Rewrite::Update);
    let program = Pipeline::new(&config, Memory::new(1 << 20));
    let mut ledger = Ledger::default();
    program.index.declare(&mut ledger);
    assert_eq!(ledger, Ledger::default());
    assert!(!program.index.is_present());
}
