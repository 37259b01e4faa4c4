//! The directory's size against the budgets.

use crate::flows::FlowConfig;
use crate::pages::PagesConfig;
use crate::pipeline::{Pipeline, PipelineConfig};
use rackweave_base::{Duration, MacAddr, Memory};
use rackweave_switch::transfer::EngineConfig;
use rackweave_switch::{Budget, BudgetError, Ledger, Program};
use rackweave_wire::Rewrite;
use std::net::Ipv4Addr;

/// Pages that the paper's switch indexes (Seamless, section 3).
const PAPER: u32 = 280_000;

fn ledger(entries: u32, threads: u16) -> Ledger {
    let config = PipelineConfig {
        ip: Ipv4Addr::new(10, 0, 0, 254),
        engine: EngineConfig {
            lanes: 2048,
            timeout: Duration::from_micros(250),
            retries: 7,
            acknowledge_every: 32,
            check: true,
            rewrite: Rewrite::Balance,
            mac: MacAddr([2, 0, 0, 0, 0, 254]),
        },
        flows: FlowConfig {
            threads,
            producers: threads,
        },
        pages: PagesConfig {
            entries,
            channels: 64,
            slots: 1024,
            stores: 1,
            nodes: 8,
            frame_size: 64 << 10,
            promote_at: 8,
        },
        sequencer: crate::sequencer::SequencerConfig::NONE,
        index: crate::index::IndexConfig::NONE,
        hosts: 64,
        routes: 64,
    };
    let mut ledger = Ledger::default();
    Pipeline::new(&config, Memory::new(1 << 20)).declare(&mut ledger);
    ledger
}

#[test]
fn the_papers_number_of_pages_fits_both_switches() {
    let ledger = ledger(PAPER, 0);
    for budget in [Budget::Tofino1, Budget::Tofino2] {
        assert_eq!(budget.check(&ledger), Ok(()), "{budget}: {ledger:#?}");
    }
}

#[test]
fn more_pages_are_refused_by_what_is_missing() {
    let refused = Budget::Tofino1.check(&ledger(400_000, 0)).unwrap_err();
    assert!(
        matches!(
            refused,
            BudgetError::Stage {
                what: "SRAM blocks",
                ..
            }
        ),
        "{refused}"
    );
    let refused = Budget::Tofino1.check(&ledger(PAPER, 16)).unwrap_err();
    assert!(
        matches!(
            refused,
            BudgetError::Stage {
                what: "register units",
                ..
            }
        ),
        "flows and pages together need more: {refused}"
    );
}
