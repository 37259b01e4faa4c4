//! Which programs the switches run.

use super::{BudgetName, Choice, RackConfig};

/// Whether switch 0 has flows.
pub(crate) fn flows(config: &RackConfig) -> Choice<bool> {
    let switch = &config.switch;
    let (consumers, producers) = (switch.consumer_rings, switch.producer_rings);
    match consumers > 0 || producers > 0 {
        true => Choice::new(
            true,
            format!("switch.consumer_rings is {consumers} and switch.producer_rings {producers}"),
        ),
        false => Choice::new(
            false,
            "switch.consumer_rings and switch.producer_rings are 0; set both to turn it on",
        ),
    }
}

/// Whether switch 0 has a page directory.
pub(crate) fn pages(config: &RackConfig) -> Choice<bool> {
    let switch = &config.switch;
    let entries = switch.page_entries;
    if entries > 0 {
        return Choice::new(true, format!("switch.page_entries is {entries}"));
    }
    let why = match beside_flows(config) {
        false => "switch.page_entries is 0; set it to the number of pages to index to turn it on",
        true => {
            "switch.page_entries is 0; set it to the number of pages to index to turn it on, and \
             consumer_rings and producer_rings to 0, since no hardware switch can hold both"
        }
    };
    Choice::new(false, why)
}

/// Whether there are flows on a hardware switch, which has no capacity for a page directory or an
/// index beside them.
fn beside_flows(config: &RackConfig) -> bool {
    flows(config).value && config.switch.budget != BudgetName::Software
}

/// Whether switch 0 has sequencers.
pub(crate) fn sequencers(config: &RackConfig) -> Choice<bool> {
    let (sequencers, budget) = (config.switch.sequencers, config.switch.budget);
    if sequencers > 0 {
        return Choice::new(true, format!("switch.sequencers is {sequencers}"));
    }
    let why = match flows(config).value && budget == BudgetName::Tofino1 {
        false => "switch.sequencers is 0; set it to turn it on",
        true => {
            "switch.sequencers is 0; set it to turn it on, and budget to \"tofino2\" or \
             \"software\", since tofino1 cannot hold them beside flows"
        }
    };
    Choice::new(false, why)
}

/// Whether the switches have parts of an index.
pub(crate) fn index(config: &RackConfig) -> Choice<bool> {
    let servers = config.switch.index_servers;
    if servers > 0 {
        return Choice::new(true, format!("switch.index_servers is {servers}"));
    }
    let why = match beside_flows(config) {
        false => {
            "switch.index_servers is 0; set it, index_queries, index_fat_ranges, index_layers and \
             index_nodes to turn it on"
        }
        true => {
            "switch.index_servers is 0; set it, index_queries, index_fat_ranges, index_layers and \
             index_nodes to turn it on, and consumer_rings and producer_rings to 0, since no \
             hardware switch can hold both"
        }
    };
    Choice::new(false, why)
}
